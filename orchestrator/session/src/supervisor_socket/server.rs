//! The supervisor's end of the socket.
//!
//! One thread takes connections and reads requests, and never waits for one of them: whoever connects and says nothing costs a
//! descriptor for [`REQUEST_TIMEOUT`] and keeps nobody waiting. Only a whole request gets a thread. Connections, what is kept
//! of half requests, and requests served at once are bounded; who is turned away is told so.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mala_store::Party;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::event::epoll;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::linux::{BUSY, is_below, peer, short_path};
use super::{ClientStreams, CommandRequest, RunCommand};
use crate::{StoreGuard, Supervised};

/// The longest message: far more than the system allows for arguments that make sense here.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// What may be kept of requests that are not whole yet, together.
const MAX_UNREAD_BYTES: usize = 4 * MAX_MESSAGE_BYTES;
/// So many are served at once; others wait until one of them is done.
const MAX_REQUESTS: usize = 64;
/// Connections that have not been served yet. A supervisor needs most of its descriptors for other things.
const MAX_CONNECTIONS: usize = 128;
/// How long a process may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The supervisor's end. The socket's file goes away with it.
#[derive(Debug)]
pub struct SupervisorSocket {
    socket: PathBuf,
}

impl SupervisorSocket {
    /// Listens in the directory `dir` and has `run` act as `party`, which `guard` watches over.
    pub fn open(dir: &Path, party: &Party, guard: &Arc<StoreGuard>, run: RunCommand) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let socket = dir.join(format!("{}.sock", std::process::id()));
        let _ = fs::remove_file(&socket);
        let folder = File::open(dir)?;
        let listener = UnixListener::bind(short_path(&folder, &socket))?;
        let (party, guard) = (party.clone(), guard.clone());
        let serve = move |request| serve(request, party.clone(), guard.clone(), run);
        let admits = |pid| is_below(pid, std::process::id());
        let reception = Reception::new(listener, Box::new(admits), Arc::new(serve))?;
        thread::Builder::new().spawn(move || reception.run())?;
        Ok(Self { socket })
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for SupervisorSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn serve(request: Request, party: Party, guard: Arc<StoreGuard>, run: RunCommand) {
    guard.turns().settle();
    guard.record_commits();
    let Request { here, args, streams, asker, pid, mut stream } = request;
    let code =
        run(CommandRequest { here, args, streams, supervised: Supervised { party, asker, pid, guard } });
    let _ = stream.write_all(&[code]);
}

/// A command line that a process of the tree wants to be run, and where the answer goes.
struct Request {
    here: PathBuf,
    args: Vec<OsString>,
    streams: ClientStreams,
    asker: OwnedFd,
    pid: u32,
    stream: UnixStream,
}

/// A connection whose request is not whole yet.
struct Caller {
    stream: UnixStream,
    pid: u32,
    since: Instant,
    streams: Option<ClientStreams>,
    message: Vec<u8>,
}

/// What has become of a caller.
enum Heard {
    /// There is more to come.
    Part,
    Whole,
    /// It has left, or talks nonsense.
    Nothing,
}

impl Caller {
    /// Takes what has come.
    fn hear(&mut self) -> Heard {
        if self.streams.is_none() {
            match receive_streams(&self.stream) {
                Ok(streams) => self.streams = Some(streams),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Part,
                Err(_) => return Heard::Nothing,
            }
        }
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Heard::Whole,
                Ok(count) if self.message.len() + count <= MAX_MESSAGE_BYTES => {
                    self.message.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return Heard::Nothing,
            }
        }
    }

    fn request(self) -> Option<Request> {
        let mut texts = Vec::new();
        let mut rest = self.message.as_slice();
        while let Some((length, after)) = rest.split_first_chunk::<8>() {
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            texts.push(OsString::from_vec(after.get(..length)?.to_vec()));
            rest = &after[length..];
        }
        let mut texts = texts.into_iter();
        let here = texts.next().map(PathBuf::from)?;
        let asker = hang_up(&self.stream).ok()?;
        self.stream.set_nonblocking(false).ok()?;
        Some(Request {
            here,
            args: texts.collect(),
            streams: self.streams?,
            asker,
            pid: self.pid,
            stream: self.stream,
        })
    }

