//! Runs a tracker's program: no shell, one call at a time, bounded in time and output.
//!
//! A call reads nothing from stdin and has a process group of its own, so a Ctrl-C at the terminal does not end it
//! halfway and a call that takes too long is ended with everything it started. Programs may leave a helper behind that
//! keeps the pipes open; a call is over when the program itself is.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::IssueId;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::{IssueError, Result};
use crate::tracker::Tracker;

/// What one call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub time: Duration,
    /// Bytes on stdout and on stderr, each.
    pub output: usize,
}

impl Default for Limits {
    /// Plenty for ten thousand issues on a slow disk.
    fn default() -> Self {
        Self { time: Duration::from_secs(60), output: 64 * 1024 * 1024 }
    }
}

/// What would make a tracker use the issues of another folder than the one it is started in.
const ELSEWHERE: [&str; 4] = ["BEADS_DIR", "BEADS_DB", "BD_DB", "BD_DATABASE"];

/// A program and the folder it works in.
#[derive(Debug)]
pub(crate) struct Program {
    tracker: Tracker,
    path: PathBuf,
    root: PathBuf,
    limits: Limits,
    turn: Mutex<()>,
}

/// The right to make calls: whoever has it is alone until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    program: &'a Program,
    _guard: MutexGuard<'a, ()>,
}

/// One call: `br VERB ARGS -- IDS`.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    tracker: Tracker,
    verb: &'static str,
    args: Vec<String>,
    ids: Vec<String>,
}

/// What a program that ended has left.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Call {
    pub(crate) fn new(tracker: Tracker, verb: &'static str) -> Self {
        Self { tracker, verb, args: Vec::new(), ids: Vec::new() }
    }

    pub(crate) fn flag(mut self, flag: &str) -> Self {
        self.args.push(flag.to_owned());
        self
    }

    /// Joined with `=`, so that no value is ever taken for an option.
    pub(crate) fn option(self, name: &str, value: &str) -> Self {
        self.flag(&format!("{name}={value}"))
    }

    pub(crate) fn id(mut self, id: &IssueId) -> Self {
        self.ids.push(id.as_str().to_owned());
        self
    }

    fn command(&self, program: &Program) -> Command {
        let mut command = Command::new(&program.path);
        command.arg(self.verb).args(&self.args).arg("--json");
        if !self.ids.is_empty() {
            command.arg("--").args(&self.ids);
        }
        command.current_dir(&program.root).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("NO_COLOR", "1").env("BD_JSON_ENVELOPE", "1");
        for variable in ELSEWHERE {
            command.env_remove(variable);
        }
        command
    }
}

/// As it is shown to a person: without the options, which hold whole notes.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tracker, self.verb)?;
        match self.ids.as_slice() {
            [] => Ok(()),
            [id] => write!(f, " {id}"),
            [id, others @ ..] => write!(f, " {id} and {} more", others.len()),
        }
    }
}

impl Program {
    pub(crate) fn new(tracker: Tracker, path: PathBuf, root: PathBuf, limits: Limits) -> Self {
        Self { tracker, path, root, limits, turn: Mutex::new(()) }
    }

    pub(crate) fn tracker(&self) -> Tracker {
        self.tracker
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn turn(&self) -> Turn<'_> {
        // A panic in another call left nothing half done here: the lock guards no data.
        let guard = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Turn { program: self, _guard: guard }
    }

    fn no_start(&self, source: io::Error) -> IssueError {
        // A missing folder and a missing program have the same error number.
        if source.kind() == io::ErrorKind::NotFound && self.root.is_dir() {
            return IssueError::NotInstalled { tracker: self.tracker };
        }
        IssueError::Start { program: self.path.clone(), root: self.root.clone(), source }
    }
}

impl Turn<'_> {
    pub(crate) fn run(&self, call: &Call) -> Result<Answer> {
        let Program { limits, .. } = *self.program;
        let mut child = call.command(self.program).spawn().map_err(|source| self.program.no_start(source))?;
        let answer = capture(&mut child, limits);
        if answer.is_err() {
            end(&mut child);
        }
        let command = call.to_string();
        answer.map_err(|stop| match stop {
            Stop::Time => IssueError::TimedOut { command, after: limits.time },
            Stop::Output => IssueError::TooMuchOutput { command, limit: limits.output },
            Stop::Io(source) => IssueError::Broken { command, source },
        })
    }
}

/// Runs `path --version` and gives its first line, if it has one.
pub(crate) fn version_line(path: &Path) -> Option<String> {
    let limits = Limits { time: Duration::from_secs(10), output: 64 * 1024 };
    let mut command = Command::new(path);
    command.arg("--version").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let Ok(answer) = capture(&mut child, limits) else {
        end(&mut child);
        return None;
    };
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    answer.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Why a call was given up.
#[derive(Debug)]
enum Stop {
    Time,
    Output,
    Io(io::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

enum Event {
    Bytes(Stream, Vec<u8>),
    End,
}

/// How long a program that has ended may leave its pipes open before what came so far is all.
const AFTERMATH: Duration = Duration::from_millis(200);

fn capture(child: &mut Child, limits: Limits) -> Result<Answer, Stop> {
    let deadline = Instant::now() + limits.time;
    let events = listen(child);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut open = 2;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        if ended.is_none() {
            ended = child.try_wait().map_err(Stop::Io)?.map(|status| (status, Instant::now()));
        }
        match ended {
            Some((status, at)) if open == 0 || at.elapsed() > AFTERMATH => {
                return Ok(Answer { status, stdout, stderr });
            }
            None if Instant::now() >= deadline => return Err(Stop::Time),
            _ => {}
        }
        // The end of the pipes wakes us; the pause is for programs that close them early or not at all.
        let pause = Duration::from_millis(if open == 0 { 1 } else { 20 });
        match events.recv_timeout(pause) {
            Ok(Event::Bytes(stream, bytes)) => {
                let kept = if stream == Stream::Out { &mut stdout } else { &mut stderr };
                kept.extend(bytes);
                if kept.len() > limits.output {
                    return Err(Stop::Output);
                }
            }
            Ok(Event::End) => open -= 1,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(pause),
        }
    }
}

fn listen(child: &mut Child) -> Receiver<Event> {
    let (sender, events) = mpsc::sync_channel(16);
    let stdout = child.stdout.take().expect("stdout was asked for as a pipe");
    let stderr = child.stderr.take().expect("stderr was asked for as a pipe");
    let out = sender.clone();
    thread::spawn(move || forward(Stream::Out, stdout, &out));
    thread::spawn(move || forward(Stream::Err, stderr, &sender));
    events
}

/// Ends with the pipe, or when nobody listens any more.
fn forward(stream: Stream, mut pipe: impl Read, events: &SyncSender<Event>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match pipe.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(len) => {
                if events.send(Event::Bytes(stream, buffer[..len].to_vec())).is_err() {
                    return;
                }
            }
        }
    }
    // Nobody may be listening any more, which is fine.
    let _ = events.send(Event::End);
}

/// Ends the program with all it started, and waits for it.
fn end(child: &mut Child) {
    // Once it has been waited for, its number may be somebody else's.
    if let (Ok(None), Ok(pid)) = (child.try_wait(), i32::try_from(child.id())) {
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        let _ = child.wait();
    }
}
