//! How attempts end.
//!
//! The order is the promise. While the agent's locks are still held: its uncommitted work is saved to a ref, then its
//! files are restored, then the note is written, and only with the end of the attempt do the locks go.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use mala_gate::RepoPath;
use mala_issues::Label;
use serde_json::json;

use super::Clerk;
use crate::State;
use crate::note::{self, Handoff};
use crate::ports::{Attempt, Ending, Finish, Interruption, Judgement, PortError};
use crate::range;
use crate::salvage::{self, Before, LeftOut, SavedRef, Staged, Unlike};

/// How often saving work is tried, and how long to wait in between.
const SALVAGE_TRIES: u32 = 5;
const SALVAGE_PAUSE: Duration = Duration::from_millis(200);

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

/// Work that was taken out of the checkout, or why it could not be.
#[derive(Default)]
struct Salvaged {
    files: Vec<RepoPath>,
    /// More than one if somebody wrote to the files between two tries.
    saved: Vec<SavedRef>,
    /// What was staged and is not in the others.
    staged: Vec<SavedRef>,
    not_saved: Option<String>,
    /// What cannot be read, and is still in the checkout.
    left_out: Vec<LeftOut>,
}

impl Salvaged {
    /// What is to be said of files that nobody has committed.
    fn left_over(&self) -> Option<String> {
        let saved = self.saved.iter().map(|saved| {
            format!(
                " It left uncommitted files, which were saved to {saved}.\n\
                 To get them back, at the top of the checkout: {}\n",
                saved.apply_command()
            )
        });
        let left_out = (!self.left_out.is_empty()).then(|| note::left_out(&self.left_out));
        let told: String = saved.chain(left_out).collect();
        (!told.is_empty()).then_some(told)
    }

    fn handed(self, commits: Vec<String>, is_blocked: bool) -> Handed {
        let files = self.files.iter().filter(|_| !self.saved.is_empty()).map(RepoPath::to_text).collect();
        let saved_ref = self.saved.into_iter().next().map(|saved| saved.name);
        Handed { saved_ref, files, commits, is_blocked }
    }
}

impl Clerk {
    /// The gate has passed: the issue is closed. What the agent left uncommitted is saved and taken away, so that the
    /// next agent finds a clean checkout.
    pub(crate) fn accept(&self, given: &Given) -> Result<Handed, PortError> {
        let attempt = &given.attempt;
        let salvaged = self.salvage(given, "left over after the issue was done");
        let reason = match (&given.judgement.outcome, given.judgement.commits.as_slice()) {
            (Some(outcome), _) => outcome.clone(),
            (None, commits) => format!("committed as {}", commits.join(", ")),
        };
        let note = salvaged.left_over().map(|left| {
            format!("Attempt {} by `{}` is done ({reason}).{left}", attempt.number, attempt.agent)
        });
        self.tell_tracker(attempt, note.as_deref(), &Ending::Done { reason: reason.clone() })?;
        let handed = salvaged.handed(given.judgement.commits.clone(), false);
        let finish = finish(given, Ending::Done { reason }, note, handed.saved_ref.clone());
        self.finish(attempt, &finish)?;
        Ok(handed)
    }

