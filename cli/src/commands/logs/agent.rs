//! `mala logs -f AGENT`: what an agent of a run does, as its client tells it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use mala_agents::start::Kind;
use mala_agents::stream::{Progress, Reader, Usage};
use mala_core::{Attempt, IssueId, Scope};
use mala_engine::Profiles;
use mala_engine::session::agent_log;
use mala_logs::secrets::mask;
use mala_store::Store;
use serde_json::json;

use super::{FOLLOW_PAUSE, runs};
use crate::context::{Context, open};
use crate::error::CliError;
use crate::ui::plain;

/// An agent is looked for in so many of the last runs.
const MAX_RUNS: u32 = 100;

pub(super) fn cmd_follow(name: &str, context: &Context) -> Result<(), CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    let attempt = find(&mut store, &scope, name)?.ok_or_else(|| unknown(name))?;
    let (kind, model) = client(&scope, &attempt, context)?;
    let mut reader = Reader::new(kind, model.as_deref(), Usage::default());
    let path = agent_log(&runs::folder(&scope), &attempt);
    let (mut log, mut line) = (None, Vec::new());
    loop {
        // Asked first: what is written before the end is still read.
        let is_over = is_over(&mut store, &attempt)?;
        if log.is_none() {
            log = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                file => Some(BufReader::new(file.map_err(CliError::failed)?)),
            };
        }
        if let Some(log) = &mut log {
            while log.read_until(b'\n', &mut line).map_err(CliError::failed)? > 0 {
                if line.pop_if(|last| *last == b'\n').is_none() && !is_over {
                    // The rest of it comes.
                    break;
                }
                for progress in reader.line(&line) {
                    show(&attempt, &progress, context)?;
                }
                line.clear();
            }
        }
        if is_over {
            return Ok(());
        }
        context.pause(FOLLOW_PAUSE)?;
    }
}

fn show(attempt: &Attempt, progress: &Progress, context: &Context) -> Result<(), CliError> {
    let Progress::Doing(what) = progress else { return Ok(()) };
    let what = mask(what);
    match context.ui.json {
        true => {
            context.ui.json_line(&json!({ "agent": attempt.agent, "issue": attempt.issue, "what": what }))
        }
        false => context.ui.answer(&(), |out| writeln!(out, "{}", plain(&what))),
    }
}

/// The newest attempt of this agent, or at this issue.
fn find(store: &mut Store, scope: &Scope, name: &str) -> Result<Option<Attempt>, CliError> {
    if let Ok(issue) = IssueId::new(name)
        && let Some(attempt) = store.attempts(&issue)?.pop()
    {
        return Ok(Some(attempt));
    }
    for run in runs::list(store, scope, None, MAX_RUNS)?.iter().rev() {
        let attempts = store.attempts_of_run(run.id())?;
        if let Some(attempt) = attempts.into_iter().find(|attempt| attempt.agent.as_str() == name) {
            return Ok(Some(attempt));
        }
    }
    Ok(None)
}

fn unknown(name: &str) -> CliError {
    CliError::usage(format!(
        "no agent of a run is called `{}`, and no attempt was made at such an issue",
        plain(name)
    ))
    .hint("see who is at work: mala status; see the last runs: mala logs list runs")
}

/// How to understand what its client prints.
fn client(scope: &Scope, attempt: &Attempt, context: &Context) -> Result<(Kind, Option<String>), CliError> {
    let settings = context.settings(scope, Vec::new())?;
    let profiles = Profiles::load(&settings, None)?;
    let known = attempt.profile.as_deref().and_then(|name| profiles.named(name));
    Ok(known.map_or((Kind::Command, None), |(profile, _)| (profile.kind, profile.model.clone())))
}

fn is_over(store: &mut Store, attempt: &Attempt) -> Result<bool, CliError> {
    let now = store.attempt(attempt.id)?;
    let is_of_current = store.current_run()?.is_some_and(|run| run.id == attempt.run);
    Ok(now.ended_at.is_some() || !is_of_current)
}
