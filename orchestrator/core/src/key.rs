//! Keys: the canonical name of a file inside a scope.
//!
//! Whatever a caller types (a relative path, a symlink, a path with `..`, a name that does not exist yet), two
//! paths that reach one file get one key, and two files never share one. Names are bytes: anything a file name can
//! contain is kept. Hard links are different names of one file; [`Scope::hard_links`] finds the others.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use path_clean::PathClean;
use sha2::{Digest, Sha256};
use thiserror::Error;
use walkdir::{DirEntryExt, WalkDir};

use crate::Scope;
use crate::scope::Case;

/// Links followed before a path counts as a loop; the kernel's own limit.
pub(crate) const MAX_LINKS: u8 = 40;

/// Why a path has no key.
#[derive(Debug, Error)]
pub enum KeyError {
    #[error("the path is empty: name a file")]
    Empty,
    #[error("`{}` is outside this checkout (`{}`)", .path.display(), .root.display())]
    Outside { path: PathBuf, root: PathBuf },
    #[error("`{}` belongs to git, not to the checkout: it cannot be locked", .path.display())]
    GitInternal { path: PathBuf },
    #[error("cannot resolve `{}`", .path.display())]
    Unresolvable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Canonical name of a file, relative to its scope. Empty for the scope's own folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key that was made by [`Scope::key`] earlier and kept somewhere.
    pub fn from_stored(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Short stable name for places where a path does not fit: 16 hex digits of the key's SHA-256.
    pub fn short_id(&self) -> String {
        Sha256::digest(&self.0)[..8].iter().fold(String::with_capacity(16), |mut id, byte| {
            write!(id, "{byte:02x}").expect("writing to a string cannot fail");
            id
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.0)
    }
}

/// Shows a name's bytes as text; bytes that are not UTF-8 become `\xNN`.
pub(crate) fn write_name(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        f.write_str(chunk.valid())?;
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02X}")?;
        }
    }
    Ok(())
}

impl Scope {
    /// The key of `path`, which is relative to `cwd` unless it is absolute.
    pub fn key(&self, cwd: &Path, path: &Path) -> Result<Key, KeyError> {
        if path.as_os_str().is_empty() {
            return Err(KeyError::Empty);
        }
        let canonical = canonical(&cwd.join(path), MAX_LINKS)
            .map_err(|source| KeyError::Unresolvable { path: path.to_path_buf(), source })?;
        let Ok(inside) = canonical.strip_prefix(self.root()) else {
            let root = self.root().to_path_buf();
            return Err(KeyError::Outside { path: path.to_path_buf(), root });
        };
        if self.is_git_internal(&canonical) {
            return Err(KeyError::GitInternal { path: path.to_path_buf() });
        }
        Ok(Key(self.fold(inside.as_os_str().as_bytes().to_vec())))
    }

    /// The other names, within this scope, of the file called `key`. Nearly always empty, and then it costs one
    /// `stat`; a file with several links costs a walk of the checkout that ends when all were found.
    pub fn hard_links(&self, key: &Key) -> Vec<Key> {
        let path = self.root().join(key.as_path());
        let Ok(meta) = fs::symlink_metadata(&path) else { return Vec::new() };
        if !meta.is_file() || meta.nlink() < 2 {
            return Vec::new();
        }
        let others = usize::try_from(meta.nlink() - 1).unwrap_or(usize::MAX);
        WalkDir::new(self.root())
            .same_file_system(true)
            .into_iter()
            .filter_entry(|entry| !self.is_git_internal(entry.path()))
            .filter_map(Result::ok)
            .filter(|entry| entry.ino() == meta.ino() && entry.file_type().is_file() && entry.path() != path)
            .filter_map(|entry| {
                Some(entry.path().strip_prefix(self.root()).ok()?.as_os_str().as_bytes().to_vec())
            })
            .map(|name| Key(self.fold(name)))
            .take(others)
            .collect()
    }

    /// True if `key` is a folder right now.
    pub fn is_folder(&self, key: &Key) -> bool {
        self.root().join(key.as_path()).is_dir()
    }

