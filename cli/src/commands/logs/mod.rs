//! `mala logs`: what happened.

mod agent;
pub(super) mod evidence;
mod runs;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use mala_core::shell::word;
use mala_core::{AgentId, Scope};
use mala_gate::evidence::anchoring::{self, AnchorError};
use mala_gate::evidence::output;
use mala_logs::chain::{ChainError, Verified};
use mala_logs::secrets::{MaskingWriter, mask_json};
use mala_store::{Event, EventFilter, EventKind, Store};
use serde_json::{Value, json};

use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::typed::duration;
use crate::ui::{DIM, RED, plain};

/// How often `tail --follow` asks whether there is anything new; the question costs microseconds.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

/// Read what happened: events, evidence of tests, runs, and what one agent does
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:
  mala logs list --since 1h
  mala logs -f bd-7
  mala logs verify")]
pub(crate) struct LogsArgs {
    #[command(subcommand)]
    command: Option<LogsCommand>,
    /// Show what an agent of a run has done and does, until its attempt is over: its name, or the id of its issue
    #[arg(long, short, value_name = "AGENT")]
    follow: Option<String>,
}

#[derive(Debug, Subcommand)]
enum LogsCommand {
    List(ListArgs),
    Show(ShowArgs),
    Tail(TailArgs),
    Verify(VerifyArgs),
}

/// What to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every lock taken, refused, given back or lost, and what agents did
    Events,
    /// Every test command that ran, and how it ended
    Evidence,
    /// Every `mala run`
    Runs,
}

/// List events, evidence or runs, oldest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala logs list --since 1h
  mala logs list --agent alice --kind lock.refused
  mala logs list evidence --agent alice
  mala logs list runs")]
pub(crate) struct ListArgs {
    /// What to list
    #[arg(value_enum, default_value_t = What::Events)]
    what: What,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only the newest N
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// Show one thing whole: an event, the story of a lock, a test run, a run
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala logs show 42
  mala logs show k3x9q2
  mala logs show ev-5s0c2f7w1q --output")]
pub(crate) struct ShowArgs {
    /// Number of an event, or id of a lock, of evidence or of a run
    id: String,
    /// Of evidence: what the command printed, and nothing else
    #[arg(long)]
    output: bool,
}

/// Check that nobody has changed the evidence or the logs of runs
///
/// Every line of these logs holds a hash of the one before. The first line that was changed, removed, inserted or cut off is
/// named, and so is every saved output that is not what its record says.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala logs verify
  mala logs verify --accept")]
pub(crate) struct VerifyArgs {
    /// Take logs that are not what was recorded as they are now: you know what happened to them. An event keeps what was there
    #[arg(long)]
    accept: bool,
}

/// Show the newest events, and new ones as they happen
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala logs tail --follow")]
pub(crate) struct TailArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Start with the newest N
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: u32,
    /// Go on until interrupted
    #[arg(long, short)]
    follow: bool,
}

#[derive(Debug, Args)]
struct FilterArgs {
    /// Only those of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only events of this kind, e.g. lock.refused
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(EventKind::ALL.iter().map(|k| k.as_str())))]
    kind: Option<String>,
    /// Only those of the last so much time, e.g. 1h
    #[arg(long, value_name = "DURATION")]
    since: Option<String>,
    /// Also events of the test that every `mala run` begins with: one made-up agent is refused the file of another
    #[arg(long)]
    self_tests: bool,
}

impl FilterArgs {
    fn resolve(&self, store: &Store, limit: u32) -> Result<EventFilter, CliError> {
        let since = self.since.as_deref().map(|since| duration("--since", since)).transpose()?;
        let since = since.map(|span| store.now().minus(span));
        let (agent, kind) = (self.agent.clone(), self.kind.clone());
        // Whoever is asked for by name is shown.
        let without_self_tests = !self.self_tests && agent.is_none();
        let limit = Some(limit);
        Ok(EventFilter { since, agent, kind, without_self_tests, limit, ..EventFilter::default() })
    }
}

pub(crate) fn run(args: &LogsArgs, context: &Context) -> Result<Code, CliError> {
    match (&args.command, &args.follow) {
        (Some(_), Some(_)) => {
            return Err(CliError::usage("`--follow` goes without a further command")
                .hint("one agent: mala logs -f AGENT; events: mala logs tail --follow"));
        }
        (Some(LogsCommand::List(args)), None) => cmd_list(args, context)?,
        (Some(LogsCommand::Show(args)), None) => cmd_show(args, context)?,
        (Some(LogsCommand::Verify(args)), None) => return cmd_verify(args, context),
        (Some(LogsCommand::Tail(args)), None) => cmd_tail(args, context)?,
        (None, Some(agent)) => agent::cmd_follow(agent, context)?,
        (None, None) => return Err(CliError::usage("say what to read").hint("such as: mala logs list")),
    }
    Ok(Code::SUCCESS)
}

