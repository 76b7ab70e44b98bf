//! Work on its way to the branch: out of the checkout while it waits in the landing queue, back when it is rejected.
//!
//! The row in the store comes first and says in which direction things go, so each step may be repeated after a kill. While an
//! entry is open its work is in the candidate and not in the checkout.

use std::collections::{BTreeMap, BTreeSet};

use mala_core::{
    Attempt, AttemptId, AttemptState, CheckName, Entry, EntryState, Fence, IssueId, crash_point,
};
use mala_git::RepoPath;
use mala_git::salvage::{self, SavedRef};
use mala_git::saved_work::changed_after;
use mala_landing::offer::last_offer;
use mala_store::{EntryFilter, ForeignChangeKind, NewEntry};

use super::{AttemptEnd, BlockingOps, Cause, EndKind, EndResult};
use crate::error::{EngineError, Result};
use crate::event::Held;
use crate::note::{Leftovers, Trouble};
use crate::validator::{FailedCheck, Judgement, Offer};

/// What became of an offer that no job waits for.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// It is on the branch, as this commit.
    Landed(String),
    /// Why it is not, as the end of a sentence.
    Rejected(String),
}

/// Work that waits in the queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) entry: Entry,
    pub(crate) checkout: CheckoutState,
}

/// Whether everything of an attempt is out of the checkout while its work waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CheckoutState {
    #[default]
    Restored,
    /// Some files could not be restored; they are named when the attempt ends.
    Unrestored,
}

/// Whether work that was rejected is back in the checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PutBack {
    InPlace,
    /// The branch has changed its files since, or somebody else has.
    Overtaken,
    /// Others hold these of its files, which were free since the offer.
    Held(Vec<Held>),
}

impl BlockingOps {
    /// What the attempt has offered last.
    pub(crate) fn offer_of(&self, attempt: &Attempt) -> Result<Option<SavedRef>> {
        let last = last_offer(&self.repo, attempt)?;
        Ok(last.map(|pinned| SavedRef { name: pinned.name, commit: pinned.commit }))
    }

    /// The entries of an attempt, oldest first.
    pub(crate) fn entries_of(&self, attempt: &Attempt) -> Result<Vec<Entry>> {
        let filter = EntryFilter { attempt: Some(attempt.id), ..EntryFilter::default() };
        let mut entries = self.store()?.entries(&filter)?;
        entries.sort_unstable_by_key(|entry| entry.id);
        Ok(entries)
    }

    /// Makes the entry and takes the work out of the checkout. May be repeated.
    pub(crate) fn enqueue(&self, attempt: &Attempt, offer: &Offer, priority: i64) -> Result<Queued> {
        let branch = self.repo.branch()?.ok_or(EngineError::NoBranch)?;
        let entry = self.store()?.enqueue(&NewEntry {
            branch,
            base: offer.base.clone(),
            head: offer.head.clone(),
            pin: offer.pin.clone(),
            issue: Some(attempt.issue.clone()),
            agent: Some(attempt.agent.clone()),
            run: Some(attempt.run.clone()),
            attempt: Some(attempt.id),
            priority,
        })?;
        crash_point("offer:queued");
        self.make_ready(attempt, entry)
    }

    /// Takes the work of an entry out of the checkout, unless that was done before.
    pub(super) fn make_ready(&self, attempt: &Attempt, entry: Entry) -> Result<Queued> {
        if entry.is_ready {
            if entry.frees_files {
                self.free_files(attempt)?;
            }
            return Ok(Queued { entry, checkout: CheckoutState::Restored });
        }
        let checkout = self.take_out(attempt)?;
        crash_point("offer:out");
        let files = self.keys_of(&entry)?;
        let why = match checkout {
            CheckoutState::Restored => self.why_free(&entry, &files)?,
            CheckoutState::Unrestored => None,
        };
        let Some(why) = why else {
            return Ok(Queued { entry: self.store()?.make_entry_ready(entry.id)?, checkout });
        };
        let entry = self.store()?.free_entry(entry.id, &files, &why)?;
        crash_point("offer:freed");
        self.free_files(attempt)?;
        crash_point("offer:free");
        Ok(Queued { entry, checkout })
    }

