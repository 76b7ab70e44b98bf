use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use mala_config::Settings;
use mala_core::ports::Liveness as _;
use mala_core::shell::word;
use mala_core::{Ask, Attempt, AttemptState, Entry, IssueId, Life, Lock, Run, RunId, Scope, Timestamp};
use mala_engine::health::{self, TimeSpent};
use mala_landing::{SlotUse, shown_size, slots_in_use};
use mala_store::process::ProcessTable;
use mala_store::{Agent, AskFilter, EntryFilter, Extent, Health, Leftovers, Standing, Status, Store};
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::lock::asks::write_ask_table;
use crate::commands::queue::{Pause, counted};
use crate::context::Context;
use crate::error::{CliError, Code};
use crate::json::{self, PathJson};
use crate::run::report::words::cost;
use crate::ui::{BOLD, DIM, YELLOW, plain, span, table};

/// Show agents, locks, waiters and leftovers
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala status
  mala status --watch
  mala status --json | jq '.locks[].path'")]
pub(crate) struct StatusArgs {
    /// Show it again whenever something changes; with --json, one document per line
    #[arg(long)]
    watch: bool,
    /// Also show agents that have ended
    #[arg(long)]
    all: bool,
}

pub(crate) fn cmd_status(args: &StatusArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = context.store(&scope)?;
    loop {
        let seen = store.data_version()?;
        let mut picture = Picture::take(&scope, &settings, &mut store, args.all)?;
        if !args.watch {
            // Who may not look there sees the rest.
            picture.slots = slots_in_use(&scope, &settings).unwrap_or_default();
        }
        if args.watch && !context.ui.json && context.ui.is_live() {
            // Clear the screen and go home.
            context.ui.out().write_all(b"\x1b[2J\x1b[H")?;
        }
        context.ui.answer(&picture.json(), |out| picture.write(out))?;
        if !args.watch {
            return Ok(Code::SUCCESS);
        }
        wait_for_change(context, &mut store, seen, settings.status.refresh)?;
    }
}

/// "2 slots with 1.4 GB (v1: 1.2 GB, in use; t1: 0.2 GB) in `/home/me/.cache/...`"
pub(crate) fn slots_line(slots: &[SlotUse]) -> String {
    let all: u64 = slots.iter().map(|slot| slot.size).sum();
    let name = |slot: &SlotUse| slot.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let each: Vec<String> = slots
        .iter()
        .map(|slot| {
            let in_use = if slot.in_use { ", in use" } else { "" };
            format!("{}: {}{in_use}", name(slot), shown_size(slot.size))
        })
        .collect();
    let place = slots.first().and_then(|slot| slot.path.parent()).unwrap_or(Path::new(""));
    let noun = if slots.len() == 1 { "slot" } else { "slots" };
    let (count, all, each) = (slots.len(), shown_size(all), each.join("; "));
    format!("{count} {noun} with {all} ({each}) in `{}`", plain(place.display()))
}

/// Returns when the store has changed, or, on a terminal, when the times shown are out of date.
fn wait_for_change(
    context: &Context,
    store: &mut Store,
    seen: i64,
    refresh: Duration,
) -> Result<(), CliError> {
    loop {
        context.pause(refresh)?;
        if context.ui.is_live() || store.data_version()? != seen {
            return Ok(());
        }
    }
}

/// Everything that one status shows.
struct Picture<'a> {
    root: &'a Path,
    status: Status,
    /// Who asks whom for what, without those that are over.
    asks: Vec<Ask>,
    leftovers: Leftovers,
    warnings: Vec<String>,
    /// The run that is under way, with its attempts.
    run: Option<(Run, Vec<Attempt>)>,
    /// A run that was killed and that nobody has gone on with, and the issues that were under way.
    killed: Option<(RunId, Vec<IssueId>)>,
    queues: Vec<QueueJson>,
    /// Checkouts of mala's own. While one watches they are not measured.
    slots: Vec<SlotUse>,
    now: Timestamp,
}

/// What waits to land on one branch.
#[derive(Debug, Serialize)]
struct QueueJson {
    branch: String,
    open: usize,
    states: BTreeMap<&'static str, usize>,
    /// Those whose files others may take while they wait.
    files_free: usize,
    paused: Option<Pause>,
}

