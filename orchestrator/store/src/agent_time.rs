//! How agents have spent their time: at work, or waiting for others. Read from the events, on the steady line.
//!
//! A moment of one agent counts once, however many of its processes wait: for files before turns, and for either before the
//! landing queue. An attempt works while its agent has a process, any other agent from when it is known until it leaves or dies.

use std::collections::HashMap;
use std::time::Duration;

use mala_core::{AgentId, AttemptState, Fence, Life, SteadyTime, Target};
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use crate::Store;
use crate::error::{Fault, Result};
use crate::events::{Event, EventFilter, EventKind, TargetKind, event};
use crate::status::SELF_TEST;
use crate::view::View;

/// What agents did with their time, added up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentTime {
    pub worked: Duration,
    pub waited_for_files: Duration,
    /// For mutexes and for slots.
    pub waited_for_turns: Duration,
    pub waited_for_landing: Duration,
    /// The file or pattern that was waited for longest by all agents together, and for how long.
    pub hottest: Option<(String, Duration)>,
}

impl AgentTime {
    /// All of it that anybody spent in the checkout.
    pub fn total(&self) -> Duration {
        self.worked + self.waited_for_files + self.waited_for_turns
    }
}

/// Everything by which a wait ends.
const WAIT_ENDS: &[EventKind] = &[EventKind::WaitGranted, EventKind::WaitTimedOut, EventKind::WaitAbandoned];

/// Events whose details tell something about time.
const TOLD: &[EventKind] = &[
    EventKind::WaitStarted,
    EventKind::WaitGranted,
    EventKind::WaitTimedOut,
    EventKind::WaitAbandoned,
    EventKind::TestStarted,
    EventKind::AttemptAdvanced,
    EventKind::AttemptFinished,
];

/// Everything by which a lock is no longer its holder's.
const LOSSES: &[EventKind] =
    &[EventKind::LockReleased, EventKind::LockExpired, EventKind::LockOrphaned, EventKind::LockTaken];

impl Store {
    /// How the agents of this scope have spent their time since this event.
    pub fn agent_time(&mut self, since: Fence) -> Result<AgentTime> {
        self.read(|view| {
            let sql = "SELECT coalesce(steady, at) FROM event WHERE seq = ?1";
            let at: Option<i64> = view.sql.query_row(sql, [since.0], |row| row.get(0)).optional()?;
            view.agent_time(at.map_or(view.steady, SteadyTime::from_millis))
        })
    }

    /// For how much of the last `span` the agent has waited for files or for a turn.
    pub fn waited(&mut self, agent: &AgentId, span: Duration) -> Result<Duration> {
        self.read(|view| {
            let filter =
                EventFilter { agent: Some(agent.to_string()), within: Some(span), ..EventFilter::default() };
            let from = view.steady.minus(span);
            let mut waits = Vec::new();
            for event in view.events(&filter)? {
                waits.extend(Wait::ended_by(&event).map(|wait| wait.span.clip(from)));
            }
            waits.extend(view.open_waits(from)?.into_iter().filter(|it| it.0 == *agent).map(|it| it.1.span));
            Ok(total(&waits))
        })
    }

    /// How long ago the agent last had a turn to test, if it had one in the last `span`: no time while it has one. Such a command
    /// may be silent for long.
    pub fn last_turn(&mut self, agent: &AgentId, span: Duration) -> Result<Option<Duration>> {
        self.read(|view| {
            let is_turn = |lock: &mala_core::Lock| lock.is_named() && lock.agent == *agent;
            if view.held_locks()?.iter().any(is_turn) {
                return Ok(Some(Duration::ZERO));
            }
            let agent = Some(agent.to_string());
            let filter = EventFilter { agent, within: Some(span), ..EventFilter::default() };
            let is_end = |event: &Event| event.target == Some(TargetKind::Name) && is(event, LOSSES);
            let last = view.events(&filter)?.into_iter().rfind(is_end);
            Ok(last.map(|event| view.steady.since(event.steady)))
        })
    }
}

