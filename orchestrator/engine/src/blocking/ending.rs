//! How attempts end.
//!
//! The order is the promise. While the agent's locks are still held: its uncommitted work is saved to a ref, then its
//! files are restored, then the note is written, and only with the end of the attempt do the locks go.

use mala_core::{Attempt, Interruption, Spend};
use mala_gate::attempt_commits;
use mala_git::salvage::{Before, Staged};
use mala_issues::Label;
use mala_store::{End, Finish, Next, Progress};
use serde_json::json;

use super::{BlockingOps, CheckoutState};
use crate::cost::Cost;
use crate::error::Result;
use crate::note::{self, Handoff};
use crate::options::Keeping;
use crate::validator::Judgement;

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
pub(crate) struct AttemptEnd {
    pub(crate) attempt: Attempt,
    pub(crate) kind: EndKind,
    pub(crate) judgement: Judgement,
    pub(crate) last_message: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) cost: Cost,
    pub(crate) tokens: u64,
    pub(crate) checkout: CheckoutState,
}

impl AttemptEnd {
    /// Of an attempt that nobody has watched to its end.
    pub(crate) fn cut_off(attempt: Attempt, reason: &str, cause: Cause) -> Self {
        Self {
            attempt,
            kind: EndKind::HandOver { reason: reason.to_owned(), cause },
            judgement: Judgement::default(),
            last_message: None,
            log: None,
            cost: Cost::default(),
            tokens: 0,
            checkout: CheckoutState::default(),
        }
    }
}

/// How an attempt is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndKind {
    /// The gate has passed.
    Accept,
    /// It has failed or was cut off. The reason is the end of a sentence.
    HandOver { reason: String, cause: Cause },
}

/// What the end of an attempt has come to.
#[derive(Debug, Clone)]
pub(crate) struct EndResult {
    pub(crate) saved_ref: Option<String>,
    /// What was saved there and taken out of the checkout.
    pub(crate) files: Vec<String>,
    /// The attempt's commits, accepted or not.
    pub(crate) commits: Vec<String>,
    pub(crate) is_blocked: bool,
    /// What has become of a person's files that git does not hold, in words.
    pub(crate) notices: Vec<String>,
}

impl BlockingOps {
    /// Ends the attempt as `end` says. May be repeated.
    pub(crate) fn end(&self, end: &AttemptEnd) -> Result<EndResult> {
        match &end.kind {
            EndKind::Accept => self.accept(end),
            EndKind::HandOver { reason, cause } => self.hand_over(end, reason, *cause),
        }
    }

    /// The gate has passed: the issue is closed. What the agent left uncommitted is saved and taken away, so that the
    /// next agent finds a clean checkout.
    fn accept(&self, end: &AttemptEnd) -> Result<EndResult> {
        let attempt = &end.attempt;
        let notices = self.restore_unversioned(attempt, &end.kind);
        let left = self.leftovers(end, "left over after the issue was done")?;
        let reason = match (&end.judgement.outcome, end.judgement.commits.as_slice()) {
            (Some(outcome), _) => outcome.clone(),
            (None, commits) => format!("committed as {}", commits.join(", ")),
        };
        let note = note::left_over(attempt, &left).map(|left| {
            format!("Attempt {} by `{}` is done ({reason}).{left}", attempt.number, attempt.agent)
        });
        let ending = End::Done { commit: Some(reason) };
        self.tell_tracker(attempt, note.as_deref(), &ending)?;
        let mut result = self.end_result(attempt, &left, end.judgement.commits.clone(), false);
        result.notices = notices;
        self.finish(attempt, &finish(end, ending, note, result.saved_ref.clone()))?;
        Ok(result)
    }