impl QueueJson {
    /// Those of branches that something waits for, and those that are paused. Git is not asked: whoever may only read the store
    /// sees this, too.
    fn all(store: &mut Store) -> Result<Vec<Self>, CliError> {
        let mut branches: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for entry in store.entries(&EntryFilter { open: true, ..EntryFilter::default() })? {
            branches.entry(entry.branch.clone()).or_default().push(entry);
        }
        let mut pauses = BTreeMap::new();
        for (branch, why, since) in store.queue_pauses()? {
            branches.entry(branch.clone()).or_default();
            pauses.insert(branch, Pause { why, since });
        }
        let queue = |(branch, entries): (String, Vec<Entry>)| Self {
            open: entries.len(),
            states: counted(&entries),
            files_free: entries.iter().filter(|entry| entry.frees_files).count(),
            paused: pauses.remove(&branch),
            branch,
        };
        Ok(branches.into_iter().map(queue).collect())
    }

    fn write(&self, out: &mut dyn Write, is_worked: bool) -> io::Result<()> {
        let branch = plain(self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch));
        let states: Vec<String> =
            self.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let states = if states.is_empty() { "nothing waits".to_owned() } else { states.join(", ") };
        write!(out, "{BOLD}landing queue{BOLD:#} of `{branch}`: {states}")?;
        match self.files_free {
            0 => {}
            free if free == self.open => write!(out, ", files free")?,
            free => write!(out, ", files of {free} free")?,
        }
        match &self.paused {
            Some(pause) => {
                writeln!(out, "; {YELLOW}paused{YELLOW:#}: {} (mala queue resume)", plain(&pause.why))
            }
            None if is_worked => writeln!(out, " (mala queue)"),
            None => writeln!(out, " (see it: mala queue; work it off: mala queue run)"),
        }
    }
}

#[derive(Debug, Serialize)]
struct RunJson<'a> {
    id: &'a str,
    pid: u32,
    since: Timestamp,
    max_agents: Option<u64>,
    /// Dollars that it may cost.
    budget: Option<f64>,
    /// What attempts that are over have cost; nothing while a part is not known.
    cost: Option<f64>,
    unpriced: Vec<&'a str>,
    /// Attempts so far, by where they are.
    attempts: Vec<AttemptJson<'a>>,
}

#[derive(Debug, Serialize)]
struct AttemptJson<'a> {
    issue: &'a str,
    agent: &'a str,
    attempt: u32,
    state: &'static str,
    since: Timestamp,
    /// What the agent wants to know, if it waits for an answer.
    question: Option<&'a str>,
    saved_ref: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct AgentJson<'a> {
    id: &'a str,
    profile: Option<&'a str>,
    issue: Option<&'a str>,
    pid: u32,
    state: &'static str,
    since: Timestamp,
}

impl<'a> From<&'a Attempt> for AttemptJson<'a> {
    fn from(attempt: &'a Attempt) -> Self {
        Self {
            issue: attempt.issue.as_str(),
            agent: attempt.agent.as_str(),
            attempt: attempt.number,
            state: attempt.state.as_str(),
            since: attempt.since,
            question: attempt.question.as_deref(),
            saved_ref: attempt.saved_ref.as_deref(),
        }
    }
}

impl<'a> Picture<'a> {
    fn take(scope: &'a Scope, settings: &Settings, store: &mut Store, all: bool) -> Result<Self, CliError> {
        let now = store.now();
        let leftovers = store
            .leftovers(Extent { keep_events_since: now.minus(settings.retain.age), foreign_locks: false })?;
        let mut status = store.status()?;
        status.agents.retain(|agent| all || agent.life != Life::Dead);
        let warnings = health::judge(&status.health, &settings.health);
        let warnings = warnings.into_iter().map(|warning| warning.text).collect();
        let run = match store.current_run()? {
            Some(run) => Some((run.clone(), store.attempts_of_run(&run.id)?)),
            None => None,
        };
        let killed = match store.killed_run()? {
            Some(run) => Some((run.id, store.stranded()?.into_iter().map(|attempt| attempt.issue).collect())),
            None => None,
        };
        let asks = store.asks(&AskFilter::default())?;
        let (root, queues) = (scope.root(), QueueJson::all(store)?);
        let slots = Vec::new();
        Ok(Self { root, status, asks, leftovers, warnings, run, killed, queues, slots, now })
    }

