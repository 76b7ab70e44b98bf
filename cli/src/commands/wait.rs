use std::time::{Duration, Instant};

use clap::Args;
use mala_core::{Fence, IssueId, RunId, Scope};
use mala_engine::source;
use mala_store::{EntryFilter, IssueEnd, Party, Store};
use serde_json::json;

use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::typed::duration;
use crate::ui::{GREEN, RED, YELLOW, plain, span};

/// How often the issue is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Wait until an issue has landed
///
/// An agent of a run says with it that it needs what the issue brings, and ends its turn: its session goes on when the issue has
/// landed or is given up. That costs no round. Everybody else waits here.
///
/// Exit codes: 0 if it has landed, or in a run if the wait is noted; 1 if it was handed over, is blocked, or the time is up, and in
/// a run if the other one waits for this one; 2 if there is no such issue.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala wait bd-3
  mala wait bd-3 --timeout 30m && make release")]
pub(crate) struct WaitArgs {
    /// The issue
    #[arg(value_name = "ISSUE")]
    issue: IssueId,
    /// Give up after DURATION [default: never; in a run `lock.max_wait`]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

pub(crate) fn cmd_wait(args: &WaitArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    let timeout = args.timeout.as_deref().map(|text| duration("--timeout", text)).transpose()?;
    must_exist(&args.issue, context, &scope)?;
    let since = store.newest_event()?;
    if let Some(end) = store.issue_end(&args.issue, since)? {
        return said(context, &args.issue, Some(&end), None);
    }
    match context.bound_party(&mut store)? {
        Some(party) if party.run.is_some() => park(context, &mut store, &party, &args.issue),
        _ => wait(context, &mut store, (&args.issue, since), timeout),
    }
}

fn must_exist(issue: &IssueId, context: &Context, scope: &Scope) -> Result<(), CliError> {
    let (source, _) = source::choose(scope, &context.settings(scope, Vec::new())?)?;
    source.show(issue).map_err(|error| CliError::from(mala_engine::EngineError::from(error)))?;
    Ok(())
}

/// Notes that an agent of a run waits: the run parks it when it ends its turn.
fn park(context: &Context, store: &mut Store, party: &Party, issue: &IssueId) -> Result<Code, CliError> {
    if party.issue.as_ref() == Some(issue) {
        return Err(CliError::refused(format!("{issue} is your own issue"))
            .hint("offer your work (mala commit -m 'what changes') and end your turn"));
    }
    store.wait_for_issue(&party.agent, issue)?;
    let run = party.run.as_ref().map(RunId::to_string);
    let body = json!({ "issue": issue, "state": "noted", "commit": null, "why": null, "run": run });
    context.ui.answer(&body, |out| {
        writeln!(out, "end your turn now: you are called again when {issue} has landed or is given up")?;
        writeln!(out, "your files stay yours, and it costs no round")
    })?;
    Ok(Code::SUCCESS)
}

fn wait(
    context: &Context,
    store: &mut Store,
    (issue, since): (&IssueId, Fence),
    timeout: Option<Duration>,
) -> Result<Code, CliError> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut told = None;
    loop {
        if let Some(end) = store.issue_end(issue, since)? {
            return said(context, issue, Some(&end), timeout);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return said(context, issue, None, timeout);
        }
        let stands = where_it_stands(store, issue)?;
        if told.as_ref() != Some(&stands) {
            context.ui.note("waiting", YELLOW, &format!("for {issue}, {stands}"));
            told = Some(stands);
        }
        context.pause(LOOK_AGAIN)?;
    }
}

fn where_it_stands(store: &mut Store, issue: &IssueId) -> Result<String, CliError> {
    let open = EntryFilter { issue: Some(issue.clone()), open: true, ..EntryFilter::default() };
    if let Some(entry) = store.entries(&open)?.pop() {
        return Ok(format!("which is in the landing queue ({})", entry.state));
    }
    let live = store.attempts(issue)?.pop().filter(|attempt| !attempt.state.is_over());
    Ok(match live {
        Some(attempt) => format!("which `{}` works on ({})", attempt.agent, attempt.state),
        None => "which nobody works on: mala run".to_owned(),
    })
}

fn said(
    context: &Context,
    issue: &IssueId,
    end: Option<&IssueEnd>,
    timeout: Option<Duration>,
) -> Result<Code, CliError> {
    let time_is_up = || format!("it has not within {}", timeout.map(span).unwrap_or_default());
    let (state, commit, why) = match end {
        Some(IssueEnd::Landed(commit)) => ("landed", commit.as_ref(), None),
        Some(IssueEnd::NotLanded(why)) => ("not_landed", None, Some(why.clone())),
        None => ("timeout", None, Some(time_is_up())),
    };
    let body = json!({ "issue": issue, "state": state, "commit": commit, "why": why, "run": null });
    context.ui.answer(&body, |out| match (&why, commit) {
        (None, Some(commit)) => writeln!(out, "{GREEN}landed{GREEN:#}: {issue} as {}", commit.short()),
        (None, None) => writeln!(out, "{GREEN}closed{GREEN:#}: {issue}"),
        (Some(why), _) => {
            writeln!(out, "{RED}not landed{RED:#}: {issue}, {}", plain(why))?;
            writeln!(out, "see more: mala issue show {issue}")
        }
    })?;
    Ok(if why.is_none() { Code::SUCCESS } else { Code(REFUSED) })
}