    /// The attempt has failed: its work is saved, its issue gets a note and goes back.
    pub(crate) fn hand_over(&self, given: &Given) -> Result<Handed, PortError> {
        let attempt = &given.attempt;
        let salvaged = self.salvage(given, &given.reason);
        let commits = self.commits(given);
        let note = note::text(&Handoff {
            attempt,
            reason: &given.reason,
            failed: &given.judgement.failed,
            files: &salvaged.files,
            saved: &salvaged.saved,
            staged: &salvaged.staged,
            not_saved: salvaged.not_saved.as_deref(),
            left_out: &salvaged.left_out,
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
        let handed = salvaged.handed(commits, is_blocked);
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

    /// Saves and restores the agent's files. Somebody may kill the gits that do it, so it is tried more than once: what stays
    /// in the checkout would be taken for somebody else's work. In the end the note says that it is still there.
    fn salvage(&self, given: &Given, reason: &str) -> Salvaged {
        let mut salvaged = Salvaged::default();
        for tried in 1..=SALVAGE_TRIES {
            // The agent's git may have been killed with it, and what that left would be in the way of ours.
            self.launcher.sweep();
            let Err(error) = self.try_salvage(given, reason, &mut salvaged) else {
                salvaged.not_saved = None;
                break;
            };
            let causes = std::iter::successors(Some(&*error as &dyn std::error::Error), |it| it.source());
            salvaged.not_saved = Some(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "));
            if tried < SALVAGE_TRIES {
                thread::sleep(SALVAGE_PAUSE);
            }
        }
        if let Some(why) = &mut salvaged.not_saved
            && let Ok(Some(kept)) = self.keep_before(&given.attempt)
        {
            why.push_str(&format!("; what people had left uncommitted before is in {kept}"));
        }
        salvaged
    }

    /// What people had left uncommitted, for one of them to put back by hand.
    fn keep_before(&self, attempt: &Attempt) -> Result<Option<String>, PortError> {
        let name = format!("{}.before", salvage::attempt_ref(&attempt.issue, attempt.number));
        Ok(Before::of(&self.repo, &attempt.run, &attempt.agent)?.keep_as(&self.repo, name)?)
    }

    fn try_salvage(&self, given: &Given, reason: &str, salvaged: &mut Salvaged) -> Result<(), PortError> {
        let attempt = &given.attempt;
        let changes = Staged::of(self.repo.scope(), &attempt.agent).changes(&self.repo)?;
        let before = Before::of(&self.repo, &attempt.run, &attempt.agent)?;
        let mut files = self.own_files(attempt, &before)?;
        salvaged.left_out = salvage::unreadable(&self.repo, &files);
        salvaged.left_out.iter().for_each(|left| _ = files.remove(&left.path));
        let unlike = Unlike::of(&self.repo, &files, &before)?;
        salvaged.files = unlike.all().into_iter().collect();
        let entries = salvage::staged_by(&self.repo, &changes)?;
        let staged = unlike.staged.union(&entries).cloned().collect();
        (salvaged.saved, salvaged.staged) = self.save(attempt, reason, &unlike.files, &staged)?;
        let mut changed = BTreeSet::new();
        for saved in salvaged.saved.iter().chain(&salvaged.staged) {
            changed.extend(saved.files(&self.repo)?);
        }
        salvaged.files = changed.into_iter().collect();
        salvage::restore(&self.repo, &self.owner, &unlike.all(), &before)?;
        salvage::restore_staged(&self.repo, &self.owner, &entries, &changes, attempt.head.as_ref())?;
        self.forget_unfinished(attempt)
    }

    /// Nothing was under way when the agent began. What is now may be a person's, unless the agent had the whole checkout.
    fn forget_unfinished(&self, attempt: &Attempt) -> Result<(), PortError> {
        if self.repo.unfinished()?.is_some() && self.ledger.held_everything(attempt)? {
            salvage::forget_unfinished(&self.repo)?;
        }
        Ok(())
    }

    /// True if the attempt's agent has left something to save.
    pub(super) fn has_left_work(&self, attempt: &Attempt) -> Result<bool, PortError> {
        let before = Before::of(&self.repo, &attempt.run, &attempt.agent)?;
        let files = self.own_files(attempt, &before)?;
        Ok(!Unlike::of(&self.repo, &files, &before)?.is_empty())
    }

    /// What the agent may have changed: its own files that differ from the last commit, or were a person's before. Git says
    /// nothing of a person's file that is gone or that the agent has made what the last commit holds.
    fn own_files(&self, attempt: &Attempt, before: &Before) -> Result<BTreeSet<RepoPath>, PortError> {
        let mut files = salvage::dirty(&self.repo)?;
        files.extend(before.files(&self.repo)?);
        self.own(attempt, files)
    }

    /// Saves what the agent has left at `files`, and what it has staged at `staged`. Gives all that is saved of the attempt,
    /// also by an earlier try and by whoever needed its files before it could be ended.
    fn save(
        &self,
        attempt: &Attempt,
        reason: &str,
        files: &BTreeSet<RepoPath>,
        staged: &BTreeSet<RepoPath>,
    ) -> Result<(Vec<SavedRef>, Vec<SavedRef>), PortError> {
        let Attempt { issue, agent, number, .. } = attempt;
        let name = salvage::attempt_ref(issue, *number);
        let message = format!("{issue}: work of attempt {number} by {agent}\n\n{reason}\n");
        let earlier = self.with_earlier(attempt, &name, None)?;
        let now = salvage::save(&self.repo, &name, &self.still_to_save(&earlier, files)?, &message)?;
        let saved = self.with_earlier(attempt, &name, now)?;
        let name = format!("{name}.staged");
        let now = salvage::save_staged(&self.repo, &name, staged, &saved, &message)?;
        Ok((saved, self.with_earlier(attempt, &name, now)?))
    }

    /// Without those that an earlier try has saved and taken away, and could not give back.
    fn still_to_save(
        &self,
        earlier: &[SavedRef],
        files: &BTreeSet<RepoPath>,
    ) -> Result<BTreeSet<RepoPath>, PortError> {
        let mut files = files.clone();
        for saved in earlier {
            let known = saved.files(&self.repo)?;
            let is_there = |path: &RepoPath| path.within(self.repo.root()).symlink_metadata().is_ok();
            files.retain(|path| is_there(path) || !known.contains(path));
        }
        Ok(files)
    }

    fn with_earlier(
        &self,
        attempt: &Attempt,
        name: &str,
        now: Option<SavedRef>,
    ) -> Result<Vec<SavedRef>, PortError> {
        let mut all = salvage::saved_as(&self.repo, name, attempt.claimed_at)?;
        all.extend(now.filter(|now| !all.contains(now)));
        Ok(all)
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
