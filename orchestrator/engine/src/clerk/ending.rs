//! How attempts end.
//!
//! The order is the promise. While the agent's locks are still held: its uncommitted work is saved to a ref, then its
//! files are restored, then the note is written, and only with the end of the attempt do the locks go.

use mala_git::salvage::{Before, Staged};
use mala_issues::Label;
use serde_json::json;

use super::Clerk;
use crate::note::{self, Handoff};
use crate::ports::{Attempt, Ending, Finish, Interruption, Judgement, PortError};
use crate::{State, range};

/// Why an attempt ends without having been accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Failed,
    /// It needs to know something that only a person can tell.
    Asks,
    /// Somebody stopped the run.
    Stopped,
    /// The run was killed.
    Killed,
}

impl Cause {
    fn interruption(self) -> Option<Interruption> {
        match self {
            Self::Failed | Self::Asks => None,
            Self::Stopped => Some(Interruption::Stopped),
            Self::Killed => Some(Interruption::Killed),
        }
    }
}

/// What is known when an attempt ends.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) attempt: Attempt,
    pub(crate) from: State,
    /// Why it failed, as the end of a sentence; unused if it did not.
    pub(crate) reason: String,
    pub(crate) cause: Cause,
    pub(crate) judgement: Judgement,
    pub(crate) last_message: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) cost: Option<f64>,
    pub(crate) tokens: u64,
}

impl Given {
    /// Of an attempt that nobody has watched to its end.
    pub(crate) fn cut_off(attempt: Attempt, from: State, reason: &str, cause: Cause) -> Self {
        Self {
            attempt,
            from,
            reason: reason.to_owned(),
            cause,
            judgement: Judgement::default(),
            last_message: None,
            log: None,
            cost: None,
            tokens: 0,
        }
    }
}

/// How it ended.
#[derive(Debug, Clone)]
pub(crate) struct Handed {
    pub(crate) saved_ref: Option<String>,
    /// What was saved there and taken out of the checkout.
    pub(crate) files: Vec<String>,
    /// The attempt's commits, accepted or not.
    pub(crate) commits: Vec<String>,
    pub(crate) is_blocked: bool,
}

impl Clerk {
    /// The gate has passed: the issue is closed. What the agent left uncommitted is saved and taken away, so that the
    /// next agent finds a clean checkout.
    pub(crate) fn accept(&self, given: &Given) -> Result<Handed, PortError> {
        let attempt = &given.attempt;
        let left = self.salvage(attempt, "left over after the issue was done");
        let reason = match (&given.judgement.outcome, given.judgement.commits.as_slice()) {
            (Some(outcome), _) => outcome.clone(),
            (None, commits) => format!("committed as {}", commits.join(", ")),
        };
        let note = note::left_over(&left).map(|left| {
            format!("Attempt {} by `{}` is done ({reason}).{left}", attempt.number, attempt.agent)
        });
        self.tell_tracker(attempt, note.as_deref(), &Ending::Done { reason: reason.clone() })?;
        let handed = self.handed(attempt, &left, given.judgement.commits.clone(), false);
        let finish = finish(given, Ending::Done { reason }, note, handed.saved_ref.clone());
        self.finish(attempt, &finish)?;
        Ok(handed)
    }

    /// The attempt has failed: its work is saved, its issue gets a note and goes back.
    pub(crate) fn hand_over(&self, given: &Given) -> Result<Handed, PortError> {
        let attempt = &given.attempt;
        let left = self.salvage(attempt, &given.reason);
        let commits = self.commits(given);
        let note = note::text(&Handoff {
            attempt,
            reason: &given.reason,
            failed: &given.judgement.failed,
            left: &left,
            commits: &commits,
            last_message: given.last_message.as_deref(),
            log: given.log.as_deref(),
        });
        let is_blocked = match given.cause {
            Cause::Failed | Cause::Killed => self.ledger.tries(&attempt.issue)?.ended + 1 >= self.attempts,
            Cause::Asks => true,
            Cause::Stopped => false,
        };
        let reason = given.reason.clone();
        let ending = if is_blocked { Ending::Blocked { reason } } else { Ending::HandedOver { reason } };
        self.tell_tracker(attempt, Some(&note), &ending)?;
        let handed = self.handed(attempt, &left, commits, is_blocked);
        self.finish(attempt, &finish(given, ending, Some(note), handed.saved_ref.clone()))?;
        Ok(handed)
    }

    /// Ends the attempt. Only then nobody needs what was kept of the time before it: until then its end may be tried again.
    fn finish(&self, attempt: &Attempt, finish: &Finish) -> Result<(), PortError> {
        self.ledger.finish(attempt, finish)?;
        // What stays there is removed when the next run begins.
        let _ = Staged::of(self.repo.scope(), &attempt.agent).forget();
        let _ = Before::forget_for(&self.repo, &attempt.run, &attempt.agent);
        Ok(())
    }

    /// The commits that the attempt leaves on the branch, also if nobody had the time to judge them. A git that cannot say so
    /// now keeps no attempt from ending.
    fn commits(&self, given: &Given) -> Vec<String> {
        let Given { attempt: Attempt { head, agent, issue, .. }, judgement, .. } = given;
        if !judgement.commits.is_empty() {
            return judgement.commits.clone();
        }
        let found = range::commits(&self.repo, head.as_ref(), agent, &self.mark, issue).unwrap_or_default();
        found.iter().map(ToString::to_string).collect()
    }

    /// Where another tracker keeps the issue, it is told first: a note must be there before anybody can take the issue.
    fn tell_tracker(&self, attempt: &Attempt, note: Option<&str>, ending: &Ending) -> Result<(), PortError> {
        if self.keeping == crate::options::Keeping::Ledger {
            return Ok(());
        }
        let Attempt { issue, agent, .. } = attempt;
        if let Some(note) = note {
            self.source.append_note(issue, note)?;
        }
        match ending {
            Ending::Done { reason } => {
                self.source.remove_label(issue, &Label::needs_followup())?;
                self.source.close(issue, reason)?;
            }
            Ending::HandedOver { .. } | Ending::Blocked { .. } => {
                self.source.add_label(issue, &Label::needs_followup())?;
                if matches!(ending, Ending::Blocked { .. }) {
                    self.source.add_label(issue, &Label::new("blocked")?)?;
                }
                self.source.release(issue, agent)?;
            }
        }
        Ok(())
    }
}

fn finish(given: &Given, ending: Ending, note: Option<String>, saved_ref: Option<String>) -> Finish {
    let is_done = matches!(ending, Ending::Done { .. });
    Finish {
        from: given.from,
        ending,
        note,
        saved_ref,
        cost: given.cost,
        tokens: given.tokens,
        verdict: Some(json!(given.judgement)),
        interruption: if is_done { None } else { given.cause.interruption() },
    }
}
