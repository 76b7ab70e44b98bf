//! Waiting well: what becomes of an agent of a run that needs a file which somebody else holds.
//!
//! The file is asked for in the agent's name. Where its client can put a call off, the agent is parked right away: the client
//! exits, and the call is made again when it goes on. Elsewhere the agent is told to work on something else, or to end
//! its turn. The ask itself is the mark: an agent that ends its turn while an ask of it is pending waits for it, and
//! `mala run` goes on with its session when the file is its. Of agents that wait for each other in a circle one yields there.

use mala_agents::{Answer, Client, ToolCall};
use mala_core::text::plain;
use mala_core::{Urgency, Want};
use mala_store::{AskFilter, AskRequest};

use super::session::Session;
use crate::{AskResult, SessionError, ask};

/// What is added to a refusal for a client that cannot put a call off.
const ASKED: &str = "It was asked for in your name. Work on something else; when nothing else is left, end your turn: you are \
                     called again when it is yours.";

/// Asks for what a call needs. Nothing if it is the agent's by now.
pub(super) fn instead_of_denying(
    session: &mut Session<'_>,
    tool: &ToolCall,
    reason: String,
    wants: &[Want],
) -> Result<Option<Answer>, SessionError> {
    let deny = |reason| Ok(Some(Answer::Deny { reason }));
    if session.party.run.is_none() || wants.is_empty() {
        return deny(reason);
    }
    let mut is_held = false;
    for want in wants {
        let request = request(session, tool, want)?;
        is_held |= matches!(ask(&session.scope, &mut session.store, &request)?, AskResult::Asked(_));
    }
    if !is_held {
        return Ok(None);
    }
    // A call beside others, or of a sub-agent, cannot be put off; then the kernel must stand behind the answer.
    let can_park =
        session.call.client == Client::Claude && session.call.subagent.is_none() && session.is_enforced();
    if can_park {
        return Ok(Some(Answer::Defer { reason: format!("mala: {reason}") }));
    }
    deny(format!("{reason}. {ASKED}"))
}

fn request(session: &mut Session<'_>, tool: &ToolCall, want: &Want) -> Result<AskRequest, SessionError> {
    let issue = session.party.issue.as_ref().map(|issue| format!(" for {issue}")).unwrap_or_default();
    let settings = session.settings()?;
    let (ttl, due_in) = (settings.lock.ttl, settings.asks.due);
    Ok(AskRequest {
        party: session.party.clone(),
        want: want.clone(),
        ttl,
        why: format!("{} wants to write it{issue}", plain(&tool.name)),
        urgency: Urgency::Normal,
        due_in,
    })
}

/// True if an agent of a run has asked for something that nobody has given up yet, or has said that it waits for an issue.
pub(super) fn is_waiting(session: &mut Session<'_>) -> Result<bool, SessionError> {
    if session.party.run.is_none() {
        return Ok(false);
    }
    let mine = AskFilter { asker: Some(session.party.agent.clone()), ..AskFilter::default() };
    Ok(!session.store.asks(&mine)?.is_empty() || !session.store.issue_waits(&session.party.agent)?.is_empty())
}
