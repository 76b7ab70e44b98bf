//! Where the hooks lie that were there before mala's, and how they get there and back.
//!
//! For the hooks directory `D` it is the directory `D.before-mala` beside it. A hook in it has its own name, the same directory
//! above it, and beside it what was beside it in `D`: links lead there. So it finds by `$0` what it always found; only the
//! hooks that mala has replaced are not linked, or a hook could lead back to itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::install::{HooksError, at, exists, is_ours};
use super::manager::HookManager;
use super::script::{Hook, KEPT_SUFFIX};

/// What an earlier version called a hook that it had moved aside.
const EARLIER_FORM: &str = "before-mala";
/// What a kept hook is called when another one has taken its place.
const REPLACED: &str = "replaced";

/// One hook in one hooks directory.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    pub(super) hook: Hook,
}

/// The directory of kept hooks that belongs to a hooks directory.
pub(super) fn kept_directory(hooks: &Path) -> PathBuf {
    let mut name = hooks.file_name().unwrap_or_default().to_owned();
    name.push(KEPT_SUFFIX);
    hooks.with_file_name(name)
}

impl Place {
    pub(super) fn all(directory: &Path) -> impl Iterator<Item = Self> {
        Hook::ALL.into_iter().map(|hook| Self { directory: directory.to_owned(), hook })
    }

    /// Where git looks.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(self.hook.name())
    }

    /// Where the hook lies that was there before.
    pub(super) fn kept(&self) -> PathBuf {
        kept_directory(&self.directory).join(self.hook.name())
    }

    /// The same, as an earlier version had it.
    pub(super) fn kept_in_earlier_form(&self) -> PathBuf {
        self.path().with_extension(EARLIER_FORM)
    }

    /// True if mala's hook was moved aside by the program that has put its own there.
    pub(super) fn is_moved_aside(&self) -> bool {
        self.beside().iter().any(|name| is_ours(&self.directory.join(name), self.hook))
    }

    /// Names in the hooks directory that begin with the hook's: other programs move a hook aside under such a name, and
    /// may call it there.
    fn beside(&self) -> Vec<OsString> {
        names_beginning(&self.directory, &format!("{}.", self.hook.name()))
            .filter(|name| {
                !is_sample_or_draft(name) && Path::new(name).extension() != Some(OsStr::new(EARLIER_FORM))
            })
            .collect()
    }

    /// Puts the hook at [`Self::path`], which is not mala's, under its kept name as well, with what it calls beside it. What was
    /// kept before gets the place that it would have without mala.
    pub(super) fn keep(&self) -> Result<(), HooksError> {
        let (path, kept) = (self.path(), self.kept());
        let directory = kept_directory(&self.directory);
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        for former in [kept.clone(), self.kept_in_earlier_form()] {
            if exists(&former) {
                self.put_away(&former, &path)?;
            }
        }
        fs::hard_link(&path, &kept).map_err(at(&kept))?;
        for name in self.beside() {
            let (beside, kept) = (self.directory.join(&name), directory.join(&name));
            if is_ours(&beside, self.hook) || is_same(&beside, &kept) {
                continue;
            }
            if exists(&kept) {
                let away = self.free_name();
                fs::rename(&kept, &away).map_err(at(&kept))?;
            }
            fs::hard_link(&beside, &kept).map_err(at(&kept))?;
        }
        Ok(())
    }

    /// Takes the second names away that [`Self::keep`] has given, because mala's hook could not be written.
    pub(super) fn unkeep(&self) {
        let directory = kept_directory(&self.directory);
        for name in self.beside().into_iter().chain([self.hook.name().into()]) {
            if is_same(&self.directory.join(&name), &directory.join(&name)) {
                fs::remove_file(directory.join(&name)).ok();
            }
        }
        fs::remove_dir(directory).ok();
    }

    /// Takes the names away under which everything beside the hook is no longer needed: it is kept, or mala's own.
    pub(super) fn clear_beside(&self) -> Result<(), HooksError> {
        let directory = kept_directory(&self.directory);
        for name in self.beside() {
            let beside = self.directory.join(&name);
            if is_ours(&beside, self.hook) || is_same(&beside, &directory.join(&name)) {
                fs::remove_file(&beside).map_err(at(&beside))?;
            }
        }
        Ok(())
    }

    /// A hook that was kept makes room for `newer`. Without mala, the program that installed `newer` would have moved it aside,
    /// as it did with mala's, or written over its own.
    fn put_away(&self, former: &Path, newer: &Path) -> Result<(), HooksError> {
        let manager = |path: &Path| fs::read(path).ok().and_then(|text| HookManager::of(&text));
        let is_renewed = manager(former).is_some() && manager(former) == manager(newer);
        if is_renewed || is_same(former, newer) {
            return fs::remove_file(former).map_err(at(former));
        }
        let directory = kept_directory(&self.directory);
        let aside = self.beside().into_iter().find(|name| is_ours(&self.directory.join(name), self.hook));
        let aside = aside.map(|name| directory.join(name)).filter(|path| !exists(path));
        let away = aside.unwrap_or_else(|| self.free_name());
        fs::rename(former, away).map_err(at(former))
    }

    /// Takes a hook over that an earlier version kept. mala's is in its place.
    pub(super) fn convert(&self) -> Result<bool, HooksError> {
        let (earlier, kept) = (self.kept_in_earlier_form(), self.kept());
        if !exists(&earlier) {
            return Ok(false);
        }
        let directory = kept_directory(&self.directory);
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        let to = if exists(&kept) { self.free_name() } else { kept };
        fs::rename(&earlier, to).map_err(at(&earlier))?;
        Ok(true)
    }

    /// Puts what was kept back where it was, over mala's hook.
    pub(super) fn give_back(&self) -> Result<(), HooksError> {
        let directory = kept_directory(&self.directory);
        for name in names_beginning(&directory, &format!("{}.", self.hook.name())) {
            let (kept, beside) = (directory.join(&name), self.directory.join(&name));
            if !is_replaced(&name) && !exists(&beside) {
                fs::rename(&kept, &beside).map_err(at(&kept))?;
            }
        }
        let kept = self.kept();
        fs::rename(&kept, self.path()).map_err(at(&kept))
    }

    fn free_name(&self) -> PathBuf {
        let kept = self.kept();
        let numbered = (2..).map(|number| kept.with_extension(format!("{REPLACED}-{number}")));
        let mut names = std::iter::once(kept.with_extension(REPLACED)).chain(numbered);
        names.find(|name| !exists(name)).expect("there are more numbers than files")
    }
}

