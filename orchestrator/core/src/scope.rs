//! A scope: one git checkout that several agents share.
//!
//! [`Scope::discover`] is the only place that decides which checkout a folder belongs to. It looks at the file
//! system alone: `GIT_DIR` and its relatives are ignored on purpose, because an environment variable must not
//! move an agent into another scope.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::key::{MAX_LINKS, canonical};

/// Linux opens no longer path.
const PATH_MAX: usize = 4096;

/// Name of the folder inside git's common folder that holds everything mala remembers.
const STATE_FOLDER: &str = "mala";
const WORK_FOLDER: &str = "mala-work";

/// Why a folder has no scope.
#[derive(Debug, Error)]
pub enum ScopeError {
    #[error("`{}` is not inside a git repository", .start.display())]
    NotARepository { start: PathBuf },
    #[error("`{}` is a bare git repository: it has no files to lock", .git_dir.display())]
    Bare { git_dir: PathBuf },
    #[error("cannot look at `{}`", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// What a checkout's settings are called, at its top.
pub const SETTINGS_FILE: &str = "mala.toml";

/// The directory at a checkout's top in which people say how agents work there.
pub const PEOPLE_FOLDER: &str = ".mala";

/// Whether the checkout's file system tells `README` from `readme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Sensitive,
    /// Names that differ only in case are one file, so keys and patterns are kept in lower case.
    Folded,
}

/// One shared checkout, by its canonical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    root: PathBuf,
    checkout_git_dir: PathBuf,
    common_dir: PathBuf,
    case: Case,
}

impl Scope {
    /// The scope that `start`, a folder, lies in. Every alias of a checkout (a subfolder, a symlink, a relative
    /// path) gives the same scope; a linked worktree is a scope of its own.
    pub fn discover(start: &Path) -> Result<Self, ScopeError> {
        let start = canonicalize(start)?;
        let (found, _trust) = gix_discover::upwards(&start)
            .map_err(|_not_found| ScopeError::NotARepository { start: start.clone() })?;
        let (git_dir, work_dir) = found.into_repository_and_work_tree_directories();
        let git_dir = canonicalize(&git_dir)?;
        let Some(work_dir) = work_dir else {
            return Err(ScopeError::Bare { git_dir });
        };
        let common_dir =
            match gix_discover::path::from_plain_file_relative_to_file(&git_dir.join("commondir")) {
                None => git_dir.clone(),
                Some(Ok(common)) => canonicalize(&common)?,
                Some(Err(source)) => {
                    return Err(ScopeError::Unreadable { path: git_dir.join("commondir"), source });
                }
            };
        let root = canonicalize(&work_dir)?;
        let case = case_of(&root);
        Ok(Self { root, checkout_git_dir: git_dir, common_dir, case })
    }

    /// The checkouts that `path` lies in, the innermost first: a repository may lie in another one. The path is absolute and
    /// need not exist; every link in it is followed.
    pub fn around(path: &Path) -> Result<Vec<Self>, ScopeError> {
        let path = canonical(path, MAX_LINKS)
            .map_err(|source| ScopeError::Unreadable { path: path.to_path_buf(), source })?;
        let mut found: Vec<Self> = Vec::new();
        // The kernel opens no longer one, so it is no folder either, and need not be asked for each part of it.
        let mut short = path.ancestors().skip_while(|folder| folder.as_os_str().len() >= PATH_MAX);
        let mut next = short.find(|folder| folder.is_dir()).map(Path::to_path_buf);
        while let Some(folder) = next {
            let top = match Self::discover(&folder) {
                // Git's own folder of a linked worktree leads to that worktree, which lies elsewhere.
                Ok(scope) if !folder.starts_with(&scope.root) => folder,
                Ok(scope) => {
                    let root = scope.root.clone();
                    found.push(scope);
                    root
                }
                Err(ScopeError::Bare { git_dir }) => git_dir,
                Err(ScopeError::NotARepository { .. }) => break,
                Err(error) => return Err(error),
            };
            next = top.parent().map(Path::to_path_buf);
        }
        Ok(found)
    }

    /// True if mala has been used here. Where it has not, nobody holds anything.
    pub fn is_in_use(&self) -> bool {
        self.state_dir().is_dir()
    }

    /// The checkout's top folder, canonical.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where mala keeps its state. All linked worktrees of a repository share it.
    pub fn state_dir(&self) -> PathBuf {
        self.common_dir.join(STATE_FOLDER)
    }

    /// Where commands of agents make folders for a moment: drafts of commits, snapshots. Unlike the state, agents may
    /// write here, so nothing in it is believed.
    pub fn work_dir(&self) -> PathBuf {
        self.common_dir.join(WORK_FOLDER)
    }

    /// Where the checkout's own settings are, if it has any.
    pub fn settings_file(&self) -> PathBuf {
        self.root.join(SETTINGS_FILE)
    }

    /// Where people say how agents work here, if they do.
    pub fn people_dir(&self) -> PathBuf {
        self.root.join(PEOPLE_FOLDER)
    }

    /// Git's directory of this very checkout, where its index and `HEAD` lie, canonical.
    pub fn checkout_git_dir(&self) -> &Path {
        &self.checkout_git_dir
    }

    /// Git's common folder, canonical.
    pub fn git_dir(&self) -> &Path {
        &self.common_dir
    }

