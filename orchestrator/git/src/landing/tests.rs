mod checkouts;
mod crashes;
mod stacking;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use mala_core::Scope;

use super::*;
use crate::Repo;

pub(super) const MAIN: &str = "refs/heads/main";

/// A repository with some files committed on `main`, and a directory of mala's own.
pub(super) struct World {
    pub(super) dir: tempfile::TempDir,
    pub(super) repo: Repo,
}

impl World {
    pub(super) fn new() -> Self {
        let world = Self::init();
        for (name, text) in
            [("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"), ("b", "b\n"), ("dir/c", "c\n"), ("dir/d", "d\n")]
        {
            world.write(name, text);
        }
        world.write(".gitignore", "*.ignored\n");
        world.commit("start");
        world
    }

    pub(super) fn init() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["repo", "landing"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let root = dir.path().join("repo");
        let init = Command::new("git").args(["init", "-q", "-b", "main"]).arg(&root).status().unwrap();
        assert!(init.success());
        Self::open(dir)
    }

    pub(super) fn open(dir: tempfile::TempDir) -> Self {
        let repo = repo_at(&dir.path().join("repo"));
        let world = Self { dir, repo };
        world.git(&["config", "user.name", "committer"]);
        world.git(&["config", "user.email", "committer@example.invalid"]);
        world
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        git_at(self.repo.root(), args)
    }

    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.repo.root().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let place = self.place(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.place(name)).unwrap()
    }

    pub(super) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.place(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(super) fn head(&self) -> Oid {
        self.oid("HEAD")
    }

    pub(super) fn oid(&self, name: &str) -> Oid {
        Oid::parse(&self.git(&["rev-parse", name])).unwrap()
    }

    /// Everything that lies there, committed.
    pub(super) fn commit(&self, message: &str) -> Oid {
        self.git(&["add", "-A"]);
        let author = "--author=Ann <ann@example.invalid>";
        self.git(&["commit", "-q", "--allow-empty", "-m", message, author, "--date=@1000000000 +0130"]);
        self.head()
    }

    /// A commit on `base` that is on no branch; the checkout is on `main` again, with all files as `main` has them.
    pub(super) fn offer(&self, base: &Oid, change: impl FnOnce(&Self)) -> Oid {
        self.git(&["checkout", "-q", "--detach", base.as_str()]);
        change(self);
        let head = self.commit("bd-1: offered\n\nwith a body");
        self.git(&["checkout", "-q", "main"]);
        head
    }

    pub(super) fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    pub(super) fn landing_directory(&self) -> PathBuf {
        self.dir.path().join("landing")
    }

    /// Lands on `main`, sparing nothing.
    pub(super) fn land(&self, from: &Oid, to: &Oid) -> Landed {
        self.land_sparing(from, to, &[])
    }

    pub(super) fn land_sparing(&self, from: &Oid, to: &Oid, spared: &[&str]) -> Landed {
        let (directory, spared) = (self.landing_directory(), spared.iter().map(|name| path(name)).collect());
        let landed = land(&self.repo, &step(from, to, &directory, &spared)).unwrap();
        self.assert_nothing_left();
        landed
    }

    pub(super) fn assert_nothing_left(&self) {
        assert!(!self.place(".git/index.lock").exists());
        assert_eq!(fs::read_dir(self.landing_directory()).unwrap().count(), 0, "what was prepared is gone");
    }
}

pub(super) fn step<'a>(
    from: &'a Oid,
    to: &'a Oid,
    directory: &'a Path,
    spared: &'a BTreeSet<RepoPath>,
) -> BranchMove<'a> {
    BranchMove { branch: MAIN, from, to, reason: "mala: landed bd-1", directory, spared }
}

pub(super) fn repo_at(root: &Path) -> Repo {
    Repo::new(Scope::discover(root).unwrap())
}

pub(super) fn git_at(root: &Path, args: &[&str]) -> String {
    let out = Command::new("git")
        .current_dir(root)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

pub(super) fn path(name: &str) -> RepoPath {
    RepoPath::from_bytes(name.as_bytes())
}

pub(super) const DONE: Landed = Landed::Done { left: Vec::new() };