    /// The attempt has failed: its work is saved, its issue gets a note and goes back.
    fn hand_over(&self, end: &AttemptEnd, reason: &str, cause: Cause) -> Result<EndResult> {
        let attempt = &end.attempt;
        let notices = self.restore_unversioned(attempt, &end.kind);
        let mut left = self.leftovers(end, reason)?;
        left.offer = self.offer_of(attempt)?;
        let commits = self.commits(end);
        let note = note::text(&Handoff {
            attempt,
            reason,
            failed: &end.judgement.failed,
            left: &left,
            commits: &commits,
            last_message: end.last_message.as_deref(),
            log: end.log.as_deref(),
            notices: &notices,
        });
        let is_blocked = match cause {
            Cause::Failed | Cause::Killed => self.tries(&attempt.issue)?.ended + 1 >= self.options.attempts,
            Cause::Asks => true,
            Cause::Stopped => false,
        };
        let next = if is_blocked { Next::AskAPerson } else { Next::TryAgain };
        let ending = End::HandedOver { reason: reason.to_owned(), next };
        self.tell_tracker(attempt, Some(&note), &ending)?;
        let mut result = self.end_result(attempt, &left, commits, is_blocked);
        result.notices = notices;
        let mut finish = finish(end, ending, Some(note), result.saved_ref.clone());
        finish.progress.interruption = cause.interruption();
        self.finish(attempt, &finish)?;
        Ok(result)
    }

    /// Ends the attempt. Only then nobody needs what was kept of the time before it: until then its end may be tried again.
    fn finish(&self, attempt: &Attempt, finish: &Finish) -> Result<()> {
        self.finish_in_store(attempt, finish)?;
        // What stays there is removed when the next run begins.
        let _ = Staged::of(self.repo.scope(), &attempt.agent).forget();
        let _ = Before::forget_for(&self.repo, &attempt.run, &attempt.agent);
        Ok(())
    }

    /// The commits that the attempt leaves on the branch, also if nobody had the time to judge them. A git that cannot say so
    /// now keeps no attempt from ending.
    fn commits(&self, end: &AttemptEnd) -> Vec<String> {
        if !end.judgement.commits.is_empty() {
            return end.judgement.commits.clone();
        }
        let found = attempt_commits(&self.repo, &end.attempt, &self.options.mark).unwrap_or_default();
        found.iter().map(ToString::to_string).collect()
    }

    /// Where another tracker keeps the issue, it is told first: a note must be there before anybody can take the issue.
    fn tell_tracker(&self, attempt: &Attempt, note: Option<&str>, ending: &End) -> Result<()> {
        if self.options.keeping == Keeping::Store {
            return Ok(());
        }
        let Attempt { issue, agent, .. } = attempt;
        if let Some(note) = note {
            self.source.append_note(issue, note)?;
        }
        match ending {
            End::Done { commit } => {
                self.source.remove_label(issue, &Label::needs_followup())?;
                self.source.close(issue, commit.as_deref().unwrap_or_default())?;
            }
            End::HandedOver { next, .. } => {
                self.source.add_label(issue, &Label::needs_followup())?;
                if *next == Next::AskAPerson {
                    self.source.add_label(issue, &Label::new("blocked")?)?;
                }
                self.source.release(issue, agent)?;
            }
            End::GivenBack => self.source.release(issue, agent)?,
        }
        Ok(())
    }
}

fn finish(end: &AttemptEnd, ending: End, note: Option<String>, saved_ref: Option<String>) -> Finish {
    let spend = Spend {
        cost_micros: micros(end.cost.at_least()),
        tokens: end.tokens,
        unpriced: end.cost.unpriced().map(str::to_owned).collect(),
    };
    let progress = Progress {
        saved_ref,
        verdict: Some(json!(end.judgement)),
        spend: Some(spend),
        ..Progress::default()
    };
    Finish { end: ending, note, progress }
}

/// Dollars as whole millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are never negative, and a run that costs more than 2^64 micros is over long before"
)]
fn micros(dollars: f64) -> u64 {
    (dollars.max(0.0) * 1_000_000.0).round() as u64
}
