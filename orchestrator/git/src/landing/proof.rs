//! That a merge changed only what its candidate changed, line by line.

use std::collections::BTreeMap;

use super::{LandError, SUBMODULE, SYMLINK};
use crate::{Commit, FileChange, GitError, Oid, Repo, RepoPath, TreeEntry};

/// What is merged.
pub(super) struct Merge<'a> {
    pub(super) base: &'a Commit,
    pub(super) tip: &'a Commit,
    pub(super) head: &'a Commit,
    /// From `base` to `head`.
    pub(super) offered: &'a [FileChange],
}

/// Lines, and how often.
type Lines = BTreeMap<Vec<u8>, usize>;

/// Fails if `tree` differs from the tip by anything that the candidate did not change.
pub(super) fn prove_lines(repo: &Repo, merge: &Merge<'_>, tree: &Oid) -> Result<(), LandError> {
    let made = repo.tree_changes(&merge.tip.tree, tree)?;
    for change in &made {
        let Ok(at) = merge.offered.binary_search_by(|offered| offered.path.cmp(&change.path)) else {
            return Err(unproven(&change.path, "a change that the candidate does not have"));
        };
        prove_file(repo, merge, tree, (change, &merge.offered[at]))?;
    }
    // Where the tip stays as it is, it has to have everything that was offered.
    let is_made = |offered: &FileChange| made.binary_search_by(|made| made.path.cmp(&offered.path)).is_ok();
    let unmade: Vec<&FileChange> = merge.offered.iter().filter(|offered| !is_made(offered)).collect();
    let there = repo.tree_entries(tree, unmade.iter().map(|offered| &offered.path))?;
    for offered in unmade {
        let is_there = there.get(&offered.path) == offered.after.as_ref();
        if !is_there && !is_explained(repo, merge, tree, &offered.path)? {
            return Err(unproven(&offered.path, "less than the candidate has"));
        }
    }
    Ok(())
}

/// The files of which `onto` had all or a part already when the candidate was put on top of it as `commit`.
pub fn already_there(
    repo: &Repo,
    (base, head): (&Oid, &Oid),
    (onto, commit): (&Oid, &Oid),
) -> Result<Vec<RepoPath>, GitError> {
    let made = repo.changes_between(onto, commit)?;
    let mut found = Vec::new();
    for offered in repo.changes_between(base, head)? {
        let is_less = match made.iter().find(|made| made.path == offered.path) {
            None => true,
            Some(made) if *made == offered => false,
            Some(_) => {
                let wanted = Delta::between(repo, base, head, &offered.path)?.net();
                let done = Delta::between(repo, onto, commit, &offered.path)?.net();
                done.size() < wanted.size()
            }
        };
        if is_less {
            found.push(offered.path);
        }
    }
    Ok(found)
}

fn unproven(path: &RepoPath, what: &'static str) -> LandError {
    LandError::Unproven { path: path.clone(), what }
}

fn prove_file(
    repo: &Repo,
    merge: &Merge<'_>,
    tree: &Oid,
    (made, offered): (&FileChange, &FileChange),
) -> Result<(), LandError> {
    if made == offered {
        return Ok(());
    }
    let whole = || unproven(&made.path, "a content that neither side has");
    let (Some(after), Some(wanted)) = (&made.after, &offered.after) else { return Err(whole()) };
    if after.mode == SUBMODULE && after == wanted {
        // Git takes the one that has the other among its ancestors.
        return Ok(());
    }
    let sides = [&made.before, &made.after, &offered.before, &offered.after];
    let is_text = |entry: &TreeEntry| entry.mode != SYMLINK && entry.mode != SUBMODULE;
    if !sides.into_iter().flatten().all(is_text) {
        return Err(whole());
    }
    let keeps_mode = made.before.as_ref().is_some_and(|before| before.mode == after.mode);
    if !keeps_mode && after.mode != wanted.mode {
        return Err(unproven(&made.path, "a mode that neither side has"));
    }
    if is_explained(repo, merge, tree, &made.path)? {
        Ok(())
    } else {
        Err(unproven(&made.path, "lines that the candidate does not have"))
    }
}

/// True if the lines that come and go are the candidate's, and those of the candidate's that do not were the tip's already.
fn is_explained(repo: &Repo, merge: &Merge<'_>, tree: &Oid, path: &RepoPath) -> Result<bool, LandError> {
    let offered = Delta::between(repo, &merge.base.tree, &merge.head.tree, path)?;
    let made = Delta::between(repo, &merge.tip.tree, tree, path)?;
    let since = Delta::between(repo, &merge.base.tree, &merge.tip.tree, path)?;
    if [&offered, &made, &since].iter().any(|delta| delta.is_binary) {
        let held = repo.tree_entries(tree, [path])?;
        let wanted = repo.tree_entries(&merge.head.tree, [path])?;
        return Ok(since.is_empty() && held == wanted);
    }
    // A difference can often be told in several ways; what it comes to is the same in all of them.
    Ok(made.is_from(&offered, &since) || made.net().is_from(&offered.net(), &since.net()))
}

/// The lines that come and go from one version of a file to another.
#[derive(Default)]
struct Delta {
    added: Lines,
    removed: Lines,
    is_binary: bool,
}

impl Delta {
    fn between(repo: &Repo, before: &Oid, after: &Oid, path: &RepoPath) -> Result<Self, GitError> {
        let plain = ["-p", "-U0", "--text", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"];
        let call =
            repo.git("diff-tree").args(plain).args(["--diff-algorithm=myers", "--no-indent-heuristic"]);
        let output = call.arg(before).arg(after).arg("--").arg(path.as_path()).output()?;
        let mut delta = Self { is_binary: output.contains(&0), ..Self::default() };
        let lines = output.split(|byte| *byte == b'\n').skip_while(|line| !line.starts_with(b"@@ "));
        for line in lines {
            match line.split_first() {
                Some((b'+', line)) => *delta.added.entry(line.to_vec()).or_default() += 1,
                Some((b'-', line)) => *delta.removed.entry(line.to_vec()).or_default() += 1,
                _ => {}
            }
        }
        Ok(delta)
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    fn size(&self) -> usize {
        self.added.values().chain(self.removed.values()).sum()
    }

    /// True if this is part of what was offered, and the rest of that had happened already.
    fn is_from(&self, offered: &Self, since: &Self) -> bool {
        let is_part = |made: &Lines, offered: &Lines, since: &Lines| {
            contains(offered, made) && contains(since, &less(offered, made))
        };
        is_part(&self.added, &offered.added, &since.added)
            && is_part(&self.removed, &offered.removed, &since.removed)
    }

    /// Without what comes in one place and goes in another.
    fn net(&self) -> Self {
        let added = less(&self.added, &self.removed);
        Self { added, removed: less(&self.removed, &self.added), is_binary: self.is_binary }
    }
}

fn count(lines: &Lines, line: &[u8]) -> usize {
    lines.get(line).copied().unwrap_or(0)
}

fn contains(all: &Lines, part: &Lines) -> bool {
    part.iter().all(|(line, times)| *times <= count(all, line))
}

fn less(all: &Lines, part: &Lines) -> Lines {
    let left = all.iter().map(|(line, times)| (line.clone(), times.saturating_sub(count(part, line))));
    left.filter(|(_, times)| *times > 0).collect()
}
