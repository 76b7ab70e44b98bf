use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use mala_config::Settings;
use mala_core::file::MESSAGE;
use mala_core::shell::word;
use mala_core::{AgentId, IssueId, Timestamp};
use mala_gate::EvidenceLog;
use mala_gate::rerun::{self, Suite};
use mala_gate::rules::{self, Candidate, IssuePattern, Records};
use mala_gate::runner::Tee;
use mala_gate::verdict::{self, Check, Status, Verdict};
use mala_git::{Oid, Repo};
use mala_logs::telemetry::spans::{self, Span};
use mala_logs::telemetry::{GateResult, metrics};
use mala_store::{EventKind, Store, StoreError, process};
use serde_json::json;

use super::transcript::Transcript;
use super::{Judged, Subject};
use crate::claim::Claim;
use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::leash::Leashing;
use crate::ownership::StoreOwnership;
use crate::ui::{DIM, GREEN, RED};

/// Commits that are looked through for one that names the issue.
const LOOK_BACK: usize = 500;

/// Say whether a commit is accepted, and what is missing
///
/// Without `--commit` it is the newest commit that names the issue, else the last one. Nothing is taken on trust: the commit
/// is read from git, who owned its files from the store, and what passed from the evidence that mala recorded itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala gate check --issue bd-12
  mala gate check --commit HEAD~1 --issue bd-12 --agent alice --json")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    judged: Judged,
    /// The commit
    #[arg(long, value_name = "REV")]
    commit: Option<String>,
    /// Run all required commands in a clean snapshot of the commit, instead of trusting earlier runs
    #[arg(long)]
    rerun: bool,
    /// File with the agent's last message, which may declare that no commit is needed; `-` for standard input
    #[arg(long, value_name = "FILE")]
    final_message: Option<PathBuf>,
    /// Transcript of the agent's client, as evidence where `transcripts.evidence = true` [default: the one its hooks told of]
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
}

pub(super) fn cmd_check(args: &CheckArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = open(&scope)?;
    let subject = args.judged.resolve(context, &mut store)?;
    let final_message = args.final_message.as_ref().map(|file| read(context, file)).transpose()?;
    let repo = Repo::new(scope);
    let transcript = transcript(args, context, &settings, &subject, &mut store)?;
    let span = context.span().in_scope(|| spans::gate(subject.agent.as_ref(), subject.issue.as_ref()));
    let _judging = span.clone().entered();
    let question = Question { subject, revision: args.commit.clone(), final_message, transcript };
    let mut verdict = verdict(&repo, store, &settings, &question)?;
    if args.rerun {
        verdict = rerun(context, &repo, &settings, verdict)?;
    }
    tell(&span, &verdict);
    metrics().gate_result(if verdict.is_pass() { GateResult::Pass } else { GateResult::Fail });
    context.ui.answer(&verdict, |out| show(out, &verdict))?;
    Ok(if verdict.is_pass() { Code::SUCCESS } else { Code::from(REFUSED) })
}

/// The transcript that was named, if one may be.
fn transcript(
    args: &CheckArgs,
    context: &Context,
    settings: &Settings,
    subject: &Subject,
    store: &mut Store,
) -> Result<Option<Transcript>, CliError> {
    let Some(path) = &args.transcript else { return Ok(None) };
    if !settings.transcripts.evidence {
        return Err(CliError::refused("transcripts are not accepted as evidence here")
            .hint("accept them in mala.toml: [transcripts] evidence = true"));
    }
    if context.bound_party(store)?.is_some() {
        return Err(CliError::refused("an agent cannot name its own transcript")
            .hint("run the tests where mala sees them: mala test -- COMMAND"));
    }
    if subject.agent.is_none() {
        return Err(CliError::usage("whose transcript is it? name the agent with `--agent NAME`"));
    }
    Transcript::named(&context.cwd.join(path)).map(Some)
}

/// Tells a collector what came of it.
fn tell(span: &Span, verdict: &Verdict) {
    spans::outcome(span, if verdict.is_pass() { "pass" } else { "fail" });
    if !verdict.is_pass() {
        let failed: Vec<&str> = verdict.failures().map(|check| check.name).collect();
        spans::failed(span, &failed.join(", "));
    }
}