    pub(crate) fn fold(&self, name: Vec<u8>) -> Vec<u8> {
        match (self.case(), String::from_utf8(name)) {
            (Case::Folded, Ok(text)) => text.to_lowercase().into_bytes(),
            (Case::Sensitive, Ok(text)) => text.into_bytes(),
            (_, Err(not_text)) => not_text.into_bytes(),
        }
    }
}

/// Resolves every link on the way to `path`, which need not exist: what is missing is cleaned lexically.
pub(crate) fn canonical(path: &Path, mut links_left: u8) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Ok(resolved) => return Ok(resolved),
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(error),
    }
    let mut resolved = PathBuf::from("/");
    let mut pending: VecDeque<OsString> = parts(path).collect();
    while let Some(part) = pending.pop_front() {
        if part == ".." {
            resolved.pop();
            continue;
        }
        resolved.push(part);
        match fs::read_link(&resolved) {
            // Also for a dangling link: writing through it creates its target, so that is the file meant.
            Ok(target) => {
                links_left = links_left.checked_sub(1).ok_or_else(|| io::Error::other("too many links"))?;
                resolved.pop();
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    pending.push_front(part);
                }
            }
            Err(error) if is_missing(&error) => {
                let climbs = pending.iter().any(|part| part == "..");
                resolved.extend(pending);
                return if climbs { canonical(&resolved.clean(), links_left) } else { Ok(resolved) };
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => {} // exists and is not a link
            Err(error) => return Err(error),
        }
    }
    Ok(resolved)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
}

