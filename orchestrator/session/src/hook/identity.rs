//! Which agent a hook call belongs to.
//!
//! A session is known by its client's process. Where one process has several conversations (an editor's server, for
//! example), each is an agent of its own, and the call says which one it is; sub-agents belong to the conversation that
//! started them. What is below a session's process but did not call directly belongs to that session, whatever it says.

use mala_agents::launch::is_injected;
use mala_agents::{Client, Event, HookCall};
use mala_core::AgentId;
use mala_store::process::Process;
use mala_store::{Party, Session, Store, process};

use super::HookContext;
use crate::{SessionError, session_name, sessions_above};

/// The agent behind a call; a session that is new here becomes one.
pub(super) fn agent_of(
    call: &HookCall,
    context: &HookContext<'_>,
    store: &mut Store,
) -> Result<Party, SessionError> {
    if let Some(supervised) = context.supervised {
        return Ok(supervised.party.clone());
    }
    let caller = client_process()?;
    let known = sessions_above(store)?;
    match place(call, &known, &caller) {
        Place::Known(session) => Ok(session.party.clone()),
        Place::Continues(session) => {
            if let Some(conversation) = call.conversation() {
                store.continue_session(&session.party.agent, conversation)?;
            }
            Ok(session.party.clone())
        }
        Place::New => join(call.client.name(), call.conversation(), &caller, store),
    }
}

/// Where a call belongs among the sessions above it.
enum Place<'a> {
    Known(&'a Session),
    /// The same session, which its client calls by a new name from now on.
    Continues(&'a Session),
    New,
}

fn place<'a>(call: &HookCall, known: &'a [Session], caller: &Process) -> Place<'a> {
    let Some(latest) = known.first() else { return Place::New };
    let Some(conversation) = call.conversation() else { return Place::Known(latest) };
    let is_same = |session: &&Session| session.conversation.as_deref() == Some(conversation);
    if let Some(session) = known.iter().find(is_same) {
        return Place::Known(session);
    }
    let is_nested = latest.party.owner != caller.owner();
    if is_nested || call.subagent.is_some() {
        return Place::Known(latest);
    }
    // Its client was known before it said which conversation this is.
    if let Some(session) = known.iter().find(|session| session.conversation.is_none()) {
        return Place::Continues(session);
    }
    match (&call.event, call.source.as_deref()) {
        (Event::SessionStart, Some("clear" | "compact" | "resume")) => Place::Continues(latest),
        _ => Place::New,
    }
}

/// Registers the client's process, or one conversation of it, as an agent.
pub fn join(
    profile: &str,
    conversation: Option<&str>,
    process: &Process,
    store: &mut Store,
) -> Result<Party, SessionError> {
    let given = std::env::var("MALA_AGENT").ok().filter(|name| !name.is_empty());
    let agent = match given {
        Some(name) => AgentId::new(name)?,
        None => session_name(process)?,
    };
    let party = Party { agent, owner: process.owner(), supervised: false, issue: None, run: None };
    let conversation = conversation.map(str::to_owned);
    Ok(store.join_session(&Session { party, conversation }, profile)?)
}

/// True if a run has started the client that calls this process with hooks of its own. Asked inside an agent's tree, where an
/// agent could only fool its own hooks.
pub fn is_client_injected(client: Client) -> bool {
    let Ok(process) = client_process() else { return false };
    let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", process.pid)).unwrap_or_default();
    is_injected(client, &read("cmdline"), &read("environ"))
}

/// The process of the client that has started this one.
pub fn client_process() -> Result<Process, SessionError> {
    process::session().ok_or(SessionError::NoClient)
}
