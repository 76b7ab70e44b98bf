//! What an agent has left uncommitted: saved to a ref, and taken out of the checkout.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use mala_core::Attempt;
use mala_gate::bases_of;
use mala_git::RepoPath;
use mala_git::salvage::{self, Before, Changes, SavedRef, Staged, Unfinished, Unlike};

use super::{BlockingOps, EndResult};
use crate::error::{Result, causes};
use crate::note::{Leftovers, Trouble};

/// How often saving work is tried, and how long to wait in between.
const MAX_SALVAGE_TRIES: u32 = 5;
const SALVAGE_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// What is to be given back.
struct Found {
    changes: Changes,
    before: Before,
    files: BTreeSet<RepoPath>,
    /// What the agent has staged.
    entries: BTreeSet<RepoPath>,
}

impl BlockingOps {
    pub(super) fn end_result(
        &self,
        attempt: &Attempt,
        left: &Leftovers,
        commits: Vec<String>,
        is_blocked: bool,
    ) -> EndResult {
        let saved_ref = left.saved.first().or(left.offer.as_ref()).map(|saved| saved.name.clone());
        // What may still be there is not said to be gone.
        let files = self.taken_out(attempt, left).unwrap_or_default();
        let files = files.iter().map(RepoPath::to_text).collect();
        EndResult { saved_ref, files, commits, is_blocked, notices: Vec::new() }
    }

    /// What is in the first ref and in the checkout no more.
    fn taken_out(&self, attempt: &Attempt, left: &Leftovers) -> Result<BTreeSet<RepoPath>> {
        let Some(saved) = left.saved.first() else { return Ok(BTreeSet::new()) };
        let mut files = saved.files(&self.repo)?;
        if left.trouble.is_some() {
            let still = self.unlike(attempt)?.all();
            files.retain(|path| !still.contains(path));
        }
        Ok(files)
    }

    /// Saves and restores the agent's files. Somebody may kill the gits that do it, so it is tried more than once: what stays
    /// in the checkout would be taken for somebody else's work. In the end the note says that it is still there.
    pub(super) fn salvage(&self, attempt: &Attempt, reason: &str) -> Leftovers {
        let mut left = Leftovers::default();
        for tried in 1..=MAX_SALVAGE_TRIES {
            if let Err(error) = self.leave(attempt) {
                left.trouble = Some(Trouble::NotSaved(causes(&error)));
                break;
            }
            // The agent's git may have been killed with it, and what that left would be in the way of ours.
            self.sessions.sweep();
            left.trouble = self.try_salvage(attempt, reason, &mut left).err();
            if left.trouble.is_none() {
                break;
            }
            if tried < MAX_SALVAGE_TRIES {
                thread::sleep(SALVAGE_RETRY_PAUSE);
            }
        }
        if let Some(Trouble::NotSaved(why) | Trouble::NotRestored(why)) = &mut left.trouble
            && let Ok(Some(kept)) = self.keep_before(attempt)
        {
            why.push_str(&format!("; what people had left uncommitted before is in {kept}"));
        }
        left
    }

    fn try_salvage(
        &self,
        attempt: &Attempt,
        reason: &str,
        left: &mut Leftovers,
    ) -> std::result::Result<(), Trouble> {
        let found =
            self.find_and_save(attempt, reason, left).map_err(|error| Trouble::NotSaved(causes(&error)))?;
        self.restore(attempt, &found).map_err(|error| Trouble::NotRestored(causes(&error)))
    }

    /// What people had left uncommitted, for one of them to put back by hand.
    fn keep_before(&self, attempt: &Attempt) -> Result<Option<String>> {
        let name = format!("{}.before", salvage::attempt_ref(&attempt.issue, attempt.number));
        Ok(Before::of(&self.repo, &attempt.run, &attempt.agent)?.keep_as(&self.repo, name)?)
    }

