//! Putting the hooks in their place, and taking them back.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mala_core::scope::SETTINGS_FILE;
use mala_git::{GitError, Repo};
use thiserror::Error;

use super::script::{Hook, mark, script};

const BEFORE: &str = "before-mala";

#[derive(Debug, Error)]
pub enum HooksError {
    #[error("git's hooks lie outside this repository, in `{}` (core.hooksPath): others may use that folder, so it is \
             not touched; call `mala gate pre-commit` and `mala gate commit-msg \"$1\"` from the hooks there, or give \
             this repository its own: git config core.hooksPath .git/hooks", .path.display())]
    Shared { path: PathBuf },
    #[error("`{}` was replaced after mala was installed, and `{}` is still there: keep one of the two, remove the \
             other, and try again", .hook.display(), .kept.display())]
    Occupied { hook: PathBuf, kept: PathBuf },
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// What happened to one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub hook: Hook,
    pub path: PathBuf,
    pub what: Installed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// It is new.
    New,
    /// It is new, and the hook that was there is called first.
    Chained,
    /// An older text of mala's was replaced.
    Updated,
    /// It was there already.
    Unchanged,
    /// mala's hook is gone; there was none before.
    Removed,
    /// mala's hook is gone and the earlier one is back.
    Restored,
    /// It is not mala's, and was left alone.
    Foreign,
    /// Another checkout of the repository uses it, and it was left alone.
    InUse,
    /// There was nothing to do.
    Absent,
}

/// Installs all hooks, or none of them.
pub fn install(repo: &Repo) -> Result<Vec<Done>, HooksError> {
    let folder = own_folder(repo)?;
    for hook in Hook::ALL {
        refuse_occupied(&folder.join(hook.name()), hook)?;
    }
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    Hook::ALL.into_iter().map(|hook| install_one(&folder, hook)).collect()
}

/// Takes all hooks back, and puts what was there before in their place. A linked worktree leaves those alone that others use.
pub fn undo(repo: &Repo) -> Result<Vec<Done>, HooksError> {
    let folder = own_folder(repo)?;
    if used_by(repo)?.is_some() {
        let in_use = |hook: Hook| Done { hook, path: folder.join(hook.name()), what: Installed::InUse };
        return Ok(Hook::ALL.into_iter().map(in_use).collect());
    }
    let done: Result<Vec<Done>, HooksError> =
        Hook::ALL.into_iter().map(|hook| undo_one(&folder, hook)).collect();
    // Git has no use for an empty one; most likely it was made for these hooks.
    fs::remove_dir(&folder).ok();
    done
}

/// Another checkout that uses the hooks of this linked worktree, because git has them in common for all of them.
pub fn used_by(repo: &Repo) -> Result<Option<PathBuf>, HooksError> {
    let common = repo.scope().git_dir();
    let is_common = resolved(&repo.git_path("hooks")?) == common.join("hooks");
    if !is_common || !repo.root().join(".git").is_file() {
        return Ok(None);
    }
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.filter_map(|entry| fs::read_to_string(entry.path().join("gitdir")).ok());
    let linked = linked.filter_map(|file| Path::new(file.trim_end()).parent().map(Path::to_path_buf));
    let main = common.parent().filter(|main| main.join(".git") == common).map(Path::to_path_buf);
    let mut checkouts = main.into_iter().chain(linked);
    // Every checkout that was set up has settings.
    Ok(checkouts.find(|checkout| resolved(checkout) != repo.root() && checkout.join(SETTINGS_FILE).exists()))
}

/// Which of the hooks are in their place, whatever folder git looks in.
pub fn installed(repo: &Repo) -> Result<Vec<(Hook, bool)>, HooksError> {
    let folder = repo.git_path("hooks")?;
    let is_ready = |path: &Path, hook| {
        is_ours(path, hook) && fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
    };
    Ok(Hook::ALL.into_iter().map(|hook| (hook, is_ready(&folder.join(hook.name()), hook))).collect())
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> HooksError {
    let path = path.to_owned();
    move |source| HooksError::Io { path, source }
}

/// The folder git looks in, if it belongs to this repository.
fn own_folder(repo: &Repo) -> Result<PathBuf, HooksError> {
    let folder = repo.git_path("hooks")?;
    let resolved = resolved(&folder);
    let is_own = resolved.starts_with(repo.root()) || resolved.starts_with(repo.scope().git_dir());
    if is_own { Ok(folder) } else { Err(HooksError::Shared { path: folder }) }
}

/// The path with its links followed as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(found) = fs::canonicalize(ancestor) {
            return missing.into_iter().rev().fold(found, |path: PathBuf, name| path.join(name));
        }
        missing.extend(ancestor.file_name());
    }
    path.to_owned()
}

fn kept(path: &Path) -> PathBuf {
    path.with_extension(BEFORE)
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn is_ours(path: &Path, hook: Hook) -> bool {
    fs::read(path).is_ok_and(|text| {
        let mark = mark(hook);
        text.split(|byte| *byte == b'\n').nth(1) == Some(mark.as_bytes())
    })
}

fn refuse_occupied(path: &Path, hook: Hook) -> Result<(), HooksError> {
    let kept = kept(path);
    if exists(path) && !is_ours(path, hook) && exists(&kept) {
        return Err(HooksError::Occupied { hook: path.to_owned(), kept });
    }
    Ok(())
}

fn install_one(folder: &Path, hook: Hook) -> Result<Done, HooksError> {
    let path = folder.join(hook.name());
    let text = script(hook);
    let what = if !exists(&path) {
        Installed::New
    } else if !is_ours(&path, hook) {
        // Under both names before mala's takes its place, so there is no moment without it.
        let kept = kept(&path);
        fs::hard_link(&path, &kept).map_err(at(&kept))?;
        Installed::Chained
    } else if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(Done { hook, path, what: Installed::Unchanged });
    } else {
        Installed::Updated
    };
    if let Err(error) = write(&path, &text) {
        if what == Installed::Chained {
            // The hook has its place still, and its second name would be in the way of the next try.
            fs::remove_file(kept(&path)).ok();
        }
        return Err(at(&path)(error));
    }
    Ok(Done { hook, path, what })
}

/// Written beside and renamed, so a commit at this moment sees the old hook or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension(format!("mala-{:08x}", fastrand::u32(..)));
    let written = fs::write(&beside, text)
        .and_then(|()| fs::set_permissions(&beside, Permissions::from_mode(0o755)))
        .and_then(|()| fs::File::open(&beside)?.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn undo_one(folder: &Path, hook: Hook) -> Result<Done, HooksError> {
    let path = folder.join(hook.name());
    let kept = kept(&path);
    let what = match (exists(&path), is_ours(&path, hook), exists(&kept)) {
        (true, false, _) => Installed::Foreign,
        (_, _, true) => {
            fs::rename(&kept, &path).map_err(at(&kept))?;
            Installed::Restored
        }
        (true, true, false) => match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&path)(error)),
            _ => Installed::Removed,
        },
        (false, _, false) => Installed::Absent,
    };
    Ok(Done { hook, path, what })
}
