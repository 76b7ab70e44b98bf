//! What git would change of files that others hold without touching the files: their entries in the index, and what a commit
//! says about them.

use std::path::Path;

use mala_agents::git::Commit;
use mala_core::text::causes;
use mala_core::{Conflict, Target, Want};
use mala_git::RepoPath;
use mala_sandbox::{Action, Attempt, EntryKind, Ruling, Start};
use mala_store::{EventKind, StoreError};
use serde_json::json;

use super::agent_state::AgentState;
use super::{StoreGuard, refuse, refused};
use crate::refusal;
use crate::wants::{key, want_of};

/// So many files are named in a refusal.
const MAX_NAMED_FILES: usize = 3;
const OWN_FILES: &str =
    "name your own files: git add FILE, git restore --staged FILE, mala commit -m 'what changes'";

impl StoreGuard {
    /// Why a file of git must not be replaced: the index would say something else about files of others, or the branch.
    pub(super) fn foreign_replacement(&self, from: &Path, to: &Path) -> Option<String> {
        let what = match () {
            () if self.git_guard.is_index(to) => "what is staged of",
            () if self.git_guard.is_branch(to) => "what the branch has of",
            () => return None,
        };
        if !self.must_look() {
            return None;
        }
        let found = self.git_guard.changed_by(from, to).map_err(|error| causes(&error));
        let foreign = found.and_then(|paths| self.foreign(&paths).map_err(|error| causes(&error)));
        match foreign {
            Ok(foreign) => {
                foreign.map(|foreign| format!("this git would change {what} {foreign}; {OWN_FILES}"))
            }
            Err(why) => Some(format!("cannot find out what this git would change: {why}")),
        }
    }

    /// Why this `git commit` must not start: it would commit what others hold.
    pub(super) fn foreign_commit(&self, start: &Start<'_>, commit: &Commit) -> Option<String> {
        // Before the index is read: what is staged from now on is noticed when the commit comes to the branch.
        let seen = self.git_guard.sees_index(start);
        let refusal = self.must_look().then(|| self.would_commit(start, commit)).flatten();
        self.git_guard.has_judged(start, seen);
        refusal
    }

    fn would_commit(&self, start: &Start<'_>, commit: &Commit) -> Option<String> {
        let found = self.git_guard.committed(start, commit).map_err(|error| causes(&error));
        let foreign = found.and_then(|paths| self.foreign(&paths).map_err(|error| causes(&error)));
        match foreign {
            Ok(foreign) => foreign.map(|foreign| {
                format!("it would commit {foreign}; commit your own: mala commit -m 'what changes'")
            }),
            Err(why) => Some(format!("what it would commit cannot be found out: {why}")),
        }
    }

    /// False if nothing is anybody else's, or all is this agent's.
    fn must_look(&self) -> bool {
        let Ok(mut state) = self.state.lock() else { return true };
        let is_alone = state.others().is_some_and(|others| others.are_none());
        !is_alone && !self.holds_everything(&mut state)
    }

    /// Those of these paths that others hold, in words.
    fn foreign(&self, paths: &[RepoPath]) -> Result<Option<String>, StoreError> {
        let Ok(mut state) = self.state.lock() else { return Ok(Some("files, it seems".to_owned())) };
        let conflicts = self.conflicts(&mut state, paths)?;
        let mut sentences: Vec<String> = Vec::new();
        for conflict in conflicts.iter().take(MAX_NAMED_FILES) {
            let held = refusal::held(&mut state.store, &self.party.agent, conflict);
            sentences.push(held.replacen(" is held by", ", held by", 1));
        }
        let more = conflicts.len().saturating_sub(MAX_NAMED_FILES);
        if more > 0 {
            sentences.push(format!("and {more} more"));
        }
        Ok((!sentences.is_empty()).then(|| sentences.join(", ")))
    }

    fn conflicts(&self, state: &mut AgentState, paths: &[RepoPath]) -> Result<Vec<Conflict>, StoreError> {
        let agent = &self.party.agent;
        let keys = paths.iter().map(|path| self.git_guard.key(path));
        let mut wants: Vec<Want> = keys.map(|key| want_of(&key)).collect();
        if let Some(others) = state.others() {
            wants.retain(|want| others.hold(agent, want));
        }
        if wants.is_empty() { Ok(Vec::new()) } else { state.store.check(agent, &wants) }
    }

    /// Refuses a change to a file of git, and records that.
    pub(super) fn refuse_git(&self, pid: u32, path: &Path, message: &str) -> Ruling {
        let ruling = refuse(message);
        if let (Ruling::Refuse { message }, Ok(mut state)) = (&ruling, self.state.lock()) {
            let name = path.strip_prefix(self.scope.root()).unwrap_or(path);
            let attempt = Attempt { pid, action: Action::Rename, paths: &[name], kind: EntryKind::File };
            let refused = refused(&attempt);
            let detail = json!({ "program": refused.program, "files": refused.what, "said": message });
            let target = Target::File(key(name));
            state.record_refusal(&self.party, EventKind::WriteRefused, Some(&target), &detail);
            state.note_refusal(refused, message);
        }
        ruling
    }
}
