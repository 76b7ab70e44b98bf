//! Unix sockets, with descriptors passed along and peers that the kernel names: the end of those who ask.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IoSlice, IsTerminal, PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{env, thread};

use mala_agents::mcp::{CommandLine, Leash, Ran};
use mala_store::process::Process;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::socket_peercred};

use super::VARIABLE;
use crate::SessionError;

/// The exit code of a command that did what it was asked to.
const SUCCESS: u8 = 0;

/// The answer to a process that is not served. An exit code is one byte.
pub(super) const BUSY: [u8; 2] = [75, 75];

/// The socket of this process's supervisor, if it belongs to a tree.
pub fn supervisor() -> Option<PathBuf> {
    env::var_os(VARIABLE).map(PathBuf::from)
}

/// Has the supervisor run this process's command line.
pub fn ask(socket: &Path) -> Result<u8, SessionError> {
    ask_for(socket, env::args_os())
}

/// Has the supervisor run the command line `args`, the program first.
pub fn ask_for(socket: &Path, args: impl Iterator<Item = OsString>) -> Result<u8, SessionError> {
    let args: Vec<OsString> = args.collect();
    let (input, out, err) = (io::stdin(), io::stdout(), io::stderr());
    let typed = if args.iter().any(|arg| arg == "-") { typed()? } else { None };
    let input = typed.as_ref().map_or(input.as_fd(), AsFd::as_fd);
    talk(socket, args.into_iter(), [input, out.as_fd(), err.as_fd()]).map_err(SessionError::Unreachable)
}

/// What is typed from now on, if this process reads from a terminal. That is for the programs in front, and the
/// supervisor is not one of them.
fn typed() -> io::Result<Option<PipeReader>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let (reader, mut writer) = io::pipe()?;
    thread::spawn(move || io::copy(&mut io::stdin(), &mut writer));
    Ok(Some(reader))
}

/// Has the supervisor run the command line `args`, and returns what it answers.
pub fn query(socket: &Path, args: impl Iterator<Item = OsString>) -> Result<(u8, Vec<u8>), SessionError> {
    let (input, err) = (io::stdin(), io::stderr());
    let (mut reader, writer) = io::pipe()?;
    // Read beside it, or a long answer would fill the pipe and wait forever.
    let answer = thread::spawn(move || {
        let mut answer = Vec::new();
        reader.read_to_end(&mut answer).map(|_| answer)
    });
    let code = talk(socket, args, [input.as_fd(), writer.as_fd(), err.as_fd()])
        .map_err(SessionError::Unreachable)?;
    drop(writer);
    let answer =
        answer.join().map_err(|_panic| io::Error::other("reading the supervisor's answer failed"))??;
    Ok((code, answer))
}

