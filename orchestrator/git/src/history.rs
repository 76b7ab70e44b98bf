//! Commits, read as they are: replaced objects, grafts and settings of the repository do not change them.

use std::path::Path;

use mala_core::Timestamp;

use crate::call::{Call, nul_parts};
use crate::objects::TREE;
use crate::{GitError, Oid, Repo, RepoPath};

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
        // What is asked most often needs no walk.
        if ancestor == commit || self.commit(commit)?.parents.contains(ancestor) {
            return Ok(true);
        }
        self.git("merge-base").arg("--is-ancestor").arg(ancestor).arg(commit).answer()
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
