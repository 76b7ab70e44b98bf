//! Hook calls of agent clients, decided by the store.
//!
//! The reservation is the decision: what a call would write is taken for its session, all or none, and the client is told yes
//! or no with the reason. Under `mala exec` the kernel has the last word, so what cannot be known passes; elsewhere an
//! unknown writer is looked at again when it has run.

mod audit;
mod before;
mod identity;
mod news;
mod session;
mod waiting;

use mala_agents::{Answer, Event, HookCall};
use mala_core::Scope;
use mala_core::scope::ScopeError;

use crate::context::Context;
use crate::error::CliError;
pub(crate) use identity::{client_process, join};
use session::Session;

/// What to say to one call.
pub(crate) fn answer(call: &HookCall, context: &Context) -> Result<Answer, CliError> {
    let scope = match Scope::discover(&call.cwd) {
        // Outside a checkout there is nothing to keep apart.
        Err(ScopeError::NotARepository { .. } | ScopeError::Bare { .. }) => return Ok(Answer::Continue),
        found => found?,
    };
    // What an agent does in another checkout than its own is between it and that one's agents: its supervisor, which answers
    // here, does not touch what it finds there.
    if context.supervised.as_ref().is_some_and(|supervised| *supervised.guard.scope() != scope) {
        return Ok(Answer::Continue);
    }
    let mut session = Session::open(call, context, scope)?;
    match (&call.event, &call.tool) {
        (Event::BeforeTool, Some(tool)) => before::judge(&mut session, tool),
        (Event::AfterTool | Event::AfterToolFailed, Some(tool)) => audit::review(&mut session, tool),
        (Event::SessionStart, _) => session.welcome(),
        (Event::PromptSubmit, _) => session.prompted(),
        (Event::Stop, _) => session.stop(),
        (Event::SessionEnd, _) => session.end(),
        _ => Ok(Answer::Continue),
    }
}
