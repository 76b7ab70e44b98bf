//! Runs a command and keeps what it says.
//!
//! Standard output and standard error go to the caller as they come, each to its own, and both into one file in the
//! order of their arrival, which is hashed on the way: all of it, or the beginning and the end if it is very long. Memory
//! does not grow with the output. Signals that ask mala to stop are passed on. If mala itself is killed, the command is
//! killed with it ([`Tie`]): a keeper of the sandbox sees to that or, where there is none, a small guard process, which does
//! not reach what has left its process group.
//!
//! On a terminal the command shares mala's process group, so that it can read from it and Ctrl-C reaches it directly;
//! without a keeper, the terminal is the guard there.

mod guard;
mod signals;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mala_core::Excerpt;
use mala_sandbox::{Leash, Orphans};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use sha2::{Digest, Sha256};
use thiserror::Error;

pub use self::guard::Guard;
use self::signals::Signals;
use crate::evidence::Ended;

/// For how many milliseconds output is waited for after the command has ended: what it left running may hold the pipes open for ever.
const LINGER: u8 = 100;
/// And for how long in all, if that goes on talking.
const LONGEST_LINGER: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum RunError {
    #[error("there is no command to run: write it behind `--`")]
    Empty,
    #[error("cannot start `{program}`")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot save the output in `{}`", .path.display())]
    Log {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("lost track of the command")]
    Watch(#[source] io::Error),
    #[error("the command was not done in time")]
    Timeout(Ended),
    #[error("nobody waits for the command any more")]
    Forsaken(Ended),
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy)]
enum CutOff {
    Timeout,
    Forsaken,
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    /// Where its output is saved.
    pub log: &'a Path,
    pub manner: Manner<'a>,
}

/// Where the output goes besides the log.
#[expect(missing_debug_implementations, reason = "writers need not be shown")]
pub struct Tee<'a> {
    pub out: &'a mut dyn Write,
    pub err: &'a mut dyn Write,
}

/// What ends with this process, however it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// Whatever the command starts, where the kernel can see to that; else its process group.
    Tree,
    Group,
}

/// How a command runs.
#[derive(Debug, Clone, Copy)]
pub enum Manner<'a> {
    /// As the caller's own: with its environment, its standard input, its rights. Signals are passed on.
    Plain(Tie),
    /// In a slot: with an environment of its own, and nothing that it starts survives it.
    Slot {
        confinement: &'a Confinement,
        timeout: Duration,
        /// Becomes readable when nobody waits for the result any more.
        asker: Option<BorrowedFd<'a>>,
    },
}

/// What a command in a slot gets and may.
#[derive(Debug, Clone)]
pub struct Confinement {
    /// The whole environment.
    pub variables: Vec<(OsString, OsString)>,
    /// Where it may write, if the kernel can see to that.
    pub writable: Vec<PathBuf>,
}