impl View<'_> {
    /// How all agents have spent their time since then.
    pub(crate) fn agent_time(&self, from: SteadyTime) -> std::result::Result<AgentTime, Fault> {
        let mut ledger = Ledger { from, agents: HashMap::new(), targets: HashMap::new() };
        for agent in self.agents()?.into_iter().filter(|agent| agent.life != Life::Dead) {
            let days = ledger.agents.entry(agent.party.agent.to_string()).or_default();
            (days.is_alive, days.known_since) = (true, Some(from));
        }
        self.add_events(&mut ledger)?;
        for (agent, wait) in self.open_waits(from)? {
            ledger.add_wait(agent.as_str(), wait);
        }
        Ok(ledger.close(self.steady))
    }

    fn add_events(&self, ledger: &mut Ledger) -> std::result::Result<(), Fault> {
        let kinds: Vec<String> = TOLD.iter().map(|kind| format!("'{}'", kind.as_str())).collect();
        // There are many others, and reading their details would take most of the time.
        let sql = format!(
            "SELECT seq, at, kind, agent, issue, run, lock, path, CASE WHEN kind IN ({}) THEN detail ELSE 'null' END, target,
                 steady
             FROM event WHERE scope = ?1 AND seq > ?2 AND agent NOT GLOB ?3 ORDER BY seq",
            kinds.join(", ")
        );
        let mut statement = self.sql.prepare_cached(&sql)?;
        let (after, self_tests) = (self.last_before(ledger.from)?, format!("{SELF_TEST}*"));
        for found in statement.query_map(params![self.scope, after, self_tests], event)? {
            ledger.add(&found?);
        }
        Ok(())
    }

    /// Waits that go on.
    fn open_waits(&self, from: SteadyTime) -> std::result::Result<Vec<(AgentId, Wait)>, Fault> {
        let mut waiters = self.waiters()?;
        waiters.retain(|waiter| self.is_waiting(waiter));
        let waits = waiters.into_iter().map(|waiter| {
            let span = Span { from: waiter.since_steady, to: self.steady }.clip(from);
            // What it does not have yet, and of that what stands in its way: the first of it is as good as any.
            let target = waiter.request.wants.first().map(|want| &want.target);
            let is_turn = matches!(target, Some(Target::Name(_)));
            let path = target.map(ToString::to_string);
            (waiter.agent().clone(), Wait { id: Some(waiter.id), is_turn, path, span })
        });
        Ok(waits.collect())
    }
}

/// From one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    from: SteadyTime,
    to: SteadyTime,
}

impl Span {
    fn clip(self, from: SteadyTime) -> Self {
        Self { from: self.from.max(from), to: self.to.max(from) }
    }

    fn length(self) -> Duration {
        self.to.since(self.from)
    }
}

/// The time that these cover, each moment once.
fn total(spans: &[Span]) -> Duration {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    let mut covered: Option<SteadyTime> = None;
    sorted.iter().fold(Duration::ZERO, |total, span| {
        let from = covered.map_or(span.from, |to| to.max(span.from));
        covered = Some(from.max(span.to));
        total + span.to.since(from)
    })
}

/// One wait for files or for a turn.
#[derive(Debug, Clone)]
struct Wait {
    id: Option<String>,
    is_turn: bool,
    path: Option<String>,
    span: Span,
}

impl Wait {
    /// The wait that this event ends, if it ends one.
    fn ended_by(event: &Event) -> Option<Self> {
        let is_test = event.kind == EventKind::TestStarted.as_str();
        if !is_test && !is(event, WAIT_ENDS) {
            return None;
        }
        let waited = Duration::from_millis(event.detail["waited_ms"].as_u64()?);
        Some(Self {
            id: event.detail["waiter"].as_str().map(str::to_owned),
            is_turn: is_test || event.target == Some(TargetKind::Name),
            path: event.path.clone(),
            span: Span { from: event.steady.minus(waited), to: event.steady },
        })
    }
}

fn is(event: &Event, kinds: &[EventKind]) -> bool {
    kinds.iter().any(|kind| kind.as_str() == event.kind)
}

/// What is known of all agents' time.
struct Ledger {
    from: SteadyTime,
    agents: HashMap<String, Days>,
    /// By their ids, what those who wait found in their way.
    targets: HashMap<String, String>,
}

