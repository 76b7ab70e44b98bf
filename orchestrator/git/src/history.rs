//! Commits, read as they are: replaced objects, grafts and settings of the repository do not change them.

use std::collections::{HashSet, VecDeque};
use std::iter;
use std::path::Path;

use mala_core::Timestamp;

use crate::call::{Call, nul_parts};
use crate::objects::TREE;
use crate::{GitError, Oid, Repo, RepoPath};

/// How many commits are looked at before git is asked about ancestors.
const MAX_NEAR_COMMITS: usize = 64;

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: Oid,
    pub tree: Oid,
    pub parents: Vec<Oid>,
    /// As the committer's clock said, or as the committer chose.
    pub committed_at: Timestamp,
    pub message: String,
}

/// What a commit, or the index, does to one path. Renames are a deletion and an addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: RepoPath,
    pub before: Option<TreeEntry>,
    pub after: Option<TreeEntry>,
}

/// What a tree holds at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// As git writes it: `100644`, `100755`, `120000` for a link, `160000` for a submodule.
    pub mode: String,
    pub oid: Oid,
}

impl FileChange {
    /// True if the file was there before and has another mode now.
    pub fn changes_mode(&self) -> bool {
        self.before.as_ref().zip(self.after.as_ref()).is_some_and(|(before, after)| before.mode != after.mode)
    }
}

impl Repo {
    /// The line of first parents that ends in `tip`, the newest first, without what `before` has.
    pub fn first_parents(
        &self,
        tip: &Oid,
        before: Option<&Oid>,
        longest: usize,
    ) -> Result<Vec<Commit>, GitError> {
        let count = format!("--max-count={longest}");
        let call = self.git("rev-list").args(["--first-parent", &count]).args(WHOLE).arg(tip);
        let call = before.map(|before| format!("^{before}")).into_iter().fold(call, Call::arg);
        parse_commits(&call.arg("--").output()?)
    }

