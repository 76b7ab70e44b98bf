//! When an agent has had enough: silence, time, turns and money. Time spent waiting for others never counts, nor does suspend,
//! and nobody's clock decides.

use std::sync::Arc;
use std::time::Duration;

use mala_agents::stream::Usage;
use mala_config::Prices;
use tokio::time::Instant;

use crate::cost::Cost;

/// The most an agent may take. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    pub idle: Option<Duration>,
    pub total: Option<Duration>,
    pub turns: Option<u64>,
    /// In dollars.
    pub cost: Option<f64>,
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) limit: Limit,
    /// As the end of a sentence.
    pub(crate) reason: String,
}

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Idle,
    Total,
    Turns,
    Cost,
}

impl Limit {
    fn reached(self, reason: String) -> Option<Reached> {
        Some(Reached { limit: self, reason })
    }
}

/// What one attempt has taken so far, over all of its processes.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    started: Instant,
    /// Pauses that the engine itself made.
    paused: Duration,
    last_sign: Instant,
    prices: Arc<Prices>,
    /// From processes that have ended.
    before: Usage,
    cost_before: Cost,
    current: Usage,
}

impl Meter {
    pub(crate) fn new(now: Instant, prices: Arc<Prices>) -> Self {
        Self {
            started: now,
            paused: Duration::ZERO,
            last_sign: now,
            prices,
            before: Usage::default(),
            cost_before: Cost::default(),
            current: Usage::default(),
        }
    }

    /// The agent did something at this moment.
    pub(crate) fn sign_of_life(&mut self, at: Instant) {
        self.last_sign = self.last_sign.max(at);
    }

    pub(crate) fn last_sign(&self) -> Instant {
        self.last_sign
    }

    /// What the running process has used.
    pub(crate) fn set_usage(&mut self, usage: Usage) {
        self.current = usage;
    }

    /// The process has ended; the next one of this attempt counts from zero.
    pub(crate) fn end_process(&mut self) {
        self.cost_before = self.cost();
        self.before = self.usage();
        self.current = Usage::default();
    }

    /// The engine kept the agent from working for this long.
    pub(crate) fn pause(&mut self, span: Duration, now: Instant) {
        self.paused += span;
        self.last_sign = now;
    }

    /// Tokens and turns, with what clients say of the cost.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.before.clone();
        usage += &self.current;
        usage
    }

    pub(crate) fn cost(&self) -> Cost {
        let mut cost = self.cost_before.clone();
        cost += &Cost::of(&self.current, &self.prices);
        cost
    }

    /// The limit that turns or money have reached.
    pub(crate) fn spent(&self, limits: &Limits) -> Option<Reached> {
        let turns = self.before.turns + self.current.turns;
        if let Some(limit) = limits.turns.filter(|limit| turns > *limit) {
            return Limit::Turns.reached(format!("it took more than {limit} turns"));
        }
        let cost = self.cost().at_least();
        let limit = limits.cost.filter(|limit| cost > *limit)?;
        Limit::Cost.reached(format!("it cost ${cost:.2}, more than ${limit:.2}"))
    }

    /// The limit that time has reached. `waited` tells how much of the time since some moment was spent waiting; it is
    /// asked only when that decides something.
    pub(crate) fn timed_out(
        &self,
        limits: &Limits,
        now: Instant,
        waited: impl Fn(Instant) -> Duration,
    ) -> Option<Reached> {
        let is_over = |span: Duration, since: Instant, limit: &Duration| {
            span > *limit && span.saturating_sub(waited(since)) > *limit
        };
        let worked = now.saturating_duration_since(self.started).saturating_sub(self.paused);
        if let Some(limit) = limits.total.filter(|limit| is_over(worked, self.started, limit)) {
            return Limit::Total.reached(format!("it worked for more than {}", span(limit)));
        }
        let limit = limits
            .idle
            .filter(|limit| is_over(now.saturating_duration_since(self.last_sign), self.last_sign, limit))?;
        Limit::Idle.reached(format!("it was silent for more than {}", span(limit)))
    }
}

/// A span as it is written in settings.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{}ms", span.as_millis()),
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: fn(Instant) -> Duration = |_| Duration::ZERO;

    fn at(seconds: u64) -> Instant {
        static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        *BEGIN + Duration::from_secs(seconds)
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    fn usage(turns: u64, cost: f64) -> Usage {
        Usage { turns, cost: Some(cost), ..Usage::default() }
    }

    #[test]
    fn each_limit_trips_alone() {
        let mut meter = Meter::new(at(0), Arc::default());
        meter.sign_of_life(at(50));
        meter.set_usage(usage(10, 2.0));
        let none = Limits::default();
        let timed_out =
            |limits: &Limits| meter.timed_out(limits, at(100), NEVER).map(|reached| reached.reason);
        assert_eq!((timed_out(&none), meter.spent(&none)), (None, None));
        assert_eq!(timed_out(&Limits { idle: seconds(50), total: seconds(100), ..none }), None, "not before");
        assert_eq!(
            timed_out(&Limits { idle: seconds(49), ..none }).unwrap(),
            "it was silent for more than 49s"
        );
        assert_eq!(timed_out(&Limits { total: seconds(60), ..none }).unwrap(), "it worked for more than 1m");
        let spent = |limits: Limits| meter.spent(&limits).map(|reached| reached.reason);
        assert_eq!(spent(Limits { turns: Some(10), cost: Some(2.0), ..none }), None);
        assert_eq!(spent(Limits { turns: Some(9), ..none }).unwrap(), "it took more than 9 turns");
        assert_eq!(spent(Limits { cost: Some(1.5), ..none }).unwrap(), "it cost $2.00, more than $1.50");
    }

    #[test]
    fn waiting_for_others_does_not_count() {
        let mut meter = Meter::new(at(0), Arc::default());
        meter.sign_of_life(at(50));
        let limits = Limits { idle: seconds(40), total: seconds(60), ..Limits::default() };
        // It waited from 20 to 30, and from 60 to 100.
        let waited = |since: Instant| Duration::from_secs(if since == at(0) { 50 } else { 40 });
        assert_eq!(meter.timed_out(&limits, at(100), waited), None);
        assert!(meter.timed_out(&limits, at(131), waited).is_some(), "but the rest does");
    }

    #[test]
    fn pauses_of_the_engine_do_not_count() {
        let mut meter = Meter::new(at(0), Arc::default());
        meter.pause(Duration::from_secs(3600), at(3610));
        let limits = Limits { idle: seconds(60), total: seconds(60), ..Limits::default() };
        assert_eq!(meter.timed_out(&limits, at(3650), NEVER), None);
        assert!(meter.timed_out(&limits, at(3700), NEVER).is_some());
    }

    #[test]
    fn an_attempt_counts_all_of_its_processes() {
        let mut meter = Meter::new(at(0), Arc::default());
        meter.set_usage(usage(3, 1.0));
        meter.set_usage(usage(5, 1.5));
        meter.end_process();
        meter.set_usage(usage(2, 0.25));
        assert_eq!((meter.usage().turns, meter.cost().exact()), (7, Some(1.75)));
        assert!(meter.spent(&Limits { cost: Some(1.7), ..Limits::default() }).is_some());
    }
}
