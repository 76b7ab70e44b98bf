//! What the agents' time of the last day means for the person who runs them, and what would help.
//!
//! The measure is agent-seconds: those that agents waited, against those that they worked. How often somebody waited says little,
//! and fewer agents at once would only make the rest idle; what costs is named, and how to be rid of it.

use std::collections::BTreeSet;
use std::time::Duration;

use mala_config::HealthSettings;
use mala_core::text::span;
use mala_store::{AgentTime, Health};
use serde::Serialize;

/// Less waiting in a day is not worth a word.
const MIN_WORTH_A_WARNING: Duration = Duration::from_secs(60);

/// How much agents got in each other's way.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Contention {
    pub lock_tries: u64,
    pub lock_waits: u64,
    pub refusals: u64,
    #[serde(flatten)]
    pub time: TimeSpent,
    pub warnings: Vec<String>,
    /// What would help.
    pub advice: BTreeSet<Advice>,
}

/// How agents have spent their time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimeSpent {
    pub agent_seconds: AgentSeconds,
    /// What was waited for longest.
    pub hottest_file: Option<HotFile>,
}

/// Seconds of all agents together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct AgentSeconds {
    pub worked: f64,
    pub waited_for_files: f64,
    pub waited_for_turns: f64,
    pub waited_for_landing: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotFile {
    pub path: String,
    /// That agents have waited for it, all together.
    pub seconds: f64,
}

impl From<&AgentTime> for TimeSpent {
    fn from(time: &AgentTime) -> Self {
        let hottest = time.hottest.as_ref();
        Self {
            agent_seconds: AgentSeconds {
                worked: time.worked.as_secs_f64(),
                waited_for_files: time.waited_for_files.as_secs_f64(),
                waited_for_turns: time.waited_for_turns.as_secs_f64(),
                waited_for_landing: time.waited_for_landing.as_secs_f64(),
            },
            hottest_file: hottest
                .map(|(path, span)| HotFile { path: path.clone(), seconds: span.as_secs_f64() }),
        }
    }
}

impl TimeSpent {
    /// For people, as one line; nothing if nobody was there.
    pub fn sentence(&self) -> Option<String> {
        let AgentSeconds { worked, waited_for_files, waited_for_turns, waited_for_landing } =
            self.agent_seconds;
        let words = |seconds: f64| span(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let hot = self.hottest_file.as_ref();
        let hot = hot.map(|file| format!(" (most for `{}`: {})", file.path, words(file.seconds)));
        let waits = [
            (waited_for_files, "files", hot.unwrap_or_default()),
            (waited_for_turns, "turns to test", String::new()),
            (waited_for_landing, "landing", String::new()),
        ];
        let waits = waits.iter().filter(|(seconds, ..)| *seconds > 0.0);
        let waits: Vec<String> = waits
            .map(|(seconds, what, more)| format!("waited {} for {what}{more}", words(*seconds)))
            .collect();
        let worked = format!("agents worked {}", words(worked));
        let is_empty = self.agent_seconds == AgentSeconds::default();
        (!is_empty).then(|| [vec![worked], waits].concat().join(", "))
    }
}

/// What helps agents that get in each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// They wait for one file: split it, or have the issues that change it follow each other.
    SplitFile,
    /// They wait for their turn to test: tests in slots need none.
    IsolatedTests,
    /// Their work waits to be validated: faster commands, or more slots.
    FasterValidation,
}

/// Something that is worth a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What is wrong, and what helps.
    pub text: String,
    pub advice: Advice,
}

/// The lines that the agents' time is over.
pub fn judge(health: &Health, limits: &HealthSettings) -> Vec<Warning> {
    let time = &health.time;
    let is_over = |waited: Duration| {
        waited >= MIN_WORTH_A_WARNING
            && waited.as_secs_f64() > limits.waited_share * time.total().as_secs_f64()
    };
    let files = is_over(time.waited_for_files)
        .then(|| Warning { text: about_files(time), advice: Advice::SplitFile });
    let is_long = health.mutex_wait > limits.mutex_wait;
    let turns = (is_long || is_over(time.waited_for_turns))
        .then(|| Warning { text: about_turns(health), advice: Advice::IsolatedTests });
    // To wait there costs no seat, so it is too long only when it takes longer than the work itself.
    let is_late = time.waited_for_landing >= MIN_WORTH_A_WARNING && time.waited_for_landing > time.worked;
    let landing = is_late.then(|| Warning { text: about_landing(time), advice: Advice::FasterValidation });
    files.into_iter().chain(turns).chain(landing).collect()
}