/// Runs the command to its end.
pub fn run(task: &Task<'_>, tee: &mut Tee<'_>) -> Result<Ended, RunError> {
    let (program, args) = task.argv.split_first().ok_or(RunError::Empty)?;
    let log = private(task.log).map_err(|source| RunError::Log { path: task.log.to_owned(), source })?;
    let start = |source| RunError::Start { program: program.to_string_lossy().into_owned(), source };
    let signals = Signals::watch(matches!(task.manner, Manner::Plain(_))).map_err(RunError::Watch)?;
    let mut command = Command::new(program);
    command.args(args).current_dir(task.cwd).stdout(Stdio::piped()).stderr(Stdio::piped());
    let hold = hold(&mut command, task.manner).map_err(start)?;
    let mut child = command.spawn().map_err(start)?;
    let pipes = Pipes { out: child.stdout.take(), err: child.stderr.take() };
    let (deadline, asker) = match task.manner {
        Manner::Plain(_) => (None, None),
        Manner::Slot { timeout, asker, .. } => (Some(Instant::now() + timeout), asker),
    };
    let log = Excerpt::new(Log { file: log, hash: Sha256::new() });
    let mut watch = Watch { signals, hold: Some(hold), pipes, log, deadline, asker, cut_off: None };
    let not_saved = |source| RunError::Log { path: task.log.to_owned(), source };
    let spawned = watch.until_end(&mut child, tee).map_err(|lost| match lost {
        Lost::Output(source) => not_saved(source),
        Lost::Command(source) => RunError::Watch(source),
    })?;
    let status = watch.hold.as_ref().and_then(Hold::status).unwrap_or(spawned);
    let Log { file, hash } = watch.log.finish().map_err(not_saved)?;
    file.sync_data().map_err(not_saved)?;
    let sum = Some(hex(&hash.finalize()));
    let ended = Ended { exit_code: status.code(), signal: status.signal(), output_sha256: sum };
    let killed = |ended| Ended { exit_code: None, signal: Some(Signal::SIGKILL as i32), ..ended };
    match watch.cut_off {
        Some(CutOff::Timeout) => Err(RunError::Timeout(killed(ended))),
        Some(CutOff::Forsaken) => Err(RunError::Forsaken(killed(ended))),
        None => Ok(ended),
    }
}

