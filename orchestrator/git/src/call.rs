//! One call of the git program.
//!
//! Promises: no shell; no variable of the caller moves git to another repository, index, configuration or object
//! store; a failure keeps the command line, the exit status and what git said.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::{env, thread};

use thiserror::Error;

/// Git did not do what it was asked to.
#[derive(Debug, Error)]
pub enum GitError {
    #[error("cannot start git: is it installed and in PATH?")]
    Start {
        #[source]
        source: io::Error,
    },
    #[error("`{command}` failed ({status}): {}", shown(.stderr, .hint))]
    Failed { command: String, status: ExitStatus, stderr: String, hint: Option<&'static str> },
    #[error("cannot read the index `{}`", .path.display())]
    Index {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{command}` was killed {times} times")]
    Killed { command: String, times: u32 },
    #[error(
        "object {id} in `.git/objects` does not hold what its name stands for: it was written over; find what else was \
         with `git fsck`, and fetch it again from a clone that has it"
    )]
    Forged { id: crate::Oid },
    #[error(
        "object {id} is not in the repository: see `git fsck`, or fetch it again from a clone that has it"
    )]
    Absent { id: crate::Oid },
    #[error("object {id} is a {found}, not a {wanted}")]
    Kind { id: crate::Oid, found: String, wanted: String },
    #[error("`{command}` answered `{answer}`, which mala does not understand")]
    Answer { command: String, answer: String },
}

fn shown(stderr: &str, hint: &Option<&'static str>) -> String {
    let said = if stderr.is_empty() { "it gave no reason" } else { stderr };
    hint.map_or_else(|| said.to_owned(), |hint| format!("{said}; {hint}"))
}

impl GitError {
    /// True if an object is damaged, gone or not what it should be: asking again would not help.
    pub fn is_about_object(&self) -> bool {
        matches!(self, Self::Forged { .. } | Self::Absent { .. } | Self::Kind { .. })
    }

    pub(crate) fn answer(command: &str, answer: &[u8]) -> Self {
        let answer = String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
        Self::Answer { command: format!("git {command}"), answer }
    }
}

/// Variables that choose identities, credentials or the user's own settings. Every other `GIT_...` variable is dropped.
const KEPT: &[&str] = &["GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSH", "GIT_TRACE"];
const KEPT_WHOLE: &[&str] = &[
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_TERMINAL_PROMPT",
];

/// No git of mala's enters repositories inside the checkout: their settings may be anybody's.
const OUTSIDE_SUBMODULES: &[&str] = &["submodule.recurse=false", "diff.ignoreSubmodules=dirty"];

/// Settings that would let a repository hide changed files from whoever judges it.
const HONEST: &[&str] = &[
    "core.fsmonitor=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.splitIndex=false",
    // A cache of commits and their trees that agents may write.
    "core.commitGraph=false",
    "log.showSignature=false",
    "advice.graftFileDeprecated=false",
];

/// No program that a repository has for git's events. They may be anybody's: where `core.hooksPath` leads into the checkout,
/// agents write them.
pub(crate) const NO_HOOKS: &str = "core.hooksPath=/dev/null";

/// A command line of git in the making.
#[derive(Debug)]
pub(crate) struct Call {
    command: Command,
    shown: String,
    input: Vec<u8>,
}

impl Call {
    /// Git as it judges: replaced objects and settings that hide changes do not count, messages are in English, and no hook
    /// runs, also if the index is refreshed on the way.
    pub(crate) fn judging(root: &Path, env: &[(OsString, OsString)]) -> Self {
        let mut call = Self::plain(root, env);
        call.command.env("LC_ALL", "C").env("GIT_GRAFT_FILE", "/dev/null");
        call.command.args(["--no-replace-objects", "--no-optional-locks", "--literal-pathspecs"]);
        call.settings(HONEST).settings(&[NO_HOOKS])
    }

    /// Git with all of the repository's settings, as a person would call it.
    pub(crate) fn plain(root: &Path, env: &[(OsString, OsString)]) -> Self {
        let mut command = command();
        command.current_dir(root);
        for name in env::vars_os().map(|(name, _)| name).filter(|name| is_dropped(name)) {
            command.env_remove(name);
        }
        command.envs(env.iter().map(|(name, value)| (name, value)));
        for setting in OUTSIDE_SUBMODULES {
            command.args(["-c", setting]);
        }
        Self { command, shown: "git".to_owned(), input: Vec::new() }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        let arg = arg.as_ref();
        write!(self.shown, " {}", arg.display()).expect("writing to a string cannot fail");
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(self, args: impl IntoIterator<Item = S>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Settings for this call alone; to be given before the command.
    pub(crate) fn settings(mut self, settings: &[&str]) -> Self {
        for setting in settings {
            self.command.args(["-c", setting]);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Works on this index instead of the checkout's own.
    pub(crate) fn index(self, path: &Path) -> Self {
        self.env("GIT_INDEX_FILE", path)
    }

    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// A Ctrl-C on the terminal is not for it.
    pub(crate) fn in_own_group(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// What it wrote, if it succeeded.
    pub(crate) fn output(self) -> Result<Vec<u8>, GitError> {
        let shown = self.shown.clone();
        let output = self.finish()?;
        if output.status.success() { Ok(output.stdout) } else { Err(failed(shown, &output)) }
    }

    /// What it wrote as one line of text.
    pub(crate) fn line(self) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.output()?).trim_end_matches('\n').to_owned())
    }

    /// What it wrote as one line of text; nothing for exit 1, anything else is an error.
    pub(crate) fn line_if_any(self) -> Result<Option<String>, GitError> {
        let shown = self.shown.clone();
        let output = self.finish()?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())),
            Some(1) => Ok(None),
            _ => Err(failed(shown, &output)),
        }
    }

    /// Yes for exit 0, no for exit 1, anything else is an error.
    pub(crate) fn answer(self) -> Result<bool, GitError> {
        Ok(self.line_if_any()?.is_some())
    }

    /// Starts it; both outputs are piped.
    pub(crate) fn spawn(&mut self, stdin: Stdio) -> Result<Child, GitError> {
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().map_err(|source| GitError::Start { source })
    }

    /// Waits for what was started.
    pub(crate) fn wait(self, child: Child) -> Result<(), GitError> {
        let output = child.wait_with_output().map_err(|source| GitError::Start { source })?;
        if output.status.success() { Ok(()) } else { Err(failed(self.shown, &output)) }
    }

    /// Runs it, whatever comes of it.
    pub(crate) fn finish(mut self) -> Result<Output, GitError> {
        let mut child = self.spawn(if self.input.is_empty() { Stdio::null() } else { Stdio::piped() })?;
        let Some(stdin) = child.stdin.take() else {
            return child.wait_with_output().map_err(|source| GitError::Start { source });
        };
        let (mut stdin, input) = (Some(stdin), self.input);
        thread::scope(|scope| {
            let write = || {
                // If git stops reading early, its exit status says why.
                stdin.take().map(|mut stdin| stdin.write_all(&input).ok())
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
        .map_err(|source| GitError::Start { source })
    }
}

fn is_dropped(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(b"GIT_")
        && !KEPT.iter().any(|kept| bytes.starts_with(kept.as_bytes()))
        && !KEPT_WHOLE.iter().any(|kept| bytes == kept.as_bytes())
}

pub(crate) fn failed(command: String, output: &Output) -> GitError {
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let hint = hint(&stderr);
    GitError::Failed { command, status: output.status, stderr, hint }
}

fn hint(stderr: &str) -> Option<&'static str> {
    const HINTS: &[(&str, &str)] = &[
        (
            "Please tell me who you are",
            "say who commits: git config user.name NAME && git config user.email MAIL",
        ),
        ("dubious ownership", "the checkout belongs to another user: run mala as that user"),
        (".lock': File exists", "another git command is running, or one was killed: try again"),
        ("is not a git command", "this git is too old: mala needs git 2.36 or newer"),
        ("No space left on device", "make room on the disk"),
        ("unable to write file", "is there room on the disk? see: df -h"),
        ("external filter", "install the program that git's settings name as this filter, such as git-lfs"),
    ];
    HINTS.iter().find(|(sign, _)| stderr.contains(sign)).map(|(_, hint)| *hint)
}

/// Paths, each ended by a NUL, as git reads them with `-z`.
pub(crate) fn nul_separated<'a>(paths: impl IntoIterator<Item = &'a crate::RepoPath>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// The parts of a `-z` output.
pub(crate) fn nul_parts(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

/// By these a user's settings make git write files of their choice.
const TRACES: [&str; 3] = ["GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF"];

/// Git as it was found first. Looked for only once: agents may put programs where `PATH` leads, and a supervisor that looked
/// again would run them with rights that they do not have.
pub fn program() -> &'static OsStr {
    static FOUND: OnceLock<OsString> = OnceLock::new();
    // If there is none, starting it says so.
    FOUND.get_or_init(|| which::which("git").map_or_else(|_| "git".into(), Into::into))
}

static SETTINGS: OnceLock<PathBuf> = OnceLock::new();

/// From now on this file counts instead of the user's own settings.
pub fn settings_from(file: PathBuf) {
    SETTINGS.get_or_init(|| file);
}

/// Carries what the supervisor of an agent was started with to mala's own commands in the agent's tree.
pub const STARTED_WITH: &str = "MALA_GIT_SETTINGS";
/// Which of the user's and the machine's settings git reads. Gemini's shell tool points them to nothing for every command, and a commit
/// would then be nobody's.
const WHOSE_SETTINGS: [&str; 3] = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM"];

/// The value of [`STARTED_WITH`] for agents that this process starts.
pub fn started_with() -> String {
    let now = |name: &str| env::var(name).ok();
    // The supervisor of a supervisor knows better.
    env::var(STARTED_WITH).unwrap_or_else(|_| {
        let values: BTreeMap<&str, Option<String>> =
            WHOSE_SETTINGS.iter().map(|name| (*name, now(name))).collect();
        serde_json::to_string(&values).expect("plain data")
    })
}

/// Gives git the settings that the agent's supervisor was started with, whatever the agent's client has made of them.
fn restore_settings(command: &mut Command) {
    let Some(values) = env::var(STARTED_WITH).ok() else { return };
    let values: BTreeMap<String, Option<String>> = serde_json::from_str(&values).unwrap_or_default();
    for (name, value) in values.iter().filter(|(name, _)| WHOSE_SETTINGS.contains(&name.as_str())) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// A call of git, which writes traces only if the environment asks for them.
pub fn command() -> Command {
    let mut command = Command::new(program());
    restore_settings(&mut command);
    for name in TRACES.into_iter().filter(|name| env::var_os(name).is_none()) {
        command.env(name, "0");
    }
    if let Some(settings) = SETTINGS.get() {
        command.env("GIT_CONFIG_GLOBAL", settings);
    }
    command
}
