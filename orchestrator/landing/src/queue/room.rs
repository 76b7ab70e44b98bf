//! Whether there is room for one more validation beside those that are under way: a free slot, an idle core, and the experience
//! that it pays.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::validation::Timing;

/// How much of a core has to be idle. What is left over is for what agents, people and the system do in between.
const IDLE_CORE: f64 = 0.75;
/// For how long the cores are watched before they count as idle: a validation that has just begun does not show at once.
const WATCH_TIME: Duration = Duration::from_millis(200);
/// So many validations at a time pay only if they take less than this share of the time that they would take one after another.
const WORTHWHILE: f64 = 0.8;

/// The cores of the machine, as far as they can be seen.
pub trait Cores: Sync + std::fmt::Debug {
    /// Since the machine was started: the time that all cores together were idle, and the time that went by on them.
    fn times(&self) -> Option<CoreTimes>;
}

/// In ticks of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreTimes {
    pub idle: u64,
    pub all: u64,
    pub cores: u32,
}

/// The cores of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine;

impl Cores for Machine {
    /// Where `/proc/stat` is not to be had, nothing is known, and one validation runs at a time.
    fn times(&self) -> Option<CoreTimes> {
        CoreTimes::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }
}

impl CoreTimes {
    /// See proc_stat(5): user, nice, system, idle, iowait, irq, softirq and steal of all cores, and a line for each.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let numbers = lines.next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        let ticks: Vec<u64> = numbers.take(8).map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let cores = lines.take_while(|line| line.starts_with("cpu")).count();
        let (idle, waiting) = (ticks.get(3)?, ticks.get(4)?);
        Some(Self { idle: idle + waiting, all: ticks.iter().sum(), cores: u32::try_from(cores).ok()? })
    }

    /// How many cores were idle from then until now; nothing if no time has gone by.
    fn idle_since(&self, then: &Self) -> Option<f64> {
        let all = self.all.checked_sub(then.all).filter(|all| *all > 0)?;
        let idle = self.idle.saturating_sub(then.idle);
        #[expect(clippy::cast_precision_loss, reason = "a share of a short time")]
        Some(idle as f64 / all as f64 * f64::from(self.cores))
    }
}

/// Decides how many validations run at a time.
pub(super) struct Room<'a> {
    cores: &'a dyn Cores,
    slots: usize,
    /// What is watched since when.
    seen: RefCell<Option<(Instant, CoreTimes)>>,
}

impl<'a> Room<'a> {
    pub(super) fn new(cores: &'a dyn Cores, slots: usize) -> Self {
        Self { cores, slots, seen: RefCell::default() }
    }

    /// True if another one may begin. The first may always.
    pub(super) fn is_there(&self, under_way: usize, timings: &[Timing]) -> bool {
        under_way == 0 || (under_way < worthwhile(self.slots, timings) && self.has_idle_core())
    }

    /// A validation has begun, which shows only from now on.
    pub(super) fn watch_anew(&self) {
        self.seen.replace(self.cores.times().map(|times| (Instant::now(), times)));
    }

    fn has_idle_core(&self) -> bool {
        let (now, Some(times)) = (Instant::now(), self.cores.times()) else { return false };
        let Some((since, then)) = *self.seen.borrow() else {
            self.watch_anew();
            return false;
        };
        if now.duration_since(since) < WATCH_TIME {
            return false;
        }
        self.watch_anew();
        times.idle_since(&then).is_some_and(|idle| idle >= IDLE_CORE)
    }
}

/// How many validations at a time pay, of at most so many slots, by how long the last ones took alone and in company. What was never
/// tried is worth a try, and since only the last ones count, so is in time what did not pay.
fn worthwhile(slots: usize, timings: &[Timing]) -> usize {
    let median = |at_once: usize| {
        let mut times: Vec<Duration> =
            timings.iter().filter(|timing| timing.at_once == at_once).map(|timing| timing.took).collect();
        times.sort_unstable();
        times.get(times.len() / 2).map(Duration::as_secs_f64)
    };
    let Some(alone) = median(1).filter(|alone| *alone > 0.0) else { return slots };
    #[expect(clippy::cast_precision_loss, reason = "a number of slots")]
    let is_in_vain =
        |at_once: &usize| median(*at_once).is_some_and(|took| took / alone > WORTHWHILE * *at_once as f64);
    (2..=slots.min(timings.len().max(1))).find(is_in_vain).map_or(slots, |at_once| at_once - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn timings(list: &[(usize, u64)]) -> Vec<Timing> {
        list.iter()
            .map(|(at_once, ms)| Timing { at_once: *at_once, took: Duration::from_millis(*ms) })
            .collect()
    }

    #[test]
    fn what_slows_the_others_down_too_much_does_not_pay() {
        assert_eq!(worthwhile(4, &[]), 4, "nothing is known");
        assert_eq!(worthwhile(4, &timings(&[(1, 1000), (1, 1100), (2, 1300), (2, 1200)])), 4);
        assert_eq!(worthwhile(4, &timings(&[(1, 1000), (2, 1700), (1, 1000), (2, 1900)])), 1);
        assert_eq!(worthwhile(4, &timings(&[(1, 1000), (2, 1200), (3, 2900)])), 2);
        assert_eq!(worthwhile(4, &timings(&[(2, 9000)])), 4, "not even what they take alone");
        assert_eq!(worthwhile(1, &timings(&[(1, 1000)])), 1);
    }

    #[test]
    fn idle_cores_are_read_from_what_the_system_counts() {
        let before = "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        let after = "cpu  150 0 150 750 150 0 0 0 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        let (before, after) = (CoreTimes::parse(before).unwrap(), CoreTimes::parse(after).unwrap());
        assert_eq!(before, CoreTimes { idle: 800, all: 1000, cores: 2 });
        assert_eq!(after.idle_since(&before), Some(1.0));
        assert_eq!(after.idle_since(&after), None, "no time has gone by");
        assert_eq!(CoreTimes::parse("cpu  1 2 x 4\n"), None);
        assert_eq!(CoreTimes::parse(""), None);
    }

    /// Gives one moment after the other.
    #[derive(Debug)]
    struct Script(Mutex<Vec<CoreTimes>>);

    impl Cores for Script {
        fn times(&self) -> Option<CoreTimes> {
            self.0.lock().unwrap().pop()
        }
    }

    #[test]
    fn where_nothing_is_known_of_the_cores_one_runs_at_a_time() {
        let cores = Script(Mutex::default());
        let room = Room::new(&cores, 4);
        assert!(room.is_there(0, &[]));
        assert!(!room.is_there(1, &[]));
    }

    #[test]
    fn a_machine_that_has_just_been_looked_at_is_not_known_to_be_idle() {
        let idle = |ticks| CoreTimes { idle: ticks, all: ticks, cores: 8 };
        let cores = Script(Mutex::new(vec![idle(300), idle(200), idle(100)]));
        let room = Room::new(&cores, 4);
        room.watch_anew();
        assert!(!room.is_there(1, &[]));
    }
}