/// Links in the directory of kept hooks to what lies in the hooks directory, so that a kept hook finds it beside itself.
/// Links that lead nowhere any more go.
pub(super) fn link_neighbours(hooks: &Path) -> Result<(), HooksError> {
    let directory = kept_directory(hooks);
    if !directory.is_dir() {
        return Ok(());
    }
    for link in links(&directory) {
        if !link.exists() {
            fs::remove_file(&link).map_err(at(&link))?;
        }
    }
    let up = Path::new("..").join(hooks.file_name().unwrap_or_default());
    for name in names(hooks).filter(|name| !is_of_a_hook(name) && !is_sample_or_draft(name)) {
        let link = directory.join(&name);
        if !exists(&link) {
            symlink(up.join(&name), &link).map_err(at(&link))?;
        }
    }
    Ok(())
}

/// Git shows nothing of the directory as new where it lies in a checkout, as husky sees to for its own.
pub(super) fn hide(hooks: &Path) -> Result<(), HooksError> {
    let ignore = kept_directory(hooks).join(".gitignore");
    if exists(&ignore) { Ok(()) } else { fs::write(&ignore, "*\n").map_err(at(&ignore)) }
}

/// Removes the directory of kept hooks, if nothing is kept in it any more.
pub(super) fn remove_directory(hooks: &Path) -> Result<(), HooksError> {
    let directory = kept_directory(hooks);
    let is_kept = |name: OsString| !is_link(&directory.join(&name)) && name != ".gitignore";
    if !directory.is_dir() || names(&directory).any(is_kept) {
        return Ok(());
    }
    for link in links(&directory) {
        fs::remove_file(&link).map_err(at(&link))?;
    }
    fs::remove_file(directory.join(".gitignore")).ok();
    fs::remove_dir(&directory).map_err(at(&directory))
}

/// Earlier hooks that are kept and called by nobody: another hook has taken their place.
pub(super) fn replaced(hooks: &Path) -> Vec<PathBuf> {
    let directory = kept_directory(hooks);
    names(&directory).filter(|name| is_replaced(name)).map(|name| directory.join(name)).collect()
}

fn names(directory: &Path) -> impl Iterator<Item = OsString> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name())
}

fn names_beginning(directory: &Path, prefix: &str) -> impl Iterator<Item = OsString> {
    names(directory).filter(move |name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

/// Links that [`link_neighbours`] has made. A kept hook may be a link, too: it has a hook's name.
fn links(directory: &Path) -> impl Iterator<Item = PathBuf> {
    names(directory)
        .filter(|name| !is_of_a_hook(name))
        .map(|name| directory.join(name))
        .filter(|path| is_link(path))
}

fn is_link(path: &Path) -> bool {
    path.is_symlink() && !path.file_name().is_some_and(is_of_a_hook)
}

/// True for the name of a hook that mala takes part in, also with something appended.
fn is_of_a_hook(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    Hook::ALL.iter().any(|hook| {
        let rest = name.strip_prefix(hook.name().as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
    })
}

/// Git's examples, which it never runs, and what mala is about to rename.
fn is_sample_or_draft(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.ends_with(".sample") || name.contains(".mala-") || name == ".gitignore"
}

fn is_replaced(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    Hook::ALL.iter().any(|hook| {
        let rest = name.strip_prefix(hook.name()).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest == REPLACED || rest.starts_with("replaced-"))
    })
}

/// The same file, or another one with the same content and permissions.
fn is_same(one: &Path, other: &Path) -> bool {
    let look = |path: &Path| {
        let metadata = fs::symlink_metadata(path)?;
        let content = match metadata.is_symlink() {
            true => fs::read_link(path)?.into_os_string().into_encoded_bytes(),
            false => fs::read(path)?,
        };
        io::Result::Ok((metadata.permissions().mode(), content))
    };
    matches!((look(one), look(other)), (Ok(one), Ok(other)) if one == other)
}