    /// Takes what the attempt has offered out of the checkout. What it has changed since is saved. A file that cannot be restored
    /// stays where it is: landing looks at what it would write, and the note names it.
    fn take_out(&self, attempt: &Attempt) -> Result<CheckoutState> {
        let offer = self.offer_of(attempt)?.map(|offer| changed_after(&offer.commit)).unwrap_or_default();
        let Leftovers { trouble, .. } = self.salvage(attempt, &offer);
        match trouble {
            None => Ok(CheckoutState::Restored),
            Some(Trouble::NotRestored(_)) => Ok(CheckoutState::Unrestored),
            Some(Trouble::NotSaved(why)) => Err(EngineError::StillInPlace(why)),
        }
    }

    /// Puts the work of a rejected offer back into the checkout, with what was changed after it.
    pub(crate) fn put_back_work(&self, attempt: &Attempt) -> Result<PutBack> {
        let Some(offer) = self.offer_of(attempt)? else { return Ok(PutBack::InPlace) };
        let was_freed = self.entries_of(attempt)?.pop().is_some_and(|entry| entry.frees_files);
        if was_freed {
            let all = self.offered_files(attempt)?;
            if !self.take_files(attempt, &all)? {
                return Ok(PutBack::Held(self.others_holding(attempt, &all)?));
            }
            crash_point("back:taken");
        }
        self.store()?.end_leaving(attempt.id)?;
        let (mut files, mut is_in_place) = (BTreeSet::new(), true);
        for saved in self.changed_later(attempt, &offer)?.iter().rev() {
            is_in_place &= salvage::put_in_place_without(&self.repo, saved, &files)?;
            files.extend(saved.files(&self.repo)?);
        }
        is_in_place &= salvage::put_in_place_without(&self.repo, &offer, &files)?;
        Ok(if is_in_place { PutBack::InPlace } else { PutBack::Overtaken })
    }

    /// All files of the work that the attempt has in the queue, or had there last.
    pub(super) fn offered_files(&self, attempt: &Attempt) -> Result<BTreeSet<RepoPath>> {
        let Some(offer) = self.offer_of(attempt)? else { return Ok(BTreeSet::new()) };
        let mut files = offer.files(&self.repo)?;
        for saved in self.changed_later(attempt, &offer)? {
            files.extend(saved.files(&self.repo)?);
        }
        Ok(files)
    }

    /// What was changed after the offer and saved. What was saved with an earlier one is older than this one.
    fn changed_later(&self, attempt: &Attempt, offer: &SavedRef) -> Result<Vec<SavedRef>> {
        let name = salvage::attempt_ref(&attempt.issue, attempt.number);
        let mut later = Vec::new();
        for saved in salvage::saved_as(&self.repo, &name, Some(&attempt.run))? {
            if self.repo.commit(&saved.commit)?.message.contains(&changed_after(&offer.commit)) {
                later.push(saved);
            }
        }
        Ok(later)
    }

    fn others_holding(&self, attempt: &Attempt, files: &BTreeSet<RepoPath>) -> Result<Vec<Held>> {
        let mut held = self.holders(&self.wants(files))?;
        held.retain(|held| held.by != attempt.agent);
        Ok(held)
    }

    /// What the attempt's agent has changed since it offered, or left out of the offer.
    pub(super) fn changed_since(&self, attempt: &Attempt, offer: &Offer) -> Result<Vec<RepoPath>> {
        let own = self.own_dirty_files(attempt)?;
        let offered = salvage::held_like(&self.repo, &offer.head, &own)?;
        Ok(own.difference(&offered).cloned().collect())
    }

    /// What has landed in these files since the attempt began, as far as the store knows.
    pub(crate) fn landed_in(
        &self,
        attempt: &Attempt,
        files: &[RepoPath],
    ) -> Result<BTreeMap<RepoPath, IssueId>> {
        let branch = self.repo.branch()?;
        let mut store = self.store()?;
        let began = store.began(&attempt.agent, Some(&attempt.run))?.unwrap_or(Fence(0));
        let mut landed = BTreeMap::new();
        for path in files {
            let since = (began, branch.as_deref());
            let foreign = store.file_history(&attempt.agent, &self.repo.key(path), since)?.foreign;
            if let Some(ForeignChangeKind::Landed { issue: Some(issue), .. }) = foreign.map(|last| last.kind)
            {
                landed.insert(path.clone(), issue);
            }
        }
        Ok(landed)
    }

    /// Ends an attempt whose offer was settled when nobody waited for it any more.
    pub(crate) fn settle(&self, attempt: &Attempt, fate: &Fate) -> Result<EndResult> {
        let mut end = AttemptEnd::cut_off(attempt.clone(), "", Cause::Failed);
        match fate {
            Fate::Landed(commit) => {
                end.kind = EndKind::Accept;
                end.judgement =
                    Judgement { accepted: true, commits: vec![commit.clone()], ..Judgement::default() };
            }
            Fate::Rejected(why) => {
                end.kind = EndKind::HandOver { reason: why.clone(), cause: Cause::Failed };
            }
        }
        self.end(&end)
    }

