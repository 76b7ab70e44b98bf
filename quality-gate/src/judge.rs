//! The verdict on an agent's work, asked of the store and of git, and always recorded: for the command line, for hooks and
//! for runs.
//!
//! [`crate::check`] holds the rules; this module finds what they need: the claim, the commit, who owned what, the records.

use std::collections::HashSet;
use std::error::Error;

use mala_config::Settings;
use mala_core::shell::word;
use mala_core::{AgentId, Attempt, CheckName, CheckSubject, Fence, IssueId};
use mala_git::salvage::SalvageError;
use mala_git::{GitError, Oid, OwnershipError, Repo};
use mala_store::{EventKind, Party, Store, StoreError, process};
use serde_json::json;
use thiserror::Error;

use crate::claim::{Claim, joined};
use crate::evidence::{EvidenceError, EvidenceLog};
use crate::range;
use crate::rules::{
    ClaimMoment, CommitPlace, GateError, IssuePattern, Records, Rules, RulesError, Subject, check,
};
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
    Range(#[from] SalvageError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    #[error("the required commands could not be run")]
    Prove(#[source] Box<dyn Error + Send + Sync>),
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

/// Runs the required commands on a commit, one check for each.
pub type Prove<'a> = &'a mut dyn FnMut(&Oid) -> Result<Vec<Check>, Box<dyn Error + Send + Sync>>;

/// The gate of a repository: its rules, and whether clients' own transcripts count.
#[derive(Debug, Clone)]
pub struct Gate {
    rules: Rules,
    transcripts: bool,
}

/// What an attempt has committed, and what the gate says of it.
#[derive(Debug)]
pub struct AttemptVerdict {
    pub verdict: Verdict,
    /// Oldest first.
    pub commits: Vec<Oid>,
}

impl Gate {
    /// The gate that the settings ask for.
    pub fn of(settings: &Settings) -> Result<Self, RulesError> {
        Ok(Self { rules: Rules::of(settings)?, transcripts: settings.transcripts.evidence })
    }

    /// Judges one commit, or the declaration that none is needed. A verdict about an agent is recorded.
    pub fn verdict(&self, repo: &Repo, mut store: Store, question: &Question) -> Result<Verdict, JudgeError> {
        let Judged { agent, issue } = question.subject.clone();
        let known = store.agents()?.into_iter().find(|known| Some(&known.party.agent) == agent.as_ref());
        let claim = known.as_ref().map(|known| Claim::of(&mut store, known, issue.as_ref())).transpose()?;
        let commit = match &question.revision {
            Some(revision) => Some(named(repo, revision)?),
            None => match newest(repo, &self.rules.issue, issue.as_ref(), claim.as_ref())? {
                None => match (&agent, &claim) {
                    (Some(agent), Some(claim)) => stray(repo, &mut store, agent, claim)?,
                    _ => None,
                },
                commit => commit,
            },
        };
        let subject = Subject {
            commit,
            issue,
            agent,
            claim: claim.as_ref().map(|claim| claim.moment),
            claimed_head: claim.and_then(|claim| claim.head),
            final_message: question.final_message.clone(),
            place: CommitPlace::Branch,
        };
        let since = known.as_ref().map(|known| joined(&mut store, &known.party.agent)).transpose()?;
        let transcript = self.transcript(&mut store, &subject, question.transcript.as_ref(), since)?;
        let ownership = StoreOwnership::new(store);
        let verdict = self.check(repo, &ownership, &subject, transcript.as_ref())?;
        match known {
            Some(known) => conclude(&mut ownership.into_store(), &known.party, since, verdict),
            None => Ok(verdict),
        }
    }

    /// Judges all that an attempt has committed: every commit must be properly made, and what they leave together must pass all
    /// required commands, which `prove` runs. The verdict is recorded.
    pub fn attempt_verdict(
        &self,
        repo: &Repo,
        mut store: Store,
        (attempt, final_message): (&Attempt, Option<&str>),
        prove: Prove<'_>,
    ) -> Result<AttemptVerdict, JudgeError> {
        let Attempt { issue, agent, head, .. } = attempt;
        let claim = ClaimMoment::of_attempt(&mut store, attempt)?;
        let seen = seen_commits(repo, &mut store, attempt)?;
        let commits = range::commits(repo, head.as_ref(), agent, (&self.rules.issue, issue), &seen)?;
        let subject = |commit: Option<&Oid>| Subject {
            commit: commit.cloned(),
            issue: Some(issue.clone()),
            agent: Some(agent.clone()),
            claim: Some(claim),
            claimed_head: head.clone(),
            final_message: final_message.map(str::to_owned),
            place: CommitPlace::Branch,
        };
        let transcript = self.transcript(&mut store, &subject(commits.last()), None, Some(claim.event))?;
        let ownership = StoreOwnership::new(store);
        let check =
            |commit: Option<&Oid>| self.check(repo, &ownership, &subject(commit), transcript.as_ref());
        let mut verdict = match commits.as_slice() {
            [] => check(None)?,
            [only] => check(Some(only))?,
            [.., last] => {
                let mut checks = Vec::new();
                for commit in &commits {
                    checks.extend(
                        check(Some(commit))?.checks.into_iter().filter(|check| !is_about_content(check)),
                    );
                }
                let together = together(repo, attempt, &commits)?;
                checks.extend(check(Some(&together))?.checks.into_iter().filter(is_about_content));
                Verdict::of(Some(issue.clone()), Some(last.clone()), checks)
            }
        };
        let is_proof_needed = verdict
            .checks
            .iter()
            .any(|check| check.name == CheckName::Command && check.status != Status::Skipped);
        if is_proof_needed {
            verdict = proven(repo, attempt, &commits, verdict, prove)?;
        }
        let verdict = conclude(&mut ownership.into_store(), &party_of(attempt), Some(claim.event), verdict)?;
        Ok(AttemptVerdict { verdict, commits })
    }

    /// What can be said at once about a commit that an attempt offers: everything but whether its tests pass.
    pub fn candidate_checks(
        &self,
        repo: &Repo,
        mut store: Store,
        (attempt, final_message): (&Attempt, Option<&str>),
        candidate: &Oid,
    ) -> Result<Verdict, JudgeError> {
        let subject = Subject {
            commit: Some(candidate.clone()),
            issue: Some(attempt.issue.clone()),
            agent: Some(attempt.agent.clone()),
            claim: Some(ClaimMoment::of_attempt(&mut store, attempt)?),
            claimed_head: attempt.head.clone(),
            final_message: final_message.map(str::to_owned),
            place: CommitPlace::Candidate,
        };
        self.check(repo, &StoreOwnership::new(store), &subject, None)
    }

    /// The same when the agent has ended its turn, with what it did besides. A failure is recorded; what passes is the landing
    /// queue's to judge.
    pub fn candidate_verdict(
        &self,
        repo: &Repo,
        mut store: Store,
        (attempt, final_message): (&Attempt, Option<&str>),
        candidate: &Oid,
    ) -> Result<Verdict, JudgeError> {
        let again = Store::open(repo.scope())?;
        let mut verdict = self.candidate_checks(repo, again, (attempt, final_message), candidate)?;
        let claim = ClaimMoment::of_attempt(&mut store, attempt)?;
        add_conduct(&mut store, &attempt.agent, Some(claim.event), &mut verdict)?;
        if !verdict.is_pass() {
            record(&mut store, &party_of(attempt), &verdict)?;
        }
        Ok(verdict)
    }

    /// The transcript to judge by: the one that was named, else the one that the agent's session told of.
    fn transcript(
        &self,
        store: &mut Store,
        subject: &Subject,
        named: Option<&SessionTranscript>,
        since: Option<Fence>,
    ) -> Result<Option<SessionTranscript>, JudgeError> {
        match (named, &subject.agent) {
            _ if !self.transcripts => Ok(None),
            (None, Some(agent)) => SessionTranscript::of_session(store, agent, since),
            (named, _) => Ok(named.cloned()),
        }
    }

    fn check(
        &self,
        repo: &Repo,
        ownership: &StoreOwnership,
        subject: &Subject,
        transcript: Option<&SessionTranscript>,
    ) -> Result<Verdict, JudgeError> {
        let told = match (transcript, &subject.agent, &subject.commit) {
            (Some(transcript), Some(agent), Some(commit)) => {
                transcript.evidence(repo, ownership, agent, commit)?
            }
            _ => Vec::new(),
        };
        let log = EvidenceLog::of(repo.scope());
        let records = Records { log: &log, transcripts: &told };
        Ok(check(repo, ownership, &records, &self.rules, subject)?)
    }
}

/// What the commits of an attempt come to, as one commit on what it began with.
fn together(repo: &Repo, attempt: &Attempt, commits: &[Oid]) -> Result<Oid, JudgeError> {
    let text = format!("{}: what {} leaves\n", attempt.issue, attempt.agent);
    Ok(range::squash(repo, attempt.head.as_ref(), commits, &text)?)
}

/// The verdict with the commands run by mala, if everything else is well. What they are run on is the attempt's own work:
/// what others have committed beside it is for them to answer.
fn proven(
    repo: &Repo,
    attempt: &Attempt,
    commits: &[Oid],
    verdict: Verdict,
    prove: Prove<'_>,
) -> Result<Verdict, JudgeError> {
    let is_well = verdict.failures().all(|check| check.name.is_about_runs());
    if !is_well {
        let waits = "the required commands run when nothing else is missing";
        return Ok(verdict.with_commands(vec![Check::skipped(CheckName::Command, waits)]));
    }
    let work = match commits {
        [only] if repo.commit(only)?.parents.first() == attempt.head.as_ref() => only.clone(),
        all => together(repo, attempt, all)?,
    };
    Ok(verdict.with_commands(prove(&work).map_err(JudgeError::Prove)?))
}

/// The commits of an attempt since its claim, oldest first.
pub fn attempt_commits(
    repo: &Repo,
    attempt: &Attempt,
    pattern: &IssuePattern,
) -> Result<Vec<Oid>, SalvageError> {
    let (base, named) = (attempt.head.as_ref(), (pattern, &attempt.issue));
    range::commits(repo, base, &attempt.agent, named, &HashSet::new())
}

/// Commits that the agent was seen to put on the branch, by whatever means: all that a move of the branch brought.
fn seen_commits(repo: &Repo, store: &mut Store, attempt: &Attempt) -> Result<HashSet<Oid>, JudgeError> {
    let mut seen = HashSet::new();
    let began = ClaimMoment::of_attempt(store, attempt)?.event;
    for fact in store.facts(&attempt.agent, &[EventKind::CommitMade], Some(began))? {
        let id = |name: &str| fact.detail[name].as_str().and_then(Oid::parse);
        match (id("parent"), id("commit")) {
            (Some(parent), Some(commit)) => seen.extend(repo.commits_between(&parent, commit.as_str())?),
            (None, commit) => seen.extend(commit),
            (Some(_), None) => {}
        }
    }
    Ok(seen)
}

fn party_of(attempt: &Attempt) -> Party {
    Party {
        agent: attempt.agent.clone(),
        owner: process::current(),
        supervised: true,
        issue: Some(attempt.issue.clone()),
        run: Some(attempt.run.clone()),
    }
}

fn is_about_content(check: &Check) -> bool {
    check.name.subject() == CheckSubject::Content
}

/// Adds what the agent did besides, and records the verdict. That nothing was done wrong is no proof that something was done,
/// so that check only ever turns a pass into a failure.
fn conclude(
    store: &mut Store,
    party: &Party,
    since: Option<Fence>,
    mut verdict: Verdict,
) -> Result<Verdict, JudgeError> {
    add_conduct(store, &party.agent, since, &mut verdict)?;
    record(store, party, &verdict)?;
    Ok(verdict)
}

fn add_conduct(
    store: &mut Store,
    agent: &AgentId,
    since: Option<Fence>,
    verdict: &mut Verdict,
) -> Result<(), JudgeError> {
    let conduct = foreign_writes(store, agent, since)?;
    if conduct.status == Status::Fail {
        verdict.verdict = Answer::Fail;
    }
    verdict.checks.push(conduct);
    Ok(())
}

fn record(store: &mut Store, party: &Party, verdict: &Verdict) -> Result<(), JudgeError> {
    let kind = if verdict.is_pass() { EventKind::GatePassed } else { EventKind::GateFailed };
    let failed: Vec<CheckName> = verdict.failures().map(|check| check.name).collect();
    store.record_fact(party, kind, None, &json!({ "commit": verdict.commit, "failed": failed }))?;
    Ok(())
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

/// The last commit of the branch that the agent was seen to make since its claim, though it does not name the issue: it has to
/// hear of that one, not that there is none.
fn stray(repo: &Repo, store: &mut Store, agent: &AgentId, claim: &Claim) -> Result<Option<Oid>, JudgeError> {
    let Some(head) = repo.resolve("HEAD")? else { return Ok(None) };
    for fact in store.facts(agent, &[EventKind::CommitMade], Some(claim.moment.event))?.iter().rev() {
        if let Some(commit) = fact.detail["commit"].as_str().and_then(Oid::parse)
            && repo.is_ancestor(&commit, &head)?
        {
            return Ok(Some(commit));
        }
    }
    Ok(None)
}

/// Changes to others' files, and files written without their lock, stand against an agent.
fn foreign_writes(store: &mut Store, agent: &AgentId, since: Option<Fence>) -> Result<Check, StoreError> {
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
