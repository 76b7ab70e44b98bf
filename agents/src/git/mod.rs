//! Git commands that are wrong in a checkout several agents share.
//!
//! They move the whole tree, take others' work along, or step around the hooks that guard commits, even where every single
//! file could be changed. Each has an alternative that touches only one's own files. The rules look at arguments only; the
//! caller says which paths exist.

mod call;
mod rules;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use call::Call;

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

/// Why the command `args`, `git` itself first, must never run in a shared checkout. `exists` tells whether a path is there.
pub fn objection(args: &[OsString], exists: impl Fn(&Path) -> bool) -> Option<Objection> {
    objections(args, exists).into_iter().find(|objection| objection.when == When::Always)
}

/// Everything to be said against the command `args`, also what holds only under conditions.
pub fn objections(args: &[OsString], exists: impl Fn(&Path) -> bool) -> Vec<Objection> {
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    Call::read(&args).map(|call| rules::judge(&call, &exists)).unwrap_or_default()
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

pub(crate) fn judge(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool) -> Vec<Objection> {
    rules::judge(call, exists)
}

/// Why git must not be started with the variable `name` set.
pub(crate) fn variable_objection(name: &str) -> Option<Objection> {
    let is_config = name.starts_with("GIT_CONFIG_KEY_") || name.starts_with("GIT_CONFIG_VALUE_");
    (is_config || VARIABLES.contains(&name)).then(|| {
        let why = "it leads git past the files and hooks that everybody shares";
        Objection::new(format!("{name}=..."), why, "run git without it: git commit -- FILE")
    })
}

#[cfg(test)]
mod tests;