    /// Says why it is not served.
    fn turn_away(mut self) {
        let _ = self.stream.write_all(&BUSY);
    }
}

type Serve = Arc<dyn Fn(Request) + Send + Sync>;

/// Takes connections and hands whole requests to threads.
struct Reception {
    listener: UnixListener,
    /// Whether a process may ask at all.
    admits: Box<dyn Fn(u32) -> bool + Send>,
    serve: Serve,
    /// The oldest first.
    callers: Vec<Caller>,
    /// Whole requests for which there was no thread yet.
    waiting: VecDeque<Request>,
    at_work: Arc<()>,
    /// How long a caller may take.
    timeout: Duration,
}

impl Reception {
    fn new(
        listener: UnixListener,
        admits: Box<dyn Fn(u32) -> bool + Send>,
        serve: Serve,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            admits,
            serve,
            callers: Vec::new(),
            waiting: VecDeque::new(),
            at_work: Arc::new(()),
            timeout: REQUEST_TIMEOUT,
        })
    }

    fn run(mut self) {
        loop {
            self.wait();
            self.accept();
            self.hear();
            self.start();
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&self) {
        let oldest = self.callers.first().map(|caller| self.timeout.saturating_sub(caller.since.elapsed()));
        let longest = if self.waiting.is_empty() { oldest } else { Some(POLL_INTERVAL) };
        let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.callers.iter().map(|caller| PollFd::new(caller.stream.as_fd(), PollFlags::POLLIN)));
        // One more, or it would wake up for what is not over yet.
        let longest = longest.map(|longest| longest + Duration::from_millis(1));
        let timeout =
            longest.and_then(|longest| PollTimeout::try_from(longest).ok()).unwrap_or(PollTimeout::NONE);
        // A signal is as good as any other reason to look.
        let _ = poll(&mut fds, timeout);
    }

    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // No descriptor is left; others may have more luck.
                Err(_) => return thread::sleep(POLL_INTERVAL),
            };
            let Ok(pid) = peer(&stream) else { continue };
            // Whoever is not of the tree gets no answer.
            if !(self.admits)(pid) || stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.callers.push(Caller {
                stream,
                pid,
                since: Instant::now(),
                streams: None,
                message: Vec::new(),
            });
            if self.callers.len() + self.waiting.len() > MAX_CONNECTIONS {
                self.hear();
                self.make_room();
            }
        }
    }

    /// Sends the caller away that has said nothing for longest, or has not come to an end.
    fn make_room(&mut self) {
        if self.callers.len() + self.waiting.len() > MAX_CONNECTIONS && !self.callers.is_empty() {
            let silent = self.callers.iter().position(|caller| caller.streams.is_none());
            self.callers.remove(silent.unwrap_or(0)).turn_away();
        }
    }

    fn hear(&mut self) {
        let mut kept = 0;
        for mut caller in std::mem::take(&mut self.callers) {
            match caller.hear() {
                Heard::Whole => self.waiting.extend(caller.request()),
                Heard::Nothing => {}
                Heard::Part => {
                    kept += caller.message.len();
                    if caller.since.elapsed() >= self.timeout || kept > MAX_UNREAD_BYTES {
                        caller.turn_away();
                    } else {
                        self.callers.push(caller);
                    }
                }
            }
        }
    }

    /// Serves whole requests, so many at once. Where a thread cannot be had, it is tried again.
    fn start(&mut self) {
        while Arc::strong_count(&self.at_work) <= MAX_REQUESTS
            && let Some(request) = self.waiting.pop_front()
        {
            // A thread that cannot be started drops what it was given.
            let slot = Arc::new(std::sync::Mutex::new(Some(request)));
            let (serve, one, taken) = (Arc::clone(&self.serve), Arc::clone(&self.at_work), Arc::clone(&slot));
            let started = thread::Builder::new().spawn(move || {
                let _one = one;
                let request = taken.lock().ok().and_then(|mut slot| slot.take());
                if let Some(request) = request {
                    serve(request);
                }
            });
            if started.is_err() {
                let request = slot.lock().ok().and_then(|mut slot| slot.take());
                request.into_iter().for_each(|request| self.waiting.push_front(request));
                return thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// A handle that becomes readable when the other side of the stream is gone, with its process or before. That it has said
/// all it wanted to say does not count.
fn hang_up(stream: &UnixStream) -> io::Result<OwnedFd> {
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&watch, stream, epoll::EventData::new_u64(0), epoll::EventFlags::HUP)?;
    Ok(watch)
}

fn receive_streams(stream: &UnixStream) -> io::Result<ClientStreams> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(stream, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let (Some(input), Some(out), Some(err)) = (fds.next(), fds.next(), fds.next())
        {
            return Ok(ClientStreams { input: input.into(), out: out.into(), err: err.into() });
        }
    }
    Err(io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::linux::{code, send_request};
    use super::*;

    /// A reception that answers every request with 7.
    fn reception() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("desk.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let serve = |mut request: Request| {
            assert_eq!(request.args, ["mala", "whoami"]);
            request.stream.write_all(&[7]).unwrap();
        };
        let mut reception = Reception::new(listener, Box::new(|_| true), Arc::new(serve)).unwrap();
        // Nothing here may be waiting for that.
        reception.timeout = Duration::from_secs(3600);
        thread::spawn(move || reception.run());
        (dir, socket)
    }

    fn ask(socket: &Path) -> io::Result<u8> {
        let mut stream = UnixStream::connect(socket).unwrap();
        let null = File::open("/dev/null").unwrap();
        let args = ["mala", "whoami"].map(OsString::from).into_iter();
        send_request(&mut stream, Path::new("/"), args, [null.as_fd(), null.as_fd(), null.as_fd()])?;
        code(&mut stream)
    }

    #[test]
    fn nine_hundred_idle_connections_keep_nobody_waiting() {
        let (_dir, socket) = reception();
        let crowd: Vec<UnixStream> = (0..900).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        for _ in 0..20 {
            assert_eq!(ask(&socket).unwrap(), 7);
        }
        drop(crowd);
    }

    #[test]
    fn who_is_turned_away_is_told_so() {
        let (_dir, socket) = reception();
        let mut first = UnixStream::connect(&socket).unwrap();
        let crowd: Vec<UnixStream> =
            (0..MAX_CONNECTIONS).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let error = code(&mut first).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains("try again"), "{error}");
        drop(crowd);
    }

    #[test]
    fn who_begins_and_does_not_go_on_keeps_nobody_waiting() {
        let (_dir, socket) = reception();
        let null = File::open("/dev/null").unwrap();
        let crowd: Vec<UnixStream> = (0..MAX_CONNECTIONS)
            .map(|_| {
                let mut stream = UnixStream::connect(&socket).unwrap();
                super::super::linux::send_streams(&stream, [null.as_fd(), null.as_fd(), null.as_fd()])
                    .unwrap();
                stream.write_all(&[1, 0]).unwrap();
                stream
            })
            .collect();
        for _ in 0..20 {
            assert_eq!(ask(&socket).unwrap(), 7);
        }
        drop(crowd);
    }

    #[test]
    fn a_request_that_comes_byte_by_byte_is_served() {
        let (_dir, socket) = reception();
        let mut stream = UnixStream::connect(&socket).unwrap();
        let null = File::open("/dev/null").unwrap();
        super::super::linux::send_streams(&stream, [null.as_fd(), null.as_fd(), null.as_fd()]).unwrap();
        for text in ["/", "mala", "whoami"] {
            let bytes = [(text.len() as u64).to_le_bytes().as_slice(), text.as_bytes()].concat();
            bytes.chunks(1).for_each(|byte| stream.write_all(byte).unwrap());
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(code(&mut stream).unwrap(), 7);
    }
}