    pub fn case(&self) -> Case {
        self.case
    }

    /// True for paths that belong to git rather than to the checkout.
    pub(crate) fn is_git_internal(&self, canonical: &Path) -> bool {
        canonical.starts_with(&self.common_dir) || canonical.starts_with(self.root.join(".git"))
    }
}

fn canonicalize(path: &Path) -> Result<PathBuf, ScopeError> {
    fs::canonicalize(path).map_err(|source| ScopeError::Unreadable { path: path.to_path_buf(), source })
}

/// Every checkout has a `.git`: if `.GIT` is the same file, names are folded. Git itself finds out this way.
fn case_of(root: &Path) -> Case {
    let id = |name: &str| fs::symlink_metadata(root.join(OsString::from(name))).map(|m| (m.dev(), m.ino()));
    match (id(".git"), id(".GIT")) {
        (Ok(lower), Ok(upper)) if lower == upper => Case::Folded,
        _ => Case::Sensitive,
    }
}

#[cfg(test)]
impl Scope {
    /// A scope as a file system that folds case would give it.
    pub(crate) fn folding(self) -> Self {
        Self { case: Case::Folded, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
        let out = Command::new("git")
            .arg("-C")
            .arg(dir)
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.invalid",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(args)
            .env_remove("GIT_DIR")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn repo() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main"]);
        git(&root, &["commit", "-q", "--allow-empty", "-m", "first"]);
        (dir, root)
    }

    fn agrees_with_git(start: &Path) -> Scope {
        let scope = Scope::discover(start).unwrap();
        assert_eq!(scope.root(), Path::new(&git(start, &["rev-parse", "--show-toplevel"])));
        let common = git(start, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        assert_eq!(scope.state_dir(), Path::new(&common).canonicalize().unwrap().join("mala"));
        scope
    }

    #[test]
    fn subfolders_symlinks_and_relative_paths_are_one_scope() {
        let (dir, root) = repo();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink(&root, dir.path().join("alias")).unwrap();
        let scope = agrees_with_git(&root);
        for alias in [root.join("a/b"), root.join("a/../a/b/.."), dir.path().join("alias/a"), root.join(".")]
        {
            assert_eq!(agrees_with_git(&alias), scope, "{}", alias.display());
        }
    }

    #[test]
    fn a_linked_worktree_is_its_own_scope_with_shared_state() {
        let (dir, root) = repo();
        let linked = dir.path().join("linked");
        git(&root, &["worktree", "add", "-q", linked.to_str().unwrap()]);
        let (main, linked) = (agrees_with_git(&root), agrees_with_git(&linked));
        assert_ne!(main.root(), linked.root());
        assert_eq!(main.state_dir(), linked.state_dir());
    }

    #[test]
    fn a_submodule_is_its_own_scope() {
        let (dir, root) = repo();
        let other = dir.path().join("other");
        fs::create_dir(&other).unwrap();
        git(&other, &["init", "-q"]);
        git(&other, &["commit", "-q", "--allow-empty", "-m", "first"]);
        git(&root, &["submodule", "add", "-q", other.to_str().unwrap(), "sub"]);
        assert_eq!(agrees_with_git(&root.join("sub")).root(), root.join("sub"));
    }

    #[test]
    fn a_path_lies_in_every_checkout_around_it() {
        let (dir, root) = repo();
        let inner = root.join("libs/inner");
        fs::create_dir_all(inner.join("src")).unwrap();
        git(&inner, &["init", "-q"]);
        symlink(inner.join("src/a.rs"), dir.path().join("link.rs")).unwrap();
        let around = |path: PathBuf| -> Vec<PathBuf> {
            Scope::around(&path).unwrap().into_iter().map(|scope| scope.root).collect()
        };
        assert_eq!(around(root.join("new/folder/a.rs")), std::slice::from_ref(&root));
        assert_eq!(around(inner.join("src/a.rs")), [inner.clone(), root.clone()]);
        assert_eq!(around(dir.path().join("link.rs")), [inner.clone(), root.clone()], "through a link");
        assert_eq!(around(inner.join(".git/hooks/x")), [inner.clone(), root.clone()], "git's own files");
        assert!(around(dir.path().join("elsewhere")).is_empty());
        let linked = root.join("linked");
        git(&root, &["worktree", "add", "-q", linked.to_str().unwrap()]);
        assert_eq!(around(linked.join("a")), [linked.clone(), root.clone()]);
        assert_eq!(around(root.join(".git/worktrees/linked/HEAD")), [root]);
    }

    #[test]
    fn folders_without_a_checkout_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Scope::discover(dir.path()), Err(ScopeError::NotARepository { .. })));
        git(dir.path(), &["init", "-q", "--bare", "bare.git"]);
        assert!(matches!(Scope::discover(&dir.path().join("bare.git")), Err(ScopeError::Bare { .. })));
        assert!(matches!(Scope::discover(&dir.path().join("gone")), Err(ScopeError::Unreadable { .. })));
    }

    #[test]
    fn a_path_of_ten_megabytes_is_placed_at_once() {
        let (_dir, root) = repo();
        let deep = root.join("a/".repeat(5_000_000));
        // Whoever asks for each folder of it does not come to an end here.
        assert_eq!(Scope::around(&deep).unwrap().len(), 1);
    }
}
