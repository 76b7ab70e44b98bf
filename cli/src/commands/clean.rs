use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use clap::Args;
use mala_config::{RetainSettings, Settings, format_size};
use mala_core::issue::Run;
use mala_core::{IssueId, Scope, Timestamp};
use mala_gate::evidence::EvidenceError;
use mala_gate::evidence::retention::{self, Cause, Limits, Plan};
use mala_git::candidate::{self, Pinned};
use mala_git::{Repo, commit};
use mala_landing::{SlotUse, Slots, orphaned_slots, remove_slots, shown_size, slots_in_use};
use mala_logs::chain::ChainError;
use mala_session::{git_guard, jail, supervisor_socket};
use mala_store::process::ProcessTable;
use mala_store::{Extent, Store};
use serde_json::{Value, json};

use super::status::{leftover_lines, leftovers_json, slots_line};
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::ui::{plain, span};

/// Why a run is put away only by force.
const FOREIGN: &str = "which cannot be judged from here";
/// Whose files nobody needs any more.
const KILLED: &str = "a process that was killed";

/// Put away what dead agents left behind
///
/// Frees locks whose process has ended or whose lease is over, removes dead places in queues and what killed commands have left
/// in mala's directories, and drops what `[retain]` in the settings does not keep: events, evidence, outputs and logs of runs that are old or
/// too much, and saved work of issues closed long ago. Lists everything it does, with the reason. What a running process of this machine
/// holds is never touched, nor is what unfinished work, a note on an open issue or an open entry of the landing queue needs, nor the last
/// attempt at any issue.
///
/// Slots keep what was built in them, so that the next validation is quick: only `--slots` empties them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala clean --dry-run
  mala clean
  mala clean --slots
  mala clean --force")]
pub(crate) struct CleanArgs {
    /// Only list what would be put away
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Also free locks and end runs of other hosts and containers, whose processes cannot be judged from here
    #[arg(long)]
    force: bool,
    /// Also empty the slots that nobody uses; the next command there builds everything anew
    #[arg(long)]
    slots: bool,
}

