//! When an agent took an issue on, and what was committed then: what was there before is not its work.
//!
//! `mala run` claims issues in the store. An agent that is started some other way takes its issue on when it first says
//! which one it is: with `--issue` of `mala exec`, `mala lock acquire` or `mala test`. Both leave the same event, so the
//! gate asks one question. An agent that never said is held to the time at which it became known.

use mala_core::{AgentId, Attempt, Fence, IssueId, Life, Scope};
use mala_git::{Oid, Repo};
use mala_store::{Agent, EventKind, Party, Store};
use serde_json::json;

use crate::judge::JudgeError;
use crate::rules::ClaimMoment;

/// The beginning of an agent's work on an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub moment: ClaimMoment,
    /// The last commit then; nothing in a repository without one, or if nobody noted it.
    pub head: Option<Oid>,
}

impl Claim {
    /// The first time since this agent became known that it took the issue on; else, when it became known.
    pub fn of(store: &mut Store, known: &Agent, issue: Option<&IssueId>) -> Result<Self, JudgeError> {
        let noted = match issue {
            Some(issue) => Self::noted(store, known, issue)?,
            None => None,
        };
        let event = joined(store, &known.party.agent)?;
        Ok(noted.unwrap_or(Self { moment: ClaimMoment { event, at: known.since }, head: None }))
    }

    fn noted(store: &mut Store, known: &Agent, issue: &IssueId) -> Result<Option<Self>, JudgeError> {
        let agent = &known.party.agent;
        let since = joined(store, agent)?;
        let claims = store.facts(agent, &[EventKind::IssueClaimed], Some(since))?;
        let first = claims.into_iter().find(|event| event.issue.as_deref() == Some(issue.as_str()));
        Ok(first.map(|event| Self {
            moment: ClaimMoment { event: Fence(event.seq), at: event.at },
            head: event.detail["head"].as_str().and_then(Oid::parse),
        }))
    }
}

impl ClaimMoment {
    /// When an attempt of a run began.
    pub fn of_attempt(store: &mut Store, attempt: &Attempt) -> Result<Self, JudgeError> {
        let event = store.began(&attempt.agent, Some(&attempt.run))?;
        Ok(Self { event: event.unwrap_or(Fence(0)), at: attempt.started_at })
    }
}

/// The event with which the agent became known last.
pub(crate) fn joined(store: &mut Store, agent: &AgentId) -> Result<Fence, JudgeError> {
    Ok(store.began(agent, None)?.unwrap_or(Fence(0)))
}

/// The issue that an agent works on, as far as is known.
pub fn issue_of(store: &mut Store, agent: &AgentId) -> Result<Option<IssueId>, JudgeError> {
    let known = store.agents()?.into_iter().find(|known| known.party.agent == *agent);
    Ok(known.filter(|known| known.life != Life::Dead).and_then(|known| known.party.issue))
}

/// Notes that the agent, which the store knows, takes its issue on, unless it has before.
pub fn note(store: &mut Store, scope: &Scope, party: &Party) -> Result<(), JudgeError> {
    let Some(issue) = &party.issue else { return Ok(()) };
    let known = store.agents()?.into_iter().find(|known| known.party.agent == party.agent);
    let Some(known) = known else { return Ok(()) };
    if Claim::noted(store, &known, issue)?.is_some() {
        return Ok(());
    }
    let head = Repo::new(scope.clone()).resolve("HEAD")?;
    store.record_fact(party, EventKind::IssueClaimed, None, &json!({ "head": head }))?;
    Ok(())
}
