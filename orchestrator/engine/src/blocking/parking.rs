//! Agents that wait for files which they asked for, or for issues, with no process of their own.
//!
//! Where agents wait for each other in a circle, one of them yields: its work is saved and leaves the checkout, and its files are
//! free. It comes back, merged with what has landed since, when the others are done.

use std::collections::BTreeSet;
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mala_core::{AgentId, Ask, Attempt, IssueId, Want, crash_point};
use mala_gate::bases_of;
use mala_git::RepoPath;
use mala_git::salvage::{self, Before, SavedRef, Unlike};
use mala_session::{SessionError, acquire_or_wait, release};
use mala_store::{AskFilter, Cause, IssueEnd, IssueWait, Outcome, Store, StoreError, Wait, Which};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{BlockingOps, PutBack};
use crate::error::{EngineError, Result};

/// How often issues that are waited for are looked at.
const ISSUE_POLL: Duration = Duration::from_millis(200);

/// What an agent waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Awaited {
    pub(crate) asks: Vec<Ask>,
    pub(crate) issues: Vec<IssueWait>,
}

/// Work of an attempt that is out of the checkout and comes back when its files are its own again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Away {
    /// It has yielded.
    Aside(SavedRef),
    /// It was rejected, and its files were free since the offer.
    Rejected,
}

impl Awaited {
    pub(crate) fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.issues.is_empty()
    }
}

/// How waiting for others ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Everything that was asked for is the agent's, and this is what has become of the issues that it waited for.
    Granted(Vec<(IssueId, IssueEnd)>),
    /// For this reason it is not.
    InVain(String),
    /// Each of these agents would wait for the next one, and the last for the first.
    Circle(Vec<AgentId>),
}

impl BlockingOps {
    /// What the attempt's agent has asked for and nobody has given up yet, and the issues that it said it waits for. An agent
    /// that ends its turn meanwhile waits for all of it.
    pub(crate) fn awaited(&self, attempt: &Attempt) -> Result<Awaited> {
        let mine = AskFilter { asker: Some(attempt.agent.clone()), ..AskFilter::default() };
        let mut store = self.store()?;
        Ok(Awaited { asks: store.asks(&mine)?, issues: store.issue_waits(&attempt.agent)? })
    }

    /// Waits for everything in `awaited`, and for the files of the work that the attempt has put aside, until it has all of it or the
    /// other end of `hangup` is closed.
    pub(crate) fn wait(
        &self,
        attempt: &Attempt,
        (awaited, away): (&Awaited, Option<&Away>),
        hangup: &PipeReader,
    ) -> Result<WaitOutcome> {
        // First the issues: who waits for them holds no more than before.
        match self.wait_for_issues(attempt, &awaited.issues, hangup)? {
            WaitOutcome::Granted(ends) => {
                let outcome = self.wait_for_files(attempt, (&awaited.asks, away), hangup)?;
                Ok(if outcome == WaitOutcome::Granted(Vec::new()) {
                    WaitOutcome::Granted(ends)
                } else {
                    outcome
                })
            }
            outcome => Ok(outcome),
        }
    }