fn talk(socket: &Path, args: impl Iterator<Item = OsString>, streams: [BorrowedFd<'_>; 3]) -> io::Result<u8> {
    code(&mut put(socket, &env::current_dir()?, args, streams)?)
}

/// Puts a question to the supervisor: `args`, typed in the folder `here`.
fn put(
    socket: &Path,
    here: &Path,
    args: impl Iterator<Item = OsString>,
    streams: [BorrowedFd<'_>; 3],
) -> io::Result<UnixStream> {
    let mut stream = connect(socket)?;
    send_request(&mut stream, here, args, streams)?;
    Ok(stream)
}

pub(super) fn send_request(
    stream: &mut UnixStream,
    here: &Path,
    args: impl Iterator<Item = OsString>,
    streams: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    // Whoever is turned away is so before everything is said; the answer says why.
    let ignore_hung_up = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    };
    ignore_hung_up(send_streams(stream, streams))?;
    for text in std::iter::once(here.as_os_str().to_owned()).chain(args) {
        ignore_hung_up(stream.write_all(&(text.len() as u64).to_le_bytes()))?;
        ignore_hung_up(stream.write_all(text.as_bytes()))?;
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
    Ok(())
}

/// What the supervisor answers: an exit code, or that it has no time.
pub(super) fn code(stream: &mut UnixStream) -> io::Result<u8> {
    let mut answer = [0; BUSY.len()];
    let mut length = 0;
    while length < answer.len() {
        match stream.read(&mut answer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What it had not read when it hung up.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && length > 0 => break,
            Err(error) => return Err(error),
        }
    }
    match answer[..length] {
        [code] => Ok(code),
        [] => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => {
            let text = "too many of the agent's processes talk to its supervisor: try again in a moment";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
        }
    }
}

/// Has the supervisor run a command for one of this process's calls, and hangs up when the call is over. None of this
/// process's own streams is handed out.
pub fn relay(socket: &Path, here: &Path, line: &CommandLine, leash: &Leash) -> Result<Ran, SessionError> {
    let args = std::iter::once("mala").chain(line.words.iter().map(String::as_str)).map(OsString::from);
    let (input, mut typed) = io::pipe()?;
    let (out, their_out) = io::pipe()?;
    let (err, their_err) = io::pipe()?;
    let streams = [input.as_fd(), their_out.as_fd(), their_err.as_fd()];
    let stream = put(socket, here, args, streams).map_err(SessionError::Unreachable)?;
    // As long as these were open here, their ends would never be seen.
    drop((input, their_out, their_err));
    let text = line.input.clone();
    if !text.is_empty() {
        // Beside everything else: a command need not read what it is given.
        thread::spawn(move || typed.write_all(text.as_bytes()));
    }
    Answer { stream, out: Some(out), err: Some(err), answer: Vec::new() }
        .wait(leash)
        .map_err(SessionError::Unreachable)
}

/// An answer that is on its way.
struct Answer {
    stream: UnixStream,
    out: Option<PipeReader>,
    err: Option<PipeReader>,
    answer: Vec<u8>,
}

impl Answer {
    fn wait(mut self, leash: &Leash) -> io::Result<Ran> {
        loop {
            let pipes = [self.out.as_ref(), self.err.as_ref()].map(|pipe| pipe.map(AsFd::as_fd));
            let fds = [self.stream.as_fd(), leash.as_fd()].into_iter().chain(pipes.into_iter().flatten());
            let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut ready = fds.iter().map(|fd| fd.any().unwrap_or(false));
            let (is_answered, is_over) = (ready.next() == Some(true), ready.next() == Some(true));
            let has_out = pipes[0].is_some() && ready.next() == Some(true);
            let has_err = pipes[1].is_some() && ready.next() == Some(true);
            drop(fds);
            if has_out {
                move_on(&mut self.out, |bytes| self.answer.extend_from_slice(bytes))?;
            }
            if has_err {
                move_on(&mut self.err, |bytes| leash.remarks().push(bytes))?;
            }
            if is_over {
                // Hanging up ends whatever the command waits for.
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
            }
            if is_answered && self.out.is_none() && self.err.is_none() {
                return Ok(Ran { code: code(&mut self.stream)?, answer: self.answer });
            }
        }
    }
}

/// Takes what has come; forgets the pipe when it is closed.
fn move_on(pipe: &mut Option<PipeReader>, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    let Some(from) = pipe else { return Ok(()) };
    match from.read(&mut buffer)? {
        0 => *pipe = None,
        count => take(&buffer[..count]),
    }
    Ok(())
}

/// The socket in the folder `dir` whose supervisor knows this process as one of its tree. For programs that were started
/// without the variable: some clients hand only a few variables on.
pub fn find(dir: &Path) -> Option<PathBuf> {
    let words = || ["mala", "whoami", "--json"].map(OsString::from).into_iter();
    let sockets = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    sockets
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .find(|socket| query(socket, words()).is_ok_and(|(code, _)| code == SUCCESS))
}

/// The sockets in the folder `dir` whose supervisors were killed: nobody listens there, and their processes are gone.
pub fn left(dir: &Path) -> Vec<PathBuf> {
    let sockets = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    sockets.filter(|socket| is_left(socket)).collect()
}

/// One that was made just now has a process, and one of another container has somebody who listens.
fn is_left(socket: &Path) -> bool {
    let name = socket.file_name().and_then(|name| name.to_str());
    let pid = name.and_then(|name| name.strip_suffix(".sock")?.parse().ok());
    pid.is_some_and(|pid| Process::find(pid).is_none())
        && matches!(connect(socket), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Connects to a supervisor of this process. Anybody can make a socket and claim to be one, so the kernel is asked who it is.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let folder = File::open(socket.parent().unwrap_or(Path::new("/")))?;
    let stream = UnixStream::connect(short_path(&folder, socket))?;
    let supervisor = peer(&stream)?;
    if !is_below(std::process::id(), supervisor) {
        let text = format!("process {supervisor}, which listens there, did not start this one");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(stream)
}

/// The process at the other end.
pub(super) fn peer(stream: &UnixStream) -> io::Result<u32> {
    Ok(socket_peercred(stream)?.pid.as_raw_nonzero().get().unsigned_abs())
}

/// True if the process `pid` is in the tree of the process `root`.
pub(super) fn is_below(pid: u32, root: u32) -> bool {
    Process::find(pid).is_some_and(|process| process.ancestors().any(|ancestor| ancestor.pid == root))
}

/// A socket's path may have only about a hundred characters; through an open folder every path is short.
pub(super) fn short_path(folder: &File, socket: &Path) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(socket.file_name().unwrap_or_default())
}

pub(super) fn send_streams(stream: &UnixStream, fds: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}