pub(crate) fn cmd_clean(args: &CleanArgs, context: &Context) -> Result<Code, CliError> {
    if args.force && context.supervised.is_some() {
        return Err(CliError::refused("`--force` is a person's decision, not an agent's"));
    }
    let scope = context.scope()?;
    let settings = context.settings(&scope, Vec::new())?;
    let mut store = open(&scope)?;
    let keep_since = store.now().minus(settings.retain.age);
    let extent = Extent { keep_events_since: keep_since, foreign_locks: args.force };
    let leftovers = if args.dry_run { store.leftovers(extent)? } else { store.sweep(extent)? };
    // A commit is judged by what was recorded since its issue was taken on.
    let needed_since = store.working_since()?.unwrap_or_else(|| store.now());
    // As everywhere, none is given as 0.
    let bound = Some(settings.retain.size).filter(|size| *size > 0).unwrap_or(u64::MAX);
    let limits = Limits { since: keep_since, needed_since, bytes: bound };
    let plan = retention::plan(&mut store, &scope, limits).map_err(unreadable)?;
    let refs = old_refs(&mut store, &scope, settings.retain.refs)?;
    if !args.dry_run {
        retention::carry_out(&mut store, &scope, &plan, limits).map_err(unreadable)?;
        let repo = Repo::new(scope.clone());
        refs.iter().try_for_each(|old| candidate::forget(&repo, &old.pinned)).map_err(CliError::failed)?;
    }
    let evidence: Vec<PathBuf> =
        plan.records.iter().chain(plan.outputs.iter().map(|old| &old.path)).cloned().collect();
    let foreign = store.foreign_runs()?;
    if args.force && !args.dry_run {
        foreign.iter().try_for_each(|run| store.end_run(&run.id, &json!({ "by": "mala clean --force" })))?;
    }
    let remains = remains(&scope)?;
    let orphaned = orphaned_slots(&scope, &settings);
    if !args.dry_run {
        orphaned.iter().try_for_each(|slots| remove_slots(slots)).map_err(CliError::failed)?;
    }
    let (emptied, full) = slots(args, &scope, &settings)?;
    let git_locks = if args.dry_run { git_guard::lock_files::left(&scope) } else { bury(&scope)? };
    let (ended, kept) = if args.force { (foreign, Vec::new()) } else { (Vec::new(), foreign) };
    let mut all = leftovers_json(&leftovers);
    all.extend(ended.iter().map(|run| json!({ "kind": "run", "id": run.id, "cause": FOREIGN })));
    all.extend(
        remains
            .iter()
            .map(|path| json!({ "kind": "files", "path": path.to_string_lossy(), "cause": KILLED })),
    );
    all.extend(orphaned.iter().map(|path| {
        json!({ "kind": "slots", "path": path.to_string_lossy(), "cause": "a repository that is gone" })
    }));
    all.extend(emptied.iter().map(|slot| {
        json!({ "kind": "slot", "path": slot.path.to_string_lossy(), "size": slot.size, "cause": "nobody uses it" })
    }));
    let body = json!({
        "slots": full, "done": !args.dry_run, "leftovers": all,
        "evidence": texts(&evidence), "git_locks": texts(&git_locks),
        "dropped": dropped_json(&plan, &refs),
    });
    context.ui.answer(&body, |out| {
        let verb = if args.dry_run { "would put away" } else { "put away" };
        let mut lines = leftover_lines(&leftovers);
        lines.extend(dropped_lines(&plan, &refs, &settings.retain));
        lines.extend(
            git_locks.iter().map(|path| format!("`{}` of a git that was killed", plain(path.display()))),
        );
        lines.extend(remains.iter().map(|path| format!("`{}` of {KILLED}", plain(path.display()))));
        lines.extend(
            orphaned
                .iter()
                .map(|path| format!("`{}`, slots of a repository that is gone", plain(path.display()))),
        );
        lines.extend(
            emptied.iter().map(|slot| {
                format!("`{}`, a slot with {}", plain(slot.path.display()), shown_size(slot.size))
            }),
        );
        lines.extend(ended.iter().map(run_line));
        match lines.as_slice() {
            [] => writeln!(out, "nothing to put away"),
            lines => lines.iter().try_for_each(|line| writeln!(out, "{verb}: {line}")),
        }?;
        if !full.is_empty() {
            writeln!(out, "left alone: {} (empty those not in use: mala clean --slots)", slots_line(&full))?;
        }
        let hint = "if it runs no more: mala clean --force";
        kept.iter().try_for_each(|run| writeln!(out, "left alone: {} ({hint})", run_line(run)))
    })?;
    Ok(Code::SUCCESS)
}

/// The slots that are emptied, and those that are left as they are.
fn slots(
    args: &CleanArgs,
    scope: &Scope,
    settings: &Settings,
) -> Result<(Vec<SlotUse>, Vec<SlotUse>), CliError> {
    let all = slots_in_use(scope, settings).map_err(CliError::failed)?;
    if !args.slots || all.is_empty() {
        return Ok((Vec::new(), all));
    }
    if args.dry_run {
        return Ok(all.into_iter().partition(|slot| !slot.in_use));
    }
    let slots = Slots::of(&Repo::new(scope.clone()), settings).map_err(CliError::failed)?;
    let emptied = slots.empty_idle().map_err(CliError::failed)?;
    let left = slots_in_use(scope, settings).map_err(CliError::failed)?;
    Ok((emptied, left))
}

/// What killed processes have left on the disk: drafts of commits, spare directories and sockets of supervisors.
fn remains(scope: &Scope) -> Result<Vec<PathBuf>, CliError> {
    let mut found = mala_git::left_behind(&Repo::new(scope.clone()), &ProcessTable)?;
    found.extend(mala_sandbox::left_spares(&jail::spares(scope))?);
    found.extend(supervisor_socket::left(&desks(scope)));
    Ok(found)
}

