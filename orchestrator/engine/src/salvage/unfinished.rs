//! What an agent's git was in the middle of.

use mala_gate::Repo;

use super::SalvageError;
use crate::git::Git;

/// What says that something is under way, and the command that forgets it and touches neither index nor files. A rebase and a
/// bisection have left their branch: where to go from there is for a person to say.
const FORGET: [(&str, &str); 3] =
    [("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")];

/// Forgets a merge, cherry-pick or revert whose changes were taken out of the checkout: whoever commits next would conclude it
/// without them.
pub fn forget_unfinished(repo: &Repo) -> Result<(), SalvageError> {
    for sign in ["rebase-merge", "rebase-apply"] {
        if repo.git_path(sign)?.exists() {
            return Ok(());
        }
    }
    for (sign, command) in FORGET {
        if repo.git_path(sign)?.exists() {
            Git::at(repo.root()).run(&[command, "--quit"], b"")?;
        }
    }
    Ok(())
}