    /// The profile that a run gave the agent, else the client that its session said it is.
    fn profile<'b>(&'b self, agent: &'b Agent) -> Option<&'b str> {
        let chosen = self.attempt_of(agent).and_then(|attempt| attempt.profile.as_deref());
        chosen.or(agent.profile.as_deref())
    }

    /// The process that the agent works in, as far as it has one of its own.
    fn pid(&self, agent: &Agent) -> u32 {
        let supervisor = self.attempt_of(agent).and_then(|attempt| attempt.supervisor.as_ref());
        let own = supervisor.filter(|supervisor| ProcessTable.of(supervisor) == Life::Alive);
        own.unwrap_or(&agent.party.owner).pid
    }

    fn state(&self, agent: &Agent) -> &'static str {
        if agent.life == Life::Dead {
            return "gone";
        }
        let is_waiting = self.status.waiting.iter().any(|waiting| waiting.agent == agent.party.agent);
        match self.attempt_of(agent).map(|attempt| attempt.state) {
            _ if is_waiting => "waiting",
            Some(state @ (AttemptState::NeedsInput | AttemptState::Gating)) => state.as_str(),
            _ => "active",
        }
    }

    fn attempt_of(&self, agent: &Agent) -> Option<&Attempt> {
        let attempts = self.run.iter().flat_map(|(_, attempts)| attempts);
        attempts.rev().find(|attempt| attempt.agent == agent.party.agent && attempt.ended_at.is_none())
    }

    fn runs_json(&self) -> Vec<RunJson<'_>> {
        let run = self.run.iter().map(|(run, attempts)| RunJson {
            id: run.id.as_str(),
            pid: run.owner.pid,
            since: run.started_at,
            max_agents: run.options["max_agents"].as_u64(),
            budget: run.options["budget"].as_f64(),
            cost: spent(attempts).exact(),
            unpriced: spent(attempts).unpriced,
            attempts: attempts.iter().map(AttemptJson::from).collect(),
        });
        run.collect()
    }

    fn json(&self) -> Value {
        let agents = self.status.agents.iter().map(|agent| AgentJson {
            id: agent.party.agent.as_str(),
            profile: self.profile(agent),
            issue: agent.party.issue.as_ref().map(IssueId::as_str),
            pid: self.pid(agent),
            state: self.state(agent),
            since: agent.since,
        });
        let waiters = self.status.waiting.iter().map(|w| {
            json!({ "path": PathJson::from(&w.target).path, "agent": w.agent, "since": w.since, "position": w.position })
        });
        let mutexes = self.status.mutexes.iter().map(|mutex| {
            let (holder, since) = mutex.holder.as_ref().map(|(agent, since)| (agent, since)).unzip();
            json!({ "name": mutex.name, "holder": holder, "since": since, "queue": mutex.queue })
        });
        let health = &self.status.health;
        let time = TimeSpent::from(&health.time);
        json!({
            "scope": self.root.to_string_lossy(),
            "runs": self.runs_json(),
            "agents": agents.collect::<Vec<_>>(),
            "locks": json::locks(&self.status.locks),
            "waiters": waiters.collect::<Vec<_>>(),
            "asks": json::asks(&self.asks, self.now),
            "mutexes": mutexes.collect::<Vec<_>>(),
            "queue": self.queues,
            "slots": self.slots,
            "leftovers": self.leftovers_json(),
            "health": {
                "lock_tries": health.lock_tries,
                "lock_waits": health.lock_waits,
                "wait_rate": health.wait_rate(),
                "mutex_wait_seconds": health.mutex_wait.as_secs_f64(),
                "agent_seconds": time.agent_seconds,
                "hottest_file": time.hottest_file,
                "warnings": self.warnings,
            },
        })
    }

    fn leftovers_json(&self) -> Vec<Value> {
        let killed = self
            .killed
            .iter()
            .map(|(run, issues)| json!({ "kind": "run", "id": run, "issues": issues, "cause": "killed" }));
        killed.chain(leftovers_json(&self.leftovers)).collect()
    }

    fn write_killed(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some((run, issues)) = &self.killed else { return Ok(()) };
        let ids: Vec<&str> = issues.iter().map(IssueId::as_str).collect();
        let issues = if ids.is_empty() { "nothing".to_owned() } else { ids.join(", ") };
        writeln!(out, "{YELLOW}run {run} was killed{YELLOW:#} with {issues} under way; nothing is lost")?;
        writeln!(out, "  go on where it stopped: mala run --resume")?;
        writeln!(out, "  hand over what it left, and begin anew: mala run")
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{BOLD}{}{BOLD:#}", plain(self.root.display()))?;
        self.write_run(out)?;
        self.write_killed(out)?;
        self.queues.iter().try_for_each(|queue| queue.write(out, self.run.is_some()))?;
        self.write_agents(out)?;
        if self.status.locks.is_empty() {
            writeln!(out, "no locks: every file is free")?;
        } else {
            writeln!(out, "{BOLD}locks{BOLD:#}")?;
            write_lock_table(out, &self.status.locks)?;
        }
        self.write_waiting(out)?;
        if !self.asks.is_empty() {
            writeln!(out, "{BOLD}asks{BOLD:#}")?;
            write_ask_table(out, &self.asks, self.now)?;
        }
        for mutex in &self.status.mutexes {
            let holder = mutex.holder.as_ref().map_or("nobody", |(agent, _)| agent.as_str());
            writeln!(out, "mutex `{}`: {holder}, {} waiting", plain(&mutex.name), mutex.queue.len())?;
        }
        if !self.slots.is_empty() {
            writeln!(out, "{DIM}{}{DIM:#}", slots_line(&self.slots))?;
        }
        for line in leftover_lines(&self.leftovers) {
            writeln!(out, "{YELLOW}leftover{YELLOW:#}: {line} (mala clean puts it away)")?;
        }
        for warning in &self.warnings {
            writeln!(out, "{YELLOW}warning{YELLOW:#}: {warning}")?;
        }
        let Health { lock_tries, lock_waits, time, .. } = &self.status.health;
        let (locks, waits) = (
            if *lock_tries == 1 { "lock" } else { "locks" },
            if *lock_waits == 1 { "wait" } else { "waits" },
        );
        writeln!(out, "{DIM}last 24 h: {lock_tries} {locks} asked for, {lock_waits} {waits}{DIM:#}")?;
        match TimeSpent::from(time).sentence() {
            Some(sentence) => writeln!(out, "{DIM}last 24 h: {}{DIM:#}", plain(sentence)),
            None => Ok(()),
        }
    }

    fn write_run(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some((run, attempts)) = &self.run else { return Ok(()) };
        let count = |state: AttemptState| attempts.iter().filter(|attempt| attempt.state == state).count();
        let (done, over) = (count(AttemptState::Done), count(AttemptState::HandedOver));
        let since = span(self.now.since(run.started_at));
        writeln!(
            out,
            "{BOLD}run {}{BOLD:#} (pid {}) for {since}: {done} done, {over} handed over, at work:",
            run.id, run.owner.pid
        )?;
        let rows: Vec<_> = attempts
            .iter()
            .filter(|attempt| attempt.ended_at.is_none())
            .map(|attempt| {
                [
                    attempt.issue.to_string(),
                    attempt.state.as_str().replace('_', " "),
                    span(self.now.since(attempt.since)),
                    plain(&attempt.agent),
                ]
            })
            .collect();
        table(out, ["ISSUE", "STATE", "FOR", "AGENT"], &rows)?;
        let spent = spent(attempts);
        let budget = run.options["budget"].as_f64();
        if budget.is_some() || spent.exact() != Some(0.0) {
            let cost = cost(spent.exact(), spent.at_least, spent.unpriced.iter().copied());
            let cost = cost.unwrap_or_default();
            let budget = budget.map(|budget| format!(", of ${budget:.2} at most")).unwrap_or_default();
            writeln!(out, "spent on attempts that are over: {cost}{budget}")?;
        }
        for attempt in attempts.iter().filter(|attempt| attempt.ended_at.is_none()) {
            if let Some(question) = &attempt.question {
                let issue = &attempt.issue;
                writeln!(
                    out,
                    "{YELLOW}{issue} asks{YELLOW:#}: {} (answer: mala issue note {} 'TEXT')",
                    plain(question),
                    word(issue.as_str())
                )?;
            }
        }
        Ok(())
    }

    fn write_agents(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.status.agents.is_empty() {
            return writeln!(out, "no agents");
        }
        writeln!(out, "{BOLD}agents{BOLD:#}")?;
        let rows = self.status.agents.iter().map(|agent| {
            [
                plain(&agent.party.agent),
                self.state(agent).to_owned(),
                agent.party.issue.as_ref().map(plain).unwrap_or_default(),
                self.pid(agent).to_string(),
                span(self.now.since(agent.since)),
            ]
        });
        table(out, ["NAME", "STATE", "ISSUE", "PID", "SINCE"], &rows.collect::<Vec<_>>())
    }

    fn write_waiting(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.status.waiting.is_empty() {
            return Ok(());
        }
        writeln!(out, "{BOLD}waiting{BOLD:#}")?;
        let rows = self.status.waiting.iter().map(|w| {
            let since = span(self.now.since(w.since));
            [plain(&w.target), w.position.to_string(), plain(&w.agent), since]
        });
        table(out, ["PATH", "PLACE", "AGENT", "FOR"], &rows.collect::<Vec<_>>())
    }
}

