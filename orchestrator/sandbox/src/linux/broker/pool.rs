//! The threads of the broker. One of them waits for a call, see [`Seat`]; the one that receives a call answers it, unless that means
//! to wait for another program, see [`Line`].

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::call::Call;
use super::handovers::HandOvers;
use super::pipes::{Line, Wait};
use super::seat::{Seat, Waited};
use super::session::Session;
use super::{Answer, Effect, Opened, Rules, lock, wake};
use crate::linux::gate::Stop;
use crate::linux::identity;
use crate::linux::notify::{Listener, Request};

/// More calls than this wait in the kernel.
const AT_MOST: usize = 64;
/// How long `stop` waits for answers that nobody needs any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long threads have to end by themselves before they are interrupted.
const GRACE: Duration = Duration::from_millis(20);

pub(super) struct Pool {
    rules: Arc<Rules>,
    listener: Arc<Listener>,
    stopping: AtomicBool,
    seat: Seat,
    /// Held by who asks the kernel for calls. A thread that was about to when it lost the seat must not wait for calls that
    /// another one receives: it has one to answer.
    asking: Mutex<()>,
    /// Calls that were received with another and wait for an answer.
    received: Mutex<VecDeque<Request>>,
    pipes: Line<Wait>,
    hand_overs: HandOvers,
    threads: Mutex<Threads>,
    ended: Condvar,
}

#[derive(Default)]
struct Threads {
    /// Including those that have just been made.
    count: usize,
    running: Vec<wake::Thread>,
}

impl Pool {
    pub(super) fn start(rules: Arc<Rules>, listener: Listener) -> Arc<Self> {
        let pool = Arc::new(Self {
            rules,
            listener: Arc::new(listener),
            stopping: AtomicBool::new(false),
            seat: Seat::default(),
            asking: Mutex::default(),
            received: Mutex::default(),
            pipes: Line::default(),
            hand_overs: HandOvers::default(),
            threads: Mutex::default(),
            ended: Condvar::new(),
        });
        pool.grow();
        pool
    }

