//! Keeps the second of two cores awake while one file after the other is handed over.
//!
//! To hand a file over, the kernel wakes its caller, and prefers an idle core for that. The cores of a virtual machine are
//! halted as soon as they are idle, and to wake one takes longer than all the rest; then the broker's own core is idle and
//! halted, and so on. A thread that keeps the other core busy for a moment lets caller and broker take turns on one. It has
//! the lowest priority, so whoever has work for that core gets it. Kernels do the same for virtual machines that
//! ask for it ("halt polling").
//!
//! Of more than two cores another one would be idle, so there is no such thread. Nor is there one before a program
//! has opened some files for writing in quick succession.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Hand-overs with less between them are in quick succession.
const CLOSE: Duration = Duration::from_micros(200);
/// How many of them it takes.
const SOME: u32 = 8;
/// For how long the core is kept awake after each.
const MOMENT: Duration = Duration::from_micros(100);
const LOWEST_PRIORITY: i32 = 19;

/// Times are in nanoseconds since `zero`.
#[derive(Debug)]
pub(super) struct Awake {
    zero: Instant,
    last: AtomicU64,
    in_succession: AtomicU32,
    until: AtomicU64,
    is_parked: AtomicBool,
    is_over: AtomicBool,
    /// None if it would be of no use.
    thread: OnceLock<Option<Thread>>,
}

impl Awake {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            zero: Instant::now(),
            last: AtomicU64::new(0),
            in_succession: AtomicU32::new(0),
            until: AtomicU64::new(0),
            is_parked: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    /// A file is about to be handed over.
    pub(super) fn hand_over(self: &Arc<Self>) {
        let now = self.now();
        if !self.is_one_of_some(now) {
            return;
        }
        self.until.store(now + nanos(MOMENT), Ordering::SeqCst);
        let start = || has_two_cores().then(|| self.start()).flatten();
        if let Some(thread) = self.thread.get_or_init(start)
            && self.is_parked.swap(false, Ordering::SeqCst)
        {
            thread.unpark();
        }
    }

    /// True if there was one after the other until `now`.
    fn is_one_of_some(&self, now: u64) -> bool {
        let last = self.last.swap(now, Ordering::SeqCst);
        if now.saturating_sub(last) > nanos(CLOSE) {
            self.in_succession.store(0, Ordering::SeqCst);
        }
        self.in_succession.fetch_add(1, Ordering::SeqCst) >= SOME
    }

    fn start(self: &Arc<Self>) -> Option<Thread> {
        let awake = Arc::clone(self);
        let thread = thread::Builder::new().name("mala-awake".to_owned()).spawn(move || awake.run());
        Some(thread.ok()?.thread().clone())
    }

    fn run(&self) {
        // Of this thread alone, as Linux has it.
        if rustix::process::setpriority_process(None, LOWEST_PRIORITY).is_err() {
            return;
        }
        while !self.is_over.load(Ordering::SeqCst) {
            if self.now() < self.until.load(Ordering::SeqCst) {
                hint::spin_loop();
            } else if self.is_parked.swap(true, Ordering::SeqCst) {
                // Not before a second look: whoever came between the first one and the swap did not know to wake us.
                thread::park();
            }
        }
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }

    fn now(&self) -> u64 {
        nanos(self.zero.elapsed())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn has_two_cores() -> bool {
    rustix::thread::sched_getaffinity(None).is_ok_and(|cores| cores.count() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quick_succession_keeps_a_core_awake() {
        let awake = Awake::new();
        let close = nanos(CLOSE);
        let mut now = 0;
        let mut next = |pause: u64| {
            now += pause;
            awake.is_one_of_some(now)
        };
        assert!((0..100).all(|_| !next(close + 1)), "files that are opened now and then");
        assert!((1..SOME).all(|_| !next(close)), "the first of some");
        assert!((0..100).all(|_| next(close)), "one after the other");
        assert!(!next(close + 1), "the first one after a pause");
    }

    #[test]
    fn the_thread_rests_when_it_is_not_needed_and_ends() {
        let awake = Awake::new();
        let thread = Arc::clone(&awake);
        let thread = thread::spawn(move || thread.run());
        let rests = || {
            (0..2000).any(|_| {
                thread::sleep(Duration::from_millis(10));
                awake.is_parked.load(Ordering::SeqCst)
            })
        };
        assert!(rests(), "nobody needs it");
        awake.until.store(awake.now() + nanos(MOMENT), Ordering::SeqCst);
        awake.is_parked.store(false, Ordering::SeqCst);
        thread.thread().unpark();
        assert!(rests(), "the moment is over");
        awake.end();
        thread.thread().unpark();
        thread.join().unwrap();
    }
}
