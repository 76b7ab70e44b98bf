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
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mala_core::Excerpt;
use mala_sandbox::Leash;
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
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    /// Where its output is saved.
    pub log: &'a Path,
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

/// Runs the command to its end. Standard input is the caller's.
pub fn run(task: &Task<'_>, tie: Tie, tee: &mut Tee<'_>) -> Result<Ended, RunError> {
    let (program, args) = task.argv.split_first().ok_or(RunError::Empty)?;
    let log = File::create(task.log).map_err(|source| RunError::Log { path: task.log.to_owned(), source })?;
    let start = |source| RunError::Start { program: program.to_string_lossy().into_owned(), source };
    let signals = Signals::watch().map_err(RunError::Watch)?;
    let mut command = Command::new(program);
    command.args(args).current_dir(task.cwd).stdout(Stdio::piped()).stderr(Stdio::piped());
    let is_on_terminal = io::stdin().is_terminal();
    let leash = match tie {
        Tie::Tree => mala_sandbox::tie(&mut command).map_err(start)?,
        Tie::Group => None,
    };
    let hold = match leash {
        Some(leash) if is_on_terminal => Hold::Tied(leash),
        Some(leash) => {
            command.process_group(0);
            Hold::TiedGroup(leash)
        }
        None if is_on_terminal => Hold::Terminal,
        None => {
            let guard = Guard::start().map_err(start)?;
            command.process_group(guard.group());
            Hold::Guarded(guard)
        }
    };
    let mut child = command.spawn().map_err(start)?;
    let pipes = Pipes { out: child.stdout.take(), err: child.stderr.take() };
    let mut watch = Watch { signals, hold, pipes, log: Excerpt::new(Log { file: log, hash: Sha256::new() }) };
    let not_saved = |source| RunError::Log { path: task.log.to_owned(), source };
    let spawned = watch.until_end(&mut child, tee).map_err(|lost| match lost {
        Lost::Output(source) => not_saved(source),
        Lost::Command(source) => RunError::Watch(source),
    })?;
    let status = watch.hold.status().unwrap_or(spawned);
    let Log { file, hash } = watch.log.finish().map_err(not_saved)?;
    file.sync_data().map_err(not_saved)?;
    let sum = Some(hex(&hash.finalize()));
    Ok(Ended { exit_code: status.code(), signal: status.signal(), output_sha256: sum })
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

struct Watch {
    signals: Signals,
    hold: Hold,
    pipes: Pipes,
    log: Excerpt<Log>,
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
}

impl Watch {
    fn until_end(&mut self, child: &mut Child, tee: &mut Tee<'_>) -> Result<ExitStatus, Lost> {
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            // Before one more look at the pipes, in which there is by now what the command itself has said.
            let is_late = ended.is_some_and(|(_, at)| at.elapsed() > LONGEST_LINGER);
            let ready =
                self.wait(if ended.is_some() { PollTimeout::from(LINGER) } else { PollTimeout::NONE })?;
            if ready.out {
                forward(&mut self.pipes.out, tee.out, &mut self.log)?;
            }
            if ready.err {
                forward(&mut self.pipes.err, tee.err, &mut self.log)?;
            }
            if ready.signal {
                let arrived = self.signals.take();
                // What has ended may have left its number to another.
                if ended.is_none() {
                    arrived.into_iter().for_each(|signal| self.hold.pass_on(signal, child));
                }
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

    fn wait(&self, timeout: PollTimeout) -> io::Result<Ready> {
        let watched: [Option<BorrowedFd<'_>>; 3] = [
            self.pipes.out.as_ref().map(AsFd::as_fd),
            self.pipes.err.as_ref().map(AsFd::as_fd),
            Some(self.signals.as_fd()),
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
        Ok(Ready { out: is_ready(&watched[0]), err: is_ready(&watched[1]), signal: is_ready(&watched[2]) })
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
