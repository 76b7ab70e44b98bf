//! Before a tool runs: may it?

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mala_agents::shell::{Plan, Surroundings, Write, plan, rewrite_tests};
use mala_agents::{Answer, Intent, Objection, ToolCall, When, protected};
use mala_config::Unlocked;
use mala_core::claim::{Reading, TargetError};
use mala_core::key::KeyError;
use mala_core::shell::word;
use mala_core::{CommandPattern, Conflict, Mode, Target, Timestamp, Want};
use mala_gate::Repo;
use mala_store::{EventKind, Outcome, Request};
use serde_json::json;

use super::session::Session;
use super::{audit, waiting};
use crate::enforce::{Ignored, take_over};
use crate::error::CliError;
use crate::refusal;
use crate::ui::plain;

/// Decides about one tool call.
pub(super) fn judge(session: &mut Session<'_>, tool: &ToolCall) -> Result<Answer, CliError> {
    match tool.intent().map_err(CliError::failed)? {
        Intent::Reads => allow(session, None),
        Intent::Writes { paths } => {
            let cwd = session.call.cwd.clone();
            let writes: Vec<Write> = paths.into_iter().map(|path| Write::File(cwd.join(path))).collect();
            match take(session, tool, &writes)? {
                Some(answer) => Ok(answer),
                None => allow(session, None),
            }
        }
        Intent::Shell { command, cwd } => {
            let cwd = session.call.cwd.join(cwd.unwrap_or_default());
            shell(session, tool, &command, &cwd)
        }
        Intent::Unknown => {
            audit::expect(session, tool)?;
            allow(session, None)
        }
    }
}

fn allow(session: &mut Session<'_>, rewrite: Option<String>) -> Result<Answer, CliError> {
    Ok(Answer::Allow { context: session.news()?, rewrite })
}

fn deny(session: &mut Session<'_>, tool: &ToolCall, reason: &str) -> Result<Answer, CliError> {
    session.note(
        EventKind::WriteRefused,
        None,
        &json!({ "program": tool.name, "said": reason, "by": "hook" }),
    );
    Ok(Answer::Deny { reason: format!("mala: {reason}") })
}

/// Why a call is refused.
enum Refused {
    /// By a rule.
    Ruled(String),
    /// Somebody else holds these.
    Held { reason: String, wants: Vec<Want> },
}

/// Takes everything that would be written, all or none; or refuses the call, or has it wait where that is better.
fn take(session: &mut Session<'_>, tool: &ToolCall, writes: &[Write]) -> Result<Option<Answer>, CliError> {
    // What has become free meanwhile is tried again.
    while let Some(refused) = reserve(session, tool, writes)? {
        let (reason, wants) = match refused {
            Refused::Ruled(reason) => return deny(session, tool, &reason).map(Some),
            Refused::Held { reason, wants } => (reason, wants),
        };
        match waiting::instead_of_denying(session, tool, reason, &wants)? {
            Some(Answer::Deny { reason }) => return deny(session, tool, &reason).map(Some),
            Some(answer) => return Ok(Some(answer)),
            None => {}
        }
    }
    Ok(None)
}

fn shell(session: &mut Session<'_>, tool: &ToolCall, command: &str, cwd: &Path) -> Result<Answer, CliError> {
    let tests: Vec<CommandPattern> =
        session.settings()?.guarded().into_iter().map(|(_, pattern)| pattern).collect();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let plan = plan(
        command,
        Surroundings { cwd, home: home.as_deref(), exists: &|path| path.exists(), tests: &tests },
    );
    if let Some(objection) = objection(session, &plan)? {
        return deny(session, tool, &objection.to_string());
    }
    if let Some(answer) = take(session, tool, &plan.writes)? {
        return Ok(answer);
    }
    let has_patterns = plan.writes.iter().any(|write| matches!(write, Write::Pattern { .. }));
    if has_patterns || !plan.unknown.is_empty() {
        audit::expect(session, tool)?;
    }
    // Under `mala exec` the command is held when it starts.
    let rewrite = if session.is_enforced() {
        None
    } else {
        rewrite_tests(command, &plan, &format!("{} test --", own_program()))
    };
    allow(session, rewrite)
}

/// The first objection that holds here and now.
fn objection(session: &mut Session<'_>, plan: &Plan) -> Result<Option<Objection>, CliError> {
    let root = session.scope.root().to_path_buf();
    let is_here = |objection: &&Objection| {
        objection
            .folder
            .as_ref()
            .is_none_or(|folder| folder.canonicalize().unwrap_or_else(|_| folder.clone()).starts_with(&root))
    };
    let mut here = plan.objections.iter().filter(is_here).peekable();
    if here.peek().is_none() || session.holds_everything()? {
        return Ok(None);
    }
    for objection in here {
        if objection.when == When::Always || has_foreign_changes(session)? {
            return Ok(Some(objection.clone()));
        }
    }
    Ok(None)
}