    /// Ends the threads, and waits for them.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.seat.close();
        let deadline = Instant::now() + PATIENCE;
        let mut threads = lock(&self.threads);
        while threads.count > 0 && Instant::now() < deadline {
            let waited = self.ended.wait_timeout_while(threads, GRACE, |threads| threads.count > 0);
            threads = waited.unwrap_or_else(PoisonError::into_inner).0;
            wake::interrupt(&threads.running);
        }
    }

    fn grow(self: &Arc<Self>) {
        if lock(&self.threads).count < AT_MOST {
            // A thread that cannot be made is one less: the others go on.
            let _made = self.spawn("mala-broker", Self::work);
        }
    }

    /// False if there is no thread to be had.
    fn spawn(self: &Arc<Self>, name: &str, work: fn(&Arc<Self>)) -> bool {
        let mut threads = lock(&self.threads);
        let pool = Arc::clone(self);
        let run = move || {
            work(&pool);
            lock(&pool.threads).count -= 1;
            pool.ended.notify_all();
        };
        let is_made = thread::Builder::new().name(name.to_owned()).spawn(run).is_ok();
        threads.count += usize::from(is_made);
        is_made
    }

    fn work(self: &Arc<Self>) {
        let this_thread = wake::Thread::this();
        lock(&self.threads).running.push(this_thread);
        while let Waited::Seated { is_line_empty } = self.seat.wait() {
            if is_line_empty {
                self.grow();
            }
            if !self.serve() {
                // The others in line have nothing to wait for.
                self.seat.close();
                break;
            }
        }
        lock(&self.threads).running.retain(|thread| *thread != this_thread);
    }

    /// Receives and answers calls until somebody else does. False if there are no more.
    fn serve(self: &Arc<Self>) -> bool {
        let mut last_caller = None;
        while let Some(request) = self.next() {
            let turn = self.seat.begin();
            // Calls come in order: between two of the same thread nobody else waited.
            if last_caller.replace(request.tid) != Some(request.tid) {
                self.receive_all();
            }
            if !lock(&self.received).is_empty() {
                self.seat.pass_on(turn);
            }
            self.attend(request);
            if !self.seat.end(turn) {
                return true;
            }
        }
        false
    }

    /// Receives what waits. A signal does not interrupt it any more then.
    fn receive_all(&self) {
        let Ok(_asking) = self.asking.try_lock() else { return };
        while self.listener_has(PollFlags::IN)
            && let Ok(request) = self.listener.receive()
        {
            lock(&self.received).push_back(request);
        }
    }

    /// The next call; none if there will be no more.
    fn next(&self) -> Option<Request> {
        if let Some(request) = lock(&self.received).pop_front() {
            return Some(request);
        }
        let _asking = lock(&self.asking);
        while !self.stopping.load(Ordering::SeqCst) {
            if let Ok(request) = self.listener.receive() {
                return Some(request);
            }
            // That caller is gone, or all are.
            if self.listener_has(PollFlags::HUP) {
                return None;
            }
        }
        None
    }

    fn listener_has(&self, what: PollFlags) -> bool {
        let mut polled = [PollFd::new(&*self.listener, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(what)
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

    fn hand_over(&self, request: &Request, Opened { fd, cloexec, effect }: &Opened) {
        let handed_over = match effect {
            Effect::Truncated => self.listener.install(request, fd.as_fd(), *cloexec).map(|number| {
                let emptied = rustix::fs::ftruncate(fd, 0).map(|()| number);
                self.listener.finish(request, emptied.map_err(Errno::raw_os_error));
            }),
            Effect::None | Effect::Created(_) => self.listener.hand_over(request, fd.as_fd(), *cloexec),
        };
        if let Err(errno) = handed_over {
            if let Effect::Created(name) = effect {
                let _gone = identity::of_open(fd).is_ok_and(|file| identity::remove_name(name, file));
            }
            // The caller may have no descriptor left (EMFILE): it is told what its own open would have said.
            self.listener.finish(request, Err(errno));
        }
    }

    fn answer(self: &Arc<Self>, call: Call, request: &Request) {
        if matches!(call, Call::Begin) {
            return self.listener.proceed(request);
        }
        let starts = matches!(call, Call::Exec { .. });
        let decide = || Session::new(&self.rules, &self.listener, request)?.decide(call);
        // Whatever goes wrong in a guard, the caller gets an answer, and it is no.
        let answer = catch_unwind(AssertUnwindSafe(decide)).unwrap_or(Err(Errno::ACCESS));
        match answer {
            Ok(Answer::Proceed) => {
                if starts {
                    self.hand_overs.settle();
                }
                self.listener.proceed(request);
            }
            Ok(Answer::Done) => self.listener.finish(request, Ok(0)),
            Ok(Answer::Awaits(pipe)) => self.put_off(Wait { request: *request, pipe }),
            Ok(Answer::Opened(opened)) => self.finish(request, Ok(opened)),
            Err(errno) => self.finish(request, Err(errno)),
        }
    }

    fn finish(&self, request: &Request, opened: Result<Opened, Errno>) {
        match opened {
            Ok(opened) => {
                let _under_way = self.hand_overs.begin();
                let ours = opened;
                self.hand_over(request, &ours);
            }
            Err(errno) => self.listener.finish(request, Err(errno.raw_os_error())),
        }
    }

    /// Has somebody else wait for the other end of a pipe.
    fn put_off(self: &Arc<Self>, wait: Wait) {
        if self.pipes.join(wait) && !self.spawn("mala-pipes", Self::watch_pipes) {
            for wait in self.pipes.dissolve() {
                self.finish(&wait.request, Err(Errno::NOMEM));
            }
        }
    }

    fn watch_pipes(self: &Arc<Self>) {
        self.pipes.watch(|wait| {
            if self.stopping.load(Ordering::SeqCst) || !self.listener.is_waiting(&wait.request) {
                return true;
            }
            let opened = wait.try_again();
            opened.map(|opened| self.finish(&wait.request, opened)).is_some()
        });
    }
}
