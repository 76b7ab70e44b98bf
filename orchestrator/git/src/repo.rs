//! The repository of a scope, asked and changed through the git program.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

pub use mala_core::Oid;
use mala_core::scope::Case;
use mala_core::{Key, Scope};

use crate::call::{self, Call};
use crate::object_reader::is_plain_name;
use crate::{GitError, RepoPath};

/// What the file `HEAD` names where refs are not kept in files.
const INVALID_HEAD: &str = "refs/heads/.invalid";

/// What `HEAD` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// On a branch, by its full name. Nothing is committed on it yet if `at` is empty.
    Branch { name: String, at: Option<Oid> },
    /// On a commit, on no branch.
    Detached { at: Oid },
}

impl Head {
    pub fn at(&self) -> Option<&Oid> {
        match self {
            Self::Branch { at, .. } => at.as_ref(),
            Self::Detached { at } => Some(at),
        }
    }
}

/// The repository behind a scope.
#[derive(Debug, Clone)]
pub struct Repo {
    pub(crate) scope: Scope,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// What lies in the checkout and is no part of it.
    pub(crate) apart: Vec<RepoPath>,
    hooks: Hooks,
}

/// Whether git runs the repository's hooks when it changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hooks {
    Run,
    Ignored,
}

impl Repo {
    pub fn new(scope: Scope) -> Self {
        Self { scope, env: Vec::new(), apart: Vec::new(), hooks: Hooks::Run }
    }

    /// Ignores the repository's hooks: for whoever acts on behalf of others that may have written them.
    #[must_use]
    pub fn without_hooks(self) -> Self {
        Self { hooks: Hooks::Ignored, ..self }
    }

    /// Gives every git process, and every hook it runs, this variable: for whoever acts on behalf of another process.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The same settings for another checkout.
    pub(crate) fn beside(&self, scope: Scope) -> Self {
        Self { scope, env: self.env.clone(), apart: Vec::new(), hooks: self.hooks }
    }

    /// Leaves these folders out of every status.
    pub(crate) fn without(mut self, apart: impl IntoIterator<Item = RepoPath>) -> Self {
        self.apart.extend(apart);
        self
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Top folder of the checkout.
    pub fn root(&self) -> &Path {
        self.scope.root()
    }

    pub(crate) fn git(&self, command: &str) -> Call {
        Call::judging(self.root(), &self.env).arg(command)
    }

    /// The same with more settings.
    pub(crate) fn git_with(&self, settings: &[&str], command: &str) -> Call {
        Call::judging(self.root(), &self.env).settings(settings).arg(command)
    }

    /// Git with the repository's own settings, for what changes it.
    pub(crate) fn plain_git(&self, command: &str) -> Call {
        let call = Call::plain(self.root(), &self.env);
        let call = if self.hooks == Hooks::Ignored { call.settings(&[call::NO_HOOKS]) } else { call };
        call.arg(command)
    }

    /// The key under which `path` is locked. A link counts as itself: git tracks the link, not what it points to.
    pub fn key(&self, path: &RepoPath) -> Key {
        match (self.scope.case(), std::str::from_utf8(path.as_bytes())) {
            (Case::Folded, Ok(text)) => Key::from_stored(text.to_lowercase().into_bytes()),
            _ => Key::from_stored(path.as_bytes().to_vec()),
        }
    }

    pub fn head(&self) -> Result<Head, GitError> {
        let named = self.branch()?;
        let at = self.resolve("HEAD")?;
        if let Some(name) = named {
            return Ok(Head::Branch { name, at });
        }
        let at = at.ok_or_else(|| GitError::answer("rev-parse HEAD", b""))?;
        Ok(Head::Detached { at })
    }

    /// The full name of the branch that is checked out; none for a detached `HEAD`.
    pub fn branch(&self) -> Result<Option<String>, GitError> {
        match self.branch_in_file() {
            Some(branch) => Ok(branch),
            None => self.git("symbolic-ref").args(["-q", "HEAD"]).line_if_any(),
        }
    }

    /// What the file `HEAD` says, if it says it in the way of git's files backend. With reftable it holds a name that no branch can
    /// have (<https://git-scm.com/docs/reftable>).
    fn branch_in_file(&self) -> Option<Option<String>> {
        let path = self.git_dir().ok()?.join("HEAD");
        let is_file = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
        let text = fs::read_to_string(path).ok().filter(|_| is_file)?;
        let line = text.strip_suffix('\n')?;
        match line.strip_prefix("ref: ") {
            Some(name) if name != INVALID_HEAD && is_plain_name(name) => Some(Some(name.to_owned())),
            Some(_) => None,
            None => Oid::parse(line).map(|_| None),
        }
    }

    /// The commit that `revision` names, if there is one. Whatever else keeps git from an answer is an error.
    pub fn resolve(&self, revision: &str) -> Result<Option<Oid>, GitError> {
        if is_plain_name(revision) {
            return self.commit_named(revision);
        }
        let commit = format!("{revision}^{{commit}}");
        let call = self.git("rev-parse").args(["--verify", "--quiet", "--end-of-options", &commit]);
        match call.line_if_any() {
            Ok(line) => Ok(line.and_then(|line| Oid::parse(&line))),
            // `HEAD@{99}`, where the log is not that long, is fatal to git, but asked to be quiet it does not say why.
            Err(GitError::Failed { stderr, status, .. })
                if stderr.is_empty() && status.code() == Some(128) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Fails if git cannot read its index.
    pub fn check_index(&self) -> Result<(), GitError> {
        // Whatever is staged under this name or not: to know, git has to read all of it.
        self.git("rev-parse").args(["--verify", "--quiet", ":any"]).answer().map(|_| ())
    }

    /// Git's folder of this very checkout, where its index lies.
    pub fn git_dir(&self) -> Result<PathBuf, GitError> {
        match self.env.iter().find(|(name, _)| name == "GIT_DIR") {
            Some((_, directory)) => Ok(PathBuf::from(directory)),
            None => Ok(self.scope.checkout_git_dir().to_owned()),
        }
    }

    pub(crate) fn is_main_checkout(&self) -> bool {
        self.scope.checkout_git_dir() == self.scope.git_dir()
    }

    /// The tree without a file.
    pub(crate) fn empty_tree(&self) -> Result<Oid, GitError> {
        let tree = self.git("mktree").line()?;
        Oid::parse(&tree).ok_or_else(|| GitError::answer("mktree", tree.as_bytes()))
    }

    /// True if only a part of the files is checked out on purpose.
    pub fn is_sparse(&self) -> Result<bool, GitError> {
        let set = self.git("config").args(["--type=bool", "--get", "core.sparseCheckout"]).finish()?;
        Ok(set.stdout.trim_ascii() == b"true")
    }

    /// True if the index has this file of the checkout, or files below it.
    pub fn is_tracked(&self, path: &Path) -> Result<bool, GitError> {
        let Ok(path) = path.strip_prefix(self.root()) else { return Ok(false) };
        Ok(!self.git("ls-files").args(["-z", "--"]).arg(path).output()?.is_empty())
    }

    /// Where git keeps a file of this checkout, such as `index` or `hooks`.
    pub fn git_path(&self, name: &str) -> Result<PathBuf, GitError> {
        let path = self.plain_git("rev-parse").args(["--git-path", name]).output()?;
        let path = path.strip_suffix(b"\n").unwrap_or(&path);
        Ok(self.root().join(RepoPath::from_bytes(path).as_path()))
    }
}
