//! Who receives calls: one thread at a time, the one in the seat.
//!
//! For every call the kernel wakes all threads that wait for one, so only one waits. It answers the call itself and keeps
//! the seat: the next call then finds it where the last one left it. But a call that nobody has received fails if a signal
//! arrives, and its caller waits. So whatever waits is received together, the seat goes to the next thread in line if
//! that is more than one call, and the first in line takes it from a thread that takes long. It looks for that at
//! intervals, and rests while there are no calls.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::lock;

/// An answer that takes longer than one to two of these loses the seat.
const INTERVAL: Duration = Duration::from_millis(5);
/// Threads that are in line beyond these leave.
const KEPT: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Seat {
    /// Even while the thread in the seat waits for a call, or nobody sits; odd while it answers one. Every change is
    /// one up, so a number also tells which call.
    step: AtomicU64,
    /// The first in line has seen no call for an interval, and waits to be woken by the next.
    is_resting: AtomicBool,
    line: Mutex<Line>,
    first: Condvar,
    others: Condvar,
}

#[derive(Debug)]
struct Line {
    is_free: bool,
    is_closed: bool,
    waiting: usize,
    /// One of those who wait looks after the seat.
    has_first: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self { is_free: true, is_closed: false, waiting: 0, has_first: false }
    }
}

/// A call that the thread in the seat answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn(u64);

/// How waiting in line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Seated {
        /// Somebody should get in line: nobody is.
        is_line_empty: bool,
    },
    /// There are threads enough, or there are no more calls.
    Leave,
}

impl Seat {
    pub(super) fn wait(&self) -> Waited {
        let mut line = lock(&self.line);
        if line.waiting >= KEPT {
            return Waited::Leave;
        }
        line.waiting += 1;
        while !line.is_free && !line.is_closed {
            line = if line.has_first {
                self.others.wait(line).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.look_after(line)
            };
        }
        line.waiting -= 1;
        if line.is_closed {
            return Waited::Leave;
        }
        line.is_free = false;
        if !line.has_first {
            // It was this thread. One of the others looks after the seat from now on.
            self.others.notify_one();
        }
        Waited::Seated { is_line_empty: line.waiting == 0 }
    }

    /// The first in line watches the seat for an interval, or until there is something to watch.
    fn look_after<'l>(&'l self, mut line: MutexGuard<'l, Line>) -> MutexGuard<'l, Line> {
        line.has_first = true;
        let before = self.step.load(Ordering::SeqCst);
        let (mut line, _) = self.first.wait_timeout(line, INTERVAL).unwrap_or_else(PoisonError::into_inner);
        if self.step.load(Ordering::SeqCst) == before {
            if is_answering(before) {
                line.is_free |= self.leave(before);
            } else {
                line = self.rest(line, before);
            }
        }
        line.has_first = false;
        line
    }

    fn rest<'l>(&'l self, line: MutexGuard<'l, Line>, step: u64) -> MutexGuard<'l, Line> {
        self.is_resting.store(true, Ordering::SeqCst);
        // Whoever takes a step after this look sees that it has to wake us.
        let is_quiet = || self.step.load(Ordering::SeqCst) == step;
        let is_over = |line: &mut Line| line.is_free || line.is_closed || !is_quiet();
        let line = self.first.wait_while(line, |line| !is_over(line)).unwrap_or_else(PoisonError::into_inner);
        self.is_resting.store(false, Ordering::SeqCst);
        line
    }

    /// The thread in the seat has received a call.
    pub(super) fn begin(&self) -> Turn {
        let turn = Turn(self.step.fetch_add(1, Ordering::SeqCst) + 1);
        if self.is_resting.swap(false, Ordering::SeqCst) {
            let _line = lock(&self.line);
            self.first.notify_one();
        }
        turn
    }

    /// The call was answered. True if the thread still has the seat.
    pub(super) fn end(&self, turn: Turn) -> bool {
        self.leave(turn.0)
    }

    /// Lets the next in line have the seat.
    pub(super) fn pass_on(&self, turn: Turn) {
        if !self.leave(turn.0) {
            return;
        }
        let mut line = lock(&self.line);
        line.is_free = true;
        // The first in line keeps its place if it can.
        if line.waiting > 1 { self.others.notify_one() } else { self.first.notify_one() }
    }