    /// The line of first parents that ends in `tip`, the newest first, each commit read when it is asked for. It ends where a shallow
    /// clone does.
    pub fn first_parent_line<'a>(&'a self, tip: &Oid) -> impl Iterator<Item = Result<Commit, GitError>> + 'a {
        let (tip, mut next) = (tip.clone(), Some(tip.clone()));
        iter::from_fn(move || {
            let id = next.take()?;
            match self.commit(&id) {
                Ok(commit) => {
                    next = commit.parents.first().cloned();
                    Some(Ok(commit))
                }
                Err(GitError::Absent { .. }) if id != tip => None,
                Err(error) => Some(Err(error)),
            }
        })
    }

    /// What the commit changes against its first parent, so a merge is answerable for all it brings in.
    pub fn changes_of(&self, commit: &Commit) -> Result<Vec<FileChange>, GitError> {
        let before = commit.parents.first().map(|parent| self.tree_of(parent)).transpose()?;
        self.changes_since(before.as_ref(), &commit.tree)
    }

    /// What differs between two trees or commits.
    pub fn changes_between(&self, before: &Oid, after: &Oid) -> Result<Vec<FileChange>, GitError> {
        self.tree_changes(&self.tree_of(before)?, &self.tree_of(after)?)
    }

    /// The tree of a commit; a tree is its own.
    pub(crate) fn tree_of(&self, id: &Oid) -> Result<Oid, GitError> {
        match self.commit(id) {
            Ok(commit) => Ok(commit.tree),
            Err(GitError::Kind { found, .. }) if found == TREE => Ok(id.clone()),
            Err(error) => Err(error),
        }
    }

    /// True if `ancestor` is `commit` or one of its ancestors.
    pub fn is_ancestor(&self, ancestor: &Oid, commit: &Oid) -> Result<bool, GitError> {
        if let Some(answer) = self.is_near_ancestor(ancestor, commit)? {
            return Ok(answer);
        }
        self.git("merge-base").arg("--is-ancestor").arg(ancestor).arg(commit).answer()
    }

    /// The same, if it is found out by looking at few commits: that costs much less than to start git.
    fn is_near_ancestor(&self, ancestor: &Oid, commit: &Oid) -> Result<Option<bool>, GitError> {
        // What comes right after it is no ancestor of it.
        if ancestor != commit && self.commit(ancestor)?.parents.contains(commit) {
            return Ok(Some(false));
        }
        let (mut seen, mut next) = (HashSet::from([commit.clone()]), VecDeque::from([commit.clone()]));
        for _ in 0..MAX_NEAR_COMMITS {
            let Some(id) = next.pop_front() else { return Ok(Some(false)) };
            if id == *ancestor {
                return Ok(Some(true));
            }
            let parents = match self.commit(&id) {
                Ok(commit) => commit.parents,
                // In a shallow clone git knows where history ends.
                Err(GitError::Absent { .. }) if id != *commit => return Ok(None),
                Err(error) => return Err(error),
            };
            next.extend(parents.into_iter().filter(|parent| seen.insert(parent.clone())));
        }
        Ok(None)
    }

    /// What would be committed now, from this index or the checkout's own.
    pub fn staged(&self, index: Option<&Path>) -> Result<Vec<FileChange>, GitError> {
        let before = match self.resolve("HEAD")? {
            Some(head) => head,
            None => self.empty_tree()?,
        };
        let mut call =
            self.git("diff-index").args(["--cached", "--ita-invisible-in-index"]).args(RAW).arg(before);
        if let Some(index) = index {
            call = call.index(&self.root().join(index));
        }
        parse_changes(&call.arg("--").output()?)
    }

    /// The commits that `tip` has and `base` has not, the newest first.
    pub fn commits_between(&self, base: &Oid, tip: &str) -> Result<Vec<Oid>, GitError> {
        oids(&self.git("rev-list").arg(tip).arg(format!("^{base}")).arg("--").output()?)
    }

    /// Commits of this branch whose message contains the text, the newest first; at most a hundred.
    pub fn commits_mentioning(&self, text: &str) -> Result<Vec<Oid>, GitError> {
        if self.resolve("HEAD")?.is_none() {
            return Ok(Vec::new());
        }
        let grep = format!("--grep={text}");
        oids(
            &self
                .git("rev-list")
                .args(["--fixed-strings", "--max-count=100", &grep, "HEAD", "--"])
                .output()?,
        )
    }

    /// True if some branch, local or remote, leads to `commit`.
    pub fn is_on_a_branch(&self, commit: &Oid) -> Result<bool, GitError> {
        let contains = format!("--contains={commit}");
        let found = self
            .git("for-each-ref")
            .args(["--count=1", "--format=%(refname)", &contains, "refs/heads", "refs/remotes"])
            .output()?;
        Ok(!found.is_empty())
    }
}

/// Everything that [`parse_commits`] reads.
const WHOLE: &[&str] =
    &["--no-commit-header", "--encoding=UTF-8", "--format=%H%x00%T%x00%P%x00%ct%x00%B%x00"];

const RAW: &[&str] = &["-r", "-z", "--no-renames", "--ignore-submodules=none"];

fn oids(output: &[u8]) -> Result<Vec<Oid>, GitError> {
    let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Oid::from_bytes(line).ok_or_else(|| GitError::answer("rev-list", line))).collect()
}

fn parse_commits(output: &[u8]) -> Result<Vec<Commit>, GitError> {
    let mut fields = output.split(|byte| *byte == 0).peekable();
    let mut commits = Vec::new();
    // Git ends each one with a line break.
    while fields.peek().is_some_and(|field| !field.trim_ascii().is_empty()) {
        let commit = parse_commit(&mut fields);
        commits.push(commit.ok_or_else(|| GitError::answer("rev-list", output))?);
    }
    Ok(commits)
}

fn parse_commit<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> Option<Commit> {
    let id = Oid::from_bytes(fields.next()?.trim_ascii_start())?;
    let tree = Oid::from_bytes(fields.next()?)?;
    let parents = fields.next()?.split(|byte| *byte == b' ').filter(|parent| !parent.is_empty());
    let parents = parents.map(Oid::from_bytes).collect::<Option<_>>()?;
    let seconds: i64 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let message = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(Commit {
        id,
        tree,
        parents,
        committed_at: Timestamp::from_millis(seconds.saturating_mul(1000)),
        message,
    })
}