    fn wait_for_issues(
        &self,
        attempt: &Attempt,
        awaited: &[IssueWait],
        hangup: &PipeReader,
    ) -> Result<WaitOutcome> {
        // A connection of its own: the others go on meanwhile.
        let mut store = Store::open(self.repo.scope())?;
        let agent = &attempt.agent;
        for known in store.issue_waits(agent)? {
            if !awaited.contains(&known) {
                store.stop_waiting_for_issue(agent, &known.issue)?;
            }
        }
        let (mut left, mut ends) = (awaited.to_vec(), Vec::new());
        if left.is_empty() {
            return Ok(WaitOutcome::Granted(ends));
        }
        match store.park_for_issues(agent) {
            Err(StoreError::Deadlock { circle }) => return Ok(WaitOutcome::Circle(circle)),
            parked => parked?,
        }
        let deadline = Instant::now().checked_add(self.options.lock.max_wait);
        loop {
            for wait in std::mem::take(&mut left) {
                match store.issue_end(&wait.issue, wait.since)? {
                    Some(end) => {
                        store.stop_waiting_for_issue(agent, &wait.issue)?;
                        ends.push((wait.issue, end));
                    }
                    None => left.push(wait),
                }
            }
            let Some(next) = left.first() else { return Ok(WaitOutcome::Granted(ends)) };
            if has_hung_up(hangup, ISSUE_POLL)? || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Ok(WaitOutcome::InVain(format!("{} has not landed", next.issue)));
            }
        }
    }

    /// Stands in the queue for everything the agent has asked for, and for the files of the work that it has put aside, until it
    /// has all of it or the other end of `hangup` is closed.
    fn wait_for_files(
        &self,
        attempt: &Attempt,
        (asked, away): (&[Ask], Option<&Away>),
        hangup: &PipeReader,
    ) -> Result<WaitOutcome> {
        let (scope, lock) = (self.repo.scope(), &self.options.lock);
        let mut wants: Vec<Want> = asked.iter().map(|ask| ask.want.clone()).collect();
        match away {
            Some(Away::Aside(aside)) => wants.extend(self.wants(&aside.files(&self.repo)?)),
            Some(Away::Rejected) => wants.extend(self.wants(&self.offered_files(attempt)?)),
            None => {}
        }
        if wants.is_empty() {
            return Ok(WaitOutcome::Granted(Vec::new()));
        }
        let mut store = Store::open(scope)?;
        let request = self.request(attempt, wants, "asked for");
        let wait = Wait { longest: lock.max_wait, on_behalf_of: Some(hangup.as_fd()), remind_every: None };
        Ok(match acquire_or_wait(scope, &mut store, &request, wait, |_| ()) {
            Ok(Outcome::Granted(_)) => WaitOutcome::Granted(Vec::new()),
            Err(error @ SessionError::StillOpen { .. }) => WaitOutcome::InVain(error.to_string()),
            Err(error) => return Err(error.into()),
            Ok(Outcome::Refused(refusal)) => match refusal.cause {
                Cause::Deadlock(circle) => WaitOutcome::Circle(circle),
                Cause::Held | Cause::TimedOut | Cause::GivenUp => {
                    WaitOutcome::InVain("nobody gave it up".to_owned())
                }
            },
        })
    }

    /// Every agent that waits, directly or behind others, for something that this one holds.
    pub(crate) fn held_up_by(&self, agent: &AgentId) -> Result<Vec<AgentId>> {
        Ok(self.store()?.held_up_by(agent)?)
    }

    /// Takes the work of an attempt without a process out of the checkout and frees its files. Gives where the work is, if there
    /// was any. The order is that of endings: nothing is restored before it is saved, nothing is free before it is restored.
    pub(crate) fn put_aside(&self, attempt: &Attempt) -> Result<Option<SavedRef>> {
        let reason = "put aside, so that the others of a circle of waits can go on";
        self.leave(attempt)?;
        let before = Before::of(&self.repo, &attempt.run, &attempt.agent)?;
        let files = self.own_files(attempt, &before)?;
        let unlike = Unlike::of(&self.repo, &files, &before)?;
        let name = salvage::aside_ref(&attempt.issue, attempt.number);
        let message = salvage::work_message(attempt, reason);
        let bases = bases_of(&self.repo, &mut *self.store()?, &unlike.files)?;
        let saved = salvage::save_since(&self.repo, &bases, &name, (&unlike.files, &message))?;
        crash_point("yield:saved");
        if let Some(trouble) = self.salvage(attempt, reason).trouble {
            self.store()?.stop_leaving(attempt.id)?;
            return Err(EngineError::StillInPlace(trouble.to_string()));
        }
        crash_point("yield:out");
        release(self.repo.scope(), &mut *self.store()?, None, &attempt.agent, &Which::All)?;
        self.store()?.end_leaving(attempt.id)?;
        crash_point("yield:free");
        Ok(saved)
    }

    /// Puts the work of an attempt back.
    pub(crate) fn take_back(&self, attempt: &Attempt, away: &Away) -> Result<PutBack> {
        match away {
            Away::Aside(aside) => self.put_back_aside(attempt, aside),
            Away::Rejected => self.put_back_work(attempt),
        }
    }

    /// Puts back what was put aside, merged with what has landed since. If others hold the files, or the two do not merge, it stays
    /// in its ref.
    fn put_back_aside(&self, attempt: &Attempt, aside: &SavedRef) -> Result<PutBack> {
        let files = aside.files(&self.repo)?;
        if !self.take_files(attempt, &files)? || !salvage::put_in_place(&self.repo, aside)? {
            return Ok(PutBack::Overtaken);
        }
        crash_point("yield:back");
        salvage::forget(&self.repo, aside)?;
        Ok(PutBack::InPlace)
    }

    /// What the attempt has put aside and not got back.
    pub(super) fn aside_of(&self, attempt: &Attempt) -> Result<Vec<SavedRef>> {
        let name = salvage::aside_ref(&attempt.issue, attempt.number);
        Ok(salvage::saved_as(&self.repo, &name, Some(&attempt.run))?)
    }

    /// Those of the files that the attempt has put aside as they are.
    pub(super) fn put_aside_before(
        &self,
        attempt: &Attempt,
        files: &BTreeSet<RepoPath>,
    ) -> Result<BTreeSet<RepoPath>> {
        let mut known = BTreeSet::new();
        for aside in self.aside_of(attempt)? {
            let its: BTreeSet<RepoPath> = aside.files(&self.repo)?.intersection(files).cloned().collect();
            known.extend(salvage::held_like(&self.repo, &aside.commit, &its)?);
        }
        Ok(known)
    }
}

/// Sleeps for so long, or until the other end is closed.
fn has_hung_up(hangup: &PipeReader, span: Duration) -> Result<bool> {
    let mut ends = [PollFd::new(hangup.as_fd(), PollFlags::POLLIN)];
    let span = PollTimeout::try_from(span).unwrap_or(PollTimeout::ZERO);
    match poll(&mut ends, span) {
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(std::io::Error::from(error).into()),
        Ok(changed) => Ok(changed > 0),
    }
}
