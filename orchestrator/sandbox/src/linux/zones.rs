//! Which part of the file system a name belongs to, and with it who performs a call there.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use crate::Jail;
use crate::linux::landlock::Allowed;
use crate::linux::mounts::Alias;

/// A folder that was there this long ago is still there, as far as others are concerned.
const SETTLED: Duration = Duration::from_millis(20);

/// Where a canonical path lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone<'a> {
    /// Refused without asking anyone.
    Protected,
    /// A file of the checkout, relative to its root. The guard decides whether it needs a lock.
    Tree(&'a Path),
    /// In an exempt folder that Landlock allows: the kernel may run the call itself.
    Exempt,
    /// Belongs to git: performed by the broker, no lock.
    Git,
    /// Outside, and Landlock does not allow it: folders above the tree and what was made in them since. Performed by
    /// the broker, no lock.
    Above,
    /// Outside, and Landlock allows it: the kernel may run the call itself. If the name means something else by
    /// then, Landlock still keeps it out of the tree.
    Granted,
}

#[derive(Debug)]
pub(crate) struct Zones {
    root: PathBuf,
    dot_git: PathBuf,
    git_dir: PathBuf,
    protected: Vec<PathBuf>,
    aliases: Vec<Alias>,
    granted: Granted,
    exempt: RwLock<Vec<Exempt>>,
}

/// An exempt folder that Landlock allows.
#[derive(Debug)]
struct Exempt {
    folder: Allowed,
    seen: Mutex<Option<Instant>>,
}

impl Exempt {
    fn new(folder: Allowed) -> Self {
        Self { folder, seen: Mutex::default() }
    }

    /// True if the name still leads to that folder. Not looked at for every call: there are many, and what the
    /// broker takes away is [told](Zones::folder_is_gone).
    fn is_there(&self) -> bool {
        let mut seen = self.seen();
        if !seen.is_some_and(|seen| seen.elapsed() < SETTLED) {
            *seen = is_still(&self.folder.path, self.folder.identity).then(Instant::now);
        }
        seen.is_some()
    }

    fn seen(&self) -> MutexGuard<'_, Option<Instant>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What Landlock allows, and which file or folder had that name then: the permission belongs to the file, not to the name.
pub(crate) type Granted = HashMap<PathBuf, (u64, u64)>;

impl Zones {
    pub(crate) fn new(jail: &Jail, aliases: Vec<Alias>, granted: Granted, exempt: Vec<Allowed>) -> Self {
        Self {
            root: jail.root.clone(),
            dot_git: jail.root.join(".git"),
            git_dir: jail.git_dir.clone(),
            protected: jail.protected.clone(),
            aliases,
            granted,
            exempt: RwLock::new(exempt.into_iter().map(Exempt::new).collect()),
        }
    }

    /// An exempt folder that Landlock allows has its place now.
    pub(crate) fn add_exempt(&self, folder: Allowed) {
        self.exempt.write().unwrap_or_else(PoisonError::into_inner).push(Exempt::new(folder));
    }

    /// A folder was removed or replaced for a program of the tree.
    pub(crate) fn folder_is_gone(&self) {
        for exempt in self.exempt().iter() {
            *exempt.seen() = None;
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The name of `path` outside of any second mount of the tree.
    pub(crate) fn unalias(&self, path: PathBuf) -> PathBuf {
        for alias in &self.aliases {
            if let Ok(rest) = path.strip_prefix(&alias.mounted_at) {
                return if rest.as_os_str().is_empty() { alias.real.clone() } else { alias.real.join(rest) };
            }
        }
        path
    }

    pub(crate) fn of<'a>(&self, path: &'a Path) -> Zone<'a> {
        if self.is_protected(path) {
            return Zone::Protected;
        }
        if self.is_exempt(path) {
            return Zone::Exempt;
        }
        if self.is_git(path) {
            return Zone::Git;
        }
        if let Some(relative) = below(path, &self.root) {
            return Zone::Tree(relative);
        }
        if self.is_granted(path) { Zone::Granted } else { Zone::Above }
    }

    fn is_protected(&self, path: &Path) -> bool {
        path == self.dot_git || self.protected.iter().any(|name| below(path, name).is_some())
    }

    /// True where no lock is needed in the tree and Landlock says yes.
    pub(crate) fn is_exempt(&self, path: &Path) -> bool {
        let is_ours = self.is_git(path) || below(path, &self.root).is_some();
        is_ours && !self.is_protected(path) && self.is_in_exempt(path)
    }

    /// True below a granted folder that is still the one it was. Not for the folder itself: to remove or replace it takes
    /// rights on the folder above.
    fn is_granted(&self, path: &Path) -> bool {
        let folder = path.ancestors().skip(1).find_map(|above| Some((above, self.granted.get(above)?)));
        folder.is_some_and(|(folder, identity)| is_still(folder, *identity))
    }

