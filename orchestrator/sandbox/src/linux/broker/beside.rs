//! Where the thread in the seat runs: beside a caller that makes one call after the other.
//!
//! The kernel wakes the thread on the core of its caller, and the caller on the thread's, so the two take turns on one core. But
//! an idle core that sees two on another takes one of them over, and the other follows it at the next call. That
//! happens hundreds of times a second, and each time both begin anew with cold caches. So after some calls in quick succession the
//! thread stays on its core, and its caller with it.
//!
//! It does so only while the two of them use the core up. If they do not, others want it, and the kernel spreads the work better
//! when it may move the thread.
//!
//! A file that is handed over is another matter: the kernel wakes its caller on whichever core is idle, and a thread that
//! stayed behind would have to be woken from there. And whatever a thread starts is bound to the same cores. So it
//! [leaves](leave) before both.

use std::cell::Cell;
use std::time::{Duration, Instant};

use procfs::FromRead;
use procfs::process::Schedstat;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Calls with less between them are in quick succession.
const CLOSE: Duration = Duration::from_millis(1);
/// After how many of them the thread looks whether it should stay.
const SOME: u32 = 128;
/// How much of a core two must have used for nobody else to want it: three of four parts.
const PARTS: u32 = 4;
const USED: u32 = 3;

thread_local! {
    /// The cores to return to, while this thread stays on one.
    static ALL: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

fn stay() {
    if ALL.get().is_none()
        && let Ok(all) = sched_getaffinity(None)
    {
        let mut this_one = CpuSet::new();
        this_one.set(sched_getcpu());
        ALL.set(sched_setaffinity(None, &this_one).is_ok().then_some(all));
    }
}

/// Lets the kernel move this thread.
pub(super) fn leave() {
    if let Some(all) = ALL.take() {
        // Fails if none of them is there any more, and then the kernel has chosen others.
        let _ = sched_setaffinity(None, &all);
    }
}

/// The calls that the thread in the seat has received.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Who called last, and when.
    last: Option<(u32, Instant)>,
    /// Since the last look.
    in_succession: u32,
    /// As of the last look.
    work: Option<Work>,
}

impl Beside {
    /// One more. True if the one before was of the same caller. `work` tells what this thread and the caller have done.
    pub(super) fn receive(
        &mut self,
        caller: u32,
        now: Instant,
        work: impl FnOnce(u32) -> Option<Work>,
    ) -> bool {
        let last = self.last.replace((caller, now)).filter(|(last, _)| *last == caller);
        if last.is_none_or(|(_, before)| now - before > CLOSE) {
            leave();
            (self.in_succession, self.work) = (0, None);
        }
        self.in_succession += 1;
        if self.in_succession == SOME {
            self.in_succession = 0;
            self.look(work(caller));
        }
        last.is_some()
    }

    fn look(&mut self, work: Option<Work>) {
        let before = std::mem::replace(&mut self.work, work);
        match (before, work) {
            (Some(before), Some(now)) if now.fills_a_core_since(before) => stay(),
            _ => leave(),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        leave();
    }
}

/// What two threads have had of the processor at some time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    at: Instant,
    done: Duration,
}

impl Work {
    /// Of this thread and its caller; none if the kernel does not count it.
    pub(super) fn with(caller: u32) -> Option<Self> {
        let of = |thread: String| {
            let counted = Schedstat::from_file(format!("/proc/{thread}/schedstat")).ok()?;
            Some(Duration::from_nanos(counted.sum_exec_runtime))
        };
        let done = of(gettid().to_string())? + of(caller.to_string())?;
        Some(Self { at: Instant::now(), done })
    }

