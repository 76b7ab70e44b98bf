//! Putting the hooks in their place, and taking them back.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mala_core::scope::SETTINGS_FILE;
use mala_git::{GitError, Repo};
use thiserror::Error;

use super::kept::{self, Place, hide, kept_directory, link_neighbours, remove_directory};
use super::manager::HookManager;
use super::script::{Hook, mark, script};

#[derive(Debug, Error)]
pub enum HooksError {
    #[error("git's hooks lie outside this repository, in `{}` (core.hooksPath): others may use that folder, so it is \
             not touched; call `mala gate pre-commit` and `mala gate commit-msg \"$1\"` from the hooks there, or give \
             this repository its own: git config core.hooksPath .git/hooks", .path.display())]
    Shared { path: PathBuf },
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

/// Installs all hooks. One that another program has put in the place of mala's is called first from then on.
pub fn install(repo: &Repo) -> Result<Vec<Done>, HooksError> {
    let folder = own_folder(repo)?;
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let done: Vec<Done> = Place::all(&folder).map(|place| install_one(&place)).collect::<Result<_, _>>()?;
    if kept_directory(&folder).is_dir() {
        hide(&folder)?;
        link_neighbours(&folder)?;
    }
    Ok(done)
}

/// What was done about hooks that another program has put in the place of mala's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// mala's are there, or were never installed.
    NotNeeded,
    /// These are called by mala's hooks again.
    Done(Vec<ChainedHook>),
    /// They are files that git tracks, so changing them is up to a person.
    Tracked(PathBuf),
}

/// Puts mala's hooks back in front of those that another program has put in their place, such as husky at `npm install`.
pub fn repair(repo: &Repo) -> Result<Repair, HooksError> {
    let Ok(folder) = own_folder(repo) else { return Ok(Repair::NotNeeded) };
    if !is_replaced(repo, &folder) || !was_installed(repo, &folder) {
        return Ok(Repair::NotNeeded);
    }
    for place in Place::all(&folder) {
        if repo.is_tracked(&place.path())? {
            return Ok(Repair::Tracked(place.path()));
        }
    }
    install(repo)?;
    Ok(Repair::Done(chained(repo)?))
}

/// True if git finds a hook that is not mala's where mala's belongs, or looks in another directory by now.
fn is_replaced(repo: &Repo, folder: &Path) -> bool {
    let is_foreign = |place: Place| exists(&place.path()) && !is_ours(&place.path(), place.hook);
    Place::all(folder).any(is_foreign) || was_in_default(repo, folder)
}

/// True if `mala init` was here: not all that it has put there is gone.
fn was_installed(repo: &Repo, folder: &Path) -> bool {
    let is_left = |place: Place| {
        is_ours(&place.path(), place.hook)
            || exists(&place.kept())
            || exists(&place.kept_in_earlier_form())
            || place.is_moved_aside()
    };
    Place::all(folder).any(is_left) || was_in_default(repo, folder)
}

/// True if mala's hooks are in git's own directory, and git looks in another one, where they are not.
fn was_in_default(repo: &Repo, folder: &Path) -> bool {
    let default = repo.scope().git_dir().join("hooks");
    let has_ours = |folder: &Path| Place::all(folder).any(|place| is_ours(&place.path(), place.hook));
    resolved(folder) != resolved(&default) && has_ours(&default) && !has_ours(folder)
}

/// Takes all hooks back, and puts what was there before in their place. A linked worktree leaves those alone that others use.
pub fn undo(repo: &Repo) -> Result<Vec<Done>, HooksError> {
    if let Some(folder) = own_folder(repo).ok().filter(|_| matches!(used_by(repo), Ok(Some(_)))) {
        let in_use = |place: Place| Done { hook: place.hook, path: place.path(), what: Installed::InUse };
        return Ok(Place::all(&folder).map(in_use).collect());
    }
    // A program that came later may have told git to look elsewhere; then mala's are in both.
    let default = repo.scope().git_dir().join("hooks");
    let mut done = match own_folder(repo) {
        Ok(folder) => undo_in(&folder)?,
        Err(_) if Place::all(&default).any(|place| is_ours(&place.path(), place.hook)) => Vec::new(),
        Err(error) => return Err(error),
    };
    if own_folder(repo).map_or(true, |folder| resolved(&folder) != resolved(&default)) {
        let touched = |done: &Done| matches!(done.what, Installed::Removed | Installed::Restored);
        done.extend(undo_in(&default)?.into_iter().filter(touched));
    }
    Ok(done)
}

