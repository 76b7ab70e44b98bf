//! What the numbers of the last day mean for the person who runs the agents, and what would help.

use std::collections::BTreeSet;

use mala_config::HealthSettings;
use mala_core::text::span;
use mala_store::Health;
use serde::Serialize;

/// How much agents got in each other's way.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Contention {
    pub lock_tries: u64,
    pub lock_waits: u64,
    pub refusals: u64,
    pub warnings: Vec<String>,
    /// What would help.
    pub advice: BTreeSet<Advice>,
}

/// What helps agents that get in each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// They wait for files: one agent at a time.
    Sequential,
    /// They wait for their turn to test: tests in snapshots need none.
    IsolatedTests,
}

/// Something that is worth a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What is wrong, and what helps.
    pub text: String,
    pub advice: Advice,
}

/// The lines that the numbers are over.
pub fn judge(health: Health, limits: &HealthSettings) -> Vec<Warning> {
    let warning = |text: String, advice: Advice| Warning { text, advice };
    let rate = health.wait_rate();
    let often = (rate > limits.wait_rate).then(|| {
        let percent = rate * 100.0;
        let text = format!(
            "{percent:.0} % of lock tries in 24 h had to wait: run one agent at a time (mala run --sequential), or \
             name files in issues (mala issue add --file) so that those that collide are begun last"
        );
        warning(text, Advice::Sequential)
    });
    let many = (health.lock_waits > limits.waits_per_day).then(|| {
        let text = format!(
            "{} lock waits in 24 h: run one agent at a time (mala run --sequential) or fewer (run.max_agents)",
            health.lock_waits
        );
        warning(text, Advice::Sequential)
    });
    let long = (health.mutex_wait > limits.mutex_wait).then(|| {
        let text = format!(
            "somebody waited {} for a turn to test: test in snapshots, which need none (mala test --isolated -- CMD), \
             or let the gate run the tests (mala gate check --rerun)",
            span(health.mutex_wait)
        );
        warning(text, Advice::IsolatedTests)
    });
    often.into_iter().chain(many).chain(long).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn warnings_appear_just_past_each_line_and_name_what_helps() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let limits = HealthSettings { wait_rate: 0.05, waits_per_day: 20, mutex_wait: minutes(10) };
        let advice = |lock_tries, lock_waits, mutex_wait| {
            let found = judge(Health { lock_tries, lock_waits, mutex_wait }, &limits);
            found.into_iter().map(|warning| (warning.advice, warning.text)).unzip::<_, _, Vec<_>, Vec<_>>()
        };
        let none = Duration::ZERO;
        for fine in [(0, 0, none), (100, 5, none), (10_000, 20, minutes(10))] {
            assert_eq!(advice(fine.0, fine.1, fine.2).0, [], "{fine:?}");
        }
        let (rate, text) = advice(100, 6, none);
        assert_eq!(rate, [Advice::Sequential]);
        assert!(text[0].starts_with("6 % of lock tries") && text[0].contains("--sequential"), "{text:?}");
        let (many, text) = advice(10_000, 21, none);
        assert_eq!(many, [Advice::Sequential]);
        assert!(text[0].starts_with("21 lock waits") && text[0].contains("run.max_agents"), "{text:?}");
        let (long, text) = advice(0, 0, minutes(10) + Duration::from_millis(1));
        assert_eq!(long, [Advice::IsolatedTests]);
        assert!(text[0].contains("--isolated") && text[0].contains("--rerun"), "{text:?}");
        assert_eq!(advice(100, 21, minutes(11)).0.len(), 3);
    }
}
