//! Git commands that are wrong in a checkout several agents share.
//!
//! They move the whole tree, take others' work along, or step around the hooks that guard commits, even where every single
//! file could be changed. Each has an alternative that touches only one's own files. The rules look at arguments only; the
//! caller says which paths exist.

mod call;
mod landing;
mod rules;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use call::Call;
pub use landing::RunAgent;

use crate::objection::{Objection, When};

/// Variables that send git to another repository, index or configuration.
const VARIABLES: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
];

/// Why the command `args`, `git` itself first, must never run in a shared checkout, or in this `run`. `exists` tells whether
/// a path is there.
pub fn objection(
    args: &[OsString],
    exists: impl Fn(&Path) -> bool,
    run: Option<&RunAgent>,
) -> Option<Objection> {
    let mut found = objections(args, exists, run).into_iter();
    found.find(|objection| matches!(objection.when, When::Always | When::InRun))
}

/// Everything to be said against the command `args`, also what holds only under conditions. What a `run` forbids comes first.
pub fn objections(
    args: &[OsString],
    exists: impl Fn(&Path) -> bool,
    run: Option<&RunAgent>,
) -> Vec<Objection> {
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    Call::read(&args).map(|call| judge(&call, &exists, run)).unwrap_or_default()
}

/// True if the command `args`, `git` itself first, locks the index before it reads it, looks itself whether it has changed since, or
/// has no use for it. All others may hold on to what they read before.
pub fn locks_first(args: &[OsString]) -> bool {
    const FIRST: &[&str] = &["add", "apply", "mv", "read-tree", "restore", "rm", "stage", "update-index"];
    /// They write it only to be faster the next time.
    const LOOK: &[&str] = &["describe", "diff", "status"];
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    Call::read(&args).is_none_or(|call| [FIRST, LOOK].concat().contains(&call.verb))
}

/// The folder that git would look for a repository from, as `args`, `git` itself first, change it when git is started in
/// `here`. None if they name the repository itself.
pub fn start_folder(args: &[OsString], here: &Path) -> Option<PathBuf> {
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    let call = Call::read(&args)?;
    (!call.is_elsewhere).then(|| call.folders.iter().fold(here.to_path_buf(), |at, folder| at.join(folder)))
}

pub(crate) fn judge(
    call: &Call<'_>,
    exists: &dyn Fn(&Path) -> bool,
    run: Option<&RunAgent>,
) -> Vec<Objection> {
    let of_run = run.and_then(|run| landing::judge(call, exists, run));
    of_run.into_iter().chain(rules::judge(call, exists)).collect()
}

/// Why git must not be started with the variable `name` set.
pub(crate) fn variable_objection(name: &str, run: Option<&RunAgent>) -> Option<Objection> {
    let is_config = name.starts_with("GIT_CONFIG_KEY_") || name.starts_with("GIT_CONFIG_VALUE_");
    (is_config || VARIABLES.contains(&name)).then(|| {
        let why = "it leads git past the files and hooks that everybody shares";
        let instead = match run {
            Some(run) => Cow::Owned(format!("run git without it, and {}", run.offer())),
            None => Cow::Borrowed("run git without it: git commit -- FILE"),
        };
        Objection::new(format!("{name}=..."), why, instead)
    })
}

#[cfg(test)]
mod tests;
