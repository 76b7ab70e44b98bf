//! A command in a process of its own.
//!
//! It leads nothing and outlives nothing: a guard process leads its group and kills all of it should this process be killed, and
//! a call that is over ends it, first with a request and then for good.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use mala_agents::mcp::{CommandLine, Leash, Ran, Remarks};
use mala_gate::runner::Guard;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

/// How long a command and all that it started may take to end when they are asked to.
const GRACE: Duration = Duration::from_secs(3);
/// How long remarks are waited for after the command has ended: what it left running may hold them open for ever.
const LINGER: Duration = Duration::from_millis(200);

/// Runs the command in the folder `here` until it has ended, or the leash is cut.
pub(super) fn run(here: &Path, line: &CommandLine, leash: &Leash) -> io::Result<Ran> {
    let guard = Guard::start()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(&line.words).current_dir(here).process_group(guard.group());
    command.stdin(if line.input.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let text = line.input.clone();
        // Beside everything else: a command need not read what it is given.
        thread::spawn(move || stdin.write_all(text.as_bytes()));
    }
    let remarks = child.stderr.take().map(|stderr| follow(stderr, Arc::clone(leash.remarks())));
    let (over, done) = io::pipe()?;
    let (answer, status) = thread::scope(|threads| {
        let (over, guard) = (&over, &guard);
        threads.spawn(move || see_off(leash, over, guard, remarks.as_ref()));
        let mut answer = Vec::new();
        let read = child.stdout.take().map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut answer));
        let status = read.and_then(|_| child.wait());
        drop(done);
        status.map(|status| (answer, status))
    })?;
    Ok(Ran { code: code(status), answer })
}

/// Passes on what is said; the channel closes when nothing more can come.
fn follow(mut stderr: ChildStderr, remarks: Arc<Remarks>) -> Receiver<()> {
    let (running, ended) = mpsc::channel();
    thread::spawn(move || {
        let _running = running;
        let mut buffer = [0; 16 * 1024];
        while let Ok(count) = stderr.read(&mut buffer)
            && count > 0
        {
            remarks.push(&buffer[..count]);
        }
    });
    ended
}

/// Waits until the command is `over` and has said everything. If the leash is cut before, the command's whole group is ended.
fn see_off(leash: &Leash, over: &PipeReader, guard: &Guard, remarks: Option<&Receiver<()>>) {
    let quiet = |longest| match remarks {
        Some(remarks) => remarks.recv_timeout(longest) != Err(RecvTimeoutError::Timeout),
        None => true,
    };
    if is_first(leash.as_fd(), over.as_fd()) {
        guard.signal(Signal::SIGTERM);
        // Everybody who is left holds the stream that remarks come through.
        if !quiet(GRACE) {
            guard.signal(Signal::SIGKILL);
        }
    } else {
        quiet(LINGER);
    }
}

/// Waits for either, and says whether it was the first.
fn is_first(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let mut fds = [one, other].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
    fds[0].any().unwrap_or(false)
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
