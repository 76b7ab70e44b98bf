//! Descriptors that callers have got and the broker has not closed yet.
//!
//! The caller goes on before the broker can close its own descriptor of the file. A file that somebody has open for
//! writing cannot be run (`ETXTBSY`), so a caller that writes a program, closes it and runs it would fail now and then.
//! Programs therefore start after all that was handed over before is closed.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::lock;

/// A caller that is frozen in the middle of an `open` is no reason for others to wait for long.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct HandOvers {
    numbers: Mutex<Numbers>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Numbers {
    last: u64,
    under_way: Vec<u64>,
    /// How many wait for some of them.
    settling: usize,
}

/// A hand-over under way. To be dropped after the broker's descriptor.
#[derive(Debug)]
pub(super) struct HandOver<'h> {
    all: &'h HandOvers,
    number: u64,
}

impl HandOvers {
    pub(super) fn begin(&self) -> HandOver<'_> {
        let mut numbers = lock(&self.numbers);
        numbers.last += 1;
        let number = numbers.last;
        numbers.under_way.push(number);
        HandOver { all: self, number }
    }

    /// Waits for those that have begun by now.
    pub(super) fn settle(&self) {
        self.settle_within(PATIENCE);
    }

    fn settle_within(&self, patience: Duration) {
        let mut numbers = lock(&self.numbers);
        numbers.settling += 1;
        let last = numbers.last;
        let is_open = |numbers: &mut Numbers| numbers.under_way.iter().any(|number| *number <= last);
        let waited = self.closed.wait_timeout_while(numbers, patience, is_open);
        waited.unwrap_or_else(PoisonError::into_inner).0.settling -= 1;
    }
}

impl Drop for HandOver<'_> {
    fn drop(&mut self) {
        let mut numbers = lock(&self.all.numbers);
        numbers.under_way.retain(|number| *number != self.number);
        // To wake nobody is a call of the kernel, too.
        if numbers.settling > 0 {
            self.all.closed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Far more than it takes.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn whoever_settles_waits_for_what_began_before_and_not_for_more() {
        let all = HandOvers::default();
        let (before, is_closed) = (all.begin(), AtomicBool::new(false));
        thread::scope(|scope| {
            let settling = scope.spawn(|| {
                all.settle_within(LONG);
                assert!(is_closed.load(Ordering::SeqCst), "a descriptor is still open");
            });
            // Enough for it to come so far, most of the time; if it does not, it finds nothing to wait for.
            thread::sleep(Duration::from_millis(20));
            let _after = all.begin();
            is_closed.store(true, Ordering::SeqCst);
            drop(before);
            let begin = Instant::now();
            settling.join().unwrap();
            assert!(begin.elapsed() < LONG, "it waited for what began later");
        });
    }
}