fn cmd_list(args: &ListArgs, context: &Context) -> Result<(), CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    let filter = args.filter.resolve(&store, args.limit)?;
    if args.what != What::Events && (filter.kind.is_some() || args.filter.self_tests) {
        return Err(CliError::usage("`--kind` and `--self-tests` are about events")
            .hint("list those: mala logs list --kind KIND"));
    }
    match args.what {
        What::Events => {}
        What::Evidence => return list_evidence(context, &scope, filter),
        What::Runs if filter.agent.is_some() => {
            return Err(CliError::usage("runs have many agents; `--agent` is about events and evidence"));
        }
        What::Runs => return list_runs(context, &scope, &mut store, &filter),
    }
    let events = masked(store.events(&filter)?);
    context.ui.answer(&json!({ "events": events }), |out| match events.as_slice() {
        [] => writeln!(out, "no events"),
        events => write_events(out, events),
    })
}

fn list_evidence(context: &Context, scope: &Scope, filter: EventFilter) -> Result<(), CliError> {
    let records = evidence::list(
        scope,
        &evidence::Filter {
            agent: filter.agent.map(AgentId::new).transpose()?,
            since: filter.since,
            limit: filter.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX),
        },
    )?;
    context.ui.answer(&json!({ "evidence": records }), |out| match records.as_slice() {
        [] => writeln!(out, "no evidence: run a test command with `mala test -- COMMAND`"),
        records => evidence::write_list(out, records),
    })
}

fn list_runs(
    context: &Context,
    scope: &Scope,
    store: &mut Store,
    filter: &EventFilter,
) -> Result<(), CliError> {
    let runs = runs::list(store, scope, filter.since, filter.limit.unwrap_or(u32::MAX))?;
    context.ui.answer(&json!({ "runs": runs }), |out| match runs.as_slice() {
        [] => writeln!(out, "no runs: start one with `mala run`"),
        runs => runs.iter().try_for_each(|run| run.write(out)),
    })
}

fn cmd_show(args: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let scope = context.scope()?;
    if let Some(record) = evidence::find(&scope, &args.id)? {
        if args.output {
            let mut output = evidence::output(&scope, &record)?;
            let mut out = MaskingWriter::new(context.ui.out());
            io::copy(&mut output, &mut out)?;
            return Ok(out.finish()?.flush()?);
        }
        return context.ui.answer(&json!({ "evidence": record }), |out| evidence::write_whole(out, &record));
    }
    let mut store = open(&scope)?;
    if args.output {
        return Err(CliError::usage(format!("no evidence is called `{}`", plain(&args.id)))
            .hint("see the ids: mala logs list evidence"));
    }
    if let Some(run) = runs::find(&mut store, &scope, &args.id)? {
        let events = run.events()?;
        return context.ui.answer(&json!({ "run": run, "events": events }), |out| {
            run.write(out)?;
            events.iter().try_for_each(|event| runs::write_event(out, event))
        });
    }
    let mut events = store.events(&EventFilter { lock: Some(args.id.clone()), ..EventFilter::default() })?;
    if events.is_empty()
        && let Ok(seq) = args.id.parse()
    {
        events.extend(store.event(seq)?);
    }
    if events.is_empty() {
        let message = format!("no event, lock, evidence or run is called `{}`", plain(&args.id));
        return Err(CliError::usage(message)
            .hint("see the numbers and ids: mala logs list; mala logs list evidence; mala logs list runs"));
    }
    let events = masked(events);
    context.ui.answer(&json!({ "events": events }), |out| {
        events.iter().try_for_each(|event| write_whole(out, event))
    })
}

fn cmd_tail(args: &TailArgs, context: &Context) -> Result<(), CliError> {
    let mut store = open(&context.scope()?)?;
    let mut filter = args.filter.resolve(&store, args.lines)?;
    loop {
        let seen = store.data_version()?;
        let events = masked(store.events(&filter)?);
        if context.ui.json {
            events.iter().try_for_each(|event| context.ui.json_line(event))?;
        } else {
            context.ui.answer(&Value::Null, |out| write_events(out, &events))?;
        }
        if !args.follow {
            return Ok(());
        }
        filter.after = events.last().map(|event| event.seq).or(filter.after);
        filter.limit = None;
        while store.data_version()? == seen {
            context.pause(FOLLOW_PAUSE)?;
        }
    }
}

