//! What an agent's git was in the middle of.

use std::fs;
use std::os::unix::fs::MetadataExt;

use mala_core::Timestamp;
use mala_gate::Repo;

use super::SalvageError;
use crate::git::Git;

/// What says that something is under way, and the command that forgets it and touches neither index nor files. A rebase and a
/// bisection have left their branch: where to go from there is for a person to say.
const FORGET: [(&str, &str); 3] =
    [("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")];

/// A merge, cherry-pick or revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    command: &'static str,
    /// When it began.
    pub since: Timestamp,
}

impl Unfinished {
    pub fn find(repo: &Repo) -> Result<Option<Self>, SalvageError> {
        for sign in ["rebase-merge", "rebase-apply"] {
            if repo.git_path(sign)?.exists() {
                return Ok(None);
            }
        }
        for (sign, command) in FORGET {
            if let Ok(found) = fs::metadata(repo.git_path(sign)?) {
                let since = Timestamp::from_millis(found.mtime() * 1000 + found.mtime_nsec() / 1_000_000);
                return Ok(Some(Self { command, since }));
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