/// What is known of one agent's time.
#[derive(Default)]
struct Days {
    is_alive: bool,
    known_since: Option<SteadyTime>,
    /// Since when its attempt has a process; it counts only from then until that ends.
    process_since: Option<SteadyTime>,
    has_processes: bool,
    offered_since: Option<SteadyTime>,
    last_event: Option<SteadyTime>,
    known: Vec<Span>,
    worked: Vec<Span>,
    files: Vec<(Option<String>, Span)>,
    turns: Vec<Span>,
    landing: Vec<Span>,
}

impl Ledger {
    fn add(&mut self, event: &Event) {
        let Some(agent) = &event.agent else { return };
        if event.kind == EventKind::WaitStarted.as_str() {
            let started = event.detail["waiter"].as_str().zip(event.path.as_ref());
            self.targets.extend(started.map(|(id, path)| (id.to_owned(), path.clone())));
        }
        if let Some(wait) = Wait::ended_by(event) {
            self.add_wait(agent, wait);
        }
        let (from, at) = (self.from, event.steady);
        let days = self.agents.entry(agent.clone()).or_default();
        days.last_event = Some(at);
        // What has no beginning here began before.
        let since = |begun: &mut Option<SteadyTime>| Span { from: begun.take().unwrap_or(from), to: at };
        let is = |kind: EventKind| kind.as_str() == event.kind;
        if is(EventKind::AgentJoined) {
            days.known_since = Some(at);
        } else if is(EventKind::AgentLeft) {
            days.known.push(since(&mut days.known_since));
        } else if is(EventKind::ProcessStarted) {
            (days.has_processes, days.process_since) = (true, Some(at));
        } else if is(EventKind::ProcessEnded) {
            days.has_processes = true;
            days.worked.push(since(&mut days.process_since));
        } else if is(EventKind::AttemptAdvanced) || is(EventKind::AttemptFinished) {
            let is_offered = |field: &Value| *field == AttemptState::Offered.as_str();
            let (was, will_be) = (is_offered(&event.detail["from"]), is_offered(&event.detail["to"]));
            if (was || days.offered_since.is_some()) && !will_be {
                days.landing.push(since(&mut days.offered_since));
            } else if will_be && !was {
                days.offered_since = Some(at);
            }
            if is(EventKind::AttemptFinished)
                && let Some(begun) = days.process_since.take()
            {
                days.worked.push(Span { from: begun, to: at });
            }
        }
    }

    fn add_wait(&mut self, agent: &str, wait: Wait) {
        let Wait { id, is_turn, path, span } = wait;
        let contended = id.and_then(|id| self.targets.get(&id).cloned());
        let (days, span) = (self.agents.entry(agent.to_owned()).or_default(), span.clip(self.from));
        match is_turn {
            true => days.turns.push(span),
            false => days.files.push((contended.or(path), span)),
        }
    }