/// True if something uncommitted is not this agent's.
fn has_foreign_changes(session: &mut Session<'_>) -> Result<bool, CliError> {
    let repo = Repo::new(session.scope.clone());
    let status = repo.status()?;
    for path in status.paths() {
        if session.store.owned(&session.party.agent, &repo.key(path), None)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reserves everything that would be written, all or none. Says why not.
fn reserve(
    session: &mut Session<'_>,
    tool: &ToolCall,
    writes: &[Write],
) -> Result<Option<Refused>, CliError> {
    let mut files = Vec::new();
    let mut patterns = Vec::new();
    for write in writes {
        let found = match write {
            Write::File(path) => {
                if let Some(objection) = protected::objection(path).filter(|_| is_inside(session, path)) {
                    return Ok(Some(Refused::Ruled(objection.to_string())));
                }
                session.scope.want(&session.call.cwd, path.as_os_str(), Mode::Exclusive, Reading::Literal)
            }
            Write::Pattern { base, rest } => {
                session.scope.want(base, OsStr::new(rest), Mode::Exclusive, Reading::Guess)
            }
        };
        match found {
            Ok(want) if matches!(want.target, Target::File(_)) => files.push(want),
            Ok(want) => patterns.push(want),
            // Not in this checkout, so not mala's business.
            Err(TargetError::Key(KeyError::Outside { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // What a pattern or a folder covers is known only when the command has run; until then it must merely be nobody's.
    let conflicts = session.store.check(&session.party.agent, &patterns)?;
    if let Some(refused) = refused(session, &conflicts) {
        return Ok(Some(refused));
    }
    if files.is_empty() {
        return Ok(None);
    }
    if session.settings()?.enforcement.unlocked == Unlocked::Deny
        && let Some(reason) = unlocked(session, &files)?
    {
        return Ok(Some(Refused::Ruled(reason)));
    }
    let request = Request {
        party: session.party.clone(),
        wants: files,
        ttl: session.settings()?.lock.ttl,
        reason: Some(format!("written by {}", tool.name)),
    };
    let since = Timestamp::now();
    Ok(match session.store.reserve(&request)? {
        Outcome::Granted(locks) => {
            let taken = take_over(&session.scope, &mut session.store, &locks, since);
            taken.err().map(|error| Refused::Ruled(error.messages().join(": ")))
        }
        Outcome::Refused(refusal) => refused(session, &refusal.conflicts),
    })
}

fn is_inside(session: &Session<'_>, path: &Path) -> bool {
    let resolved = path.parent().and_then(|parent| parent.canonicalize().ok());
    resolved.is_none_or(|parent| {
        parent.starts_with(session.scope.root()) || parent.starts_with(session.scope.git_dir())
    })
}

/// Why these conflicts forbid the call. What git ignores needs no lock.
fn refused(session: &mut Session<'_>, conflicts: &[Conflict]) -> Option<Refused> {
    let ignored = Ignored::in_checkout(&session.scope);
    let is_real = |conflict: &&Conflict| match &conflict.want.target {
        Target::File(key) => !ignored.contains(key.as_path()),
        Target::Pattern(_) | Target::Name(_) => true,
    };
    let mut sentences: Vec<String> = Vec::new();
    let mut paths = HashSet::new();
    for conflict in conflicts.iter().filter(is_real) {
        if paths.insert(&conflict.want.target) {
            sentences.push(refusal::held(&mut session.store, &session.party.agent, conflict));
        }
    }
    let wants: Vec<Want> = conflicts.iter().filter(is_real).map(|conflict| conflict.want.clone()).collect();
    let reason = format!(
        "{}. Nothing was written. Work on something else, {}",
        sentences.join("; "),
        refusal::next_step(&wants.first()?.target)
    );
    Some(Refused::Held { reason, wants })
}

/// Strict: existing files must have been locked beforehand.
fn unlocked(session: &mut Session<'_>, wants: &[Want]) -> Result<Option<String>, CliError> {
    for want in wants {
        let Target::File(key) = &want.target else { continue };
        let is_there = session.scope.root().join(key.as_path()).symlink_metadata().is_ok();
        let holders = session.store.holders(want)?;
        let is_ours =
            holders.iter().any(|lock| lock.agent == session.party.agent && lock.mode == Mode::Exclusive);
        if is_there && !is_ours && holders.is_empty() {
            let path = plain(key);
            return Ok(Some(format!(
                "you hold no lock on `{path}`; take it first: mala lock acquire {}",
                word(&path)
            )));
        }
    }
    Ok(None)
}

/// How to call this very program from a shell.
fn own_program() -> String {
    let Ok(own) = std::env::current_exe() else { return "mala".to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_own = |folder: PathBuf| folder.join("mala").canonicalize().is_ok_and(|found| found == own);
    if std::env::split_paths(&path).any(is_own) {
        return "mala".to_owned();
    }
    format!("'{}'", own.display().to_string().replace('\'', "'\\''"))
}