    /// Closes an issue whose work has landed although no attempt at it is under way.
    pub(crate) fn close_landed(&self, issue: &IssueId, fate: &Fate) -> Result<()> {
        let Fate::Landed(commit) = fate else { return Ok(()) };
        if !self.source.show(issue)?.is_closed() {
            self.source.close(issue, &format!("landed as {commit}"))?;
        }
        Ok(())
    }

    /// The same by its number.
    pub(crate) fn settle_attempt(&self, attempt: AttemptId, fate: &Fate) -> Result<()> {
        let attempt = self.store()?.attempt(attempt)?;
        if attempt.state.is_over() {
            // It was handed over, and a person has put its offer into the queue once more.
            return self.close_landed(&attempt.issue, fate);
        }
        self.settle(&attempt, fate).map(|_| ())
    }

    /// Open entries that are for issues, with why they wait.
    pub(crate) fn queued(&self) -> Result<Vec<(IssueId, String)>> {
        let open = EntryFilter { open: true, ..EntryFilter::default() };
        let entries = self.store()?.entries(&open)?;
        let told = |entry: Entry| {
            let why = entry.reason.map(|why| format!(", because {why}")).unwrap_or_default();
            let text =
                format!("its work waits in the landing queue as entry {}{why}: mala queue run", entry.id);
            Some((entry.issue?, text))
        };
        Ok(entries.into_iter().filter_map(told).collect())
    }

    /// What became of the attempt's offer, if that is known.
    pub(crate) fn fate(&self, attempt: &Attempt) -> Result<Option<Fate>> {
        Ok(self.entries_of(attempt)?.pop().and_then(|entry| fate_of(&entry)))
    }

    /// What the attempt has left, saved and out of the checkout. While its work is in the queue nothing of it is in the checkout,
    /// and what is changed there is somebody else's.
    pub(super) fn leftovers(&self, end: &AttemptEnd, reason: &str) -> Result<Leftovers> {
        let attempt = &end.attempt;
        if end.checkout == CheckoutState::Unrestored || !self.is_out(attempt)? {
            let mut left = self.salvage(attempt, reason);
            self.add_aside(attempt, &mut left)?;
            return Ok(left);
        }
        let name = salvage::attempt_ref(&attempt.issue, attempt.number);
        let saved = salvage::saved_as(&self.repo, &name, Some(&attempt.run))?;
        let mut files = BTreeSet::new();
        for saved in &saved {
            files.extend(saved.files(&self.repo)?);
        }
        let mut left = Leftovers { saved, files: files.into_iter().collect(), ..Leftovers::default() };
        self.add_aside(attempt, &mut left)?;
        Ok(left)
    }

    fn add_aside(&self, attempt: &Attempt, left: &mut Leftovers) -> Result<()> {
        for aside in self.aside_of(attempt)? {
            let files = aside.files(&self.repo)?;
            left.files
                .extend(files.into_iter().filter(|path| !left.files.contains(path)).collect::<Vec<_>>());
            left.saved.push(aside);
        }
        Ok(())
    }

    fn is_out(&self, attempt: &Attempt) -> Result<bool> {
        let is_offered = self.store()?.attempt(attempt.id)?.state == AttemptState::Offered;
        Ok(is_offered && self.entries_of(attempt)?.pop().is_some_and(|entry| entry.is_ready))
    }
}

/// What became of an offer, if that is known.
pub(super) fn fate_of(entry: &Entry) -> Option<Fate> {
    let why = || entry.reason.clone().unwrap_or_else(|| format!("its entry in the queue is {}", entry.state));
    match entry.state {
        EntryState::Landed => Some(Fate::Landed(entry.landed.as_ref().unwrap_or(&entry.head).to_string())),
        state if state.is_over() => Some(Fate::Rejected(why())),
        _ => None,
    }
}

/// What an agent is told that has changed files after its offer.
pub(super) fn changed_later(files: &[RepoPath]) -> FailedCheck {
    let files = files.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    FailedCheck {
        name: CheckName::CleanStatus,
        detail: format!(
            "{files} was changed and is not in your offer: offer again with `mala commit`, or restore it with \
             `git checkout HEAD -- FILE`; what you leave is saved and taken away"
        ),
        evidence: Vec::new(),
        output: None,
    }
}