fn undo_in(folder: &Path) -> Result<Vec<Done>, HooksError> {
    let done: Vec<Done> = Place::all(folder).map(|place| undo_one(&place)).collect::<Result<_, _>>()?;
    remove_directory(folder)?;
    // Git has no use for an empty one; most likely it was made for these hooks.
    fs::remove_dir(folder).ok();
    Ok(done)
}

/// A hook that mala's calls first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedHook {
    pub hook: Hook,
    /// Where it lies.
    pub path: PathBuf,
    /// Who has written it, if that is known.
    pub manager: Option<HookManager>,
    /// Why it would not work when it is called, in words.
    pub problem: Option<String>,
}

/// The hooks that were there before, and whether they find what they need. Nothing is run.
pub fn chained(repo: &Repo) -> Result<Vec<ChainedHook>, HooksError> {
    let folder = repo.git_path("hooks")?;
    let look = |place: Place| {
        let path = place.kept();
        let text = fs::read(&path).ok();
        if text.is_none() && !exists(&path) {
            return None;
        }
        let manager = text.as_deref().and_then(HookManager::of);
        let missing = manager.and_then(|manager| manager.missing(&path, text.as_deref()?, repo.root()));
        let problem = missing.map(|what| format!("it does not find {what}"));
        Some(ChainedHook { hook: place.hook, path, manager, problem })
    };
    Ok(Place::all(&folder).filter_map(look).collect())
}

/// Hooks that were there before and are called by nobody any more, because another one has taken their place.
pub fn replaced(repo: &Repo) -> Result<Vec<PathBuf>, HooksError> {
    Ok(kept::replaced(&repo.git_path("hooks")?))
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

/// True if a hook of mala's has the text of another version.
pub fn is_outdated(repo: &Repo) -> Result<bool, HooksError> {
    let folder = repo.git_path("hooks")?;
    let differs = |path: &Path, hook| fs::read(path).is_ok_and(|text| text != script(hook).as_bytes());
    Ok(Place::all(&folder).any(|place| {
        let path = place.path();
        exists(&place.kept_in_earlier_form()) || (is_ours(&path, place.hook) && differs(&path, place.hook))
    }))
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> HooksError {
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

pub(super) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

pub(super) fn is_ours(path: &Path, hook: Hook) -> bool {
    fs::read(path).is_ok_and(|text| {
        let mark = mark(hook);
        text.split(|byte| *byte == b'\n').nth(1) == Some(mark.as_bytes())
    })
}

fn install_one(place: &Place) -> Result<Done, HooksError> {
    let (path, hook) = (place.path(), place.hook);
    let what = if !exists(&path) {
        Installed::New
    } else if !is_ours(&path, hook) {
        // Under both names before mala's takes its place, so there is no moment without it.
        place.keep()?;
        Installed::Chained
    } else if fs::read(&path).is_ok_and(|text| text == script(hook).as_bytes()) {
        Installed::Unchanged
    } else {
        Installed::Updated
    };
    let is_converted = what != Installed::Chained && place.convert()?;
    if what != Installed::Unchanged {
        let written = write(&path, &script(hook)).map_err(at(&path));
        written.inspect_err(|_| {
            if what == Installed::Chained {
                place.unkeep();
            }
        })?;
    }
    if what == Installed::Chained {
        place.clear_beside()?;
    }
    let what = if is_converted && what == Installed::Unchanged { Installed::Updated } else { what };
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

fn undo_one(place: &Place) -> Result<Done, HooksError> {
    let (path, hook) = (place.path(), place.hook);
    let is_kept = |place: &Place| exists(&place.kept()) || exists(&place.kept_in_earlier_form());
    if exists(&path) && !is_ours(&path, hook) {
        if !is_kept(place) && !place.is_moved_aside() {
            return Ok(Done { hook, path, what: Installed::Foreign });
        }
        // Another program has put its own there: as it would be without mala is known once it is chained.
        install_one(place)?;
    }
    place.convert()?;
    let what = if exists(&place.kept()) {
        place.give_back()?;
        Installed::Restored
    } else if exists(&path) {
        fs::remove_file(&path).map_err(at(&path))?;
        Installed::Removed
    } else {
        Installed::Absent
    };
    Ok(Done { hook, path, what })
}
