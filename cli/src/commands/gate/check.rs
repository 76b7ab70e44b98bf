use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use mala_config::Settings;
use mala_core::file::MESSAGE;
use mala_gate::runner::Tee;
use mala_gate::transcript::SessionTranscript;
use mala_gate::verdict::{Status, Verdict};
use mala_gate::{Gate, Question};
use mala_git::Repo;
use mala_landing::{Pool, Requirements, Slots, Validate};
use mala_logs::telemetry::spans::{self, Span};
use mala_logs::telemetry::{GateResult, metrics};
use mala_store::Store;

use super::Judged;
use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::ui::{DIM, GREEN, RED};

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
    /// Run all required commands in a slot that holds the commit, instead of trusting earlier runs
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
    let mut verdict = Gate::of(&settings)?.verdict(&repo, store, &question)?;
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
    subject: &mala_gate::Judged,
    store: &mut Store,
) -> Result<Option<SessionTranscript>, CliError> {
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
    let path = context.cwd.join(path);
    let failed = |error| CliError::usage(format!("cannot read `{}`: {error}", path.display()));
    let found = SessionTranscript::at(&path).map_err(failed)?;
    found.map(Some).ok_or_else(|| {
        CliError::usage(format!("`{}` is not a transcript of Claude Code or Codex", path.display()))
    })
}

/// Tells a collector what came of it.
fn tell(span: &Span, verdict: &Verdict) {
    spans::outcome(span, if verdict.is_pass() { "pass" } else { "fail" });
    if !verdict.is_pass() {
        let failed: Vec<&str> = verdict.failures().map(|check| check.name.as_str()).collect();
        spans::failed(span, &failed.join(", "));
    }
}

/// The verdict with every required command run by mala, in a slot that holds the commit.
fn rerun(context: &Context, repo: &Repo, settings: &Settings, verdict: Verdict) -> Result<Verdict, CliError> {
    let requirements = Requirements::of(settings);
    if requirements.is_empty() {
        return Err(CliError::usage("there is nothing to rerun: no command is required")
            .hint("name some in mala.toml: [validate] commands = [\"cargo test\"], or choose a preset"));
    }
    let Some(commit) = verdict.commit.clone() else { return Ok(verdict) };
    let slots = Slots::of(repo, settings).map_err(CliError::failed)?;
    let asker = context.asker_process();
    let validate =
        Validate { repo, slots: &slots, pool: Pool::Validation, requirements: &requirements, asker };
    // The answer has standard output for itself.
    let (mut out, mut err) = (context.ui.err(), context.ui.err());
    let validation =
        validate.commit(&commit, &mut Tee { out: &mut *out, err: &mut *err }).map_err(CliError::failed)?;
    Ok(verdict.with_commands(validation.checks()))
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