/// Older events were not masked when they were written.
fn masked(mut events: Vec<Event>) -> Vec<Event> {
    events.iter_mut().for_each(|event| mask_json(&mut event.detail));
    events
}

fn write_events(out: &mut dyn Write, events: &[Event]) -> io::Result<()> {
    for event in events {
        let time = event.at.to_string();
        let agent = event.agent.as_deref().map(plain).unwrap_or_default();
        let path = event.path.as_deref().map(plain).unwrap_or_default();
        writeln!(out, "{DIM}{:>6}  {time}{DIM:#}  {:<16}  {agent:<16}  {path}", event.seq, event.kind)?;
    }
    Ok(())
}

fn write_whole(out: &mut dyn Write, event: &Event) -> io::Result<()> {
    write_events(out, std::slice::from_ref(event))?;
    let named = [("lock", &event.lock), ("issue", &event.issue), ("run", &event.run)];
    for (name, value) in named {
        if let Some(value) = value {
            writeln!(out, "        {name}: {}", plain(value))?;
        }
    }
    for (name, value) in event.detail.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null())
    {
        writeln!(out, "        {name}: {}", plain(value))?;
    }
    Ok(())
}

fn cmd_verify(args: &VerifyArgs, context: &Context) -> Result<Code, CliError> {
    if args.accept && context.supervised.is_some() {
        return Err(CliError::refused("`--accept` is a person's decision, not an agent's"));
    }
    let (mut lines, mut torn, mut logs) = (0_u64, 0, 0_u64);
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    let mut broken = Vec::new();
    for checked in evidence::verify_all(&mut store, &scope)? {
        match checked.outcome {
            Ok(Verified { lines: found, torn: parts, .. }) => {
                lines += found;
                torn += parts.len();
                logs += 1;
            }
            Err(AnchorError::Log(ChainError::Broken(_))) if args.accept => {
                accept(context, &mut store, &scope, &checked.log)?;
                logs += 1;
            }
            Err(AnchorError::Log(ChainError::Broken(why))) => broken.push((why, checked.remedy)),
            Err(error) => return Err(CliError::failed(error).hint(checked.remedy)),
        }
    }
    if let Some((first, _)) = broken.first() {
        let all: Vec<Value> = broken
            .iter()
            .map(|(why, _)| json!({ "file": why.file, "line": why.line, "why": why.to_string() }))
            .collect();
        let body = json!({
            "intact": false, "file": first.file, "line": first.line, "why": first.to_string(), "broken": all,
        });
        context.ui.answer(&body, |_| Ok(()))?;
        broken.iter().for_each(|(why, _)| context.ui.note("broken", RED, &why.to_string()));
        let mut remedies: Vec<&str> = broken.iter().map(|(_, remedy)| remedy.as_str()).collect();
        remedies.dedup();
        remedies.iter().for_each(|remedy| context.ui.hint(remedy));
        return Ok(Code::from(REFUSED));
    }
    let damaged = output::look(&scope, u64::MAX).map_err(CliError::failed)?.damaged;
    if let Some(first) = damaged.first() {
        let body = json!({ "intact": false, "file": first.file(), "line": null, "why": first.to_string() });
        context.ui.answer(&body, |_| Ok(()))?;
        damaged.iter().for_each(|damage| context.ui.note("broken", RED, &damage.to_string()));
        context.ui.hint(evidence::IF_DAMAGED);
        return Ok(Code::from(REFUSED));
    }
    context.ui.answer(&json!({ "intact": true, "lines": lines, "torn": torn, "logs": logs }), |out| {
        let some = |count, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        writeln!(out, "intact: {} in {}", some(lines, "record"), some(logs, "log"))?;
        match torn {
            0 => Ok(()),
            1 => writeln!(out, "1 record was cut off when its writer was killed; it counts for nothing"),
            torn => writeln!(
                out,
                "{torn} records were cut off when their writers were killed; they count for nothing"
            ),
        }
    })?;
    Ok(Code::SUCCESS)
}

/// Takes a log as it is. One whose own lines do not fit together stays broken: it has to be put aside first.
fn accept(context: &Context, store: &mut Store, scope: &Scope, log: &Path) -> Result<(), CliError> {
    anchoring::accept(store, scope, log, "mala logs verify --accept").map_err(|error| {
        CliError::refused(error).hint(format!(
            "its lines do not fit together; put it aside first: mv {0} {0}.broken",
            word(log.as_os_str().as_bytes())
        ))
    })?;
    context.ui.warning(&format!("`{}` is taken as it is now", plain(log.display())));
    Ok(())
}
