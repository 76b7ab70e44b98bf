//! A git checkout of one's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mala_core::Scope;
use mala_store::Store;
use rusqlite::Connection;
use tempfile::TempDir;

/// A temporary folder with a checkout and a HOME. It goes away with the value.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
    root: PathBuf,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    pub fn new() -> Self {
        Self::in_folder(&std::env::temp_dir())
    }

    /// A world that no disk slows down, where the system has such a thing: for tests that make hundreds.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::in_folder(memory) } else { Self::new() }
    }

    fn in_folder(folder: &Path) -> Self {
        let dir = tempfile::tempdir_in(folder).expect("a temporary folder can be made");
        let base = dir.path().canonicalize().expect("the temporary folder exists");
        let world = Self { root: base.join("checkout"), dir };
        for folder in [&world.root, &world.home()] {
            fs::create_dir(folder).expect("a folder can be made in the temporary folder");
        }
        world.git(&["init", "-q", "-b", "main", "--template="]);
        world
    }

    /// The folder that everything of this world lies in.
    pub fn base(&self) -> &Path {
        self.dir.path()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> PathBuf {
        self.root.with_file_name("home")
    }

    pub fn scope(&self) -> Scope {
        Scope::discover(&self.root).expect("the checkout was made by git")
    }

    pub fn store(&self) -> Store {
        Store::open(&self.scope()).expect("the store of a new checkout opens")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.scope().state_dir()
    }

    /// A connection behind the store's back.
    pub fn sql(&self) -> Connection {
        Connection::open(self.state_dir().join("state.db")).expect("the store's file opens")
    }

    /// How many rows a table has.
    pub fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.sql().query_row(&sql, [], |row| row.get(0)).expect("the table can be counted")
    }

    /// Names of the pipes that waiters have hung up.
    pub fn wake_files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.state_dir().join("wake")) else { return Vec::new() };
        entries.map(|entry| entry.expect("the wake folder can be read").path()).collect()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("it lies in the checkout")).expect("folders can be made");
        fs::write(path, text).expect("files of the checkout can be written");
    }

    /// A command that sees nothing of the user's own settings.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.root)
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join(".config"));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", self.home().join(".gitconfig"));
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
            command.env_remove(name);
        }
        command
    }

    pub fn git(&self, args: &[&str]) -> String {
        let mut command = self.command("git");
        command.args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]).args(args);
        let out = command.output().expect("git is installed");
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }
}
