//! A repository of its own for each test, with a home and a git configuration that nobody else sees.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mala_core::{AgentId, Fence, IssueId, Key, Scope, Timestamp};
use mala_git::{Holder, Oid, Ownership, OwnershipError, Repo, RepoPath};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) root: PathBuf,
    home: PathBuf,
    _dir: Option<TempDir>,
}

impl World {
    /// A repository with one commit: `a.txt`, `b.txt` and `src/lib.rs`.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        world.write("a.txt", "a\n");
        world.write("b.txt", "b\n");
        world.write("src/lib.rs", "// lib\n");
        world.git(&["add", "."]);
        world.git(&["commit", "-q", "-m", "first"]);
        world
    }

    /// A repository without a commit.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let world = Self { root: base.join("checkout"), home: base.join("home"), _dir: Some(dir) };
        fs::create_dir(&world.root).unwrap();
        fs::create_dir(world.home()).unwrap();
        world.git(&["init", "-q", "-b", "main", "--template="]);
        world.git(&["config", "user.name", "Test"]);
        world.git(&["config", "user.email", "test@example.invalid"]);
        world
    }

    /// Another checkout of the same repository.
    pub(crate) fn at(root: PathBuf, of: &Self) -> Self {
        Self { root, home: of.home.clone(), _dir: None }
    }

    pub(crate) fn base(&self) -> &Path {
        self.root.parent().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.clone()
    }

    /// Variables that keep the user's own settings out.
    pub(crate) fn env(&self) -> Vec<(String, PathBuf)> {
        vec![
            ("HOME".into(), self.home()),
            ("XDG_CONFIG_HOME".into(), self.home().join(".config")),
            ("GIT_CONFIG_GLOBAL".into(), self.home().join(".gitconfig")),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ]
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::discover(&self.root).unwrap()
    }

    pub(crate) fn repo(&self) -> Repo {
        self.env().into_iter().fold(Repo::new(self.scope()), |repo, (name, value)| repo.with_env(name, value))
    }

    /// Everything that a failed command must leave alone: last commit, index, and every file's bytes and mode.
    pub(crate) fn photo(&self) -> String {
        let head = self.try_git(&["rev-parse", "HEAD"]).stdout;
        let mut photo = String::from_utf8_lossy(&head).into_owned();
        photo += &self
            .git(&["ls-files", "--stage", "--debug"])
            .lines()
            .filter(|line| !line.starts_with(' '))
            .collect::<Vec<_>>()
            .join("\n");
        photo += &self.git(&["--no-optional-locks", "status", "--porcelain=v2", "--untracked-files=all"]);
        let mut files: Vec<PathBuf> = Vec::new();
        collect(&self.root, &mut files);
        files.sort();
        for file in files {
            let mode = fs::symlink_metadata(&file).unwrap().permissions().mode();
            photo += &format!("\n{} {mode:o} {:?}", file.display(), fs::read(&file).unwrap_or_default());
        }
        photo
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).envs(self.env());
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn try_git(&self, args: &[&str]) -> Output {
        self.command("git").args(args).output().unwrap()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let out = self.try_git(args);
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
    }

    pub(crate) fn head(&self) -> Oid {
        Oid::parse(&self.git(&["rev-parse", "HEAD"])).unwrap()
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).unwrap();
    }

    pub(crate) fn set_mode(&self, path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// An executable script of the repository's git hooks.
    pub(crate) fn hook(&self, name: &str, script: &str) {
        self.program(Path::new(".git/hooks").join(name), &format!("#!/bin/sh\n{script}\n"));
    }

    /// An executable script. Another process writes it: what other tests start meanwhile would inherit a descriptor of
    /// ours for a moment, and nobody can run a file that is open for writing.
    pub(crate) fn program(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.root.join(path);
        let write = "mkdir -p \"${0%/*}\" && printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(&path).arg(text).status().unwrap();
        assert!(written.success(), "{}", path.display());
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

pub(crate) fn path(text: &str) -> RepoPath {
    RepoPath::from_bytes(text)
}

pub(crate) fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

/// Locks as a test says they are.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Everybody who has held it, and since when; the last one holds it now.
    held: RefCell<HashMap<Key, Vec<(AgentId, Timestamp)>>>,
}

impl Locks {
    pub(crate) fn new(held: &[(&str, &str)]) -> Self {
        let locks = Self::default();
        for (agent, path) in held {
            locks.give(agent, path);
        }
        locks
    }

    pub(crate) fn give(&self, name: &str, path: &str) {
        self.give_at(name, path, Timestamp::now());
    }

    pub(crate) fn give_at(&self, name: &str, path: &str, since: Timestamp) {
        self.hold(name, path.as_bytes(), since);
    }

    pub(crate) fn give_bytes(&self, name: &str, path: &[u8]) {
        self.hold(name, path, Timestamp::now());
    }

    fn hold(&self, name: &str, path: &[u8], since: Timestamp) {
        self.held.borrow_mut().entry(Key::from_stored(path.into())).or_default().push((agent(name), since));
    }
}

/// In these tests every millisecond is an event.
pub(crate) fn event(at: Timestamp) -> Fence {
    Fence(at.as_millis())
}

impl Ownership for Locks {
    fn owned(
        &self,
        agent: &AgentId,
        path: &Key,
        since: Option<Fence>,
    ) -> Result<Option<Fence>, OwnershipError> {
        let held = self.held.borrow();
        let is_own = |(holder, at): &&(AgentId, Timestamp)| {
            holder == agent && since.is_none_or(|since| event(*at) >= since)
        };
        let own = held.get(path).and_then(|holders| holders.iter().find(is_own));
        let fence = |path: &Key| Fence(i64::try_from(path.as_bytes().len()).unwrap());
        Ok(own.map(|_| fence(path)))
    }

    fn holder(&self, path: &Key, other_than: Option<&AgentId>) -> Result<Option<Holder>, OwnershipError> {
        let held = self.held.borrow();
        let other = held.get(path).and_then(|holders| holders.last());
        let other = other.filter(|(holder, _)| Some(holder) != other_than);
        Ok(other.map(|(agent, since)| Holder {
            agent: agent.clone(),
            issue: Some(IssueId::new("other-1").unwrap()),
            since: *since,
        }))
    }
}