/// `:mode mode oid oid status`, then the path.
fn parse_changes(output: &[u8]) -> Result<Vec<FileChange>, GitError> {
    let mut parts = nul_parts(output);
    let mut changes = Vec::new();
    while let Some(head) = parts.next() {
        let change = parts.next().and_then(|path| parse_change(head, path));
        changes.push(change.ok_or_else(|| GitError::answer("diff", head))?);
    }
    Ok(changes)
}

fn parse_change(head: &[u8], path: &[u8]) -> Option<FileChange> {
    let head = std::str::from_utf8(head).ok()?.strip_prefix(':')?;
    let fields: Vec<&str> = head.split(' ').collect();
    let [old_mode, new_mode, old, new, _status] = fields.as_slice() else { return None };
    Some(FileChange {
        path: RepoPath::from_bytes(path),
        before: entry(old_mode, old)?,
        after: entry(new_mode, new)?,
    })
}

/// Nothing at all if the fields make no sense; no entry if the path is absent on this side.
fn entry(mode: &str, oid: &str) -> Option<Option<TreeEntry>> {
    if mode == "000000" {
        return Some(None);
    }
    Some(Some(TreeEntry { mode: mode.to_owned(), oid: Oid::parse(oid)? }))
}

#[cfg(test)]
mod tests {
    use mala_core::Scope;

    use super::*;
    use crate::objects::tests::{git, world};

    fn head(root: &Path) -> Oid {
        Oid::parse(&git(root, &["rev-parse", "HEAD"])).unwrap()
    }

    fn commits(root: &Path, count: usize) -> Vec<Oid> {
        let branch = git(root, &["branch", "--show-current"]);
        let commit = |number: usize| {
            git(root, &["commit", "-q", "--allow-empty", "-m", &format!("{branch} {number}")]);
            head(root)
        };
        (0..count).map(commit).collect()
    }

    #[test]
    fn ancestors_are_found_near_and_far_on_every_side_of_a_merge() {
        let (dir, repo, first) = world("sha1");
        let root = dir.path();
        git(root, &["switch", "-q", "-c", "side"]);
        let side = commits(root, 1).remove(0);
        git(root, &["switch", "-q", "main"]);
        let main = commits(root, 2);
        assert!(!repo.is_ancestor(&side, &main[1]).unwrap());
        assert!(!repo.is_ancestor(&main[1], &main[0]).unwrap());
        git(root, &["merge", "-q", "--no-edit", "side"]);
        let merge = head(root);
        for ancestor in [&first, &side, &main[0], &merge] {
            assert!(repo.is_ancestor(ancestor, &merge).unwrap());
        }
        assert!(!repo.is_ancestor(&merge, &side).unwrap());
        let far = commits(root, MAX_NEAR_COMMITS + 5).pop().unwrap();
        assert!(repo.is_ancestor(&first, &far).unwrap());
        assert!(!repo.is_ancestor(&far, &merge).unwrap());
    }

    #[test]
    fn where_a_shallow_clone_ends_history_ends() {
        let (dir, _, first) = world("sha1");
        let all = commits(dir.path(), 3);
        let clone = dir.path().join("clone");
        let from = format!("file://{}", dir.path().display());
        git(dir.path(), &["clone", "-q", "--depth=2", &from, clone.to_str().unwrap()]);
        let repo = Repo::new(Scope::discover(&clone).unwrap());
        let line: Vec<Oid> = repo.first_parent_line(&all[2]).map(|commit| commit.unwrap().id).collect();
        assert_eq!(line, [all[2].clone(), all[1].clone()]);
        assert!(repo.is_ancestor(&all[1], &all[2]).unwrap());
        assert!(matches!(repo.first_parent_line(&first).next(), Some(Err(GitError::Absent { .. }))));
    }
}
