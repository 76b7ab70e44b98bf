use std::time::Duration;

use clap::{Args, ValueEnum};
use mala_core::{Ask, AskId, AskState, Timestamp};
use mala_session::answer_release;
use mala_store::Answered;
use serde_json::json;

use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};
use crate::json::{self, AskJson};
use crate::typed::duration;
use crate::ui::{plain, span};

/// How much longer a holder needs a file, unless it says so.
const ETA: &str = "10m";

/// Answer somebody who asks for a file of yours
///
/// `release` hands the lock straight to whoever asked; `defer` says how much longer you need it, once and for at most an hour.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala lock answer x1y2 release
  mala lock answer x1y2 defer --eta 20m")]
pub(crate) struct AnswerArgs {
    /// The ask, as `mala lock asks` shows it
    #[arg(value_name = "ID")]
    id: String,
    /// `release` or `defer`; it may also stand before the ask
    #[arg(value_name = "ANSWER")]
    answer: String,
    #[command(flatten)]
    caller: Caller,
    /// How much longer it is needed [default: 10m]
    #[arg(long, value_name = "DURATION")]
    eta: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AnswerKind {
    Release,
    Defer,
}

impl AnswerArgs {
    /// Which ask, and what is said to it.
    fn read(&self) -> Result<(AskId, AnswerKind), CliError> {
        let kind = |word: &str| AnswerKind::from_str(word, false);
        let (id, kind) = match (kind(&self.answer), kind(&self.id)) {
            (Ok(answer), _) => (&self.id, answer),
            (_, Ok(answer)) => (&self.answer, answer),
            _ => {
                let message = format!("`{}` is no answer: say `release` or `defer`", plain(&self.answer));
                return Err(CliError::usage(message));
            }
        };
        Ok((AskId(id.clone()), kind))
    }
}

pub(super) fn cmd_answer(args: &AnswerArgs, context: &Context) -> Result<Code, CliError> {
    let (id, answer) = args.read()?;
    if answer == AnswerKind::Release && args.eta.is_some() {
        return Err(CliError::usage("`--eta` goes with `defer`: a released lock is not needed any longer"));
    }
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    let holder = args.caller.agent(context, &mut store)?;
    match answer {
        AnswerKind::Release => {
            let supervised = context.supervised.as_ref();
            let answered = answer_release(&scope, &mut store, supervised, &holder, &id)?;
            answer_released(context, &answered)
        }
        AnswerKind::Defer => {
            let eta = duration("--eta", args.eta.as_deref().unwrap_or(ETA))?;
            answer_deferred(context, &store.answer_defer(&holder, &id, eta)?, eta)
        }
    }
}

fn answer_released(context: &Context, answered: &Answered) -> Result<Code, CliError> {
    let Answered { ask, granted } = answered;
    let body = json!({ "ask": AskJson::new(ask, Timestamp::now()), "granted": json::locks(granted) });
    context.ui.answer(&body, |out| writeln!(out, "{}", outcome(ask, !granted.is_empty())))?;
    Ok(Code::SUCCESS)
}

fn outcome(ask: &Ask, is_granted: bool) -> String {
    let (path, asker) = (plain(&ask.want.target), &ask.asker);
    match ask.state {
        AskState::Moot => format!("`{asker}` does not need `{path}` any more"),
        _ if is_granted => format!("`{path}` belongs to `{asker}` now"),
        _ => format!("released `{path}`; something else is still in the way of `{asker}`"),
    }
}

fn answer_deferred(context: &Context, ask: &Ask, eta: Duration) -> Result<Code, CliError> {
    context.ui.answer(&json!({ "ask": AskJson::new(ask, Timestamp::now()), "granted": [] }), |out| {
        writeln!(
            out,
            "`{}` was told that you need `{}` for {}",
            ask.asker,
            plain(&ask.want.target),
            span(eta)
        )
    })?;
    Ok(Code::SUCCESS)
}