/// What attempts have cost.
struct Spent<'a> {
    /// In dollars, as far as it is known.
    at_least: f64,
    /// Models whose part is not.
    unpriced: Vec<&'a str>,
}

impl Spent<'_> {
    fn exact(&self) -> Option<f64> {
        self.unpriced.is_empty().then_some(self.at_least)
    }
}

fn spent(attempts: &[Attempt]) -> Spent<'_> {
    let micros: u64 = attempts.iter().map(|attempt| attempt.spend.cost_micros).sum();
    let unpriced = attempts.iter().flat_map(|attempt| &attempt.spend.unpriced).map(String::as_str);
    let unpriced: BTreeSet<&str> = unpriced.collect();
    Spent { at_least: micros as f64 / 1e6, unpriced: unpriced.into_iter().collect() }
}

/// Locks as a table.
pub(crate) fn write_lock_table(out: &mut dyn Write, locks: &[Lock]) -> io::Result<()> {
    let now = Timestamp::now();
    let rows: Vec<_> = locks
        .iter()
        .map(|lock| {
            [
                plain(&lock.target),
                lock.mode.to_string(),
                plain(&lock.agent),
                lock.issue.as_ref().map(plain).unwrap_or_default(),
                span(now.since(lock.acquired_at)),
                span(lock.lease.expires_at.since(now)),
                lock.reason.as_ref().map(plain).unwrap_or_default(),
            ]
        })
        .collect();
    table(out, ["PATH", "MODE", "AGENT", "ISSUE", "HELD", "LEFT", "REASON"], &rows)
}

