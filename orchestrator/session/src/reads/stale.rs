//! Whether others have changed a file since an agent has seen it, who, and what.

use std::time::Duration;

use mala_core::text::{plain, span};
use mala_core::{AgentId, Fence, Key, RunId, Scope, Timestamp};
use mala_logs::secrets::mask;
use mala_store::{ForeignChange, ForeignChangeKind, Store, StoreError};
use similar::TextDiff;

use super::{Conversation, FileContent, LastRead, Reads};
use crate::Ignored;
use crate::reserved_refs::branch_of;

/// How long a difference is looked for. What is found until then is correct, if not the shortest.
const DIFF_TIMEOUT: Duration = Duration::from_millis(50);

/// Lines around each change.
const DIFF_CONTEXT_LINES: usize = 2;

/// One agent that is about to change files, seen from the store.
pub(crate) struct Look<'a> {
    pub(crate) scope: &'a Scope,
    pub(crate) store: &'a mut Store,
    pub(crate) agent: &'a AgentId,
    /// The newest event when the call began: a lock that is newer was taken for this very call.
    pub(crate) call_began: Fence,
}

/// What an agent's knowledge of a file is worth.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It was never seen to look at the file.
    Unseen,
    /// All that has changed since is its own doing.
    Fresh,
    Stale(Box<Stale>),
}

/// What others have landed in a file that nobody saw the agent look at, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnseenChange {
    pub(crate) since: &'static str,
    pub(crate) by: String,
}

/// A file that others have changed since an agent has seen it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    pub(crate) key: Key,
    /// Nothing for a person, or a program that is no agent's.
    pub(crate) by: Option<ForeignChange>,
    pub(crate) before: FileContent,
    pub(crate) now: FileContent,
}

impl Look<'_> {
    /// Judges a file that the agent holds by now.
    pub(crate) fn freshness(
        &mut self,
        reads: &Reads,
        reader: &Conversation,
        key: &Key,
    ) -> Result<Freshness, StoreError> {
        match reads.last(reader, key) {
            Some(known) => self.compare(reads, key, known),
            None => Ok(Freshness::Unseen),
        }
    }

    /// What others have landed in a file since the agent began and since it last held it, where nobody saw it look at the file.
    pub(crate) fn landed_unseen(
        &mut self,
        key: &Key,
        run: Option<&RunId>,
    ) -> Result<Option<UnseenChange>, StoreError> {
        let Some(began) = self.store.began(self.agent, run)? else { return Ok(None) };
        let branch = branch_of(self.scope);
        let history = self.store.file_history(self.agent, key, (began, branch.as_deref()))?;
        // A lock that was there before this call kept others from landing it.
        if history.held_since.is_some_and(|since| since <= self.call_began) {
            return Ok(None);
        }
        let had_it = history.last_hold.map(|end| end.event);
        let is_landed = |change: &ForeignChange| matches!(change.kind, ForeignChangeKind::Landed { .. });
        let landed = history.foreign.filter(|change| is_landed(change) && had_it < Some(change.event));
        let since = if had_it.is_some() { "since you last wrote it" } else { "since you began" };
        Ok(landed.map(|change| UnseenChange { since, by: changed_by(Some(&change)) }))
    }

    pub(crate) fn compare(
        &mut self,
        reads: &Reads,
        key: &Key,
        known: LastRead,
    ) -> Result<Freshness, StoreError> {
        // What cannot be read cannot be compared.
        let Some(now) = reads.content(key) else { return Ok(Freshness::Fresh) };
        if known.content.is_same(&now) {
            return Ok(Freshness::Fresh);
        }
        let branch = branch_of(self.scope);
        let history = self.store.file_history(self.agent, key, (known.as_of, branch.as_deref()))?;
        // It has been the agent's alone since it looked: its formatter did it, or its script.
        let is_own = history.held_since.is_some_and(|since| since <= known.as_of);
        let had_it =
            history.last_hold.is_some() || history.held_since.is_some_and(|since| since <= self.call_began);
        let is_fresh = is_own || (history.foreign.is_none() && had_it);
        if is_fresh || Ignored::in_checkout(self.scope).contains(key.as_path()) {
            return Ok(Freshness::Fresh);
        }
        let stale = Stale { key: key.clone(), by: history.foreign, before: known.content, now };
        Ok(Freshness::Stale(Box::new(stale)))
    }
}

/// "`a` has changed since you read it, by bd-3 (landed 2m ago)".
impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.now == FileContent::Absent { "was deleted" } else { "has changed" };
        write!(f, "`{}` {what} since you read it, {}", plain(&self.key), changed_by(self.by.as_ref()))
    }
}

/// "by bd-3 (landed 2m ago)".
pub(crate) fn changed_by(change: Option<&ForeignChange>) -> String {
    let Some(change) = change else { return "by a person or a program outside of mala".to_owned() };
    let ago = span(Timestamp::now().since(change.at));
    match &change.kind {
        ForeignChangeKind::Landed { issue: Some(issue), .. } => format!("by {issue} (landed {ago} ago)"),
        ForeignChangeKind::Landed { agent: Some(agent), .. } => format!("by `{agent}` (landed {ago} ago)"),
        ForeignChangeKind::Landed { entry, .. } => format!("by queue entry {entry} (landed {ago} ago)"),
        ForeignChangeKind::Held { agent } => format!("by `{agent}`, which held it until {ago} ago"),
    }
}

/// What others have changed, as a unified diff of at most about `max_bytes`, secrets masked. Nothing if the texts are not known.
pub(crate) fn difference(stale: &Stale, max_bytes: usize) -> Option<String> {
    let (before, now) = (stale.before.text()?, stale.now.text()?);
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before, now);
    let mut unified = diff.unified_diff();
    let text =
        unified.context_radius(DIFF_CONTEXT_LINES).header("as you read it", "as it is now").to_string();
    let text = mask(&text);
    let end = text.floor_char_boundary(max_bytes.min(text.len()));
    if end == text.len() {
        return Some(text.into_owned());
    }
    let shown = text[..end].rfind('\n').map_or(&text[..end], |line| &text[..=line]);
    let left_out = text[shown.len()..].lines().count();
    Some(format!("{shown}[{left_out} more lines]\n"))
}