    /// Ends the answer to one call, for one of those who try.
    fn leave(&self, step: u64) -> bool {
        self.step.compare_exchange(step, step + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// There will be no more calls, or nobody shall answer them.
    pub(super) fn close(&self) {
        lock(&self.line).is_closed = true;
        self.first.notify_all();
        self.others.notify_all();
    }
}

fn is_answering(step: u64) -> bool {
    step % 2 == 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Far more than it takes.
    const LONG: Duration = Duration::from_secs(20);
    const SEATED: Waited = Waited::Seated { is_line_empty: true };

    /// Waits in line on a thread of its own and tells how that ended.
    fn in_line(seat: &Arc<Seat>) -> mpsc::Receiver<Waited> {
        let (tell, told) = mpsc::channel();
        let seat = Arc::clone(seat);
        let before = lock(&seat.line).waiting;
        let waiting = Arc::clone(&seat);
        thread::spawn(move || tell.send(waiting.wait()));
        while lock(&seat.line).waiting == before {
            thread::yield_now();
        }
        told
    }

    #[test]
    fn who_answers_quickly_keeps_the_seat() {
        let seat = Arc::new(Seat::default());
        assert_eq!(seat.wait(), SEATED);
        let next = in_line(&seat);
        for _ in 0..3 {
            let turn = seat.begin();
            assert!(seat.end(turn));
        }
        next.try_recv().unwrap_err();
        seat.close();
        assert_eq!(next.recv_timeout(LONG), Ok(Waited::Leave));
    }

    #[test]
    fn who_answers_for_long_loses_the_seat_to_the_first_in_line() {
        let seat = Arc::new(Seat::default());
        assert_eq!(seat.wait(), SEATED);
        let first = in_line(&seat);
        let turn = seat.begin();
        assert_eq!(first.recv_timeout(LONG), Ok(SEATED));
        assert!(!seat.end(turn), "somebody else sits there");
    }

    #[test]
    fn it_is_noticed_after_a_long_rest_too() {
        let seat = Arc::new(Seat::default());
        assert_eq!(seat.wait(), SEATED);
        let first = in_line(&seat);
        while !seat.is_resting.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let _slow = seat.begin();
        assert_eq!(first.recv_timeout(LONG), Ok(SEATED));
    }

    #[test]
    fn whoever_is_left_in_line_watches_next() {
        let seat = Arc::new(Seat::default());
        assert_eq!(seat.wait(), SEATED);
        let line = [in_line(&seat), in_line(&seat)];
        let _slow = seat.begin();
        let begin = Instant::now();
        let seated = || line.iter().find_map(|next| next.try_recv().ok());
        let next = || std::iter::repeat_with(seated).take_while(|_| begin.elapsed() < LONG).flatten().next();
        assert_eq!(next(), Some(Waited::Seated { is_line_empty: false }));
        let _slow_too = seat.begin();
        assert_eq!(next(), Some(SEATED), "nobody saw that the second takes long, too");
    }

    #[test]
    fn a_seat_that_is_passed_on_has_one_new_owner() {
        let seat = Arc::new(Seat::default());
        assert_eq!(seat.wait(), SEATED);
        let others = [in_line(&seat), in_line(&seat)];
        let turn = seat.begin();
        seat.pass_on(turn);
        assert!(!seat.end(turn));
        while others.iter().all(|other| other.try_recv().is_err()) {
            thread::yield_now();
        }
        assert_eq!(lock(&seat.line).waiting, 1);
        assert!(!lock(&seat.line).is_free);
        seat.pass_on(turn);
        assert!(!lock(&seat.line).is_free, "it was not that turn's to pass on");
    }

    #[test]
    fn a_seat_that_nobody_wanted_is_there_for_whoever_comes() {
        let seat = Seat::default();
        assert_eq!(seat.wait(), SEATED);
        let turn = seat.begin();
        seat.pass_on(turn);
        assert_eq!(seat.wait(), SEATED);
    }

    #[test]
    fn threads_beyond_those_that_are_kept_leave() {
        let seat = Arc::new(Seat::default());
        assert_eq!(seat.wait(), SEATED);
        let line: Vec<_> = (0..KEPT).map(|_| in_line(&seat)).collect();
        assert_eq!(seat.wait(), Waited::Leave);
        seat.close();
        for other in line {
            assert_eq!(other.recv_timeout(LONG), Ok(Waited::Leave));
        }
    }
}