/// A file for its owner alone: what programs print may have secrets in it.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Ties the command to this process.
fn hold(command: &mut Command, manner: Manner<'_>) -> io::Result<Hold> {
    let (leash, is_on_terminal) = match manner {
        Manner::Plain(Tie::Tree) => (mala_sandbox::tie(command, Orphans::Stay)?, io::stdin().is_terminal()),
        Manner::Plain(Tie::Group) => (None, io::stdin().is_terminal()),
        Manner::Slot { confinement: Confinement { variables, writable }, .. } => {
            command
                .env_clear()
                .envs(variables.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::null());
            let leash = mala_sandbox::tie(command, Orphans::End)?;
            mala_sandbox::confine(command, writable)?;
            (leash, false)
        }
    };
    Ok(match leash {
        Some(leash) if is_on_terminal => Hold::Tied(leash),
        Some(leash) => {
            command.process_group(0);
            Hold::TiedGroup(leash)
        }
        None if is_on_terminal => Hold::Terminal,
        None => {
            let guard = Guard::start()?;
            command.process_group(guard.group());
            Hold::Guarded(guard)
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// What ties the command to this process.
enum Hold {
    /// Both get what is typed there.
    Terminal,
    Guarded(Guard),
    Tied(Leash),
    TiedGroup(Leash),
}

impl Hold {
    fn pass_on(&self, signal: Signal, child: &Child) {
        match self {
            Self::Terminal => signals::send(child.id(), signal),
            Self::Guarded(guard) => guard.signal(signal),
            Self::Tied(leash) => leash.signal(signal as u8),
            Self::TiedGroup(_) => signals::send_to_group(child.id(), signal),
        }
    }

    fn status(&self) -> Option<ExitStatus> {
        match self {
            Self::Tied(leash) | Self::TiedGroup(leash) => leash.status(),
            Self::Terminal | Self::Guarded(_) => None,
        }
    }
}

struct Watch<'a> {
    signals: Signals,
    /// Nothing once the command was cut off.
    hold: Option<Hold>,
    pipes: Pipes,
    log: Excerpt<Log>,
    deadline: Option<Instant>,
    asker: Option<BorrowedFd<'a>>,
    cut_off: Option<CutOff>,
}

struct Pipes {
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
}

struct Log {
    file: File,
    hash: Sha256,
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What cannot be followed any more.
enum Lost {
    /// It cannot be saved.
    Output(io::Error),
    Command(io::Error),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Command(error)
    }
}

/// What there is to do.
#[derive(Default)]
struct Ready {
    out: bool,
    err: bool,
    signal: bool,
    forsaken: bool,
}

impl Watch<'_> {
    fn until_end(&mut self, child: &mut Child, tee: &mut Tee<'_>) -> Result<ExitStatus, Lost> {
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            // Before one more look at the pipes, in which there is by now what the command itself has said.
            let is_late = ended.is_some_and(|(_, at)| at.elapsed() > LONGEST_LINGER);
            let ready = self.wait(ended.is_some())?;
            if ready.out {
                forward(&mut self.pipes.out, tee.out, &mut self.log)?;
            }
            if ready.err {
                forward(&mut self.pipes.err, tee.err, &mut self.log)?;
            }
            if ready.signal {
                let arrived = self.signals.take();
                // What has ended may have left its number to another.
                if let Some(hold) = self.hold.as_ref().filter(|_| ended.is_none()) {
                    arrived.into_iter().for_each(|signal| hold.pass_on(signal, child));
                }
            }
            let is_timed_out = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if ended.is_none() && (ready.forsaken || is_timed_out) {
                self.cut_off(if ready.forsaken { CutOff::Forsaken } else { CutOff::Timeout }, child);
            }
            if ended.is_none() {
                ended = child.try_wait()?.map(|status| (status, Instant::now()));
            }
            let is_quiet = !ready.out && !ready.err && !ready.signal;
            let is_closed = self.pipes.out.is_none() && self.pipes.err.is_none();
            if let Some((status, _)) = ended
                && (is_quiet || is_closed || is_late)
            {
                return Ok(status);
            }
        }
    }

    /// Ends the command and all that it has started.
    fn cut_off(&mut self, why: CutOff, child: &Child) {
        self.cut_off.get_or_insert(why);
        (self.deadline, self.asker) = (None, None);
        // A keeper that is let go of ends its tree.
        match self.hold.take() {
            Some(Hold::Guarded(guard)) => guard.signal(Signal::SIGKILL),
            Some(Hold::Terminal) => signals::send(child.id(), Signal::SIGKILL),
            Some(Hold::Tied(_) | Hold::TiedGroup(_)) | None => {}
        }
    }

    fn wait(&self, has_ended: bool) -> io::Result<Ready> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = match left {
            _ if has_ended => PollTimeout::from(LINGER),
            Some(left) => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        };
        let watched: [Option<BorrowedFd<'_>>; 4] = [
            self.pipes.out.as_ref().map(AsFd::as_fd),
            self.pipes.err.as_ref().map(AsFd::as_fd),
            Some(self.signals.as_fd()),
            self.asker,
        ];
        let mut fds: Vec<PollFd<'_>> =
            watched.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
        // Interrupted, nothing would seem to have come.
        while let Err(error) = poll(&mut fds, timeout) {
            if error != Errno::EINTR {
                return Err(error.into());
            }
        }
        let mut events = fds.iter().map(|fd| fd.any().unwrap_or(false));
        let mut is_ready = |fd: &Option<BorrowedFd<'_>>| fd.is_some() && events.next().unwrap_or(false);
        Ok(Ready {
            out: is_ready(&watched[0]),
            err: is_ready(&watched[1]),
            signal: is_ready(&watched[2]),
            forsaken: is_ready(&watched[3]),
        })
    }
}

/// Moves what has come; forgets the pipe when it is closed.
fn forward<P: Read>(pipe: &mut Option<P>, to: &mut dyn Write, log: &mut Excerpt<Log>) -> Result<(), Lost> {
    let mut buffer = [0; 64 * 1024];
    let Some(from) = pipe else { return Ok(()) };
    let count = match from.read(&mut buffer) {
        Ok(count) => count,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if count == 0 {
        *pipe = None;
        return Ok(());
    }
    // Whoever stopped listening does not stop the command.
    to.write_all(&buffer[..count]).and_then(|()| to.flush()).ok();
    log.write_all(&buffer[..count]).map_err(Lost::Output)
}
