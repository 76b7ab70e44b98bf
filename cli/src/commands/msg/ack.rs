use clap::Args;
use mala_core::MessageId;
use serde_json::json;

use super::{Correspondent, parse_message_id};
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::json::{self, LetterJson};
use crate::ui::{plain, span, table};

/// Say that you took note of a message
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala msg ack 42")]
pub(crate) struct AckArgs {
    /// The message
    #[arg(value_name = "ID", value_parser = parse_message_id)]
    id: MessageId,
    #[command(flatten)]
    caller: Correspondent,
}

/// Show who has not acknowledged in time, longest overdue first
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala msg overdue")]
pub(crate) struct OverdueArgs {}

pub(super) fn cmd_ack(args: &AckArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let who = args.caller.who(context, &mut store)?;
    let letter = store.ack(&who, args.id)?;
    context.ui.answer(&json!({ "message": LetterJson::new(&letter, store.now()) }), |out| {
        writeln!(out, "`{}` knows that you took note", plain(letter.message.from.name()))
    })?;
    Ok(Code::SUCCESS)
}

pub(super) fn cmd_overdue(_args: &OverdueArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let (overdue, now) = (store.overdue_acks()?, store.now());
    context.ui.answer(&json!({ "messages": json::letters(&overdue, now) }), |out| {
        if overdue.is_empty() {
            return writeln!(out, "everything was acknowledged in time");
        }
        let rows: Vec<_> = overdue
            .iter()
            .map(|letter| {
                let message = &letter.message;
                let first = message.body.as_str().lines().next().unwrap_or_default();
                [
                    message.id.to_string(),
                    plain(message.from.name()),
                    plain(letter.to.name()),
                    plain(&message.thread),
                    span(now.since(message.at)),
                    plain(first),
                ]
            })
            .collect();
        table(out, ["ID", "FROM", "TO", "THREAD", "SENT", "MESSAGE"], &rows)
    })?;
    Ok(Code::SUCCESS)
}
