//! The other checkouts of the repository: an agent works in its own, and only looks at the others.
//!
//! They are found where `git worktree list` finds them: the main one beside git's directory or where `core.worktree` says, the
//! linked ones in `worktrees/NAME/gitdir`. What the agent's tree adds itself is its own.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use mala_core::Scope;
use mala_core::file::{SETTINGS, read_small_text};
use mala_git::config_file::SettingsList;

/// A directory that was changed so long ago has been read as it is.
const SETTLED: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct OtherCheckouts {
    root: PathBuf,
    /// Where git keeps what it knows of linked checkouts.
    list: PathBuf,
    main: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Names in the list that the agent's tree has made.
    own: HashSet<OsString>,
    /// When the list was last changed, as far as it was read.
    read_at: Option<SystemTime>,
    /// Canonical. Who was here once stays: an agent can damage the list.
    others: Vec<PathBuf>,
    made: Vec<PathBuf>,
}

impl OtherCheckouts {
    pub(crate) fn of(scope: &Scope) -> Self {
        let root = scope.root().to_path_buf();
        let main = main_checkout(scope.git_dir()).filter(|main| *main != root);
        let list = scope.git_dir().join("worktrees");
        Self { root, list, main, known: Mutex::default() }
    }

    /// All of them as of now.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        self.refreshed().others.iter().chain(&self.main).cloned().collect()
    }

    /// The root of the other checkout that `path`, canonical, lies in.
    pub(crate) fn around(&self, path: &Path) -> Option<PathBuf> {
        // Objects and refs are every checkout's, wherever git's directory lies.
        if self.list.parent().is_some_and(|git_dir| path.starts_with(git_dir)) {
            return None;
        }
        let known = self.refreshed();
        let depth = |root: &&PathBuf| root.as_os_str().len();
        let contains = |root: &&PathBuf| path.starts_with(root);
        let other = known.others.iter().chain(&self.main).filter(contains).max_by_key(depth)?;
        let own = known.made.iter().chain([&self.root]).filter(contains).max_by_key(depth);
        own.is_none_or(|own| depth(&own) < depth(&other)).then(|| other.clone())
    }

    /// True for a file in git's directory that belongs to another checkout, such as its index.
    pub(crate) fn owns(&self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(&self.list) else {
            return self.main.is_some() && path.parent() == self.list.parent();
        };
        let name = rest.iter().next().unwrap_or_default();
        let is_this = self.root_of(&self.list.join(name)).as_deref() == Some(&self.root);
        !is_this && !self.known().own.contains(name)
    }

    /// The agent's tree has made this directory in git's.
    pub(crate) fn note_made(&self, directory: &Path) {
        if directory.parent() == Some(&self.list)
            && let Some(name) = directory.file_name()
        {
            let mut known = self.known();
            known.own.insert(name.to_owned());
            known.read_at = None;
        }
    }

    fn refreshed(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known();
        let changed_at = fs::metadata(&self.list).and_then(|list| list.modified()).ok();
        if changed_at.is_none() || known.read_at == changed_at {
            return known;
        }
        let mut is_whole = true;
        for entry in fs::read_dir(&self.list).into_iter().flatten().flatten() {
            // One that is just being made does not say yet where it is.
            let Some(root) = self.root_of(&entry.path()) else {
                is_whole &= entry.path().join("gitdir").exists();
                continue;
            };
            let is_own = known.own.contains(&entry.file_name());
            let roots = if is_own { &mut known.made } else { &mut known.others };
            if root != self.root && !roots.contains(&root) {
                roots.push(root);
            }
        }
        // What is added in the same moment does not change the time again.
        let is_settled = |changed_at: &SystemTime| changed_at.elapsed().is_ok_and(|age| age > SETTLED);
        known.read_at = changed_at.filter(|changed_at| is_whole && is_settled(changed_at));
        known
    }

    /// Where the files of a linked checkout are. None if they are gone.
    fn root_of(&self, entry: &Path) -> Option<PathBuf> {
        let text = read_small_text(&entry.join("gitdir"), SETTINGS).ok()?;
        let git = entry.join(text.trim_end_matches('\n'));
        git.parent()?.canonicalize().ok()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The checkout that is not linked; none of a bare repository.
fn main_checkout(git_dir: &Path) -> Option<PathBuf> {
    let settings = SettingsList::of(|_| None, &[git_dir.join("config")]);
    let root = match settings.last("core.worktree") {
        Some(named) => git_dir.join(named),
        None if settings.last("core.bare").is_some_and(|bare| bare.eq_ignore_ascii_case("true")) => {
            return None;
        }
        None => {
            git_dir.parent().filter(|_| git_dir.file_name().is_some_and(|name| name == ".git"))?.to_path_buf()
        }
    };
    root.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(root: &Path, args: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let status = Command::new("git").args(identity).args(args).current_dir(root).status().unwrap();
        assert!(status.success(), "{args:?}");
    }

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir(base.join("main")).unwrap();
        git(&base.join("main"), &["init", "-q"]);
        git(&base.join("main"), &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&base.join("main"), &["worktree", "add", "-q", "../linked"]);
        (folder, base)
    }

    fn others(root: &Path) -> OtherCheckouts {
        OtherCheckouts::of(&Scope::discover(root).unwrap())
    }

    #[test]
    fn every_checkout_but_the_agents_own_is_another_one() {
        let (_folder, base) = repository();
        let (main, linked) = (base.join("main"), base.join("linked"));
        git(&main, &["worktree", "add", "-q", "inner"]);
        let of_main = others(&main);
        assert_eq!(of_main.around(&linked.join("a/b")), Some(linked.clone()));
        assert_eq!(of_main.around(&main.join("inner/a")), Some(main.join("inner")));
        for own in [main.join("a"), base.join("elsewhere"), base.join("linked2/a")] {
            assert_eq!(of_main.around(&own), None, "{}", own.display());
        }
        let of_inner = others(&main.join("inner"));
        assert_eq!(of_inner.around(&main.join("a")), Some(main.clone()));
        assert_eq!(of_inner.around(&main.join("inner/a")), None);
        let git_dir = main.join(".git");
        assert!(
            of_inner.owns(&git_dir.join("index")) && of_inner.owns(&git_dir.join("worktrees/linked/index"))
        );
        assert!(!of_inner.owns(&git_dir.join("worktrees/inner/index")));
        assert!(
            !of_main.owns(&git_dir.join("index")) && of_main.owns(&git_dir.join("worktrees/inner/index"))
        );
    }

    #[test]
    fn what_is_made_later_belongs_to_who_made_it() {
        let (_folder, base) = repository();
        let main = base.join("main");
        let known = others(&main);
        assert_eq!(known.roots(), [base.join("linked")]);
        git(&main, &["worktree", "add", "-q", "../theirs"]);
        assert_eq!(known.around(&base.join("theirs/a")), Some(base.join("theirs")));
        known.note_made(&main.join(".git/worktrees/mine"));
        git(&main, &["worktree", "add", "-q", "../mine"]);
        assert_eq!(known.around(&base.join("mine/a")), None);
        assert!(!known.owns(&main.join(".git/worktrees/mine/index")));
        fs::remove_dir_all(main.join(".git/worktrees/theirs")).unwrap();
        assert_eq!(known.around(&base.join("theirs/a")), Some(base.join("theirs")), "it is still there");
    }
}
