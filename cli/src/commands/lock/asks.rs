use std::convert::Infallible;
use std::io::{self, Write};

use clap::Args;
use mala_core::{Ask, AskId, AskState, Timestamp, Urgency};
use mala_store::AskFilter;
use serde_json::json;

use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};
use crate::json::{self, AskJson};
use crate::ui::{plain, span, table};

/// Show who asks whom for what
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock asks
  mala lock asks --mine --json")]
pub(crate) struct AsksArgs {
    /// Only those that you made or have to answer
    #[arg(long)]
    mine: bool,
    /// Also those that are over
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    caller: Caller,
}

/// Take back an ask
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock cancel x1y2")]
pub(crate) struct CancelArgs {
    /// The ask, as `mala lock asks` shows it
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: AskId,
    #[command(flatten)]
    caller: Caller,
}

/// Any text may name an ask; whether there is one is for the store to say.
#[expect(clippy::unnecessary_wraps, reason = "the shape that clap wants")]
pub(super) fn parse_id(text: &str) -> Result<AskId, Infallible> {
    Ok(AskId(text.to_owned()))
}

pub(super) fn cmd_asks(args: &AsksArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    store.escalate_due()?;
    let mut asks = store.asks(&AskFilter { ended: args.all, ..AskFilter::default() })?;
    if args.mine {
        let me = args.caller.agent(context, &mut store)?;
        asks.retain(|ask| ask.asker == me || ask.holder == me);
    }
    let now = store.now();
    context.ui.answer(&json!({ "asks": json::asks(&asks, now) }), |out| match asks.as_slice() {
        [] => writeln!(out, "nobody asks for anything"),
        asks => write_ask_table(out, asks, now),
    })?;
    Ok(Code::SUCCESS)
}

pub(super) fn cmd_cancel(args: &CancelArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let asker = args.caller.agent(context, &mut store)?;
    let ask = store.cancel_ask(&asker, &args.id)?;
    context.ui.answer(&json!({ "ask": AskJson::new(&ask, store.now()) }), |out| {
        writeln!(out, "`{}` need not give up `{}`", ask.holder, plain(&ask.want.target))
    })?;
    Ok(Code::SUCCESS)
}

/// Asks as a table.
pub(crate) fn write_ask_table(out: &mut dyn Write, asks: &[Ask], now: Timestamp) -> io::Result<()> {
    let rows: Vec<_> = asks
        .iter()
        .map(|ask| {
            [
                ask.id.to_string(),
                plain(&ask.want.target),
                plain(&ask.asker),
                plain(&ask.holder),
                state(ask, now),
                span(now.since(ask.created_at)),
                plain(&ask.why),
            ]
        })
        .collect();
    table(out, ["ASK", "PATH", "ASKER", "HOLDER", "STATE", "SINCE", "WHY"], &rows)
}

/// "open, due in 3m", "urgent, overdue for 2m", "deferred for 20m", "released".
fn state(ask: &Ask, now: Timestamp) -> String {
    let word = match (ask.state, ask.urgency) {
        (AskState::Open, Urgency::Urgent) => "urgent",
        (state, _) => state.as_str(),
    };
    match ask.state {
        AskState::Open | AskState::Deferred if ask.is_overdue(now) => {
            format!("{word}, overdue for {}", span(now.since(ask.due_at)))
        }
        AskState::Open => format!("{word}, due in {}", span(ask.due_at.since(now))),
        AskState::Deferred => format!("{word} for {}", span(ask.due_at.since(now))),
        AskState::Released | AskState::Taken | AskState::Moot | AskState::Cancelled => word.to_owned(),
    }
}