/// The verdict with every required command run anew. Agents cannot ask for it: what they wrote would run outside of their tree.
fn rerun(context: &Context, repo: &Repo, settings: &Settings, verdict: Verdict) -> Result<Verdict, CliError> {
    if context.supervised.is_some() {
        return Err(CliError::refused("an agent cannot have its tests rerun outside of its own tree")
            .hint("run them in a snapshot: mala test --isolated -- COMMAND"));
    }
    if settings.required().is_empty() {
        return Err(CliError::usage("there is nothing to rerun: no command is required")
            .hint("name some in mala.toml: [validate] commands = [\"cargo test\"], or choose a preset"));
    }
    let Some(commit) = verdict.commit.clone() else { return Ok(verdict) };
    let (commands, carried, owner) =
        (settings.required(), super::super::test::carried(settings), process::current());
    let suite = Suite { commands: &commands, carried: &carried, owner: &owner, keeper: &Leashing };
    // The answer has standard output for itself.
    let (mut out, mut err) = (context.ui.err(), context.ui.err());
    let rerun = rerun::rerun(repo, &commit, &suite, &mut Tee { out: &mut *out, err: &mut *err })
        .map_err(CliError::failed)?;
    Ok(verdict.with_rerun(&rerun))
}

/// What is asked of the gate.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) subject: Subject,
    pub(crate) revision: Option<String>,
    pub(crate) final_message: Option<String>,
    /// The transcript to believe, if any is; else the one that the agent's session told of.
    pub(crate) transcript: Option<Transcript>,
}

/// Judges, and notes the verdict about an agent in the log.
pub(crate) fn verdict(
    repo: &Repo,
    mut store: Store,
    settings: &Settings,
    question: &Question,
) -> Result<Verdict, CliError> {
    let rules = super::rules(settings)?;
    let Subject { agent, issue } = question.subject.clone();
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
        (None, Some(agent)) => Transcript::of_session(&mut store, agent, since)?,
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
    let mut verdict = rules::check(repo, &ownership, &records, &rules, &candidate)?;
    if let Some(check) = foreign {
        if check.status == Status::Fail {
            verdict.verdict = verdict::Answer::Fail;
        }
        verdict.checks.push(check);
    }
    if let Some(known) = known {
        let kind = if verdict.is_pass() { EventKind::GatePassed } else { EventKind::GateFailed };
        let failed: Vec<&str> = verdict.failures().map(|check| check.name).collect();
        let detail = json!({ "commit": verdict.commit, "failed": failed });
        ownership.into_store().record_fact(&known.party, kind, None, &detail)?;
    }
    Ok(verdict)
}

fn named(repo: &Repo, revision: &str) -> Result<Oid, CliError> {
    repo.resolve(revision)?.ok_or_else(|| {
        CliError::usage(format!("there is no commit `{revision}`"))
            .hint("see which there are: git log --oneline")
    })
}

/// The newest commit that names the issue, else the last one. For an agent, commits from before its claim do not count.
fn newest(
    repo: &Repo,
    pattern: &IssuePattern,
    issue: Option<&IssueId>,
    claim: Option<&Claim>,
) -> Result<Option<Oid>, CliError> {
    let Some(head) = repo.resolve("HEAD")? else { return Ok(None) };
    let Some(issue) = issue else { return Ok(Some(head)) };
    let claimed = claim.and_then(|claim| claim.head.as_ref());
    let naming = repo
        .first_parents(&head, claimed, LOOK_BACK)?
        .into_iter()
        .find(|commit| pattern.names(&commit.message, issue));
    Ok(naming.map(|commit| commit.id).or_else(|| claim.is_none().then_some(head)))
}

/// The name of the check below.
pub(crate) const FOREIGN_WRITES: &str = "foreign-writes";

/// Changes to others' files, and files written without their lock, stand against an agent.
pub(crate) fn foreign_writes(
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
    Ok(if paths.is_empty() {
        Check {
            name: FOREIGN_WRITES,
            status: Status::Pass,
            detail: "no file of another agent was written".to_owned(),
            evidence: Vec::new(),
        }
    } else {
        Check {
            name: FOREIGN_WRITES,
            status: Status::Fail,
            detail: format!(
                "written without holding them: {}; see what happened: mala logs list --agent {}",
                paths.join(", "),
                word(agent.as_str())
            ),
            evidence: Vec::new(),
        }
    })
}

fn read(context: &Context, file: &Path) -> Result<String, CliError> {
    if file.as_os_str() == "-" {
        return context.read_input(MESSAGE);
    }
    context.read_text(file, MESSAGE)
}

fn show(out: &mut dyn Write, verdict: &Verdict) -> io::Result<()> {
    for check in &verdict.checks {
        let (style, word) = match check.status {
            Status::Pass => (GREEN, "pass"),
            Status::Fail => (RED, "FAIL"),
            Status::Skipped => (DIM, "skip"),
        };
        writeln!(out, "{style}{word}{style:#}  {}: {}", check.name, check.detail)?;
    }
    let commit = verdict.commit.as_ref().map(|id| format!(" {}", id.short())).unwrap_or_default();
    let issue = verdict.issue.as_ref().map(|issue| format!(" for {issue}")).unwrap_or_default();
    let answer = if verdict.is_pass() { "accepted" } else { "not accepted" };
    writeln!(out, "{answer}:{commit}{issue}")
}