/// One sentence per leftover.
pub(crate) fn leftover_lines(leftovers: &Leftovers) -> Vec<String> {
    let locks = leftovers.locks.iter().map(|(lock, standing)| {
        format!("lock on `{}` of `{}`, {}", plain(&lock.target), lock.agent, cause(*standing))
    });
    let waiters =
        leftovers.waiters.iter().map(|(_, agent)| format!("place in the queue of `{agent}`, which has died"));
    let files =
        leftovers.wake_files.iter().map(|name| format!("file `{}` of a waiter that is gone", plain(name)));
    let events = (leftovers.old_events > 0).then(|| format!("{} old events", leftovers.old_events));
    locks.chain(waiters).chain(files).chain(events).collect()
}

pub(crate) fn leftovers_json(leftovers: &Leftovers) -> Vec<Value> {
    let locks = leftovers.locks.iter().map(|(lock, standing)| {
        let path = PathJson::from(&lock.target).path;
        json!({ "kind": "lock", "id": lock.id, "path": path, "agent": lock.agent, "cause": cause(*standing) })
    });
    let waiters = leftovers
        .waiters
        .iter()
        .map(|(id, agent)| json!({ "kind": "waiter", "id": id, "agent": agent, "cause": "died" }));
    let files = leftovers
        .wake_files
        .iter()
        .map(|name| json!({ "kind": "file", "id": name, "cause": "its waiter is gone" }));
    let events = (leftovers.old_events > 0).then(
        || json!({ "kind": "events", "count": leftovers.old_events, "cause": "older than `retain.age`" }),
    );
    locks.chain(waiters).chain(files).chain(events).collect()
}

fn cause(standing: Standing) -> &'static str {
    match standing {
        Standing::Held => "held from another host",
        Standing::Expired => "whose lease is over",
        Standing::Orphaned => "whose process has ended",
    }
}
