//! What a person should know before agents begin. Nothing here keeps a run from beginning.

use mala_gate::hooks;
use mala_git::{Entry, Kind, State, salvage};

use crate::blocking::BlockingOps;
use crate::error::Result;

/// Files of a kind that are named at most.
const MAX_NAMED_FILES: usize = 5;

/// What is worth a warning, in words. What cannot be looked at now is worth none: whoever needs it says so.
pub(crate) fn cautions(ops: &BlockingOps) -> Vec<String> {
    unheld_files(ops).into_iter().chain(unreadable(ops)).chain(missing_hooks(ops)).collect()
}

fn unreadable(ops: &BlockingOps) -> Option<String> {
    let left_out = salvage::unreadable(&ops.repo, &salvage::dirty(&ops.repo).ok()?);
    let named = named(left_out.iter().map(ToString::to_string).collect());
    (!left_out.is_empty())
        .then(|| format!("cannot be read, so it is not put back if an agent changes it: {named}"))
}

fn unheld_files(ops: &BlockingOps) -> Option<String> {
    let (untracked, changed): (Vec<Entry>, Vec<Entry>) =
        unheld(ops).ok()?.into_iter().partition(|entry| entry.state == State::Untracked);
    let kinds = [("uncommitted changes", changed), ("untracked files", untracked)];
    let told: Vec<String> = kinds
        .iter()
        .filter(|(_, files)| !files.is_empty())
        .map(|(what, files)| {
            format!(
                "{what} that nobody holds: {}",
                named(files.iter().map(|file| file.path.to_text()).collect())
            )
        })
        .collect();
    let what_happens = if ops.options.allow_dirty {
        "an agent that changes one of these files offers all that is in it: commit or stash first (`git stash -u`)"
    } else {
        "no agent can offer one of these files: commit or stash first (`git stash -u`), or allow it with `--allow-dirty`"
    };
    (!told.is_empty()).then(|| format!("{}; {what_happens}", told.join("; ")))
}

/// Files with changes, and new ones, that are in nobody's hands.
fn unheld(ops: &BlockingOps) -> Result<Vec<Entry>> {
    let entries = ops.repo.status()?.entries.into_iter();
    let changed = entries.filter(|entry| entry.kind == Kind::File && entry.state != State::Unwatched);
    let mut unheld = Vec::new();
    for entry in changed {
        if ops.holders(&ops.wants([&entry.path]))?.is_empty() {
            unheld.push(entry);
        }
    }
    Ok(unheld)
}

pub(crate) fn missing_hooks(ops: &BlockingOps) -> Option<String> {
    let is_missing = hooks::installed(&ops.repo).ok()?.iter().any(|(_, is_there)| !is_there);
    is_missing.then(|| {
        "mala's hooks for git are not installed here: a plain `git commit` of an agent may carry a neighbour's staged files; \
         install them: mala init"
            .to_owned()
    })
}

pub(crate) fn named(mut files: Vec<String>) -> String {
    let more = files.len().saturating_sub(MAX_NAMED_FILES);
    files.truncate(MAX_NAMED_FILES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", files.join(", "))
}
