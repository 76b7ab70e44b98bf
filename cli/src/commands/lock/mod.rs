//! `mala lock`: take, give back and look at locks.

mod acquire;
pub(crate) mod answer;
pub(crate) mod ask;
pub(crate) mod asks;
mod check;
pub(crate) mod hand_on;
mod holder;
mod list;
mod overlaps;
mod release;
mod renew;
mod take;
mod tenure;
mod transfer;

use std::io::{self, Write};
use std::time::Duration;

use clap::Subcommand;
use mala_config::Settings;
use mala_core::{AgentId, Conflict, Lock, Timestamp};
use mala_store::Renewed;
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Code, REFUSED};
use crate::json;
use crate::typed::duration;
use crate::ui::{RED, Ui, plain, span};

/// Take, give back and look at locks on files
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  mala lock acquire src/main.rs --agent alice
  mala lock list")]
pub(crate) enum LockCommand {
    Acquire(acquire::AcquireArgs),
    Release(release::ReleaseArgs),
    List(list::ListArgs),
    Holder(holder::HolderArgs),
    Check(check::CheckArgs),
    Renew(renew::RenewArgs),
    Transfer(transfer::TransferArgs),
    Overlaps(overlaps::OverlapsArgs),
    Ask(ask::AskArgs),
    Answer(answer::AnswerArgs),
    Take(take::TakeArgs),
    Cancel(asks::CancelArgs),
    Asks(asks::AsksArgs),
    #[command(hide = true)]
    HandOn(hand_on::HandOnArgs),
    #[command(hide = true)]
    Tenure(tenure::TenureArgs),
}

pub(crate) fn run(command: LockCommand, context: &Context) -> Result<Code, CliError> {
    match command {
        LockCommand::Acquire(args) => acquire::cmd_acquire(args, context),
        LockCommand::Release(args) => release::cmd_release(&args, context),
        LockCommand::List(args) => list::cmd_list(&args, context),
        LockCommand::Holder(args) => holder::cmd_holder(&args, context),
        LockCommand::Check(args) => check::cmd_check(&args, context),
        LockCommand::Renew(args) => renew::cmd_renew(&args, context),
        LockCommand::Transfer(args) => transfer::cmd_transfer(&args, context),
        LockCommand::HandOn(args) => hand_on::cmd_hand_on(&args, context),
        LockCommand::Tenure(args) => tenure::cmd_tenure(&args, context),
        LockCommand::Overlaps(args) => overlaps::cmd_overlaps(&args, context),
        LockCommand::Ask(args) => ask::cmd_ask(&args, context),
        LockCommand::Answer(args) => answer::cmd_answer(&args, context),
        LockCommand::Take(args) => take::cmd_take(&args, context),
        LockCommand::Cancel(args) => asks::cmd_cancel(&args, context),
        LockCommand::Asks(args) => asks::cmd_asks(&args, context),
    }
}

/// How long `--wait` says to wait.
fn patience(typed: Option<&str>, settings: &Settings) -> Result<Option<Duration>, CliError> {
    let Some(text) = typed else { return Ok(None) };
    let patience = duration("--wait", text)?;
    let longest = settings.lock.max_wait;
    if patience > longest {
        let message = format!("`--wait {text}` is longer than `lock.max_wait` allows ({})", span(longest));
        return Err(CliError::usage(message).hint("wait for less, or raise `max_wait` in `mala.toml`"));
    }
    Ok(Some(patience))
}

/// Says on stderr who is in the way.
fn explain_conflicts(ui: &Ui, conflicts: &[Conflict]) {
    for conflict in conflicts {
        ui.note("refused", RED, &sentence(conflict));
    }
}

/// "`a` is held by `alice` (issue x, shared, through `**`) for 3m".
fn sentence(conflict: &Conflict) -> String {
    let Conflict { want, holder } = conflict;
    let mut remarks = Vec::new();
    if let Some(issue) = &holder.issue {
        remarks.push(format!("issue {issue}"));
    }
    remarks.push(holder.mode.to_string());
    if holder.target != want.target {
        remarks.push(format!("through `{}`", plain(&holder.target)));
    }
    let reason = holder.reason.as_ref().map(|reason| format!(": {}", plain(reason))).unwrap_or_default();
    format!(
        "`{}` is held by `{}` ({}) for {}{reason}",
        plain(&want.target),
        holder.agent,
        remarks.join(", "),
        span(Timestamp::now().since(holder.acquired_at)),
    )
}

/// One line per lock, such as "locked `a` (exclusive, fence 7, for 30m)".
fn write_locks(out: &mut dyn Write, verb: &str, locks: &[Lock]) -> io::Result<()> {
    let now = Timestamp::now();
    for lock in locks {
        let left = span(lock.lease.expires_at.since(now));
        writeln!(out, "{verb} `{}` ({}, fence {}, for {left})", plain(&lock.target), lock.mode, lock.fence)?;
    }
    Ok(())
}

/// The answer of a command that changes all the locks it was asked for, or none.
fn answer_renewed(
    context: &Context,
    verb: &str,
    agent: &AgentId,
    renewed: &Renewed,
    text: impl FnOnce(&mut dyn Write, &[Lock]) -> io::Result<()>,
) -> Result<Code, CliError> {
    match renewed {
        Renewed::Done(locks) => {
            let body = json!({ verb: json::locks(locks), "not_held": [] });
            context.ui.answer(&body, |out| match locks.as_slice() {
                [] => writeln!(out, "`{agent}` holds nothing"),
                locks => text(out, locks),
            })?;
            Ok(Code::SUCCESS)
        }
        Renewed::NotHeld(wants) => {
            let missing: Vec<_> = wants.iter().map(|want| want.target.to_string()).collect();
            context.ui.answer(&json!({ verb: [], "not_held": missing }), |_| Ok(()))?;
            for want in wants {
                let text = format!("`{agent}` does not hold `{}` (any more)", plain(&want.target));
                context.ui.note("refused", RED, &text);
            }
            context.ui.hint("nothing was changed; see who holds what: mala lock list");
            Ok(Code::from(REFUSED))
        }
    }
}
