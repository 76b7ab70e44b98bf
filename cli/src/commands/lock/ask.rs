use std::ffi::OsString;

use clap::Args;
use mala_config::Settings;
use mala_core::{Ask, Conflict, Lock, Mode, Timestamp, Urgency};
use mala_session::{AskResult, ask, wait_for_asked};
use mala_store::{AskFilter, AskRequest, Cause, Outcome, Refusal, Store, show_circle};
use serde_json::json;

use super::{explain_conflicts, patience, write_locks};
use crate::context::{Caller, Context, Paths, open};
use crate::error::{CliError, Code, REFUSED};
use crate::json;
use crate::ui::{RED, YELLOW, plain, span};

/// Ask the holder of a file to give it up
///
/// The holder hears it at its next step, answers with `mala lock answer`, and what it releases is yours at once. A file that
/// nobody holds is locked right away. Asking twice is asking once; with `--urgent` it becomes urgent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock ask src/main.rs --why 'bd-12 needs the new option in it'
  mala lock ask src/main.rs --why 'the build is broken' --urgent --wait 5m")]
pub(crate) struct AskArgs {
    /// File, folder or pattern such as 'src/**' (quote it)
    #[arg(value_name = "PATH")]
    path: OsString,
    #[command(flatten)]
    caller: Caller,
    /// What it is needed for, for the holder to read
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Overdue sooner
    #[arg(long)]
    urgent: bool,
    /// Wait for so long until it is yours
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
    /// Allow others to share it; nobody may write
    #[arg(long)]
    shared: bool,
    /// Take every character of the path for itself, also `*`, `?` and `[`
    #[arg(long)]
    literal: bool,
}

pub(super) fn cmd_ask(args: &AskArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let patience = patience(args.wait.as_deref(), &settings)?;
    let mut store = open(&scope)?;
    store.escalate_due()?;
    let request = args.request(context, &settings, &mut store)?;
    let asked = ask(&scope, &mut store, &request)?;
    match (asked, patience) {
        (AskResult::Granted(locks), _) => granted(context, &mut store, &request, &locks),
        (AskResult::Asked(asks), None) => {
            let body = json!({ "asks": json::asks(&asks, store.now()), "granted": [] });
            context.ui.answer(&body, |out| {
                asks.iter().try_for_each(|ask| writeln!(out, "asked {}", receipt(ask, Timestamp::now())))
            })?;
            Ok(Code::SUCCESS)
        }
        (AskResult::Asked(asks), Some(patience)) => {
            for ask in &asks {
                context.ui.note("asked", YELLOW, &receipt(ask, Timestamp::now()));
            }
            let remind = |conflict: &Conflict| {
                let (path, holder) = (plain(&conflict.want.target), &conflict.holder.agent);
                context.ui.note("waiting", YELLOW, &format!("for `{path}`, held by `{holder}`"));
            };
            let patience = (patience, context.asker_process());
            match wait_for_asked(&scope, &mut store, &request, patience, remind)? {
                Outcome::Granted(locks) => granted(context, &mut store, &request, &locks),
                Outcome::Refused(refusal) => refused(context, &mut store, &request, &refusal),
            }
        }
    }
}

impl AskArgs {
    fn request(
        &self,
        context: &Context,
        settings: &Settings,
        store: &mut Store,
    ) -> Result<AskRequest, CliError> {
        if self.why.trim().is_empty() {
            return Err(CliError::usage("the reason is empty: say what it is needed for"));
        }
        let mode = if self.shared { Mode::Shared } else { Mode::Exclusive };
        let paths = Paths { paths: vec![self.path.clone()], literal: self.literal };
        let want = context.wants(&context.scope()?, &paths, mode)?.remove(0);
        let (urgency, due_in) = match self.urgent {
            true => (Urgency::Urgent, settings.asks.urgent),
            false => (Urgency::Normal, settings.asks.due),
        };
        let party = self.caller.party(context, store, None, None)?;
        Ok(AskRequest { party, want, ttl: settings.lock.ttl, why: self.why.clone(), urgency, due_in })
    }
}

/// "`ann` for `a` (ask x1y2), due in 10m".
fn receipt(ask: &Ask, now: Timestamp) -> String {
    let due = match ask.is_overdue(now) {
        true => {
            format!("overdue for {}; if it is gone: mala lock take {}", span(now.since(ask.due_at)), ask.id)
        }
        false => format!("due in {}", span(ask.due_at.since(now))),
    };
    format!("`{}` for `{}` (ask {}), {due}", ask.holder, plain(&ask.want.target), ask.id)
}

fn granted(
    context: &Context,
    store: &mut Store,
    request: &AskRequest,
    locks: &[Lock],
) -> Result<Code, CliError> {
    let asks = own_asks(store, request)?;
    let body = json!({ "asks": json::asks(&asks, store.now()), "granted": json::locks(locks) });
    context.ui.answer(&body, |out| write_locks(out, "locked", locks))?;
    Ok(Code::SUCCESS)
}

fn refused(
    context: &Context,
    store: &mut Store,
    request: &AskRequest,
    refusal: &Refusal,
) -> Result<Code, CliError> {
    let (cause, circle) = match &refusal.cause {
        Cause::Held => ("held", None),
        Cause::TimedOut | Cause::GivenUp => ("timeout", None),
        Cause::Deadlock(circle) => ("deadlock", Some(circle)),
    };
    let asks = own_asks(store, request)?;
    let body = json!({
        "asks": json::asks(&asks, store.now()), "granted": [], "conflicts": json::conflicts(&refusal.conflicts),
        "cause": cause, "deadlock": circle,
    });
    context.ui.answer(&body, |_| Ok(()))?;
    explain_conflicts(&context.ui, &refusal.conflicts);
    match &refusal.cause {
        Cause::Deadlock(circle) => {
            let text = format!("waiting would never end, each waits for the next: {}", show_circle(circle));
            context.ui.note("deadlock", RED, &text);
            context.ui.hint("the ask stays; release what others wait for first: mala lock list");
        }
        Cause::Held => context.ui.hint("the ask stays; whoever runs a test does not wait for files"),
        Cause::TimedOut | Cause::GivenUp => {
            context.ui.hint("the ask stays; see how it goes on: mala lock asks --mine");
        }
    }
    Ok(Code::from(REFUSED))
}

/// What this agent still asks for about this very thing.
fn own_asks(store: &mut Store, request: &AskRequest) -> Result<Vec<Ask>, CliError> {
    let filter = AskFilter { asker: Some(request.party.agent.clone()), ..Default::default() };
    let is_meant = |ask: &Ask| ask.want.target == request.want.target;
    Ok(store.asks(&filter)?.into_iter().filter(is_meant).collect())
}
