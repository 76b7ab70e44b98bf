//! New worktrees: `git worktree add` fills them by another git, to which it says in the environment where that is.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mala_core::Scope;
use mala_core::file::{SETTINGS, read_small_text};
use mala_sandbox::Start;

use crate::jail::head;

/// True if git, started in `folder`, only gives another worktree of this repository the files of the commit that it is at.
pub(super) fn is_filled(scope: &Scope, start: &Start<'_>, folder: &Path) -> bool {
    let [_, command, options @ ..] = start.args() else { return false };
    // Options before the command, and commits after it, could lead elsewhere. So could these two.
    if command != "reset"
        || options.iter().any(|option| !option.as_bytes().starts_with(b"--"))
        || ["GIT_INDEX_FILE", "GIT_COMMON_DIR"].iter().any(|name| start.variable(name).is_some())
    {
        return false;
    }
    let place = |name| Some(folder.join(start.variable(name)?));
    let own = place("GIT_DIR").and_then(|place| git_dir(&place));
    let files = place("GIT_WORK_TREE").and_then(|place| place.canonicalize().ok());
    let (Some(own), Some(files)) = (own, files) else { return false };
    let is_another = own.parent() == Some(&scope.git_dir().join("worktrees"))
        && head(scope).parent() != Some(own.as_path());
    is_another && !scope.root().starts_with(&files) && git_dir(&files.join(".git")) == Some(own)
}

/// Git's folder: it has this name, or a file that has it says where it is.
pub(super) fn git_dir(place: &Path) -> Option<PathBuf> {
    if place.is_dir() {
        return place.canonicalize().ok();
    }
    let text = read_small_text(place, SETTINGS).ok()?;
    let name = text.strip_prefix("gitdir: ")?.trim_end_matches('\n');
    place.parent()?.join(name).canonicalize().ok()
}
