//! The broker: threads that receive calls and answer them.
//!
//! Every thread waits for a call, answers it, and waits again, so an answer never changes threads. Calls must be
//! received at once, because a signal interrupts those that are not: when a call leaves nobody waiting for the next
//! one, the pool grows.

mod call;
mod exec;
mod inode;
mod names;
mod open;
mod session;
mod wake;

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::call::Call;
use self::session::Session;
use super::gate::{Gate, Stop};
use super::links::Links;
use super::notify::{Listener, Request};
use super::task::Umasks;
use super::zones::Zones;
use crate::Guard;

/// Threads at the start.
const AT_FIRST: usize = 3;
/// More calls than this wait in the kernel.
const AT_MOST: usize = 64;
/// How long `stop` waits for answers that nobody needs any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long threads have to end by themselves before they are interrupted.
const GRACE: Duration = Duration::from_millis(20);

/// What every answer needs.
pub(crate) struct Rules {
    pub(crate) zones: Zones,
    pub(crate) guard: Arc<dyn Guard>,
    pub(crate) links: Links,
    pub(crate) umasks: Umasks,
    pub(crate) gate: Arc<Gate>,
}

/// How a call is answered when it is not an error.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The kernel runs it.
    Proceed,
    /// The broker has done it.
    Done,
    /// The broker has opened a file for the caller.
    Opened { fd: OwnedFd, cloexec: bool },
}

pub(crate) struct Broker {
    rules: Arc<Rules>,
    pool: Mutex<Option<Arc<Pool>>>,
}

impl Broker {
    pub(crate) fn new(zones: Zones, guard: Arc<dyn Guard>) -> Self {
        let rules =
            Rules { zones, guard, links: Links::default(), umasks: Umasks::new(), gate: Arc::default() };
        Self { rules: Arc::new(rules), pool: Mutex::default() }
    }

    /// Starts to answer.
    pub(crate) fn serve(&self, listener: Listener) {
        let pool = Arc::new(Pool {
            rules: Arc::clone(&self.rules),
            listener: Arc::new(listener),
            stopping: AtomicBool::new(false),
            idle: AtomicUsize::new(0),
            threads: Mutex::default(),
            ended: Condvar::new(),
        });
        for _ in 0..AT_FIRST {
            pool.grow();
        }
        *lock(&self.pool) = Some(pool);
    }

    /// Ends everything that still waits or answers.
    pub(crate) fn stop(&self) {
        let Some(pool) = lock(&self.pool).take() else { return };
        pool.stop();
        // No thread is left that could stop another program.
        self.rules.gate.stop();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread that panicked left nothing half done behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Pool {
    rules: Arc<Rules>,
    listener: Arc<Listener>,
    stopping: AtomicBool,
    /// Threads that wait for a call.
    idle: AtomicUsize,
    threads: Mutex<Vec<wake::Thread>>,
    ended: Condvar,
}

impl Pool {
    /// Ends the threads, and waits for them.
    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + PATIENCE;
        let mut threads = lock(&self.threads);
        while !threads.is_empty() && Instant::now() < deadline {
            let waited = self.ended.wait_timeout_while(threads, GRACE, |threads| !threads.is_empty());
            threads = waited.unwrap_or_else(PoisonError::into_inner).0;
            wake::interrupt(&threads);
        }
    }

    fn grow(self: &Arc<Self>) {
        if lock(&self.threads).len() >= AT_MOST {
            return;
        }
        let pool = Arc::clone(self);
        self.idle.fetch_add(1, Ordering::SeqCst);
        // A thread that cannot be made is one less: the others go on.
        if thread::Builder::new().name("mala-broker".to_owned()).spawn(move || pool.work()).is_err() {
            self.idle.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn work(self: Arc<Self>) {
        let this_thread = wake::Thread::this();
        lock(&self.threads).push(this_thread);
        while let Some(request) = self.next() {
            if self.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.grow();
            }
            self.attend(request);
            self.idle.fetch_add(1, Ordering::SeqCst);
        }
        lock(&self.threads).retain(|thread| *thread != this_thread);
        self.ended.notify_all();
    }

    /// The next call; none if there will be no more.
    fn next(&self) -> Option<Request> {
        while !self.stopping.load(Ordering::SeqCst) {
            if let Ok(request) = self.listener.receive() {
                return Some(request);
            }
            // That caller is gone, or all are.
            let mut polled = [PollFd::new(&*self.listener, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP) {
                return None;
            }
        }
        None
    }

    /// Answers, at once or when the program's turn has come.
    fn attend(self: &Arc<Self>, request: Request) {
        let Some(call) = Call::of(&request) else {
            return self.listener.finish(&request, Err(libc::ENOSYS));
        };
        if !matches!(call, Call::Exec { .. }) && self.rules.gate.expects() {
            let pool = Arc::clone(self);
            let stop = Stop { listener: Arc::clone(&self.listener), request };
            if self.rules.gate.stops(&stop, move || pool.answer(call, &request)) {
                return;
            }
        }
        self.answer(call, &request);
    }

    fn answer(&self, call: Call, request: &Request) {
        if matches!(call, Call::Begin) {
            return self.listener.proceed(request);
        }
        let decide = || Session::new(&self.rules, &self.listener, request)?.decide(call);
        // Whatever goes wrong in a guard, the caller gets an answer, and it is no.
        let answer = catch_unwind(AssertUnwindSafe(decide)).unwrap_or(Err(Errno::ACCESS));
        match answer {
            Ok(Answer::Proceed) => self.listener.proceed(request),
            Ok(Answer::Done) => self.listener.finish(request, Ok(())),
            Ok(Answer::Opened { fd, cloexec }) => {
                self.listener.hand_over(request, fd.as_fd(), cloexec);
            }
            Err(errno) => self.listener.finish(request, Err(errno.raw_os_error())),
        }
    }
}
