//! `mala logs`: what happened.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use mala_config::parse_duration;
use mala_gate::EvidenceLog;
use mala_logs::chain::{ChainError, Verified};
use mala_store::{Event, EventFilter, EventKind, Store};
use serde_json::{Value, json};

use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::ui::{DIM, RED, plain};

/// How often `tail --follow` asks whether there is anything new; the question costs microseconds.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

/// Read what happened: every lock taken, refused, given back or lost
#[derive(Debug, Subcommand)]
pub(crate) enum LogsCommand {
    List(ListArgs),
    Show(ShowArgs),
    Tail(TailArgs),
    Verify(VerifyArgs),
}

/// List events, oldest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala logs list --since 1h
  mala logs list --agent alice --kind lock.refused")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only the newest N
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// Show one event whole, or the story of a lock
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala logs show 42
  mala logs show k3x9q2")]
pub(crate) struct ShowArgs {
    /// Number of an event, or id of a lock
    id: String,
}

/// Check that nobody has changed the evidence
///
/// Every line of the evidence log holds a hash of the one before. A line that was changed, removed, inserted or cut off is
/// named.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala logs verify")]
pub(crate) struct VerifyArgs {}

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
    /// Only events of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only events of this kind, e.g. lock.refused
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(EventKind::ALL.iter().map(|k| k.as_str())))]
    kind: Option<String>,
    /// Only events of the last so much time, e.g. 1h
    #[arg(long, value_name = "DURATION")]
    since: Option<String>,
}

impl FilterArgs {
    fn resolve(&self, store: &Store, limit: u32) -> Result<EventFilter, CliError> {
        let since =
            self.since.as_deref().map(parse_duration).transpose()?.map(|span| store.now().minus(span));
        let (agent, kind) = (self.agent.clone(), self.kind.clone());
        Ok(EventFilter { since, agent, kind, limit: Some(limit), ..EventFilter::default() })
    }
}

pub(crate) fn run(command: LogsCommand, context: &Context) -> Result<Code, CliError> {
    match command {
        LogsCommand::List(args) => cmd_list(&args, context)?,
        LogsCommand::Show(args) => cmd_show(&args, context)?,
        LogsCommand::Verify(_) => return cmd_verify(context),
        LogsCommand::Tail(args) => cmd_tail(&args, context)?,
    }
    Ok(Code::SUCCESS)
}

fn cmd_list(args: &ListArgs, context: &Context) -> Result<(), CliError> {
    let mut store = open(&context.scope()?)?;
    let filter = args.filter.resolve(&store, args.limit)?;
    let events = store.events(&filter)?;
    context.ui.answer(&json!({ "events": events }), |out| match events.as_slice() {
        [] => writeln!(out, "no events"),
        events => write_events(out, events),
    })
}

fn cmd_show(args: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let mut store = open(&context.scope()?)?;
    let mut events = store.events(&EventFilter { lock: Some(args.id.clone()), ..EventFilter::default() })?;
    if events.is_empty()
        && let Ok(seq) = args.id.parse()
    {
        events.extend(store.event(seq)?);
    }
    if events.is_empty() {
        let message = format!("no event or lock is called `{}`", plain(&args.id));
        return Err(CliError::usage(message).hint("see the numbers and ids: mala logs list"));
    }
    context.ui.answer(&json!({ "events": events }), |out| {
        events.iter().try_for_each(|event| write_whole(out, event))
    })
}

fn cmd_tail(args: &TailArgs, context: &Context) -> Result<(), CliError> {
    let mut store = open(&context.scope()?)?;
    let mut filter = args.filter.resolve(&store, args.lines)?;
    loop {
        let seen = store.data_version()?;
        let events = store.events(&filter)?;
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
            thread::sleep(FOLLOW_PAUSE);
        }
    }
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

fn cmd_verify(context: &Context) -> Result<Code, CliError> {
    let log = EvidenceLog::of(&context.scope()?);
    match log.verify() {
        Ok(Verified { lines, torn, .. }) => {
            let path = log.path().display().to_string();
            context.ui.answer(&json!({ "intact": true, "lines": lines, "torn": torn.len() }), |out| {
                writeln!(out, "intact: {lines} records in {}", plain(&path))?;
                match torn.len() {
                    0 => Ok(()),
                    count => writeln!(
                        out,
                        "{count} records were cut off when their writers were killed; they count for nothing"
                    ),
                }
            })?;
            Ok(Code::SUCCESS)
        }
        Err(ChainError::Broken(broken)) => {
            let body = json!({ "intact": false, "file": broken.file, "line": broken.line, "why": broken.to_string() });
            context.ui.answer(&body, |_| Ok(()))?;
            context.ui.note("broken", RED, &broken.to_string());
            context.ui.hint("what stands from there on proves nothing: run the tests again");
            Ok(Code::from(REFUSED))
        }
        Err(error) => Err(CliError::failed(error)),
    }
}
