//! Plain commits on a branch whose queue has lost to them too often.

use mala_core::shell::word;
use mala_git::Repo;
use mala_landing::queue::is_worked;
use mala_store::{EntryFilter, Store};

use crate::commands::queue::short;
use crate::error::CliError;

/// An entry that has lost so many rounds to other people's commits is let through first.
const MAX_OVERTAKEN: u32 = 2;

/// Refuses a commit on the branch that is checked out while an entry that was overtaken too often is about to land there.
pub(crate) fn refuse_overtaking(repo: &Repo, store: &mut Store) -> Result<(), CliError> {
    let Some(branch) = repo.branch()? else { return Ok(()) };
    let filter = EntryFilter { branch: Some(branch.clone()), open: true, ..EntryFilter::default() };
    let overtaken = store.entries(&filter)?.into_iter().find(|entry| entry.overtaken >= MAX_OVERTAKEN);
    let Some(entry) = overtaken.filter(|_| is_worked(repo, &branch)) else { return Ok(()) };
    let name = short(&branch);
    let whose = entry.issue.as_ref().map(|issue| format!(" ({issue})")).unwrap_or_default();
    Err(CliError::refused(format!(
        "entry {}{whose} of the landing queue has lost {} rounds to commits that were made on `{name}` while it was validated, so \
         `{name}` takes no others until it has landed: see mala queue",
        entry.id, entry.overtaken,
    ))
    .hint(match &entry.issue {
        Some(issue) => format!("wait until it has landed: mala wait {}", word(issue.as_str())),
        None => format!("look at it: mala queue show {}", entry.id),
    })
    .hint(format!(
        "or offer it from a branch of its own: git switch -c offered && git commit -m 'what changes' && mala land offered --target {}",
        word(&name)
    ))
    .hint("a commit that cannot wait makes it lose once more: git commit --no-verify"))
}