/// A name too long for this file system cannot exist, which is no reason to refuse it a key.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    struct World {
        _dir: tempfile::TempDir,
        scope: Scope,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        fs::create_dir_all(root.join("src/deep")).unwrap();
        let init = std::process::Command::new("git").args(["init", "-q"]).arg(&root).status().unwrap();
        assert!(init.success());
        fs::write(root.join("src/a.rs"), "a").unwrap();
        fs::write(root.join("src/b.rs"), "b").unwrap();
        World { scope: Scope::discover(&root).unwrap(), _dir: dir }
    }

    impl World {
        fn root(&self) -> &Path {
            self.scope.root()
        }

        fn key(&self, path: impl AsRef<Path>) -> String {
            self.scope.key(self.root(), path.as_ref()).unwrap().to_string()
        }
    }

    #[test]
    fn every_alias_of_a_file_has_its_key() {
        let w = world();
        symlink("src", w.root().join("lib")).unwrap();
        symlink("src/a.rs", w.root().join("link.rs")).unwrap();
        symlink(w.root().join("link.rs"), w.root().join("link2.rs")).unwrap();
        symlink(w.root(), w.root().parent().unwrap().join("checkout")).unwrap();
        let outside = w.root().parent().unwrap().join("checkout/lib/a.rs");
        let aliases =
            ["src/a.rs", "./src//a.rs", "src/a.rs/", "src/deep/../a.rs", "lib/a.rs", "link.rs", "link2.rs"];
        for alias in aliases.map(PathBuf::from).into_iter().chain([w.root().join("src/a.rs"), outside]) {
            assert_eq!(w.key(&alias), "src/a.rs", "{}", alias.display());
        }
        assert_eq!(
            w.scope.key(&w.root().join("src"), Path::new("../src/a.rs")).unwrap().to_string(),
            "src/a.rs"
        );
    }

    #[test]
    fn different_files_have_different_keys() {
        let w = world();
        let names = ["src/a.rs", "src/b.rs", "SRC/a.rs", "src/A.rs", "src/a.rs ", "src/a.rs\n", "src/ä.rs"];
        let keys: std::collections::HashSet<_> = names.iter().map(|name| w.key(name)).collect();
        assert_eq!(keys.len(), names.len());
    }

    #[test]
    fn files_that_do_not_exist_yet_resolve_through_what_does() {
        let w = world();
        symlink("src", w.root().join("lib")).unwrap();
        symlink("src/new.rs", w.root().join("dangling")).unwrap();
        symlink("dangling", w.root().join("dangling2")).unwrap();
        for alias in ["lib/new.rs", "dangling", "dangling2", "nowhere/../lib/new.rs", "lib/x/y/../../new.rs"]
        {
            assert_eq!(w.key(alias), "src/new.rs", "{alias}");
        }
        assert_eq!(w.key("new/folder/file"), "new/folder/file");
        // `nowhere/..` is `.`, so what follows is looked at again.
        assert_eq!(w.key("nowhere/../dangling"), "src/new.rs");
    }

    #[test]
    fn names_are_bytes_of_any_kind_and_length() {
        let w = world();
        let raw = OsStr::from_bytes(b"src/\xff\n'$(x).rs");
        let key = w.scope.key(w.root(), Path::new(raw)).unwrap();
        assert_eq!(key.as_bytes(), raw.as_bytes());
        assert_eq!(key.to_string(), "src/\\xFF\n'$(x).rs");
        for length in [300, 4_000, 100_000] {
            assert_eq!(w.key("x".repeat(length)).len(), length);
        }
        assert_eq!(w.key("d/".repeat(50_000)).len(), 99_999);
    }

    #[test]
    fn hard_links_are_found_by_any_of_their_names() {
        let w = world();
        let key = |path: &str| w.scope.key(w.root(), Path::new(path)).unwrap();
        assert_eq!(w.scope.hard_links(&key("src/a.rs")), []);
        fs::hard_link(w.root().join("src/a.rs"), w.root().join("src/deep/same.rs")).unwrap();
        assert_eq!(w.scope.hard_links(&key("src/a.rs")), [key("src/deep/same.rs")]);
        assert_eq!(w.scope.hard_links(&key("src/deep/same.rs")), [key("src/a.rs")]);
        fs::hard_link(w.root().join("src/b.rs"), w.root().parent().unwrap().join("outside.rs")).unwrap();
        assert_eq!(w.scope.hard_links(&key("src/b.rs")), [], "a name outside the scope is not a key");
    }

    #[test]
    fn a_file_system_that_folds_case_folds_keys() {
        let w = world();
        let scope = w.scope.clone().folding();
        let key = |path: &str| scope.key(w.root(), Path::new(path)).unwrap();
        assert_eq!(key("New/Ähnlich.RS"), key("new/ähnlich.rs"));
    }

    #[test]
    fn what_is_not_a_file_of_the_checkout_has_no_key() {
        let w = world();
        symlink("/etc", w.root().join("etc")).unwrap();
        symlink("loop", w.root().join("loop")).unwrap();
        let key = |path: &str| w.scope.key(w.root(), Path::new(path));
        assert!(matches!(key(""), Err(KeyError::Empty)));
        for outside in ["..", "../x", "/etc/passwd", "etc/passwd", "src/../../x"] {
            assert!(matches!(key(outside), Err(KeyError::Outside { .. })), "{outside}");
        }
        for git in [".git", ".git/config", "src/../.git/HEAD", ".git/mala/state.db"] {
            assert!(matches!(key(git), Err(KeyError::GitInternal { .. })), "{git}");
        }
        assert!(matches!(key("loop"), Err(KeyError::Unresolvable { .. })));
        assert_eq!(key("..hidden").unwrap().to_string(), "..hidden");
    }

    #[test]
    fn short_ids_are_stable() {
        assert_eq!(Key::from_stored(b"src/a.rs".to_vec()).short_id(), "bdfc5619650b795d");
    }

    proptest! {
        /// Detours never change a key: `d/..` in front of a component, doubled slashes, `.`.
        #[test]
        fn detours_do_not_change_the_key(
            names in prop::collection::vec("[a-c]{1,2}", 1..5),
            detours in prop::collection::vec(prop::sample::select(vec!["", "./", "x/../", "y//../"]), 5),
        ) {
            let w = world();
            let plain = names.join("/");
            let detoured: String = names.iter().zip(&detours).map(|(n, d)| format!("{d}{n}/")).collect();
            prop_assert_eq!(w.key(&detoured), plain);
        }
    }
}
