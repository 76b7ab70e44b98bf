//! The thread that passes a program's output on.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, ReadWriteFlags, ioctl_fionread, pwritev2, read, write};

use super::Log;

/// Read at once.
const CHUNK: usize = 64 * 1024;
/// What a pipe that is ready to be written to takes without waiting.
const PIECE: usize = 4096;

/// From a pipe of ours to where the program's output was meant to go.
pub(super) struct Stream {
    from: OwnedFd,
    to: OwnedFd,
    /// Logged, but not passed on yet. Nothing more is read until it is empty, so a slow reader slows the program.
    pending: VecDeque<u8>,
}

/// What someone wants from the thread.
enum Wish {
    /// To be called when everything that was printed so far has been passed on.
    Drained(Then),
    /// To be told when everything that was printed so far is in the log, which gets no more.
    EndLog(Sender<()>),
}

/// Something that happens once, at the latest when it is dropped: a program waits for it.
struct Then(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Then {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

/// Why part of the output is missing in the log.
type Failure = Arc<Mutex<Option<io::Error>>>;

/// The way to a forwarding thread.
pub(crate) struct Tap {
    wishes: Mutex<Sender<Wish>>,
    /// The thread has the other reference, as long as it lives.
    bell: Arc<OwnedFd>,
    failure: Failure,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").finish_non_exhaustive()
    }
}

impl Tap {
    pub(super) fn start(streams: Vec<Stream>, log: Log) -> io::Result<Arc<Self>> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, wishes) = channel();
        let failure = Failure::default();
        let forward = Forward {
            streams,
            log: Some(log),
            failure: Arc::clone(&failure),
            wishes,
            bell: Arc::clone(&bell),
            drained: Vec::new(),
        };
        thread::Builder::new().name("mala-capture".to_owned()).spawn(move || forward.run())?;
        Ok(Arc::new(Self { wishes: Mutex::new(sender), bell, failure }))
    }

    /// True when all streams have ended and everything was passed on.
    pub(crate) fn is_over(&self) -> bool {
        Arc::strong_count(&self.bell) == 1
    }

    /// Calls `then` once all that was printed so far has been passed on, or cannot be.
    pub(crate) fn when_drained(&self, then: impl FnOnce() + Send + 'static) {
        self.wish(Wish::Drained(Then(Some(Box::new(then)))));
    }

    /// Ends the log. An error if part of the output is not in it.
    pub(super) fn end_log(&self) -> io::Result<()> {
        let (told, ended) = channel();
        self.wish(Wish::EndLog(told));
        // Without an answer the thread is gone, and everything was logged.
        let _gone = ended.recv();
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    fn wish(&self, wish: Wish) {
        // Without a thread the wish is dropped, which fulfils it.
        let _gone = lock(&self.wishes).send(wish);
        let _full = write(&self.bell, &1_u64.to_ne_bytes());
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Forward {
    streams: Vec<Stream>,
    log: Option<Log>,
    failure: Failure,
    wishes: Receiver<Wish>,
    bell: Arc<OwnedFd>,
    drained: Vec<Then>,
}

impl Forward {
    fn run(mut self) {
        block_broken_pipe_signal();
        while !self.streams.is_empty() {
            self.wait();
            self.move_on();
            self.hear();
            if self.streams.iter().all(Stream::is_drained) {
                self.drained.clear();
            }
        }
    }

    fn wait(&self) {
        let mut polled = vec![PollFd::new(&self.bell, PollFlags::IN)];
        for stream in &self.streams {
            let (input, output) = if stream.pending.is_empty() {
                (PollFlags::IN, PollFlags::empty())
            } else {
                (PollFlags::empty(), PollFlags::OUT)
            };
            // An end that nobody writes to any more would not let us sleep; with output pending it is no news.
            if !input.is_empty() {
                polled.push(PollFd::new(&stream.from, input));
            }
            polled.push(PollFd::new(&stream.to, output));
        }
        let _interrupted = poll(&mut polled, None);
        let _none = read(&self.bell, &mut [0_u8; 8]);
    }

    fn move_on(&mut self) {
        let mut streams = std::mem::take(&mut self.streams);
        streams.retain_mut(|stream| self.advance(stream) == Flow::Open);
        self.streams = streams;
    }

    fn advance(&mut self, stream: &mut Stream) -> Flow {
        if stream.pending.is_empty() && self.take_in(stream, CHUNK) == Flow::Closed {
            return Flow::Closed;
        }
        // The reader's end is looked at also when there is nothing to say: the program shall notice before it writes.
        if stream.pass_on() == Flow::Closed {
            self.take_in(stream, stream.waiting());
            return Flow::Closed;
        }
        Flow::Open
    }

    /// Reads into the log. Closed at the end of the stream.
    fn take_in(&mut self, stream: &mut Stream, most: usize) -> Flow {
        let mut chunk = vec![0_u8; most];
        match read(&stream.from, &mut chunk) {
            Ok(0) if most > 0 => return Flow::Closed,
            Ok(length) => {
                if let Some(log) = &self.log
                    && let Some(log) = &mut *lock(log)
                    && let Err(error) = log.write_all(&chunk[..length])
                {
                    lock(&self.failure).get_or_insert(error);
                }
                stream.pending.extend(&chunk[..length]);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_broken) => return Flow::Closed,
        }
        Flow::Open
    }

    fn hear(&mut self) {
        while let Ok(wish) = self.wishes.try_recv() {
            match wish {
                Wish::Drained(then) => self.drained.push(then),
                Wish::EndLog(told) => {
                    let mut streams = std::mem::take(&mut self.streams);
                    for stream in &mut streams {
                        self.take_in(stream, stream.waiting());
                    }
                    self.streams = streams;
                    self.log = None;
                    let _gone = told.send(());
                }
            }
        }
    }
}

/// Whether a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    Closed,
}

impl Stream {
    pub(super) fn new(from: OwnedFd, to: OwnedFd) -> Self {
        Self { from, to, pending: VecDeque::new() }
    }

    /// Bytes that the program has written and nobody has read.
    fn waiting(&self) -> usize {
        ioctl_fionread(&self.from).ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }

    fn is_drained(&self) -> bool {
        self.pending.is_empty() && self.waiting() == 0
    }

    /// Writes as much as is possible at once. Closed if nobody is left to read it.
    fn pass_on(&mut self) -> Flow {
        loop {
            let wanted = if self.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let mut polled = [PollFd::new(&self.to, wanted)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let ready = poll(&mut polled, Some(&now));
            let seen = polled[0].revents();
            if ready.is_ok() && seen.intersects(PollFlags::ERR | PollFlags::HUP) {
                return Flow::Closed;
            }
            if self.pending.is_empty() || !seen.contains(PollFlags::OUT) {
                return Flow::Open;
            }
            match self.write_some() {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(Errno::AGAIN | Errno::INTR) => return Flow::Open,
                Err(_broken) => return Flow::Closed,
            }
        }
    }

    /// The reader's end may be shared with others: how it waits must not be changed, so each write says it.
    fn write_some(&self) -> Result<usize, Errno> {
        let (first, _) = self.pending.as_slices();
        match pwritev2(&self.to, &[IoSlice::new(first)], u64::MAX, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) => write(&self.to, &first[..first.len().min(PIECE)]),
            written => written,
        }
    }
}

/// A reader that is gone is an answer to us, not a reason to die.
fn block_broken_pipe_signal() {
    // SAFETY: the set is initialised before use; only this thread's mask changes.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
    }
}
