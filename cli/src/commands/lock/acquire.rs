use std::time::{Duration, Instant};

use clap::Args;
use mala_config::Override;
use mala_core::{Conflict, IssueId, Mode, Scope};
use mala_gate::claim;
use mala_logs::telemetry::{LockResult, WaitResult, metrics, spans};
use mala_session::refusal::{self, Reader};
use mala_session::{acquire, acquire_or_wait, with_groups};
use mala_store::{Cause, Outcome, Refusal, Request, Wait, show_circle};
use serde_json::json;

use super::{explain_conflicts, patience, write_locks};
use crate::context::{Caller, Context, Paths};
use crate::error::{CliError, Code, REFUSED};
use crate::json;
use crate::ui::{RED, plain, span};

/// Lock files, all or none
///
/// A lock lives as long as the process behind it, at most for its lease. A name that exists is that file; otherwise
/// `*`, `?`, `[...]` and `**` make it a pattern. A folder means everything below it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock acquire src/main.rs --agent alice
  mala lock acquire 'src/**' Cargo.toml --agent alice --issue bd-12
  mala lock acquire README.md --agent bob --wait 5m")]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    paths: Paths,
    #[command(flatten)]
    caller: Caller,
    /// Allow others to share it; nobody may write
    #[arg(long)]
    shared: bool,
    /// Lease, e.g. 10m [default: `lock.ttl` of the settings, 30m]
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// Queue for so long if something is held, first come first served
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
    /// Why, for others to read
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Issue that is worked on
    #[arg(long, value_name = "ID")]
    issue: Option<IssueId>,
    /// Process the lock lives with [default: the session this command was started from]
    #[arg(long, value_name = "PID")]
    owner_pid: Option<u32>,
}

pub(super) fn cmd_acquire(args: AcquireArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, args.overrides())?;
    let patience = patience(args.wait.as_deref(), &settings)?;
    let mode = if args.shared { Mode::Shared } else { Mode::Exclusive };
    let mut store = context.store(&scope)?;
    let request = Request {
        wants: with_groups(&scope, &settings.lock_groups(), context.wants(&scope, &args.paths, mode)?),
        party: args.caller.party(context, &mut store, args.owner_pid, args.issue)?,
        ttl: settings.lock.ttl,
        reason: args.reason,
    };
    let (began, mut has_waited) = (Instant::now(), false);
    let outcome = match patience {
        Some(patience) => {
            let wait = Wait { longest: patience, on_behalf_of: context.asker_process(), remind_every: None };
            let targets: Vec<String> = request.wants.iter().map(|want| plain(&want.target)).collect();
            let span =
                context.span().in_scope(|| spans::lock_wait(&request.party.agent, &targets.join(", ")));
            let _waiting = span.entered();
            acquire_or_wait(&scope, &mut store, &request, wait, |conflicts| {
                has_waited = true;
                say_waiting(context, patience, conflicts);
            })?
        }
        None => acquire(&scope, &mut store, &request)?,
    };
    claim::note(&mut store, &scope, &request.party)?;
    count(&outcome, has_waited.then(|| began.elapsed()));
    match outcome {
        Outcome::Granted(locks) => {
            let body = json!({ "granted": json::locks(&locks), "conflicts": [] });
            context.ui.answer(&body, |out| write_locks(out, "locked", &locks))?;
            Ok(Code::SUCCESS)
        }
        Outcome::Refused(refusal) => {
            let taken = |conflict: &Conflict| refusal::taken(&mut store, &request.party.agent, conflict);
            let taken: Vec<String> = refusal.conflicts.iter().filter_map(taken).collect();
            refused(context, &scope, &refusal, &taken, patience)
        }
    }
}

/// Tells the collector, if there is one, how it went and how long it took to wait.
fn count(outcome: &Outcome, waited: Option<Duration>) {
    metrics().lock_try(LockResult::from(matches!(outcome, Outcome::Granted(_))));
    let ended = match outcome {
        Outcome::Granted(_) => WaitResult::Granted,
        Outcome::Refused(Refusal { cause: Cause::Deadlock(_), .. }) => WaitResult::Deadlock,
        // It was not let into the queue at all.
        Outcome::Refused(Refusal { cause: Cause::Held, .. }) => return,
        Outcome::Refused(_) => WaitResult::TimedOut,
    };
    if let Some(waited) = waited {
        metrics().lock_wait(waited, ended);
    }
}

impl AcquireArgs {
    fn overrides(&self) -> Vec<Override> {
        let ttl = self.ttl.iter();
        ttl.map(|ttl| Override { key: "lock.ttl".into(), value: ttl.clone(), typed: format!("--ttl {ttl}") })
            .collect()
    }
}

fn say_waiting(context: &Context, patience: Duration, conflicts: &[Conflict]) {
    if let Some(Conflict { want, holder }) = conflicts.first() {
        let text =
            format!("up to {} for `{}`, held by `{}`", span(patience), plain(&want.target), holder.agent);
        context.ui.note("waiting", crate::ui::YELLOW, &text);
    }
}

fn refused(
    context: &Context,
    scope: &Scope,
    refusal: &Refusal,
    taken: &[String],
    patience: Option<Duration>,
) -> Result<Code, CliError> {
    let ui = &context.ui;
    let (cause, circle) = match &refusal.cause {
        Cause::Held => ("held", None),
        Cause::TimedOut | Cause::GivenUp => ("timeout", None),
        Cause::Deadlock(circle) => ("deadlock", Some(circle)),
    };
    let conflicts = json::conflicts(&refusal.conflicts);
    let body = json!({ "granted": [], "conflicts": conflicts, "cause": cause, "deadlock": circle });
    ui.answer(&body, |_| Ok(()))?;
    explain_conflicts(ui, &refusal.conflicts);
    taken.iter().for_each(|text| ui.note("taken", RED, text));
    match (&refusal.cause, patience) {
        (Cause::Held, None) => {
            let reader = Reader::new(scope, &context.here);
            let ask = |conflict: &Conflict| format!("ask for it: {}; ", reader.ask(refusal::named(conflict)));
            let ask = refusal.conflicts.first().map(ask).unwrap_or_default();
            ui.hint(&format!("{ask}queue for it with `--wait 5m`, or see who works on what: mala status"));
        }
        (Cause::Held, Some(_)) => {
            ui.hint("an agent that holds a named lock does not queue for files: release it first");
        }
        (Cause::TimedOut | Cause::GivenUp, _) => ui.hint("nothing was taken; see who holds it: mala status"),
        (Cause::Deadlock(circle), _) => {
            let text = format!("waiting would never end, each waits for the next: {}", show_circle(circle));
            ui.note("deadlock", RED, &text);
            ui.hint("release what others wait for first: mala lock list");
        }
    }
    Ok(Code::from(REFUSED))
}
