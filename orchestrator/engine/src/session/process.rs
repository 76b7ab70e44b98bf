//! One process of an agent: started, fed its prompt, read line by line, ended when asked to.
//!
//! A session runs as a task that owns the process and sends what it sees; the handle can only ask it to end. Its process
//! is in a group of its own, so that a Ctrl-C on the terminal reaches the engine alone, which then decides.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mala_agents::start::Kind;
use mala_agents::stream::{Limited, Progress, Reader, Report, Terminal, Usage};
use mala_core::{Excerpt, IssueId};
use mala_git::OwnedDirectory;
use mala_logs::secrets::mask;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::{Session, SessionEnd, SessionEvent, SessionEvents, Stop};

/// The longest line that is looked at; the rest of a longer one is skipped.
const MAX_LINE_BYTES: usize = 4 << 20;
/// How much of stderr is kept for the note.
const STDERR_TAIL_BYTES: usize = 4 << 10;
/// What an agent does is told at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// How long a stream may stay open after the process has ended, because something it started still has it.
const STREAM_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The handle of a running process.
#[derive(Debug)]
struct Process {
    pid: u32,
    stops: mpsc::UnboundedSender<Stop>,
}

impl Session for Process {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn end(&self, how: Stop) {
        // If the task is gone, so is the process.
        let _ = self.stops.send(how);
    }
}

/// A process to start, and how to watch it.
#[derive(Debug)]
pub struct ProcessSpec {
    pub issue: IssueId,
    pub kind: Kind,
    /// The one that the client is asked to use.
    pub model: Option<String>,
    pub command: std::process::Command,
    pub stdin: Option<String>,
    /// What the conversation that it goes on with has used so far.
    pub spent: Usage,
    pub log: PathBuf,
    /// Where `mala exec` says why it could not run the agent.
    pub failure_file: PathBuf,
    pub reach: Reach,
    /// What goes with the process.
    pub home: Option<OwnedDirectory>,
}

/// Whom a kill is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The process: everything else ends by itself when it has.
    Process,
    /// The process and its group.
    Group,
}

/// Starts the process and the task that watches it.
///
/// # Errors
///
/// When the program cannot be started, or its output cannot be kept.
pub fn start(spec: ProcessSpec, events: SessionEvents) -> io::Result<Box<dyn Session>> {
    let ProcessSpec { issue, kind, model, command, stdin, spent, log, failure_file, reach, home } = spec;
    let mut command = Command::from(command);
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    if let Some(directory) = log.parent() {
        fs::create_dir_all(directory)?;
    }
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
    let (sender, stops) = mpsc::unbounded_channel();
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("the process has no streams"));
    };
    let errors = tokio::spawn(read_stderr(stderr, err_log));
    let reader = Reader::new(kind, model.as_deref(), spent);
    let watch = Watch { issue, pid, reach, reader, events, log: out_log, failure_file, _home: home };
    tokio::spawn(watch.run(child, stdout, errors, stops));
    Ok(Box::new(Process { pid, stops: sender }))
}

fn append(path: &Path) -> io::Result<Excerpt<File>> {
    Ok(Excerpt::new(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?))
}

struct Watch {
    issue: IssueId,
    pid: u32,
    reach: Reach,
    reader: Reader,
    events: SessionEvents,
    /// What the agent prints; of too much, the beginning and the end.
    log: Excerpt<File>,
    failure_file: PathBuf,
    _home: Option<OwnedDirectory>,
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
                let _ = timeout(STREAM_CLOSE_TIMEOUT, &mut reading).await;
            }
            status
        };
        // A full disk must not end an agent's work.
        let _ = self.log.finish();
        let stderr = match timeout(STREAM_CLOSE_TIMEOUT, errors).await {
            Ok(Ok(stderr)) => stderr,
            Ok(Err(_)) | Err(_) => String::new(),
        };
        let launch_failure = take_text(&self.failure_file).map(|why| mask(&why).into_owned());
        let report = masked_report(self.reader.report());
        let stderr = mask(&stderr).into_owned();
        let ended = Box::new(SessionEnd { status, report, stderr, launch_failure });
        let _ = self.events.send((self.issue, SessionEvent::Ended(ended))).await;
    }

    async fn read(&mut self, stdout: ChildStdout) {
        let mut lines = Lines::new(stdout);
        // What it does has a clock of its own: clients print much else, and it must not be lost among that.
        let (mut last_told, mut last_event): (Option<Instant>, Option<Instant>) = (None, None);
        let is_due = |last: Option<Instant>| last.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL);
        while let Ok(Some(line)) = lines.next().await {
            // A full disk must not end an agent's work.
            let _ = self.log.write_all(&[line, b"\n"].concat());
            let mut progress: Vec<Progress> = self.reader.line(line).into_iter().map(masked).collect();
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
            let event = SessionEvent::Progress { progress, usage: self.reader.report().usage.clone() };
            if self.events.send((self.issue.clone(), event)).await.is_err() {
                return;
            }
        }
    }
}

/// What an agent says leaves this module with its secrets masked: it goes into notes, prompts, trackers and events.
fn masked_report(report: &Report) -> Report {
    let text = |text: &String| mask(text).into_owned();
    let terminal = report.terminal.as_ref();
    Report {
        message: report.message.as_ref().map(text),
        terminal: terminal.map(|end| Terminal {
            reason: text(&end.reason),
            is_error: end.is_error,
            message: end.message.as_ref().map(text),
        }),
        denied: report.denied.as_ref().map(text),
        limited: report.limited.as_ref().map(masked_limit),
        ..report.clone()
    }
}

fn masked(progress: Progress) -> Progress {
    match progress {
        Progress::Doing(what) => Progress::Doing(mask(&what).into_owned()),
        Progress::Limited(limited) => Progress::Limited(masked_limit(&limited)),
        other @ (Progress::Session(_) | Progress::Usage | Progress::ToolEnded | Progress::Denied) => other,
    }
}

fn masked_limit(limited: &Limited) -> Limited {
    Limited { message: mask(&limited.message).into_owned(), ..limited.clone() }
}

/// Reads a file once: the next process of the attempt may be luckier.
fn take_text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let _ = fs::remove_file(path);
    Some(text)
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

async fn read_stderr(stderr: ChildStderr, mut log: Excerpt<File>) -> String {
    let mut lines = Lines::new(stderr);
    let mut tail = String::new();
    while let Ok(Some(line)) = lines.next().await {
        let _ = log.write_all(&[line, b"\n"].concat());
        tail.push_str(&String::from_utf8_lossy(line));
        tail.push('\n');
        if tail.len() > 2 * STDERR_TAIL_BYTES {
            // Whole lines: what is left of a secret whose beginning is gone cannot be recognised.
            let from = tail.ceil_char_boundary(tail.len() - STDERR_TAIL_BYTES);
            let line = tail[from..].find('\n').map_or(from, |end| from + end + 1);
            tail.drain(..line);
        }
    }
    let _ = log.finish();
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
            let room = MAX_LINE_BYTES - self.line.len();
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
