//! A checkout of its own for every try, with one file that belongs to someone else.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) const HELD: &str = "sub/held.txt";
pub(crate) const NOBODY: u32 = 65534;
const LIMIT: Duration = Duration::from_secs(30);

/// Who runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Myself,
    /// An ordinary user; only root can become one.
    Nobody,
}

impl User {
    /// Everyone the tests can run as.
    pub(crate) fn all() -> Vec<Self> {
        if is_root() { vec![Self::Myself, Self::Nobody] } else { vec![Self::Myself] }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Bare,
    Sandboxed,
}

/// What is observable about the things that must not change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Print(Vec<String>);

pub(crate) struct World {
    dir: TempDir,
    user: User,
}

impl World {
    pub(crate) fn new(user: User) -> Self {
        let world = Self { dir: tempfile::Builder::new().prefix("mala-").tempdir().unwrap(), user };
        fs::set_permissions(world.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["repo/sub", "repo/ignored", "out", "home"] {
            fs::create_dir_all(world.base().join(folder)).unwrap();
        }
        fs::write(world.base().join("file"), "beside\n").unwrap();
        world.write(HELD, "committed\n");
        world.write("free.txt", "free\n");
        world.write("sub/other.txt", "other\n");
        world.write(".gitignore", "ignored/\n");
        // Copied by another process: a program that this one has open for writing could not be started.
        let setup = "git init -q -b main && git add -A && git commit -qm first && git branch other && cp $SUPERVISE ..";
        let setup = Command::new("sh")
            .args(["-c", setup])
            .env("SUPERVISE", env!("CARGO_BIN_EXE_supervise"))
            .envs(world.variables())
            .current_dir(world.root())
            .output();
        assert!(setup.unwrap().status.success());
        // Not what git has, so that git would change it.
        world.write(HELD, "held by someone else\n");
        if user == User::Nobody {
            world.give_away();
        }
        world
    }

    fn give_away(&self) {
        let chown =
            Command::new("chown").args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(self.base()).status();
        assert!(chown.unwrap().success());
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base().join("repo")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.root().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap_or_default()
    }

    pub(crate) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sandbox/python");
        let mut variables = vec![
            ("PATH", "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin".into()),
            ("HOME", self.base().join("home")),
            ("ROOT", self.root()),
            ("OUT", self.base().join("out")),
            ("H", self.root().join(HELD)),
            ("PYTHONPATH", python),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ];
        for who in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
            variables.push((who, "t@example.invalid".into()));
        }
        variables
    }

    /// A command that runs `program`, in the sandbox or not.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, mode: Mode, program: &str, args: &[A]) -> Command {
        let mut command = match mode {
            Mode::Bare => Command::new(program),
            Mode::Sandboxed => {
                let mut command = Command::new(self.base().join("supervise"));
                command.arg(self.root()).arg(HELD).arg(program);
                command
            }
        };
        command.args(args).env_clear().envs(self.variables()).current_dir(self.root());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.user == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        // Whoever runs the tests may ignore them, as `nohup` does, and shells for what they run beside them.
        // SAFETY: between `fork` and `exec`, `signal` is allowed.
        unsafe {
            command.pre_exec(|| {
                for number in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(number, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command
    }

    /// Runs a shell script to its end.
    pub(crate) fn sh(&self, mode: Mode, script: &str) -> Outcome {
        let mut command = self.command(mode, "bash", &["-c", script]);
        command.process_group(0);
        Outcome::of(command.spawn().unwrap())
    }

    /// Everything about the held file and git's protected files that a program could change.
    pub(crate) fn print(&self) -> Print {
        let held = self.root().join(HELD);
        let mut seen = vec![describe(&held), flags(&held)];
        let git = self.root().join(".git");
        seen.extend(
            ["config", "info/attributes", "hooks/pre-commit", "mala/state.db"]
                .map(|n| describe(&git.join(n))),
        );
        Print(seen)
    }
}

fn describe(path: &Path) -> String {
    match fs::symlink_metadata(path) {
        Ok(meta) => {
            let content = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            format!("{} {:o} inode {} {content:?}", path.display(), meta.mode(), meta.ino())
        }
        Err(error) => format!("{} {:?}", path.display(), error.kind()),
    }
}

fn flags(path: &Path) -> String {
    let listed = Command::new("lsattr").arg(path).output();
    listed.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// Waits for `child`; one that does not end is killed and has no code.
    pub(crate) fn of(mut child: Child) -> Self {
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let collect = |mut from: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _broken = from.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let (out, err) = (collect(Box::new(out)), collect(Box::new(err)));
        let deadline = Instant::now() + LIMIT;
        let code = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if Instant::now() > deadline => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        Self { code, out: out.join().unwrap(), err: err.join().unwrap() }
    }
}

/// True if every program can be found.
pub(crate) fn have(programs: &[&str]) -> bool {
    let folders = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin"];
    let is_there = |program: &str| folders.iter().any(|folder| Path::new(folder).join(program).exists());
    let missing: Vec<_> = programs.iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        // Past the test runner, which would keep it to itself.
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: something that needs {missing:?}, which is not installed");
    }
    missing.is_empty()
}

/// Runs `work` on each item with a few threads, and gives the results in order.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    results.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
