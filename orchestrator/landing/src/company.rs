//! How many validations a process has under way, so that each of them can tell how much company it had.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::validation::Timing;

#[derive(Debug, Default)]
pub(crate) struct Company(Mutex<Together>);

#[derive(Debug, Default)]
struct Together {
    count: u32,
    /// When the count last changed.
    changed: Option<Instant>,
    /// The time of all validations together until then.
    sum: Duration,
}

impl Together {
    fn change(&mut self, now: Instant) {
        self.sum += self.changed.map_or(Duration::ZERO, |changed| now - changed) * self.count;
        self.changed = Some(now);
    }
}

impl Company {
    /// A validation begins.
    pub(crate) fn enter(&self) -> Stay<'_> {
        let (mut together, since) = (self.lock(), Instant::now());
        together.change(since);
        together.count += 1;
        Stay { company: self, since, sum: together.sum }
    }

    fn lock(&self) -> MutexGuard<'_, Together> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A validation that is under way.
#[derive(Debug)]
pub(crate) struct Stay<'a> {
    company: &'a Company,
    since: Instant,
    sum: Duration,
}

impl Stay<'_> {
    /// How long it took, and how many were under way meanwhile.
    pub(crate) fn leave(self) -> Timing {
        let now = Instant::now();
        let mut together = self.company.lock();
        together.change(now);
        let (took, all) = (now - self.since, together.sum - self.sum);
        let share = all.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few at most")]
        Timing { took, at_once: share.round().max(1.0) as usize }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let mut together = self.company.lock();
        together.change(Instant::now());
        together.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knows_how_many_were_under_way_on_average() {
        let mut together = Together::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        together.change(at(0));
        together.count = 1;
        together.change(at(10));
        together.count = 3;
        together.change(at(20));
        assert_eq!(together.sum, Duration::from_secs(40));
        let company = Company::default();
        let (first, second) = (company.enter(), company.enter());
        drop(first);
        assert!(second.leave().at_once <= 2);
        assert_eq!(company.enter().leave().at_once, 1);
        assert_eq!(company.lock().count, 0);
    }
}
