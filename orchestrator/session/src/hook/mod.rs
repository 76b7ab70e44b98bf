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
mod stale;
mod waiting;

use mala_agents::{Answer, Event, HookCall};
use mala_config::{ConfigError, Settings};
use mala_core::{Scope, Target};
use mala_store::{EventKind, Store};
use serde_json::json;

use crate::{SessionError, Supervised};
use places::Places;

pub use identity::{client_process, is_client_injected, join};

/// What a hook call is answered with the help of.
pub struct HookContext<'a> {
    /// Set inside an agent's tree: its supervisor answers.
    pub supervised: Option<&'a Supervised>,
    pub load_settings: &'a dyn Fn(&Scope) -> Result<Settings, ConfigError>,
    /// Hears which file was not handed on, and why.
    pub warn: &'a dyn Fn(&Target, &str),
}

impl std::fmt::Debug for HookContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookContext").field("supervised", &self.supervised).finish_non_exhaustive()
    }
}

/// Tells the run of a client, once, that its hooks are called.
fn note_first(call: &HookCall, context: &HookContext<'_>) {
    let Some(Supervised { party, guard, .. }) = context.supervised else { return };
    if call.event != Event::BeforeTool || party.run.is_none() || !guard.hear_hook() {
        return;
    }
    let detail = json!({ "client": call.client.name(), "supervisor": std::process::id() });
    // Without the note the run says that there are none, which is the better mistake.
    let _ = Store::open(guard.scope())
        .map(|mut store| store.record_fact(party, EventKind::HooksHeard, None, &detail));
}

/// What to say to one call.
pub fn answer(call: &HookCall, context: &HookContext<'_>) -> Result<Answer, SessionError> {
    note_first(call, context);
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
