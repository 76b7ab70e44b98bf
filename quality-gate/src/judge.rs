//! The verdict on an agent's work, asked of the store and of git, and always recorded.
//!
//! [`crate::check`] holds the rules; this module finds what they need: the claim, the commit, who owned what, the records.

use mala_config::Settings;
use mala_core::shell::word;
use mala_core::{AgentId, CheckName, IssueId, Timestamp};
use mala_git::{GitError, Oid, OwnershipError, Repo};
use mala_store::{EventKind, Store, StoreError};
use serde_json::json;
use thiserror::Error;

use crate::claim::Claim;
use crate::evidence::{EvidenceError, EvidenceLog};
use crate::rules::{Candidate, GateError, IssuePattern, Records, Rules, RulesError, check};
use crate::store_ownership::StoreOwnership;
use crate::transcript::SessionTranscript;
use crate::verdict::{Answer, Check, Status, Verdict};

/// Commits that are looked through for one that names the issue.
const MAX_COMMITS_SEARCHED: usize = 500;

/// Why there is no verdict. Nothing is accepted then.
#[derive(Debug, Error)]
pub enum JudgeError {
    #[error("there is no commit `{revision}`")]
    NoCommit { revision: String },
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
}

/// The agent and the issue that a command is about.
#[derive(Debug, Clone)]
pub struct Judged {
    pub agent: Option<AgentId>,
    pub issue: Option<IssueId>,
}

/// What is asked of the gate.
#[derive(Debug, Clone)]
pub struct Question {
    pub subject: Judged,
    pub revision: Option<String>,
    pub final_message: Option<String>,
    /// The transcript to believe, if any is; else the one that the agent's session told of.
    pub transcript: Option<SessionTranscript>,
}

/// Judges, and notes the verdict about an agent in the log.
pub fn verdict(
    repo: &Repo,
    mut store: Store,
    settings: &Settings,
    question: &Question,
) -> Result<Verdict, JudgeError> {
    let rules = Rules::of(settings)?;
    let Judged { agent, issue } = question.subject.clone();
    let known = store.agents()?.into_iter().find(|known| Some(&known.party.agent) == agent.as_ref());
    let claim = known.as_ref().map(|known| Claim::of(&mut store, known, issue.as_ref())).transpose()?;
    let commit = match &question.revision {
        Some(revision) => Some(named(repo, revision)?),
        None => newest(repo, &rules.issue, issue.as_ref(), claim.as_ref())?,
    };
    let candidate = Candidate {
        commit,
        issue,
        agent,
        claimed_at: claim.as_ref().map(|claim| claim.at),
        claimed_head: claim.and_then(|claim| claim.head),
        final_message: question.final_message.clone(),
    };
    let since = known.as_ref().map(|known| known.since);
    let foreign =
        known.as_ref().map(|known| foreign_writes(&mut store, &known.party.agent, since)).transpose()?;
    let transcript = match (&question.transcript, &candidate.agent) {
        _ if !settings.transcripts.evidence => None,
        (None, Some(agent)) => SessionTranscript::of_session(&mut store, agent, since)?,
        (named, _) => named.clone(),
    };
    let ownership = StoreOwnership::new(store);
    let told = match (&transcript, &candidate.agent, &candidate.commit) {
        (Some(transcript), Some(agent), Some(commit)) => {
            transcript.evidence(repo, &ownership, agent, commit)?
        }
        _ => Vec::new(),
    };
    let log = EvidenceLog::of(repo.scope());
    let records = Records { log: &log, transcripts: &told };
    let mut verdict = check(repo, &ownership, &records, &rules, &candidate)?;
    if let Some(check) = foreign {
        if check.status == Status::Fail {
            verdict.verdict = Answer::Fail;
        }
        verdict.checks.push(check);
    }
    if let Some(known) = known {
        let kind = if verdict.is_pass() { EventKind::GatePassed } else { EventKind::GateFailed };
        let failed: Vec<CheckName> = verdict.failures().map(|check| check.name).collect();
        let detail = json!({ "commit": verdict.commit, "failed": failed });
        ownership.into_store().record_fact(&known.party, kind, None, &detail)?;
    }
    Ok(verdict)
}

fn named(repo: &Repo, revision: &str) -> Result<Oid, JudgeError> {
    repo.resolve(revision)?.ok_or_else(|| JudgeError::NoCommit { revision: revision.to_owned() })
}

/// The newest commit that names the issue, else the last one. For an agent, commits from before its claim do not count.
fn newest(
    repo: &Repo,
    pattern: &IssuePattern,
    issue: Option<&IssueId>,
    claim: Option<&Claim>,
) -> Result<Option<Oid>, JudgeError> {
    let Some(head) = repo.resolve("HEAD")? else { return Ok(None) };
    let Some(issue) = issue else { return Ok(Some(head)) };
    let claimed = claim.and_then(|claim| claim.head.as_ref());
    let naming = repo
        .first_parents(&head, claimed, MAX_COMMITS_SEARCHED)?
        .into_iter()
        .find(|commit| pattern.names(&commit.message, issue));
    Ok(naming.map(|commit| commit.id).or_else(|| claim.is_none().then_some(head)))
}

/// Changes to others' files, and files written without their lock, stand against an agent.
pub fn foreign_writes(
    store: &mut Store,
    agent: &AgentId,
    since: Option<Timestamp>,
) -> Result<Check, StoreError> {
    let facts = store.facts(agent, &[EventKind::WriteForeign, EventKind::LockLost], since)?;
    let is_certain = |detail: &serde_json::Value| detail["certain"] != json!(false);
    let mut paths: Vec<String> =
        facts.into_iter().filter(|fact| is_certain(&fact.detail)).filter_map(|fact| fact.path).collect();
    paths.sort_unstable();
    paths.dedup();
    const NAME: CheckName = CheckName::ForeignWrites;
    if paths.is_empty() {
        return Ok(Check::pass(NAME, "no file of another agent was written"));
    }
    let detail = format!(
        "written without holding them: {}; see what happened: mala logs list --agent {}",
        paths.join(", "),
        word(agent.as_str())
    );
    Ok(Check::fail(NAME, detail))
}
