//! What an agent's git was in the middle of.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use mala_core::Timestamp;

use super::SalvageError;
use crate::Repo;
use crate::retry::Git;

/// What says that something is under way, and the command that forgets it and touches neither index nor files. A rebase and a
/// bisection have left their branch: where to go from there is for a person to say.
const FORGET: [(&str, &str); 3] =
    [("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")];

/// The clock of files goes in steps of some milliseconds, and may be that much behind the one of locks: what an agent gave back just
/// before would seem to be its own still. Whoever merges has the checkout for longer.
const STEP: Duration = Duration::from_millis(10);

/// A merge, cherry-pick or revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    command: &'static str,
    /// When it had certainly begun.
    pub since: Timestamp,
}

impl Unfinished {
    pub fn find(repo: &Repo) -> Result<Option<Self>, SalvageError> {
        // They lie in the checkout's own git directory (`common_list` in git's `path.c`).
        let git_dir = repo.git_dir()?;
        if ["rebase-merge", "rebase-apply"].iter().any(|sign| git_dir.join(sign).exists()) {
            return Ok(None);
        }
        for (sign, command) in FORGET {
            if let Ok(found) = fs::metadata(git_dir.join(sign)) {
                let written = Timestamp::from_millis(found.mtime() * 1000 + found.mtime_nsec() / 1_000_000);
                return Ok(Some(Self { command, since: written.plus(STEP) }));
            }
        }
        Ok(None)
    }

    /// Forgets it when its changes were taken out of the checkout: whoever commits next would conclude it without them.
    pub fn forget(self, repo: &Repo) -> Result<(), SalvageError> {
        Git::at(repo.root()).run(&[self.command, "--quit"], b"")?;
        Ok(())
    }
}
