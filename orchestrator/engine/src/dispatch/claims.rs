//! Giving issues out: which, how many at a time, and what becomes of a claim.

use std::time::Duration;

use mala_core::IssueId;
use mala_core::shell::word;
use tokio::time::Instant;

use super::job::Job;
use super::stop::Stopping;
use super::{Dispatcher, WorkerEvent, causes};
use crate::blocking::Claim;
use crate::engine::{check_checkout, find_program};
use crate::error::Result;
use crate::event::Event;
use crate::ready::ReadyIssue;

/// A wait in the middle of a call that is over so soon keeps the place.
const SHORT_WAIT: Duration = Duration::from_secs(5);
/// How often is looked who waits, while an issue could be begun.
const WAITS_POLL: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// Gives out as many issues as there are agents for.
    pub(super) fn fill(&mut self) {
        while self.has_room() && Instant::now() >= self.next_start {
            let Some(next) = self.ready.take_next() else { return };
            if let Some(profile) = self.take_profile(&next) {
                self.claim(&next, &profile);
            }
        }
    }

    fn claim(&mut self, next: &ReadyIssue, profile: &str) {
        let id = next.issue.id.clone();
        let Some((profile, _)) = self.ops.options.profiles.named(profile).cloned() else {
            return self.leave(&id, "there is no profile for it");
        };
        if let Err(error) = find_program(&profile) {
            return self.leave(&id, &error.to_string());
        }
        self.next_start = Instant::now() + self.ops.options.stagger;
        self.claiming.insert(id.clone());
        let (ops, run) = (self.ops.clone(), self.run.clone());
        // Who names an issue wants it tried, however often it was.
        let is_asked_for = self.ops.options.issues.contains(&id) && !self.begun.contains(&id);
        let issue = id.clone();
        self.background(
            move || {
                check_checkout(&ops)?;
                ops.claim(&run, &issue, &profile.name, is_asked_for)
            },
            |claim| WorkerEvent::Claimed(id, claim),
        );
    }

    pub(super) async fn on_claimed(&mut self, id: IssueId, claim: Result<Claim>) {
        match claim {
            Ok(Claim::Granted(claimed)) if self.stopping == Stopping::No => {
                self.claiming.remove(&id);
                self.begin(*claimed).await;
            }
            Ok(Claim::Granted(claimed)) => {
                let attempt = claimed.attempt;
                let (ops, why) = (self.ops.clone(), self.stopping.reason().to_owned());
                self.ready.put_back(&id);
                self.background(move || ops.undo(&attempt, &why), |done| WorkerEvent::PutBack(id, done));
            }
            Ok(Claim::Gone(why)) => self.leave(&id, &why),
            Ok(Claim::TooOften(times)) => {
                let limit = self.ops.options.attempts;
                let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                self.leave(&id, &format!("it was tried {times} and the limit is {limit}; try it once more: mala run --issue {}", word(id.as_str())));
            }
            Err(error) => {
                self.claiming.remove(&id);
                let why = format!("it could not be claimed: {}", causes(&error));
                self.warn(&format!("{id}: {why}"));
                self.left.insert(id.clone(), why);
                self.ready.put_back(&id);
            }
        }
    }

    /// The issue is not worked on in this run.
    pub(super) fn leave(&mut self, id: &IssueId, why: &str) {
        self.claiming.remove(id);
        self.ready.settle(id, false);
        self.left.insert(id.clone(), why.to_owned());
        self.tell(&Event::PutBack { issue: id.clone(), why: why.to_owned() });
    }

    pub(super) fn may_begin_more(&self) -> bool {
        let limit = self.ops.options.max_issues.unwrap_or(usize::MAX);
        self.stopping == Stopping::No
            && !self.ops.options.queue_only
            && self.begun.len() + self.claiming.len() < limit
    }

    /// True if an issue may be given out at this moment. As many may wait as may work, so that unfinished work stays little.
    pub(super) fn has_room(&self) -> bool {
        self.may_begin_more()
            && self.has_seat()
            && self.unoffered() + self.claiming.len() < self.max_agents.saturating_mul(2)
            && !self.feed.is_about_to_answer()
    }

    /// Attempts that may hold files and have not offered.
    fn unoffered(&self) -> usize {
        self.jobs.values().filter(|job| !job.is_offered()).count()
    }

    /// True if one more agent may work. Those that are parked do not, and neither do those that wait in the middle of a call.
    pub(super) fn has_seat(&self) -> bool {
        let is_working = |job: &&Job| !job.is_parked() && !self.waiting_in_call.contains(&job.attempt.agent);
        let working = self.jobs.values().filter(is_working).count();
        working + self.claiming.len() < self.max_agents
    }

    /// An agent that waits for long in the middle of a call, for a turn to test for example, leaves its place to another one.
    pub(super) async fn look_who_waits_in_call(&mut self) {
        if !self.may_begin_more() || self.ready.peek().is_none() {
            return self.waiting_in_call.clear();
        }
        if self.looked_at_waits.is_some_and(|looked| looked.elapsed() < WAITS_POLL) {
            return;
        }
        self.looked_at_waits = Some(Instant::now());
        let ops = self.ops.clone();
        let asked = tokio::task::spawn_blocking(move || ops.waiting_for(SHORT_WAIT)).await;
        // Who cannot be seen to wait counts as working.
        self.waiting_in_call = asked.ok().and_then(Result::ok).unwrap_or_default().into_iter().collect();
    }

    pub(super) fn is_waiting_to_start(&self) -> bool {
        self.has_room() && self.ready.peek().is_some()
    }
}