    /// Finds what the agent has left, and saves it.
    fn find_and_save(&self, attempt: &Attempt, reason: &str, left: &mut Leftovers) -> Result<Found> {
        let changes = Staged::of(self.repo.scope(), &attempt.agent).changes(&self.repo)?;
        let before = Before::of(&self.repo, &attempt.run, &attempt.agent)?;
        let mut files = self.own_files(attempt, &before)?;
        left.left_out = salvage::unreadable(&self.repo, &files);
        left.left_out.iter().for_each(|left| _ = files.remove(&left.path));
        let unlike = Unlike::of(&self.repo, &files, &before)?;
        left.files = unlike.all().into_iter().collect();
        let entries = salvage::staged_by(&self.repo, &changes)?;
        let staged = unlike.staged.union(&entries).cloned().collect();
        (left.saved, left.staged) = self.save(attempt, reason, &unlike.files, &staged)?;
        let mut changed = BTreeSet::new();
        for saved in left.saved.iter().chain(&left.staged) {
            changed.extend(saved.files(&self.repo)?);
        }
        left.files = changed.into_iter().collect();
        Ok(Found { changes, before, files: unlike.all(), entries })
    }

    fn restore(&self, attempt: &Attempt, found: &Found) -> Result<()> {
        let Found { changes, before, files, entries } = found;
        let restored = salvage::restore(&self.repo, &self.options.owner, files, before);
        let head = attempt.head.as_ref();
        restored.and(salvage::restore_staged(&self.repo, &self.options.owner, entries, changes, head))?;
        self.forget_unfinished(attempt)
    }

    /// Nothing was under way when the agent began. What is now may be a person's, unless the agent had the whole checkout.
    fn forget_unfinished(&self, attempt: &Attempt) -> Result<()> {
        match Unfinished::find(&self.repo)? {
            Some(found) if self.held_everything(attempt, found.since)? => Ok(found.forget(&self.repo)?),
            _ => Ok(()),
        }
    }

    /// True if the attempt's agent has left something to save.
    pub(super) fn has_left_work(&self, attempt: &Attempt) -> Result<bool> {
        Ok(!self.unlike(attempt)?.is_empty())
    }

    fn unlike(&self, attempt: &Attempt) -> Result<Unlike> {
        let before = Before::of(&self.repo, &attempt.run, &attempt.agent)?;
        let files = self.own_files(attempt, &before)?;
        Ok(Unlike::of(&self.repo, &files, &before)?)
    }

    /// What the agent may have changed: its own files that differ from the last commit, or were a person's before. Git says
    /// nothing of a person's file that is gone or that the agent has made what the last commit holds.
    pub(super) fn own_files(&self, attempt: &Attempt, before: &Before) -> Result<BTreeSet<RepoPath>> {
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
    ) -> Result<(Vec<SavedRef>, Vec<SavedRef>)> {
        let name = salvage::attempt_ref(&attempt.issue, attempt.number);
        let message = salvage::work_message(attempt, reason);
        let earlier = self.with_earlier(attempt, &name, None)?;
        let files = self.still_to_save(attempt, &earlier, files)?;
        let bases = bases_of(&self.repo, &mut *self.store()?, &files)?;
        let now = salvage::save_since(&self.repo, &bases, &name, (&files, &message))?;
        // Nothing was written, so the refs are as they were.
        let saved = if now.is_none() { earlier } else { self.with_earlier(attempt, &name, now)? };
        let name = format!("{name}.staged");
        let now = salvage::save_staged(&self.repo, &name, staged, &saved, &message)?;
        Ok((saved, self.with_earlier(attempt, &name, now)?))
    }

    /// Without what was offered as it is, and those that an earlier try has saved and taken away, and could not give back.
    fn still_to_save(
        &self,
        attempt: &Attempt,
        earlier: &[SavedRef],
        files: &BTreeSet<RepoPath>,
    ) -> Result<BTreeSet<RepoPath>> {
        let mut files = files.clone();
        if let Some(offer) = self.offer_of(attempt)? {
            let is_offered = salvage::held_like(&self.repo, &offer.commit, &offer.files(&self.repo)?)?;
            files.retain(|path| !is_offered.contains(path));
        }
        let is_aside = self.put_aside_before(attempt, &files)?;
        files.retain(|path| !is_aside.contains(path));
        for saved in earlier {
            let known = saved.files(&self.repo)?;
            let is_there = |path: &RepoPath| path.within(self.repo.root()).symlink_metadata().is_ok();
            files.retain(|path| is_there(path) || !known.contains(path));
        }
        Ok(files)
    }

    fn with_earlier(&self, attempt: &Attempt, name: &str, now: Option<SavedRef>) -> Result<Vec<SavedRef>> {
        let mut all = salvage::saved_as(&self.repo, name, Some(&attempt.run))?;
        all.extend(now.filter(|now| !all.contains(now)));
        Ok(all)
    }
}