fn about_files(time: &AgentTime) -> String {
    let percent = 100.0 * time.waited_for_files.as_secs_f64() / time.total().as_secs_f64();
    let waited = span(time.waited_for_files);
    let hot = time.hottest.as_ref().map(|(path, cost)| format!(", most for `{path}`: {}", span(*cost)));
    format!(
        "agents waited {waited} for files in 24 h, {percent:.0} % of their time{}: split that file, let the issues that change it \
         follow each other (mala issue add --after ISSUE), or name it in them so that they are begun apart (--file)",
        hot.unwrap_or_default()
    )
}

fn about_turns(health: &Health) -> String {
    format!(
        "agents waited {} for turns to test in 24 h, {} of it at once: test in slots, which need no turn \
         (mala test --isolated -- CMD), give them room (`queue.max_disk`), or let the gate run the tests (mala gate check --rerun)",
        span(health.time.waited_for_turns.max(health.mutex_wait)),
        span(health.mutex_wait)
    )
}

fn about_landing(time: &AgentTime) -> String {
    format!(
        "work waited {} to land in 24 h, longer than agents worked ({}): make the required commands faster (`validate.commands`), \
         or validate more at once if cores are idle (`queue.slots`)",
        span(time.waited_for_landing),
        span(time.worked)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    fn limits() -> HealthSettings {
        HealthSettings { waited_share: 0.05, mutex_wait: minutes(10) }
    }

    fn health(worked: u64, files: u64, turns: u64, landing: u64) -> Health {
        let time = AgentTime {
            worked: minutes(worked),
            waited_for_files: minutes(files),
            waited_for_turns: minutes(turns),
            waited_for_landing: minutes(landing),
            hottest: Some(("src/api.rs".to_owned(), minutes(files))),
        };
        Health { time, ..Health::default() }
    }

    fn advice(health: &Health) -> Vec<Advice> {
        judge(health, &limits()).into_iter().map(|warning| warning.advice).collect()
    }

    #[test]
    fn warnings_appear_just_past_each_line_and_name_what_costs_and_what_helps() {
        for fine in [health(0, 0, 0, 0), health(95, 5, 0, 95), health(95, 0, 5, 0), health(3, 0, 0, 0)] {
            assert_eq!(advice(&fine), [], "{fine:?}");
        }
        let hot = judge(&health(93, 7, 0, 0), &limits()).remove(0);
        assert_eq!(hot.advice, Advice::SplitFile);
        for part in ["7m", "7 %", "`src/api.rs`", "split that file", "--after"] {
            assert!(hot.text.contains(part), "{part}: {}", hot.text);
        }
        let turns = judge(&health(93, 0, 7, 0), &limits()).remove(0);
        assert_eq!(turns.advice, Advice::IsolatedTests);
        assert!(turns.text.contains("--isolated") && turns.text.contains("--rerun"), "{}", turns.text);
        let late = judge(&health(10, 0, 0, 11), &limits()).remove(0);
        assert_eq!(late.advice, Advice::FasterValidation);
        assert!(late.text.contains("queue.slots") && late.text.contains("11m"), "{}", late.text);
        assert_eq!(advice(&health(10, 9, 9, 11)).len(), 3);
    }

    #[test]
    fn one_long_wait_for_a_turn_is_worth_a_warning_whatever_its_share() {
        let waited = |mutex_wait| Health { mutex_wait, ..health(100_000, 0, 10, 0) };
        assert_eq!(advice(&waited(minutes(10))), []);
        assert_eq!(advice(&waited(minutes(10) + Duration::from_millis(1))), [Advice::IsolatedTests]);
    }

    #[test]
    fn little_waiting_is_no_trouble_however_short_the_day_was() {
        let seconds =
            |seconds| AgentTime { waited_for_files: Duration::from_secs(seconds), ..AgentTime::default() };
        assert_eq!(advice(&Health { time: seconds(59), ..Health::default() }), []);
        assert_eq!(advice(&Health { time: seconds(60), ..Health::default() }), [Advice::SplitFile]);
    }

    #[test]
    fn nobody_is_told_to_run_fewer_agents() {
        let all = judge(&Health { mutex_wait: minutes(90), ..health(1, 100, 100, 1000) }, &limits());
        let text: String = all.into_iter().map(|warning| warning.text).collect();
        assert!(
            !text.contains("sequential") && !text.contains("one agent") && !text.contains("max_agents"),
            "{text}"
        );
    }

    #[test]
    fn the_time_is_told_in_one_line() {
        assert_eq!(TimeSpent::default().sentence(), None);
        let time = TimeSpent::from(&health(60, 5, 0, 3).time);
        assert_eq!(
            time.sentence().unwrap(),
            "agents worked 1h, waited 5m for files (most for `src/api.rs`: 5m), waited 3m for landing"
        );
    }
}
