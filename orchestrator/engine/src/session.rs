//! One process of an agent: started, fed its prompt, read line by line, ended when asked to.
//!
//! A session runs as a task that owns the process and sends what it sees; the handle can only ask it to end. Its process
//! is in a group of its own, so that a Ctrl-C on the terminal reaches the engine alone, which then decides.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use mala_agents::start::Kind;
use mala_agents::stream::{Progress, Reader, Report, Usage};
use mala_core::IssueId;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// The longest line that is looked at; the rest of a longer one is skipped.
const LONGEST_LINE: usize = 4 << 20;
/// How much of stderr is kept for the note.
const STDERR_TAIL: usize = 4 << 10;
/// What an agent does is told at most this often.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// How long a stream may stay open after the process has ended, because something it started still has it.
const STREAMS_AFTER_END: Duration = Duration::from_secs(2);

/// What a session tells.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    /// It is alive, and perhaps something new is known.
    Progress { progress: Vec<Progress>, usage: Usage },
    /// The last one.
    Ended(Box<ProcessEnd>),
}

/// Where sessions send their events, each with its issue.
pub(crate) type SessionEvents = mpsc::Sender<(IssueId, SessionEvent)>;

/// How a process ended.
#[derive(Debug)]
pub(crate) struct ProcessEnd {
    pub(crate) status: io::Result<ExitStatus>,
    pub(crate) report: Report,
    /// The end of what it wrote to stderr.
    pub(crate) stderr: String,
}

impl ProcessEnd {
    /// True if a signal ended it: what it kept may take a moment longer.
    pub(crate) fn is_torn(&self) -> bool {
        self.status.as_ref().map_or(true, |status| status.signal().is_some())
    }

    pub(crate) fn is_success(&self) -> bool {
        self.status.as_ref().is_ok_and(ExitStatus::success)
    }

    /// How it ended, as the end of a sentence.
    pub(crate) fn how(&self) -> String {
        match &self.status {
            Ok(status) => match (status.code(), status.signal()) {
                // What runs the agent passes a signal on as shells do.
                (Some(code @ 129..=192), _) => format!("the agent was killed by signal {}", code - 128),
                (Some(code), _) => format!("the agent ended with code {code}"),
                (None, Some(signal)) => format!("the agent was killed by signal {signal}"),
                (None, None) => "the agent ended".to_owned(),
            },
            Err(error) => format!("the agent was lost: {error}"),
        }
    }
}

/// How to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ask it to, and kill it after the grace period.
    Ask(Duration),
    Kill,
}

/// The handle of a running session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) pid: u32,
    stop: mpsc::UnboundedSender<Stop>,
}

impl Session {
    pub(crate) fn stop(&self, how: Stop) {
        // If the task is gone, so is the process.
        let _ = self.stop.send(how);
    }
}

/// What to start and where its output goes.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) issue: IssueId,
    pub(crate) kind: Kind,
    pub(crate) command: std::process::Command,
    pub(crate) stdin: Option<String>,
    /// What the conversation that it goes on with has used so far.
    pub(crate) spent: Usage,
    /// stdout is appended to `log`, stderr to the same name with `.err`.
    pub(crate) log: PathBuf,
    pub(crate) reach: Reach,
}

/// Whom a kill is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The process: everything else ends by itself when it has.
    Process,
    /// The process and its group.
    Group,
}

/// Starts the process and the task that watches it.
pub(crate) fn start(start: Start, events: SessionEvents) -> io::Result<Session> {
    let Start { issue, kind, command, stdin, spent, log, reach } = start;
    let mut command = Command::from(command);
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let out_log = append(&log)?;
    let err_log = append(&log.with_extension("err"))?;
    let mut child = command.spawn()?;
    let pid = child.id().ok_or_else(|| io::Error::other("the process ended before it began"))?;
    if let (Some(mut pipe), Some(prompt)) = (child.stdin.take(), stdin) {
        tokio::spawn(async move {
            // A program that does not want its prompt says so by its exit code.
            let _ = pipe.write_all(prompt.as_bytes()).await;
        });
    }
    let (stop, stops) = mpsc::unbounded_channel();
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("the process has no streams"));
    };
    let errors = tokio::spawn(read_stderr(stderr, err_log));
    let watch = Watch { issue, pid, reach, reader: Reader::resuming(kind, spent), events, log: out_log };
    tokio::spawn(watch.run(child, stdout, errors, stops));
    Ok(Session { pid, stop })
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

