//! The broker: threads that receive calls and answer them.
//!
//! One thread at a time leads: it waits for the next call. Having one, it lets another lead and answers the call itself,
//! however long that takes. So calls are received at once, which matters because a signal interrupts those that are
//! not, and an answer never changes threads. When nobody is left to lead, the pool grows.

mod call;
mod inode;
mod names;
mod open;
mod session;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use self::session::Session;
use super::links::Links;
use super::notify::{Listener, Request};
use super::task::Umasks;
use super::zones::Zones;
use crate::Guard;

/// Threads at the start: one leads, the others wait to.
const AT_FIRST: usize = 3;
/// More calls than this wait in the kernel.
const AT_MOST: usize = 64;
/// How long `stop` waits for answers that nobody needs any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// What every answer needs.
pub(crate) struct Rules {
    pub(crate) zones: Zones,
    pub(crate) guard: Arc<dyn Guard>,
    pub(crate) links: Links,
    pub(crate) umasks: Umasks,
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
    stopped: OwnedFd,
    /// Closing it stops the threads.
    stopper: Mutex<Option<OwnedFd>>,
    pool: Mutex<Option<Arc<Pool>>>,
}

impl Broker {
    pub(crate) fn new(zones: Zones, guard: Arc<dyn Guard>) -> io::Result<Self> {
        let (stopped, stopper) = pipe_with(PipeFlags::CLOEXEC)?;
        let rules = Rules { zones, guard, links: Links::default(), umasks: Umasks::new() };
        let stopper = Mutex::new(Some(stopper));
        Ok(Self { rules: Arc::new(rules), stopped, stopper, pool: Mutex::default() })
    }

    /// Starts to answer.
    pub(crate) fn serve(&self, listener: Listener) {
        let Ok(stopped) = self.stopped.try_clone() else { return };
        let pool = Arc::new(Pool {
            rules: Arc::clone(&self.rules),
            listener,
            stopped,
            lead: Mutex::default(),
            idle: AtomicUsize::new(0),
            threads: Mutex::new(0),
            ended: Condvar::new(),
        });
        for _ in 0..AT_FIRST {
            pool.grow();
        }
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool);
    }

    /// Ends the threads, and waits for them.
    pub(crate) fn stop(&self) {
        drop(self.stopper.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(pool) = self.pool.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let threads = pool.threads.lock().unwrap_or_else(PoisonError::into_inner);
            drop(pool.ended.wait_timeout_while(threads, PATIENCE, |threads| *threads > 0));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Pool {
    rules: Arc<Rules>,
    listener: Listener,
    stopped: OwnedFd,
    lead: Mutex<()>,
    /// Threads that lead or wait to.
    idle: AtomicUsize,
    threads: Mutex<usize>,
    ended: Condvar,
}

impl Pool {
    fn grow(self: &Arc<Self>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if *threads >= AT_MOST {
            return;
        }
        let pool = Arc::clone(self);
        self.idle.fetch_add(1, Ordering::SeqCst);
        // A thread that cannot be made is one less: the others go on.
        match thread::Builder::new().name("mala-broker".to_owned()).spawn(move || pool.work()) {
            Ok(_detached) => *threads += 1,
            Err(_none_left) => {
                self.idle.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn work(self: Arc<Self>) {
        loop {
            let request = {
                let _lead = self.lead.lock().unwrap_or_else(PoisonError::into_inner);
                self.next()
            };
            let others = self.idle.fetch_sub(1, Ordering::SeqCst) - 1;
            let Some(request) = request else { break };
            if others == 0 {
                self.grow();
            }
            self.answer(&request);
            self.idle.fetch_add(1, Ordering::SeqCst);
        }
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.ended.notify_all();
    }

    /// The next call; none if there will be no more.
    fn next(&self) -> Option<Request> {
        loop {
            let mut polled =
                [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.stopped, PollFlags::empty())];
            match poll(&mut polled, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            }
            if !polled[1].revents().is_empty() {
                return None;
            }
            let (calls, over) = (PollFlags::IN, PollFlags::HUP | PollFlags::ERR);
            if polled[0].revents().contains(calls) {
                if let Ok(request) = self.listener.receive() {
                    return Some(request);
                }
            } else if polled[0].revents().intersects(over) {
                return None;
            }
        }
    }

    fn answer(&self, request: &Request) {
        let session = Session::new(&self.rules, &self.listener, request);
        // Whatever goes wrong in a guard, the caller gets an answer, and it is no.
        let answer = catch_unwind(AssertUnwindSafe(|| session.decide())).unwrap_or(Err(Errno::ACCESS));
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
