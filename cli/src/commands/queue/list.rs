use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use mala_config::Settings;
use mala_core::{AgentId, Entry, EntryId, EntryState, IssueId, Oid, Timestamp};
use mala_git::Repo;
use mala_landing::{Requirements, RunningCommand, last_verdict, running};
use mala_store::{EntryFilter, Store};
use serde::Serialize;
use serde_json::{Value, json};

use super::{BranchArg, short};
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::ui::{BOLD, DIM, RED, TITLE, YELLOW, plain, span, table};

/// So many entries that are over are shown to people who have not asked for all.
const LAST_SETTLED: usize = 5;

/// What waits to land, in the order in which it is served
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala queue list
  mala queue list --all --json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    branch: BranchArg,
    /// Entries that are over, too
    #[arg(long)]
    all: bool,
}

/// An entry as the list has it.
#[derive(Debug, Serialize)]
pub(crate) struct EntryJson<'a> {
    id: EntryId,
    issue: Option<&'a IssueId>,
    agent: Option<&'a AgentId>,
    priority: i64,
    state: EntryState,
    since: Timestamp,
    base: &'a Oid,
    head: &'a Oid,
    rejections: u32,
    reason: Option<&'a str>,
}

impl<'a> From<&'a Entry> for EntryJson<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self {
            id: entry.id,
            issue: entry.issue.as_ref(),
            agent: entry.agent.as_ref(),
            priority: entry.priority,
            state: entry.state,
            since: entry.since,
            base: &entry.base,
            head: &entry.head,
            rejections: entry.rejections,
            reason: entry.reason.as_deref(),
        }
    }
}

/// Why a queue stands still.
#[derive(Debug, Serialize)]
pub(crate) struct Pause {
    pub(crate) why: String,
    pub(crate) since: Timestamp,
}

impl Pause {
    pub(crate) fn of(store: &mut Store, branch: &str) -> Result<Option<Self>, CliError> {
        Ok(store.queue_pause(branch)?.map(|(why, since)| Self { why, since }))
    }
}

/// "2 waiting, 1 held".
pub(crate) fn counted(entries: &[Entry]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry.state.as_str()).or_default() += 1;
    }
    counts
}

/// All that one list shows.
struct Picture {
    branch: String,
    tip: Option<Oid>,
    base_green: Option<bool>,
    paused: Option<Pause>,
    /// Those that are open, in the order in which they are served.
    open: Vec<Entry>,
    /// Those that are over, the newest first.
    over: Vec<Entry>,
    /// Branches that something else waits for, with how much.
    elsewhere: BTreeMap<String, usize>,
    /// What runs in the slots that prove what is to land.
    running: Vec<RunningCommand>,
    is_worked: bool,
    now: Timestamp,
}

pub(crate) fn cmd_list(args: &ListArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let repo = Repo::new(scope.clone()).without_hooks();
    let branch = args.branch.resolve(&repo)?;
    let picture = Picture::take(&repo, &settings, &mut open(&scope)?, branch)?;
    context.ui.answer(&picture.json(args.all), |out| picture.write(out, args.all))?;
    Ok(Code::SUCCESS)
}

impl Picture {
    fn take(repo: &Repo, settings: &Settings, store: &mut Store, branch: String) -> Result<Self, CliError> {
        let filter = EntryFilter { branch: Some(branch.clone()), ..EntryFilter::default() };
        let (open, mut over): (Vec<Entry>, Vec<Entry>) =
            store.entries(&filter)?.into_iter().partition(|entry| !entry.state.is_over());
        over.sort_unstable_by_key(|entry| std::cmp::Reverse((entry.since, entry.id)));
        let mut elsewhere = BTreeMap::new();
        for entry in store.entries(&EntryFilter { open: true, ..EntryFilter::default() })? {
            if entry.branch != branch {
                *elsewhere.entry(entry.branch).or_default() += 1;
            }
        }
        let tip = repo.resolve(&branch)?;
        let base_green = match &tip {
            Some(tip) => {
                let tree = repo.commit(tip)?.tree;
                last_verdict(repo, &Requirements::of(settings), &tree).map_err(CliError::failed)?
            }
            None => None,
        };
        let paused = Pause::of(store, &branch)?;
        let (is_worked, now) = (store.current_run()?.is_some(), store.now());
        let mut running = running(repo.scope());
        running.retain(|command| command.slot.starts_with('v'));
        Ok(Self { branch, tip, base_green, paused, open, over, elsewhere, running, is_worked, now })
    }