struct Watch {
    issue: IssueId,
    pid: u32,
    reach: Reach,
    reader: Reader,
    events: SessionEvents,
    log: File,
}

impl Watch {
    async fn run(
        mut self,
        mut child: Child,
        stdout: ChildStdout,
        errors: tokio::task::JoinHandle<String>,
        mut stops: mpsc::UnboundedReceiver<Stop>,
    ) {
        let (pid, reach) = (self.pid, self.reach);
        let status = {
            let reading = self.read(stdout);
            tokio::pin!(reading);
            let mut is_reading = true;
            let mut deadline: Option<Instant> = None;
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status,
                    () = &mut reading, if is_reading => is_reading = false,
                    Some(how) = stops.recv() => deadline = Some(end(pid, reach, how)),
                    () = until(deadline), if deadline.is_some() => deadline = Some(end(pid, reach, Stop::Kill)),
                }
            };
            if reach == Reach::Group {
                // The rest of it, if there is any.
                let _ = killpg(group(pid), Signal::SIGKILL);
            }
            if is_reading {
                let _ = timeout(STREAMS_AFTER_END, &mut reading).await;
            }
            status
        };
        let stderr = match timeout(STREAMS_AFTER_END, errors).await {
            Ok(Ok(stderr)) => stderr,
            Ok(Err(_)) | Err(_) => String::new(),
        };
        let ended = Box::new(ProcessEnd { status, report: self.reader.report().clone(), stderr });
        let _ = self.events.send((self.issue, SessionEvent::Ended(ended))).await;
    }

    async fn read(&mut self, stdout: ChildStdout) {
        let mut lines = Lines::new(stdout);
        // What it does has a clock of its own: clients print much else, and it must not be lost among that.
        let (mut last_told, mut last_event): (Option<Instant>, Option<Instant>) = (None, None);
        let is_due = |last: Option<Instant>| last.is_none_or(|last| last.elapsed() >= TELL_EVERY);
        while let Ok(Some(line)) = lines.next().await {
            // A full disk must not end an agent's work.
            let _ = self.log.write_all(&[line, b"\n"].concat());
            let mut progress = self.reader.line(line);
            if !is_due(last_told) {
                progress.retain(|it| !matches!(it, Progress::Doing(_)));
            }
            if progress.is_empty() && !is_due(last_event) {
                continue;
            }
            last_event = Some(Instant::now());
            if progress.iter().any(|it| matches!(it, Progress::Doing(_))) {
                last_told = last_event;
            }
            let event = SessionEvent::Progress { progress, usage: self.reader.report().usage };
            if self.events.send((self.issue.clone(), event)).await.is_err() {
                return;
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn group(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}

/// Sends the signal and says when to look again.
fn end(pid: u32, reach: Reach, how: Stop) -> Instant {
    // A process that has ended meanwhile is not reaped yet, so the number is still its own.
    match how {
        Stop::Ask(grace) => {
            let _ = kill(group(pid), Signal::SIGTERM);
            Instant::now() + grace
        }
        Stop::Kill => {
            let _ = match reach {
                Reach::Process => kill(group(pid), Signal::SIGKILL),
                Reach::Group => killpg(group(pid), Signal::SIGKILL),
            };
            Instant::now() + Duration::from_secs(1)
        }
    }
}

async fn read_stderr(stderr: ChildStderr, mut log: File) -> String {
    let mut lines = Lines::new(stderr);
    let mut tail = String::new();
    while let Ok(Some(line)) = lines.next().await {
        let _ = log.write_all(&[line, b"\n"].concat());
        tail.push_str(&String::from_utf8_lossy(line));
        tail.push('\n');
        if tail.len() > 2 * STDERR_TAIL {
            tail.drain(..tail.ceil_char_boundary(tail.len() - STDERR_TAIL));
        }
    }
    tail
}

/// Lines of bounded length.
struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(stream: R) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, stream), line: Vec::new() }
    }

    /// The next line without its end; nothing at the end of the stream.
    async fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut has_begun = false;
        loop {
            let piece = self.reader.fill_buf().await?;
            if piece.is_empty() {
                return Ok(has_begun.then_some(&self.line));
            }
            has_begun = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let room = LONGEST_LINE - self.line.len();
            let content = &piece[..end.unwrap_or(piece.len())];
            self.line.extend_from_slice(&content[..content.len().min(room)]);
            let used = end.map_or(piece.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                if self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
                return Ok(Some(&self.line));
            }
        }
    }
}

#[cfg(test)]
mod tests;