/// Removes all of that, and the locks of killed gits of agents, which it gives.
fn bury(scope: &Scope) -> Result<Vec<PathBuf>, CliError> {
    let git_locks = git_guard::lock_files::sweep(scope);
    mala_sandbox::sweep_spares(&jail::spares(scope)).map_err(CliError::failed)?;
    for socket in supervisor_socket::left(&desks(scope)) {
        match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let repo = Repo::new(scope.clone());
    commit::sweep(&repo, &ProcessTable)?;
    Ok(git_locks)
}

fn desks(scope: &Scope) -> PathBuf {
    scope.state_dir().join("desk")
}

fn run_line(run: &Run) -> String {
    format!("run {} of {}, {FOREIGN}", run.id, plain(&run.owner))
}

fn texts(paths: &[PathBuf]) -> Vec<Cow<'_, str>> {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}

/// A ref that nobody needs any more.
struct OldRef {
    pinned: Pinned,
    issue: IssueId,
    closed_at: Timestamp,
}

/// What is kept of attempts at issues that have been closed for so long, but for the last one of each and what somebody may look for.
fn old_refs(store: &mut Store, scope: &Scope, keep: Duration) -> Result<Vec<OldRef>, CliError> {
    let before = store.now().minus(keep);
    let texts = store.quoting_texts()?;
    let running = store.unfinished_runs()?;
    let mut attempts = store.past_attempts()?;
    attempts.retain(|attempt| !attempt.is_newest && !running.contains(&attempt.run));
    let repo = Repo::new(scope.clone());
    let mut old = Vec::new();
    for attempt in attempts {
        let Some(closed_at) = attempt.closed_at.filter(|closed| *closed < before) else { continue };
        for pinned in candidate::refs_of(&repo, &attempt.issue, attempt.number).map_err(CliError::failed)? {
            if !texts.iter().any(|text| text.contains(&pinned.name)) {
                old.push(OldRef { pinned, issue: attempt.issue.clone(), closed_at });
            }
        }
    }
    Ok(old)
}

fn dropped_json(plan: &Plan, refs: &[OldRef]) -> Vec<Value> {
    let cause = |cause| match cause {
        Cause::Age => "age",
        Cause::Size => "size",
    };
    let records = plan.records.iter().map(|path| json!({ "path": path.to_string_lossy(), "cause": "age" }));
    let piles = plan.outputs.iter().chain(&plan.runs).map(
        |old| json!({ "path": old.path.to_string_lossy(), "cause": cause(old.cause), "bytes": old.bytes }),
    );
    let refs = refs.iter().map(|old| {
        json!({ "ref": old.pinned.name, "commit": old.pinned.commit, "issue": old.issue, "cause": "closed" })
    });
    records.chain(piles).chain(refs).collect()
}

fn dropped_lines(plan: &Plan, refs: &[OldRef], retain: &RetainSettings) -> Vec<String> {
    let age = format!("older than {}", span(retain.age));
    let why = |cause| match cause {
        Cause::Age => age.clone(),
        Cause::Size => format!("the oldest, as there is more than {}", format_size(retain.size)),
    };
    let records = plan.records.iter().map(|path| format!("`{}`, {age}", plain(path.display())));
    let outputs =
        plan.outputs.iter().map(|old| format!("`{}`, {}", plain(old.path.display()), why(old.cause)));
    let runs = plan.runs.iter().map(|old| {
        let run = old.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        format!("the log of run {} and what its agents printed, {}", plain(run), why(old.cause))
    });
    let refs = refs.iter().map(|old| {
        let OldRef { pinned, issue, closed_at } = old;
        format!("{} ({}) of {issue}, which was closed at {closed_at}", pinned.name, pinned.commit.short())
    });
    records.chain(outputs).chain(runs).chain(refs).collect()
}

fn unreadable(error: EvidenceError) -> CliError {
    match error {
        EvidenceError::Log(ChainError::Broken(broken)) => {
            CliError::refused(broken).hint("nothing is removed from a broken log; see: mala logs verify")
        }
        error => CliError::failed(error),
    }
}