    /// True below an exempt folder that is still the one it was, as above.
    fn is_in_exempt(&self, path: &Path) -> bool {
        self.exempt().iter().any(|exempt| {
            below(path, &exempt.folder.path).is_some_and(|rest| !rest.as_os_str().is_empty())
                && exempt.is_there()
        })
    }

    fn exempt(&self) -> RwLockReadGuard<'_, Vec<Exempt>> {
        self.exempt.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if moving `path` would move a folder that Landlock allows, and with it the permission.
    pub(crate) fn carries_exempt(&self, path: &Path) -> bool {
        let moves = |folder: &Allowed| below(&folder.path, path).is_some();
        self.exempt()
            .iter()
            .any(|Exempt { folder, .. }| moves(folder) && is_still(&folder.path, folder.identity))
    }

    /// True for names that belong to git rather than to the checkout.
    pub(crate) fn is_git(&self, path: &Path) -> bool {
        below(path, &self.dot_git).is_some() || below(path, &self.git_dir).is_some()
    }

    /// True if something that must stay where it is lies below `path`: moving `path` would move it.
    pub(crate) fn carries_fixed(&self, path: &Path) -> bool {
        let fixed = [&self.root, &self.dot_git, &self.git_dir];
        fixed.into_iter().chain(&self.protected).any(|name| below(name, path).is_some())
    }
}

/// True if the name still leads to that file or folder.
fn is_still(path: &Path, identity: (u64, u64)) -> bool {
    fs::symlink_metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == identity)
}

/// The rest of `path` if it is `folder` or below it. Both are canonical, so it is enough to compare their bytes.
fn below<'p>(path: &'p Path, folder: &Path) -> Option<&'p Path> {
    let rest = path.as_os_str().as_bytes().strip_prefix(folder.as_os_str().as_bytes())?;
    let rest = match rest.split_first() {
        None => rest,
        Some((b'/', rest)) => rest,
        // Only `/` itself ends in a slash.
        Some(_) if folder == Path::new("/") => rest,
        Some(_) => return None,
    };
    Some(Path::new(OsStr::from_bytes(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones() -> Zones {
        let jail = Jail {
            root: "/home/u/repo".into(),
            git_dir: "/home/u/repo/.git".into(),
            protected: vec!["/home/u/repo/.git/hooks".into(), "/home/u/repo/.git/mala".into()],
            closed: Vec::new(),
            exempt: Vec::new(),
            spares: None,
        };
        let alias = Alias { mounted_at: "/mnt/again".into(), real: "/home/u/repo".into() };
        let tmp = fs::metadata("/tmp").unwrap();
        let replaced = (tmp.dev(), tmp.ino() + 1);
        let granted = [("/tmp".into(), (tmp.dev(), tmp.ino())), ("/usr".into(), replaced)];
        Zones::new(&jail, vec![alias], granted.into(), Vec::new())
    }

    #[test]
    fn every_path_has_its_zone() {
        let zones = zones();
        let of = |path| zones.of(Path::new(path));
        assert_eq!(of("/home/u/repo/src/a.rs"), Zone::Tree(Path::new("src/a.rs")));
        assert_eq!(of("/home/u/repo/.gitignore"), Zone::Tree(Path::new(".gitignore")));
        assert_eq!(of("/home/u/repo/.git/index.lock"), Zone::Git);
        assert_eq!(of("/home/u/repo/.git/hooks/pre-commit"), Zone::Protected);
        assert_eq!(of("/home/u/repo/.git"), Zone::Protected);
        assert_eq!(of("/home/u/.claude.json"), Zone::Above);
        assert_eq!(of("/home/u/repo2/a"), Zone::Above);
        assert_eq!(of("/tmp/x/y"), Zone::Granted);
        assert_eq!(of("/tmpx"), Zone::Above);
        assert_eq!(of("/tmp"), Zone::Above, "its name is in a folder above the tree");
        assert_eq!(of("/usr/x"), Zone::Above, "not the folder that was granted");
    }

    #[test]
    fn folders_above_fixed_names_cannot_move() {
        let zones = zones();
        for path in ["/home", "/home/u/repo", "/home/u/repo/.git", "/home/u/repo/.git/hooks"] {
            assert!(zones.carries_fixed(Path::new(path)), "{path}");
        }
        assert!(!zones.carries_fixed(Path::new("/home/u/repo/src")));
        assert!(!zones.carries_fixed(Path::new("/home/u/repo/.git/refs")));
    }

    #[test]
    fn a_second_mount_of_the_tree_is_the_tree() {
        assert_eq!(zones().unalias("/mnt/again/src/a".into()), Path::new("/home/u/repo/src/a"));
        assert_eq!(zones().unalias("/mnt/again2/a".into()), Path::new("/mnt/again2/a"));
    }
}
