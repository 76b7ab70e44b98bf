//! The repository's own hooks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::error::CommitError;
use super::stage::Draft;
use crate::call::nul_parts;
use crate::{GitError, Repo};

/// One call of a hook.
#[derive(Debug)]
pub struct HookCall<'a> {
    pub name: &'static str,
    pub args: &'a [OsString],
    /// The index the hook is to see and may add to; the checkout's own if there is none.
    pub index: Option<&'a Path>,
}

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEnd {
    /// Nothing if it agreed, or if there is no such hook.
    pub refused: Option<String>,
    pub output: String,
}

/// Runs hooks.
///
/// Contract: a hook runs at the top of the checkout, without standard input, with `GIT_INDEX_FILE` set as asked, and
/// `GIT_EDITOR` set so that no editor opens. A missing hook agrees.
pub trait HookRunner {
    fn run(&self, repo: &Repo, call: &HookCall<'_>) -> Result<HookEnd, GitError>;
}

/// Lets git run them, wherever and however they are configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct GitHooks;

impl HookRunner for GitHooks {
    fn run(&self, repo: &Repo, call: &HookCall<'_>) -> Result<HookEnd, GitError> {
        let mut git =
            repo.plain_git("hook").args(["run", "--ignore-missing", call.name, "--"]).args(call.args);
        git = git.env("GIT_EDITOR", ":");
        if let Some(index) = call.index {
            git = git.index(index);
        }
        let output = git.finish()?;
        let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        Ok(HookEnd {
            refused: (!output.status.success()).then(|| output.status.to_string()),
            output: String::from_utf8_lossy(&text).into_owned(),
        })
    }
}

/// Where a repository may have hooks. Three of them are about every commit and most repositories have none, so it is found out
/// once.
#[derive(Debug)]
pub(super) enum HookPlace {
    Directory(PathBuf),
    /// Settings name commands of their own (`hook.NAME.command` in git-config(1)), so only git knows.
    Settings,
}

impl HookPlace {
    pub(super) fn of(repo: &Repo) -> Result<Self, GitError> {
        let find = repo.plain_git("config").args(["-z", "--get-regexp", r"^(hook\..*|core\.hookspath)$"]);
        // Each is the name, a line break and the value. Git fails if there is none.
        let settings = find.finish()?.stdout;
        Ok(if nul_parts(&settings).any(|setting| setting.starts_with(b"hook.")) {
            Self::Settings
        } else if settings.is_empty() {
            Self::Directory(repo.scope().git_dir().join("hooks"))
        } else {
            Self::Directory(repo.git_path("hooks")?)
        })
    }

    /// True if there may be something to run: then files must be kept safe from it.
    pub(super) fn may_have(&self, name: &str) -> bool {
        match self {
            Self::Directory(directory) => directory.join(name).exists(),
            Self::Settings => true,
        }
    }
}

/// Runs one hook on the draft, if there is one; a refusal is an error.
pub(super) fn ask(
    hooks: &dyn HookRunner,
    draft: &mut Draft,
    name: &'static str,
    args: &[OsString],
) -> Result<(), CommitError> {
    if !draft.may_have_hook(name)? {
        return Ok(());
    }
    let index = draft.index();
    let end = hooks.run(draft.repo(), &HookCall { name, args, index: Some(&index) })?;
    draft.note_output(&end.output);
    match end.refused {
        None => Ok(()),
        Some(status) => Err(CommitError::Hook { name, status, output: end.output }),
    }
}

/// The commit stands, whatever this hook says.
pub(super) fn after_commit(repo: &Repo, hooks: &dyn HookRunner, draft: &mut Draft) -> Option<String> {
    match hooks.run(repo, &HookCall { name: "post-commit", args: &[], index: None }) {
        Ok(end) => {
            draft.note_output(&end.output);
            end.refused.map(|status| format!("the hook `post-commit` failed ({status})"))
        }
        Err(error) => Some(error.to_string()),
    }
}
