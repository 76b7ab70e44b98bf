//! The audit: from time to time what has landed is validated once more, in a slot that was emptied.
//!
//! A slot keeps what builds have left there, also those of trees that never landed: what such a tree wrote could make a later one
//! pass that should not. Where no slot has run such a tree, there is nothing to find out.

use std::collections::HashSet;

use mala_config::Cold;
use mala_git::Oid;
use mala_store::{Store, Unaudited};

use super::crew::Task;
use super::work::Worker;
use super::{Queue, QueueError, Round};
use crate::validation::Validation;

/// Of so many commits it is known that they have landed.
const MAX_HISTORY: usize = 2_000;

/// What an audit has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audited {
    /// It has begun, on this commit, after so many landings.
    Begun {
        commit: Oid,
        landings: u32,
    },
    Passed {
        commit: Oid,
    },
    /// The queue is paused, for this reason.
    Failed {
        commit: Oid,
        why: String,
    },
}

/// An audit that is under way.
#[derive(Debug)]
pub(super) struct Audit {
    about: Unaudited,
    /// The command that has failed; then it runs once more before anything is said.
    has_failed: Option<String>,
}

impl Worker<'_, '_, '_> {
    /// Begins an audit if at least so many landings have not been looked at, and a slot may have had a say in them.
    pub(super) fn audit_if_due(&mut self, least: u32, round: &mut Round) -> Result<(), QueueError> {
        if self.audit.is_some() {
            return Ok(());
        }
        let Some(about) = self.queue.is_audit_due(self.store, least)? else { return Ok(()) };
        round.audits.push(Audited::Begun { commit: about.last.clone(), landings: about.landings });
        self.start_audit(Audit { about, has_failed: None })
    }

    fn start_audit(&mut self, audit: Audit) -> Result<(), QueueError> {
        let commit = audit.about.last.clone();
        self.audit = Some(audit);
        self.crew.start(Task::Audit(commit.clone()), &commit)
    }

    /// What fails twice in an emptied slot pauses the queue: which of the landings is to blame is for a person to find out.
    pub(super) fn conclude_audit(
        &mut self,
        validation: &Validation,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let Some(Audit { about, has_failed }) = self.audit.take() else { return Ok(()) };
        let Some(failure) = validation.failure() else {
            self.store.pass_audit(self.queue.branch, &about)?;
            round.flaky.extend(has_failed);
            round.audits.push(Audited::Passed { commit: about.last });
            return Ok(());
        };
        if has_failed.is_none() {
            let has_failed = Some(failure.command.clone());
            return self.start_audit(Audit { about, has_failed });
        }
        let tip = self.queue.repo.resolve(self.queue.branch)?;
        let moved = if tip.as_ref() == Some(&about.last) { "" } else { " (the branch has moved on since)" };
        let why = format!(
            "`{}` fails on {last} in an emptied slot ({}), so something that landed after {since} passed only by what an earlier \
             tree had left behind: see git log {since}..{last}{moved}, and `{}`",
            failure.command,
            failure.ending(),
            failure.output_log,
            last = about.last.short(),
            since = about.since.short(),
        );
        self.store.fail_audit(self.queue.branch, &about, &why)?;
        round.audits.push(Audited::Failed { commit: about.last, why });
        Ok(())
    }
}

impl Queue<'_> {
    fn is_audit_due(&self, store: &mut Store, least: u32) -> Result<Option<Unaudited>, QueueError> {
        if self.requirements.is_empty() || self.requirements.cold() != Cold::Audit {
            return Ok(None);
        }
        let Some(about) = store.unaudited(self.branch)?.filter(|about| about.landings >= least) else {
            return Ok(None);
        };
        let Some(tip) = self.repo.resolve(self.branch)? else { return Ok(None) };
        // A person has taken the landings back.
        if !self.repo.is_ancestor(&about.last, &tip)? {
            store.forget_unaudited(self.branch)?;
            return Ok(None);
        }
        let history = self.repo.first_parents(&tip, None, MAX_HISTORY)?;
        let landed: HashSet<&str> = history.iter().map(|commit| commit.tree.as_str()).collect();
        let is_tainted = !self.slots.tainted(|tree| landed.contains(tree)).is_empty();
        Ok(is_tainted.then_some(about))
    }
}
