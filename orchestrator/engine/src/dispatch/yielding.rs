//! Agents that wait for each other in a circle.
//!
//! Of those that are parked, the one that was claimed last yields: its work leaves the checkout, its files are free, and the
//! others go on. When they are over, it stands in the queue for all it needs, gets its work back, and goes on itself. No
//! attempt and no round is counted. Whoever holds nothing is in no circle, and the oldest claim never yields to a younger
//! one, so somebody always gets on.

use std::mem;

use mala_core::{AgentId, IssueId};
use mala_git::salvage::SavedRef;

use super::events::JobEvent;
use super::job::{Aside, Job, Phase, Waiting};
use super::{Dispatcher, causes};
use crate::blocking::{Away, PutBack, WaitOutcome};
use crate::error::Result;
use crate::event::Event;

/// What an agent is told that has its work back.
const IN_PLACE: &str = "Your own work was put aside meanwhile, so that others could go on. It is back in its place, merged with \
                        what has landed since.";

impl Dispatcher {
    /// The wait of `id` would close this circle: the latest claim in it that can be made to yield does.
    pub(super) fn break_circle(&mut self, id: &IssueId, circle: &[AgentId]) {
        let is_parked = |job: &Job| matches!(job.phase, Phase::Waiting(Waiting::Queued { .. }));
        let is_in_it = |job: &Job| circle.contains(&job.attempt.agent);
        let parked =
            self.jobs.iter().filter(|(known, job)| *known == id || (is_in_it(job) && is_parked(job)));
        let Some(last) = parked.max_by_key(|(_, job)| job.attempt.id).map(|(last, _)| last.clone()) else {
            return self.take_back(id, WaitOutcome::Circle(circle.to_vec()));
        };
        if let Some(job) = self.jobs.get_mut(id).filter(|_| last != *id) {
            job.phase = Phase::Waiting(Waiting::Circle);
        }
        let others = self.jobs.iter().filter(|(known, job)| **known != last && is_in_it(job));
        let until_over: Vec<IssueId> = others.map(|(other, _)| other.clone()).collect();
        self.put_aside(&last, until_over);
    }

    fn put_aside(&mut self, id: &IssueId, until_over: Vec<IssueId>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.phase = Phase::Yielding;
        job.yields_to = until_over;
        let (ops, attempt) = (self.ops.clone(), job.attempt.clone());
        self.background_for(id, move || ops.put_aside(&attempt), JobEvent::PutAside);
    }

    pub(super) fn on_put_aside(&mut self, id: &IssueId, aside: Result<Option<SavedRef>>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        match aside {
            Ok(aside) => {
                // Who has yielded twice without having got its work back has it where it was.
                job.away = aside.map(Away::Aside).or(job.away.take());
                let (agent, to) = (job.attempt.agent.clone(), job.yields_to.clone());
                let saved_ref = match (&job.away, &job.judgement.offer) {
                    (Some(Away::Aside(aside)), _) => Some(aside.name.clone()),
                    (Some(Away::Rejected), Some(offer)) => Some(offer.pin.clone()),
                    _ => None,
                };
                job.phase = Phase::Aside(Aside { until_over: mem::take(&mut job.yields_to) });
                self.tell(&Event::Yielded { issue: id.clone(), agent, to, saved_ref });
            }
            Err(error) => {
                let why = format!(
                    "waiting would never end, and its work could not be put aside: {}",
                    causes(&error)
                );
                self.warn(&format!("{id}: {why}"));
                self.wait_ended(id, WaitOutcome::InVain(why), None);
            }
        }
        self.wait_anew(id);
    }

    /// One has yielded, or cannot: those that could not wait for it try again, and those that waited for its issue need not.
    fn wait_anew(&mut self, yielded: &IssueId) {
        let is_held_up = |job: &Job| match job.phase {
            Phase::Waiting(Waiting::Circle) => true,
            Phase::Waiting(Waiting::Queued { .. }) => {
                job.awaited.issues.iter().any(|wait| wait.issue == *yielded)
            }
            _ => false,
        };
        let held_up: Vec<IssueId> =
            self.jobs.iter().filter(|(_, job)| is_held_up(job)).map(|(id, _)| id.clone()).collect();
        held_up.iter().for_each(|id| self.begin_wait(id));
    }

    /// Whose work is put aside until `id` is over lands after it, so waiting for that issue would never end.
    pub(super) fn skip_those_that_wait_for(&mut self, id: &IssueId) {
        let waits_for_it = |issue: &IssueId| {
            let phase = self.jobs.get(issue).map(|job| &job.phase);
            matches!(phase, Some(Phase::Aside(aside)) if aside.until_over.contains(id))
        };
        let Some(job) = self.jobs.get(id) else { return };
        let issues = job.awaited.issues.iter().map(|wait| wait.issue.clone());
        let skipped: Vec<IssueId> = issues.filter(waits_for_it).collect();
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.awaited.issues.retain(|wait| !skipped.contains(&wait.issue));
        job.news.extend(skipped.iter().map(|issue| {
            format!("you waited for {issue}: its work was taken out of the checkout, because it waits for you; go on without it")
        }));
    }

    /// Those that have yielded wait again when the ones they have yielded to are over.
    pub(super) fn queue_those_aside(&mut self) {
        let is_over = |id: &IssueId| !self.jobs.contains_key(id);
        let ready = self.jobs.iter().filter_map(|(id, job)| match &job.phase {
            Phase::Aside(aside) if aside.until_over.iter().all(is_over) => Some(id.clone()),
            _ => None,
        });
        let ready: Vec<IssueId> = ready.collect();
        ready.iter().for_each(|id| self.begin_wait(id));
    }

    /// Its work comes back before the session goes on.
    pub(super) fn take_back(&mut self, id: &IssueId, outcome: WaitOutcome) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(away) = job.away.clone() else { return self.wait_ended(id, outcome, None) };
        job.phase = Phase::TakingBack;
        let (ops, attempt) = (self.ops.clone(), job.attempt.clone());
        let work = move || ops.take_back(&attempt, &away);
        self.background_for(id, work, |back| JobEvent::TakenBack { outcome, back });
    }

    pub(super) fn on_taken_back(&mut self, id: &IssueId, outcome: WaitOutcome, back: Result<PutBack>) {
        let away = self.jobs.get_mut(id).and_then(|job| job.away.take());
        let said = match away {
            Some(Away::Aside(aside)) => match back {
                Ok(PutBack::InPlace) => Some(IN_PLACE.to_owned()),
                Ok(PutBack::Overtaken | PutBack::Held(_)) => {
                    Some(not_back(&aside, "it does not merge with what has happened to its files since"))
                }
                Err(error) => Some(not_back(&aside, &causes(&error))),
            },
            Some(Away::Rejected) => return self.rejected_work_back(id, &outcome, back),
            None => None,
        };
        self.wait_ended(id, outcome, said.as_deref());
    }
}

fn not_back(aside: &SavedRef, why: &str) -> String {
    let name = &aside.name;
    format!(
        "Your own work was put aside meanwhile, so that others could go on, and is not back, because {why}. It is kept in \
         {name}: look at it with `git show {name}`, and at what the branch has now with `git show HEAD:FILE`; then bring \
         both together."
    )
}
