//! Git commands that change what only mala may change: refs of saved work and the files of agents that are gone.
//!
//! Promises: no shell, no pathspec magic, and no variable of the caller moves git to another repository or index.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use nix::sys::signal::Signal;

use crate::GitError;
use crate::call::failed;

/// How long to wait for another git command that holds one of git's lock files.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// A git that somebody kills is started again this often.
const STARTS: u32 = 4;

/// Who saved work is from, for repositories where nobody has said who commits.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "mala"),
    ("GIT_AUTHOR_EMAIL", "mala@localhost"),
    ("GIT_COMMITTER_NAME", "mala"),
    ("GIT_COMMITTER_EMAIL", "mala@localhost"),
];

/// One git command in the checkout at `root`.
#[derive(Debug)]
pub struct Git<'a> {
    root: &'a Path,
    index: Option<&'a Path>,
    turn: Option<&'a File>,
}

impl<'a> Git<'a> {
    pub fn at(root: &'a Path) -> Self {
        Self { root, index: None, turn: None }
    }

    /// With an index of its own instead of the checkout's.
    pub fn with_index(root: &'a Path, index: &'a Path) -> Self {
        Self { root, index: Some(index), turn: None }
    }

    /// In somebody's turn, which does not end before this git has: it inherits the locked file in place of its input.
    pub fn in_turn(root: &'a Path, turn: &'a File) -> Self {
        Self { root, index: None, turn: Some(turn) }
    }

    /// What it wrote, without the line's end.
    pub fn line(&self, args: &[&str], input: &[u8]) -> Result<String, GitError> {
        let output = self.run(args, input)?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    /// Runs it; waits for its turn where another git command holds a lock file, and starts again what somebody killed:
    /// every command here may be repeated.
    pub fn run(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let deadline = Instant::now() + PATIENCE;
        let mut killed = 0;
        loop {
            match self.try_once(args, input) {
                Err(GitError::Failed { stderr, .. })
                    if stderr.contains(".lock': File exists") && Instant::now() < deadline =>
                {
                    thread::sleep(PAUSE);
                }
                Err(GitError::Killed { .. }) if killed + 1 < STARTS => {
                    killed += 1;
                    self.unlock_private_index();
                }
                Err(GitError::Killed { command, .. }) => {
                    return Err(GitError::Killed { command, times: killed + 1 });
                }
                done => return done,
            }
        }
    }

    /// Nobody else knows the private index, so its lock is the dead one's.
    fn unlock_private_index(&self) {
        if let Some(index) = self.index {
            let mut lock = index.as_os_str().to_owned();
            lock.push(".lock");
            // There may be none.
            let _ = std::fs::remove_file(lock);
        }
    }

    fn try_once(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let mut command = self.command(args);
        if let Some(turn) = self.turn {
            command.stdin(turn.try_clone().map_err(start)?);
        }
        let mut child = command.spawn().map_err(start)?;
        let mut stdin = child.stdin.take();
        let output = thread::scope(|scope| {
            let write = || {
                // If git stops reading early, its exit status says why.
                stdin.take().map(|mut stdin| stdin.write_all(input).ok())
            };
            // Beside the reading, or both sides could wait for room in a full pipe.
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, write) {
                // Before its input ends: it must not take nothing for all.
                child.kill()?;
                child.wait()?;
                return Err(error);
            }
            child.wait_with_output()
        })
        .map_err(start)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        if output.status.signal() == Some(Signal::SIGKILL as i32) {
            return Err(GitError::Killed { command: format!("git {}", args.join(" ")), times: 1 });
        }
        Err(failed(format!("git {}", args.join(" ")), &output))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::command();
        let inherited = env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| is_dropped(name)) {
            command.env_remove(name);
        }
        command.envs(IDENTITY).env("LC_ALL", "C");
        if let Some(index) = self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        // A Ctrl-C on the terminal is for the engine, which decides what is still to be saved.
        command.current_dir(self.root).process_group(0);
        // Nothing that a repository configures may run a program here, except the filters its files need. What repositories
        // inside of it configure is not even read.
        command.args(["--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
        command.args(["-c", "submodule.recurse=false", "-c", "diff.ignoreSubmodules=dirty"]);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn start(source: std::io::Error) -> GitError {
    GitError::Start { source }
}

fn is_dropped(name: &OsStr) -> bool {
    let kept: &[&[u8]] =
        &[b"GIT_CONFIG_GLOBAL", b"GIT_CONFIG_SYSTEM", b"GIT_CONFIG_NOSYSTEM", b"GIT_EXEC_PATH"];
    name.as_bytes().starts_with(b"GIT_") && !kept.contains(&name.as_bytes())
}