    fn json(&self, all: bool) -> Value {
        let over = self.over.iter().rev().filter(|_| all);
        let entries: Vec<EntryJson<'_>> = self.open.iter().chain(over).map(EntryJson::from).collect();
        let validating = self.open.iter().filter(|entry| entry.state == EntryState::Validating);
        let validating: Vec<EntryId> = validating.map(|entry| entry.id).collect();
        let validation = |running: Option<&RunningCommand>| {
            json!({
                "tree": running.map(|running| &running.tree), "entries": validating,
                "slot": running.map(|running| &running.slot), "state": "validating",
                "command": running.map(|running| &running.command), "since": running.map(|running| running.since),
                "evidence": null
            })
        };
        let mut validations: Vec<Value> =
            self.running.iter().map(|running| validation(Some(running))).collect();
        if validations.is_empty() && !validating.is_empty() {
            // Between two commands, or while a slot is made ready.
            validations.push(validation(None));
        }
        json!({
            "branch": self.branch, "tip": self.tip, "base_green": self.base_green, "paused": self.paused,
            "entries": entries, "validations": validations, "worktrees": [],
        })
    }

    fn write(&self, out: &mut dyn Write, all: bool) -> io::Result<()> {
        let name = short(&self.branch);
        let tip = self.tip.as_ref().map(|tip| format!(" at {}", tip.short())).unwrap_or_default();
        let base = match self.base_green {
            Some(true) => ", which passes",
            Some(false) => ", which fails: only work that makes it pass lands",
            None => "",
        };
        writeln!(out, "{BOLD}{name}{BOLD:#}{tip}{base}")?;
        if let Some(pause) = &self.paused {
            let span = span(self.now.since(pause.since));
            writeln!(
                out,
                "{YELLOW}paused{YELLOW:#} for {span}: {} (go on: mala queue resume)",
                plain(&pause.why)
            )?;
        }
        if self.open.is_empty() {
            writeln!(out, "nothing waits")?;
        } else {
            let rows: Vec<_> =
                (1..).zip(&self.open).map(|(place, entry)| self.row(&place.to_string(), entry)).collect();
            table(out, HEADING, &rows)?;
        }
        for running in &self.running {
            let since = span(self.now.since(running.since));
            writeln!(out, "`{}` has been running in {} for {since}", plain(&running.command), running.slot)?;
        }
        let shown = if all { self.over.len() } else { LAST_SETTLED };
        if !self.over.is_empty() {
            writeln!(out, "{DIM}settled{DIM:#}")?;
            let rows: Vec<_> = self.over.iter().take(shown).map(|entry| self.row("", entry)).collect();
            table(out, HEADING, &rows)?;
            if self.over.len() > shown {
                writeln!(out, "{DIM}and {} more: mala queue list --all{DIM:#}", self.over.len() - shown)?;
            }
        }
        for (branch, count) in &self.elsewhere {
            let name = short(branch);
            writeln!(out, "{count} for `{name}`: mala queue --branch {name}")?;
        }
        self.write_next(out)
    }

    /// What to type next.
    fn write_next(&self, out: &mut dyn Write) -> io::Result<()> {
        let held = self.open.iter().find(|entry| entry.state == EntryState::Held);
        if let Some(held) = held {
            writeln!(out, "{RED}in the way{RED:#}: see what is to be done: mala queue show {}", held.id)?;
        }
        if !self.open.is_empty() && self.paused.is_none() {
            match self.is_worked {
                true => writeln!(out, "{DIM}a run works it off: mala status --watch{DIM:#}")?,
                false => writeln!(out, "nobody works it off now: mala queue run")?,
            }
        }
        Ok(())
    }

    fn row(&self, place: &str, entry: &Entry) -> [String; 7] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            place.to_owned(),
            entry.id.to_string(),
            or_dash(entry.issue.as_ref().map(plain)),
            or_dash(entry.agent.as_ref().map(plain)),
            entry.state.to_string(),
            span(self.now.since(entry.since)),
            crate::ui::short(&plain(entry.reason.as_deref().unwrap_or_default()), TITLE),
        ]
    }
}

const HEADING: [&str; 7] = ["PLACE", "ENTRY", "ISSUE", "AGENT", "STATE", "SINCE", "REASON"];