    fn fills_a_core_since(self, before: Self) -> bool {
        PARTS * self.done.saturating_sub(before.done) >= USED * (self.at - before.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: u32 = 1;

    /// A thread in the seat, the time, and the work that it and its callers have done.
    struct Thread {
        beside: Beside,
        now: Instant,
        done: Duration,
        /// Of a core, in percent.
        share: u32,
        cores: CpuSet,
    }

    impl Thread {
        /// None on a machine with one core: there is nowhere else to be.
        fn new() -> Option<Self> {
            let cores = sched_getaffinity(None).unwrap();
            let (beside, now, done, share) = (Beside::default(), Instant::now(), Duration::ZERO, 95);
            (cores.count() > 1).then_some(Self { beside, now, done, share, cores })
        }

        fn receives(&mut self, calls: u32, caller: u32, pause: Duration) {
            for _ in 0..calls {
                self.now += pause;
                self.done += pause * self.share / 100;
                let (at, done) = (self.now, self.done);
                self.beside.receive(caller, at, |_caller| Some(Work { at, done }));
            }
        }

        fn stays(&self) -> bool {
            let cores = sched_getaffinity(None).unwrap();
            assert!(cores.count() == 1 || cores == self.cores);
            cores.count() == 1
        }

        /// It has a caller that has just made enough calls.
        fn settled() -> Option<Self> {
            let mut thread = Self::new()?;
            thread.receives(2 * SOME - 1, CALLER, CLOSE);
            assert!(!thread.stays());
            thread.receives(1, CALLER, CLOSE);
            assert!(thread.stays());
            Some(thread)
        }
    }

    #[test]
    fn it_stays_while_one_caller_makes_one_call_after_the_other() {
        let Some(mut thread) = Thread::settled() else { return };
        thread.receives(10 * SOME, CALLER, CLOSE);
        assert!(thread.stays());
    }

    #[test]
    fn calls_now_and_then_or_of_several_callers_do_not_keep_it() {
        let Some(mut thread) = Thread::new() else { return };
        thread.receives(4 * SOME, CALLER, 2 * CLOSE);
        assert!(!thread.stays());
        for call in 0..4 * SOME {
            thread.receives(1, call % 2, CLOSE);
        }
        assert!(!thread.stays());
    }

    #[test]
    fn it_leaves_for_another_caller_after_a_pause_and_in_the_end() {
        let endings: [fn(&mut Thread); 3] = [
            |thread| thread.receives(1, CALLER + 1, CLOSE),
            |thread| thread.receives(1, CALLER, 2 * CLOSE),
            |thread| thread.beside = Beside::default(),
        ];
        for end in endings {
            let Some(mut thread) = Thread::settled() else { return };
            end(&mut thread);
            assert!(!thread.stays());
        }
    }

    #[test]
    fn it_leaves_a_core_that_others_want_until_they_are_gone() {
        let Some(mut thread) = Thread::settled() else { return };
        thread.share = 60;
        for _ in 0..2 {
            thread.receives(SOME, CALLER, CLOSE);
            assert!(!thread.stays());
        }
        thread.share = 95;
        thread.receives(SOME, CALLER, CLOSE);
        assert!(thread.stays());
    }

    #[test]
    fn what_it_starts_after_it_left_may_run_anywhere() {
        let Some(mut thread) = Thread::settled() else { return };
        let started = || std::thread::spawn(|| sched_getaffinity(None).unwrap()).join().unwrap();
        assert_eq!(started().count(), 1);
        leave();
        assert_eq!(started(), thread.cores);
        thread.receives(SOME, CALLER, CLOSE);
        assert!(thread.stays(), "it comes back");
    }

    #[test]
    fn where_work_is_not_counted_it_never_stays() {
        let (mut beside, now) = (Beside::default(), Instant::now());
        let all = sched_getaffinity(None).unwrap();
        for _ in 0..4 * SOME {
            beside.receive(CALLER, now, |_caller| None);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), all);
    }

    #[test]
    fn it_tells_whether_the_caller_is_the_same() {
        let (mut beside, now) = (Beside::default(), Instant::now());
        let mut is_same = |caller, now| beside.receive(caller, now, |_caller| None);
        assert_eq!([1, 1, 2, 1, 1].map(|caller| is_same(caller, now)), [false, true, false, false, true]);
        assert!(is_same(1, now + 10 * CLOSE), "a pause makes nobody another one");
    }

    #[test]
    fn work_is_what_both_have_done() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let caller = std::thread::spawn(move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(20) {}
            tell.send(gettid().as_raw_pid().unsigned_abs()).unwrap();
            let _ = ended.recv();
        });
        let caller_tid = told.recv().unwrap();
        let own = Work::with(gettid().as_raw_pid().unsigned_abs()).unwrap();
        let both = Work::with(caller_tid).unwrap();
        drop(end);
        caller.join().unwrap();
        // This thread has waited: its own work, twice, is next to nothing.
        assert!(both.done > own.done, "{both:?} {own:?}");
        let idle = Work { at: own.at + Duration::from_millis(20), ..own };
        assert!(!idle.fills_a_core_since(own));
    }
}
