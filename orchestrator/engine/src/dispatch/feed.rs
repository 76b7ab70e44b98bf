//! Where issues come from while a run goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use mala_core::{Issue, IssueId};
use mala_issues::IssueError;
use tokio::time::Instant;

use super::stop::Stopping;
use super::{Dispatcher, WorkerEvent, causes};
use crate::blocking::BlockingOps;
use crate::error::{EngineError, Result};
use crate::event::Event;
use crate::ready::ReadyIssue;

/// Issues asked for beyond those that are known to be of no use.
const READ_AHEAD_ISSUES: usize = 200;

/// How long an answer is waited for before work goes on with what is known.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// What is known about the tracker's answer.
#[derive(Debug, Default)]
pub(super) struct Feed {
    is_asking: bool,
    /// Something has changed since it was asked.
    is_stale: bool,
    asked_at: Option<Instant>,
    /// It has answered at least once.
    has_answered: bool,
    is_waiting_told: bool,
}

impl Feed {
    pub(super) fn is_up_to_date(&self) -> bool {
        self.has_answered && !self.is_asking && !self.is_stale
    }

    /// True while an answer is worth waiting for: what has just become ready may be more urgent than what is known.
    pub(super) fn is_about_to_answer(&self) -> bool {
        self.is_asking && self.asked_at.is_some_and(|asked| asked.elapsed() < ANSWER_TIMEOUT)
    }
}

impl Dispatcher {
    /// Asks the tracker what is ready, now or as soon as it has answered the question before.
    pub(super) fn ask_for_issues(&mut self) {
        if self.stopping != Stopping::No || self.ops.options.queue_only {
            return;
        }
        if self.feed.is_asking {
            self.feed.is_stale = true;
            return;
        }
        self.feed.is_asking = true;
        self.feed.is_stale = false;
        self.feed.asked_at = Some(Instant::now());
        let limit = READ_AHEAD_ISSUES
            + self.ready.settled_open_count()
            + self.jobs.len()
            + self.ops.options.max_agents;
        let (ops, listed, run) = (self.ops.clone(), self.ops.options.issues.clone(), self.run.clone());
        let work = move || {
            let added = ops.added_for_later(&run)?;
            let mut found = find(&ops, &listed, limit + added.len())?;
            if listed.is_empty() {
                found.ready.retain(|ready| !added.contains(&ready.issue.id));
            }
            Ok(found)
        };
        self.background(work, WorkerEvent::Ready);
    }

    pub(super) fn on_ready(&mut self, found: Result<Found>) {
        self.feed.is_asking = false;
        let is_first = !std::mem::replace(&mut self.feed.has_answered, true);
        match found {
            Ok(found) => {
                found.problems.iter().for_each(|problem| self.warn(problem));
                self.ready.refresh(found.ready);
            }
            Err(error) if is_first => {
                self.stopping = Stopping::Now;
                self.fatal.get_or_insert(error);
            }
            // It may come back; what is known is still worth something.
            Err(error) => self.warn(&causes(&error)),
        }
        if self.feed.is_stale {
            self.ask_for_issues();
        }
        self.tell_if_waiting();
    }

    /// Looks for new work from time to time, while there is nobody to give it to or nothing to give.
    pub(super) fn poll_if_due(&mut self) {
        let is_worth_it =
            self.ops.options.watch || (self.ready.held_back().next().is_some() && !self.jobs.is_empty());
        let is_due = self.feed.asked_at.is_none_or(|asked| asked.elapsed() >= self.ops.options.poll);
        if self.has_seat() && is_worth_it && is_due && self.may_begin_more() {
            self.ready.release_held_back();
            self.ask_for_issues();
        }
    }

    fn tell_if_waiting(&mut self) {
        let is_waiting = self.ops.options.watch
            && self.jobs.is_empty()
            && self.claiming.is_empty()
            && self.ready.peek().is_none();
        if is_waiting && !self.feed.is_waiting_told {
            self.tell(&Event::Waiting { for_what: "issues that are ready".to_owned() });
        }
        self.feed.is_waiting_told = is_waiting;
    }
}

/// What could be worked on, and what is odd about it, in words.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) ready: Vec<ReadyIssue>,
    pub(crate) problems: Vec<String>,
}

/// What could be worked on now, with the files it needs: the issues that are listed, or whatever is ready.
pub(crate) fn find(ops: &BlockingOps, listed: &[IssueId], limit: usize) -> Result<Found> {
    let mut found = Found { ready: Vec::new(), problems: Vec::new() };
    if listed.is_empty() {
        for issue in ops.source.ready(limit)? {
            found.add(ops, issue, BTreeSet::new());
        }
        return Ok(found);
    }
    for id in listed {
        let issue = match ops.source.show(id) {
            Err(IssueError::NotFound { .. }) => {
                found.problems.push(format!("there is no issue {id} any more"));
                continue;
            }
            shown => shown?,
        };
        if issue.is_epic() {
            return Err(EngineError::Epic { id: id.clone() });
        }
        // Done in this run, or in the one that this one goes on with.
        if issue.is_closed() {
            continue;
        }
        let waits_for = open_dependencies(ops, &issue)?;
        if let Some(missing) = waits_for.iter().find(|it| !listed.contains(it)) {
            let problem = format!("{id} waits for {missing}, which is not closed; add it: --issue {missing}");
            found.problems.push(problem);
            continue;
        }
        found.add(ops, issue, waits_for);
    }
    Ok(found)
}

impl Found {
    fn add(&mut self, ops: &BlockingOps, issue: Issue, waits_for: BTreeSet<IssueId>) {
        let (wants, problems) = ops.hints(&issue);
        self.problems.extend(problems);
        let files = wants.into_iter().map(|want| want.target).collect();
        self.ready.push(ReadyIssue { issue, files, waits_for });
    }
}

fn open_dependencies(ops: &BlockingOps, issue: &Issue) -> Result<BTreeSet<IssueId>> {
    let mut open = BTreeSet::new();
    for id in &issue.dependencies {
        if !ops.source.show(id)?.is_closed() {
            open.insert(id.clone());
        }
    }
    Ok(open)
}