    fn close(self, now: SteadyTime) -> AgentTime {
        let mut sum = AgentTime::default();
        let mut by_path: HashMap<String, Duration> = HashMap::new();
        for mut days in self.agents.into_values() {
            let end = if days.is_alive { now } else { days.last_event.unwrap_or(self.from) };
            let until_end = |begun: Option<SteadyTime>| begun.map(|from| Span { from, to: end });
            days.known.extend(until_end(days.known_since));
            days.worked.extend(until_end(days.process_since));
            days.landing.extend(until_end(days.offered_since));
            let mut spans: Vec<Span> = days.files.iter().map(|(_, span)| *span).collect();
            let files = total(&spans);
            spans.extend(days.turns);
            let turns = total(&spans);
            spans.extend(days.landing);
            let landing = total(&spans);
            spans.extend(if days.has_processes { days.worked } else { days.known });
            sum.waited_for_files += files;
            sum.waited_for_turns += turns - files;
            sum.waited_for_landing += landing - turns;
            sum.worked += total(&spans) - landing;
            for (path, span) in days.files {
                *by_path.entry(path.unwrap_or_default()).or_default() += span.length();
            }
        }
        let named = by_path.into_iter().filter(|(path, waited)| !path.is_empty() && !waited.is_zero());
        // Of two that cost the same, always the same one.
        sum.hottest = named.max_by(|one, other| (one.1, &other.0).cmp(&(other.1, &one.0)));
        sum
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> SteadyTime {
        SteadyTime::from_millis(seconds * 1000)
    }

    fn event(agent: &str, seconds: i64, kind: EventKind, detail: Value) -> Event {
        Event {
            seq: seconds,
            at: mala_core::Timestamp::from_millis(0),
            steady: at(seconds),
            kind: kind.as_str().to_owned(),
            agent: Some(agent.to_owned()),
            issue: None,
            run: None,
            lock: None,
            path: None,
            target: None,
            detail,
        }
    }

    fn wait(agent: &str, (from, to): (i64, i64), path: &str, target: TargetKind) -> [Event; 2] {
        let id = format!("{agent}{from}");
        let (path, target) = (Some(path.to_owned()), Some(target));
        let started = event(agent, from, EventKind::WaitStarted, json!({ "waiter": id }));
        let detail = json!({ "waiter": id, "waited_ms": (to - from) * 1000 });
        let granted = event(agent, to, EventKind::WaitGranted, detail);
        [Event { path: path.clone(), target, ..started }, Event { path, target, ..granted }]
    }

    fn time(from: i64, now: i64, events: impl IntoIterator<Item = Event>) -> AgentTime {
        let mut events: Vec<Event> = events.into_iter().collect();
        events.sort_by_key(|event| event.seq);
        let mut ledger = Ledger { from: at(from), agents: HashMap::new(), targets: HashMap::new() };
        events.iter().for_each(|event| ledger.add(event));
        ledger.close(at(now))
    }

    fn advanced(seconds: i64, from: &str, to: &str) -> Event {
        event("ann", seconds, EventKind::AttemptAdvanced, json!({ "from": from, "to": to }))
    }

    #[test]
    fn each_second_of_an_agent_counts_once_and_the_costliest_file_is_named() {
        let process = |seconds, kind| event("ann", seconds, kind, json!({}));
        let attempt = [
            event("ann", 1, EventKind::AgentJoined, json!({})),
            process(2, EventKind::ProcessStarted),
            process(40, EventKind::ProcessEnded),
            advanced(41, "gating", "offered"),
            advanced(60, "offered", "retrying"),
            process(61, EventKind::ProcessStarted),
            process(70, EventKind::ProcessEnded),
        ];
        // Two of its processes wait at once, and one for a turn meanwhile.
        let waits = [
            wait("ann", (10, 20), "src/hot.rs", TargetKind::File),
            wait("ann", (12, 17), "src/cold.rs", TargetKind::File),
            wait("ann", (18, 25), "test", TargetKind::Name),
            wait("bob", (30, 34), "src/cold.rs", TargetKind::File),
        ];
        let found = time(0, 100, attempt.into_iter().chain(waits.into_iter().flatten()));
        let seconds = |span: Duration| span.as_secs();
        let sums = [
            seconds(found.worked),
            seconds(found.waited_for_files),
            seconds(found.waited_for_turns),
            seconds(found.waited_for_landing),
        ];
        assert_eq!(sums, [38 + 9 - 15, 10 + 4, 5, 19]);
        assert_eq!(found.hottest, Some(("src/hot.rs".to_owned(), Duration::from_secs(10))));
    }

    #[test]
    fn what_began_before_counts_from_the_beginning_and_the_dead_until_they_were_last_heard_of() {
        let left = event("ann", 20, EventKind::AgentLeft, json!({}));
        let [_, granted] = wait("ann", (2, 15), "a", TargetKind::File);
        let dead = event("bob", 12, EventKind::AgentJoined, json!({}));
        let said = event("bob", 13, EventKind::WriteRefused, json!({}));
        let found = time(10, 100, [left, granted, dead, said]);
        assert_eq!(found.waited_for_files, Duration::from_secs(5));
        assert_eq!(found.worked, Duration::from_secs(5 + 1));
    }
}
