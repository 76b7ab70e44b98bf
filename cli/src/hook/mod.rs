//! Hook calls of agent clients, decided by the store.
//!
//! The reservation is the decision: what a call would write is taken for its session, all or none, and the client is told yes
//! or no with the reason. Under `mala exec` the kernel has the last word, so what cannot be known passes; elsewhere an
//! unknown writer is looked at again when it has run.

mod audit;
mod before;
mod identity;
mod news;
mod places;
mod session;
mod waiting;

use mala_agents::{Answer, Event, HookCall};

use crate::context::Context;
use crate::error::CliError;
pub(crate) use identity::{client_process, join};
use places::Places;

/// What to say to one call.
pub(crate) fn answer(call: &HookCall, context: &Context) -> Result<Answer, CliError> {
    let mut places = Places::of(call, context)?;
    match (&call.event, &call.tool) {
        (Event::BeforeTool, Some(tool)) => return before::judge(&mut places, tool),
        (Event::AfterTool | Event::AfterToolFailed, Some(tool)) => return audit::review(&mut places, tool),
        _ => {}
    }
    // Outside a checkout there is nothing to keep apart.
    let Some(session) = places.home()? else { return Ok(Answer::Continue) };
    match call.event {
        Event::SessionStart => session.welcome(),
        Event::PromptSubmit => session.prompted(),
        Event::Stop => session.stop(),
        Event::SessionEnd => session.end(),
        _ => Ok(Answer::Continue),
    }
}
