//! Before a tool runs: may it?

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mala_agents::intent::MAX_PATHS;
use mala_agents::shell::{Plan, Surroundings, Write, plan, rewrite_tests};
use mala_agents::{Answer, Guess, Intent, ToolCall, When, protected};
use mala_config::Unlocked;
use mala_core::claim::{Reading, TargetError};
use mala_core::key::KeyError;
use mala_core::text::{causes, plain};
use mala_core::{CommandPattern, Conflict, Key, Lock, Mode, Scope, Target, Want};
use mala_git::Repo;
use mala_git::config_file::SettingsList;
use mala_store::{EventKind, Outcome, Request};
use serde_json::json;

use super::places::Places;
use super::session::Session;
use super::stale::{self, Staleness};
use super::{audit, waiting};
use crate::reads::Reads;
use crate::wants::with_groups;
use crate::{Ignored, SessionError, acquire, refusal};

/// Decides about one tool call.
pub(super) fn judge(places: &mut Places<'_>, tool: &ToolCall) -> Result<Answer, SessionError> {
    let intent = match tool.intent() {
        Ok(intent) => intent,
        Err(error) => {
            return Ok(Answer::Deny { reason: format!("mala: nothing may be written: {}", causes(&error)) });
        }
    };
    match intent {
        Intent::Reads => {
            stale::note_shown(places, tool)?;
            allow(places, None)
        }
        Intent::Writes { paths } => match take(places, tool, &files(places, paths.clone()))? {
            Some(answer) => Ok(answer),
            None => unless_stale(places, tool, &paths),
        },
        Intent::Shell { command, cwd } => {
            let cwd = places.call.cwd.join(cwd.unwrap_or_default());
            match shell(places, tool, &command, &cwd)? {
                Judged::Refused(answer) => Ok(answer),
                Judged::Passed { rewrite } => allow(places, rewrite),
            }
        }
        Intent::Unknown(guess) => unknown(places, tool, guess),
    }
}

fn files(places: &Places<'_>, paths: Vec<PathBuf>) -> Vec<Write> {
    paths.into_iter().map(|path| Write::File(places.call.cwd.join(path))).collect()
}

/// A tool nobody knows: what it names must not be somebody else's, and what it would run is judged like what is typed.
fn unknown(places: &mut Places<'_>, tool: &ToolCall, guess: Guess) -> Result<Answer, SessionError> {
    if let Some(answer) = mentioned(places, tool, &guess.mentions)? {
        return Ok(answer);
    }
    let cwd = places.call.cwd.join(guess.cwd.unwrap_or_default());
    for command in &guess.commands {
        if let Judged::Refused(answer) = shell(places, tool, command, &cwd)? {
            return Ok(answer);
        }
    }
    let is_silent = guess.writes.is_empty() && guess.commands.is_empty();
    if let Some(answer) = take(places, tool, &files(places, guess.writes.clone()))? {
        return Ok(answer);
    }
    if is_silent {
        expect(places, tool, &cwd)?;
    }
    unless_stale(places, tool, &guess.writes)
}

/// Allows a call whose files are its agent's by now, unless it would undo what others have done to them.
fn unless_stale(places: &mut Places<'_>, tool: &ToolCall, files: &[PathBuf]) -> Result<Answer, SessionError> {
    match stale::judge(places, tool, files)? {
        Staleness::Fresh => allow(places, None),
        Staleness::Told(text) => {
            let (news, told) = (allow(places, None)?, stale::say(places, Some(text))?);
            let Answer::Allow { context, rewrite } = news else { return Ok(news) };
            let context: Vec<String> = told.into_iter().chain(context).collect();
            Ok(Answer::Allow { context: (!context.is_empty()).then(|| context.join("\n")), rewrite })
        }
        Staleness::Refused { summary, difference } => {
            // The log has no room for the content of files.
            let refused = match places.home()? {
                Some(session) => deny(session, tool, &summary)?,
                None => Answer::Deny { reason: format!("mala: {summary}") },
            };
            let Answer::Deny { reason } = refused else { return Ok(refused) };
            Ok(Answer::Deny { reason: format!("{reason}. The difference:\n{difference}") })
        }
    }
}

/// Refuses texts that are the path of something that somebody else holds.
fn mentioned(
    places: &mut Places<'_>,
    tool: &ToolCall,
    paths: &[PathBuf],
) -> Result<Option<Answer>, SessionError> {
    for path in paths {
        let path = places.call.cwd.join(path);
        // What cannot be resolved is no path.
        for scope in places.around(&path).unwrap_or_default() {
            let found = scope.want(scope.root(), path.as_os_str(), Mode::Exclusive, Reading::Literal);
            let Ok(want) = found else { continue };
            let session = places.session(&scope)?;
            let mut conflicts = session.store.check(&session.party.agent, &[want])?;
            // A folder in which somebody holds a file is not held itself.
            conflicts.retain(|Conflict { want, holder }| {
                matches!(want.target, Target::File(_)) || want.target == holder.target
            });
            if let Some(Refused::Held { reason, .. }) = refused(session, &conflicts) {
                return deny(session, tool, &reason).map(Some);
            }
        }
    }
    Ok(None)
}

/// Has a call looked at again when it is over.
fn expect(places: &mut Places<'_>, tool: &ToolCall, cwd: &Path) -> Result<(), SessionError> {
    for scope in places.looked_at(cwd)? {
        audit::expect(places.session(&scope)?, tool)?;
    }
    Ok(())
}

fn allow(places: &mut Places<'_>, rewrite: Option<String>) -> Result<Answer, SessionError> {
    let context = match places.home()? {
        Some(session) => session.news()?,
        None => None,
    };
    Ok(Answer::Allow { context, rewrite })
}

fn deny(session: &mut Session<'_>, tool: &ToolCall, reason: &str) -> Result<Answer, SessionError> {
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

/// What a call would write in one checkout.
#[derive(Default)]
struct Share {
    /// To be taken.
    files: Vec<Want>,
    /// What is staged of a file needs no lock. What a pattern or a folder covers is known only when the command has run, and what lies in a repository of its own is
    /// taken there; here it must merely be nobody's.
    others: Vec<Want>,
}

/// Takes everything that would be written, in each checkout all or none; or refuses the call, or has it wait where that is
/// better.
fn take(places: &mut Places<'_>, tool: &ToolCall, writes: &[Write]) -> Result<Option<Answer>, SessionError> {
    if writes.len() > MAX_PATHS {
        let reason = format!("mala: this writes more than {MAX_PATHS} files: do it in several calls");
        return Ok(Some(Answer::Deny { reason }));
    }
    let mut shares: Vec<(Scope, Share)> = Vec::new();
    for write in writes {
        let path = match write {
            Write::File(path) | Write::Staged(path) => path,
            Write::Pattern { base, .. } => base,
        };
        for (depth, scope) in places.around(path)?.into_iter().enumerate() {
            if let Write::File(path) = write
                && let Some(objection) = protected::objection(path)
            {
                let session = places.session(&scope)?;
                if objection.when != When::InRun || session.party.run.is_some() {
                    return deny(session, tool, &objection.to_string()).map(Some);
                }
            }
            let Some(want) = want(&scope, write, depth)? else { continue };
            let at = shares.iter().position(|(known, _)| *known == scope).unwrap_or_else(|| {
                shares.push((scope, Share::default()));
                shares.len() - 1
            });
            let share = &mut shares[at].1;
            match want.target {
                Target::File(_) if depth == 0 && !matches!(write, Write::Staged(_)) => share.files.push(want),
                _ => share.others.push(want),
            }
        }
    }
    for (scope, share) in &shares {
        if let Some(answer) = take_share(places.session(scope)?, tool, share)? {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

/// What would be written of a checkout, if anything.
fn want(scope: &Scope, write: &Write, depth: usize) -> Result<Option<Want>, SessionError> {
    let found = match write {
        Write::File(path) | Write::Staged(path) => {
            scope.want(scope.root(), path.as_os_str(), Mode::Exclusive, Reading::Literal)
        }
        Write::Pattern { base, rest } => scope.want(base, OsStr::new(rest), Mode::Exclusive, Reading::Guess),
    };
    match found {
        Ok(want) => Ok(Some(want)),
        Err(TargetError::Key(KeyError::Outside { .. })) => Ok(None),
        // Checkouts that git keeps for itself, such as snapshots.
        Err(TargetError::Key(KeyError::GitInternal { .. })) if depth > 0 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn take_share(
    session: &mut Session<'_>,
    tool: &ToolCall,
    share: &Share,
) -> Result<Option<Answer>, SessionError> {
    // What has become free meanwhile is tried again.
    while let Some(refused) = reserve(session, tool, share)? {
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

/// What becomes of a command.
enum Judged {
    Refused(Answer),
    /// It may run, or what is better in its place.
    Passed {
        rewrite: Option<String>,
    },
}

fn shell(
    places: &mut Places<'_>,
    tool: &ToolCall,
    command: &str,
    cwd: &Path,
) -> Result<Judged, SessionError> {
    let here = places.around(cwd)?.into_iter().next();
    let tests: Vec<CommandPattern> = match &here {
        Some(scope) => {
            let guarded = places.session(scope)?.settings()?.guarded();
            guarded.into_iter().map(|(_, pattern)| pattern).collect()
        }
        None => Vec::new(),
    };
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let run = places.run_agent()?;
    let exists = |path: &Path| path.exists();
    let alias = |name: &str| {
        let scope = here.as_ref()?;
        let local = [scope.git_dir().join("config")];
        SettingsList::of(|name| std::env::var_os(name), &local).alias(name)
    };
    let surroundings = Surroundings {
        cwd,
        home: home.as_deref(),
        exists: &exists,
        alias: &alias,
        tests: &tests,
        run: run.as_ref(),
    };
    let plan = plan(command, surroundings);
    if let Some(answer) = object(places, tool, &plan, cwd)? {
        return Ok(Judged::Refused(answer));
    }
    if let Some(answer) = take(places, tool, &plan.writes)? {
        return Ok(Judged::Refused(answer));
    }
    if !plan.is_known() {
        expect(places, tool, cwd)?;
    }
    // Under `mala exec` the command is held when it starts.
    let rewrite = if places.is_enforced() {
        None
    } else {
        rewrite_tests(command, &plan, &format!("{} test --", own_program()))
    };
    Ok(Judged::Passed { rewrite })
}

/// Refuses a command to which there is an objection that holds here and now.
fn object(
    places: &mut Places<'_>,
    tool: &ToolCall,
    plan: &Plan,
    cwd: &Path,
) -> Result<Option<Answer>, SessionError> {
    for objection in &plan.objections {
        let scopes = match &objection.folder {
            Some(folder) => places.around(folder)?.into_iter().take(1).collect(),
            None => places.looked_at(cwd)?,
        };
        for scope in scopes {
            let session = places.session(&scope)?;
            let is_idle = match objection.when {
                When::Always => session.holds_everything()?,
                When::ForeignChanges => session.holds_everything()? || !has_foreign_changes(session)?,
                When::Protected => false,
                When::InRun => session.party.run.is_none(),
            };
            if !is_idle {
                return deny(session, tool, &objection.to_string()).map(Some);
            }
        }
    }
    Ok(None)
}

/// True if something uncommitted is not this agent's.
fn has_foreign_changes(session: &mut Session<'_>) -> Result<bool, SessionError> {
    let repo = Repo::new(session.scope.clone());
    let status = repo.status()?;
    for path in status.paths() {
        if session.store.owned(&session.party.agent, &repo.key(path), None)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reserves all or none. Says why not.
fn reserve(
    session: &mut Session<'_>,
    tool: &ToolCall,
    share: &Share,
) -> Result<Option<Refused>, SessionError> {
    let conflicts = session.store.check(&session.party.agent, &share.others)?;
    if let Some(refused) = refused(session, &conflicts) {
        return Ok(Some(refused));
    }
    let files = &share.files;
    if files.is_empty() {
        return Ok(None);
    }
    if session.settings()?.enforcement.unlocked == Unlocked::Deny
        && let Some(reason) = unlocked(session, files)?
    {
        return Ok(Some(Refused::Ruled(reason)));
    }
    let groups = session.settings()?.lock_groups();
    let request = Request {
        party: session.party.clone(),
        wants: with_groups(&session.scope, &groups, files.clone()),
        ttl: session.settings()?.lock.ttl,
        reason: Some(format!("written by {}", tool.name)),
    };
    match acquire(&session.scope, &mut session.store, &request) {
        Ok(Outcome::Granted(locks)) => {
            confirm_reads(session, &locks)?;
            Ok(None)
        }
        Ok(Outcome::Refused(refusal)) => Ok(refused(session, &refusal.conflicts)),
        Err(error @ SessionError::StillOpen { .. }) => Ok(Some(Refused::Ruled(causes(&error)))),
        Err(error) => Err(error),
    }
}

/// From the moment at which it gets a file, the agent alone changes it: what it knows of it then stays known.
fn confirm_reads(session: &mut Session<'_>, locks: &[Lock]) -> Result<(), SessionError> {
    let reads = Reads::of(&session.scope, &session.party.agent);
    let new = locks.iter().filter(|lock| lock.fence > session.began);
    let keys: Vec<Key> = new.filter_map(|lock| lock.target.file().cloned()).collect();
    if !keys.is_empty() {
        let as_of = session.store.newest_event()?;
        keys.iter().for_each(|key| reads.confirm(key, as_of));
    }
    Ok(())
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
        if paths.insert(refusal::named(conflict)) {
            sentences.push(refusal::held(&mut session.store, &session.party.agent, conflict));
        }
    }
    let wants: Vec<Want> = conflicts.iter().filter(is_real).map(|conflict| conflict.want.clone()).collect();
    let first = refusal::named(conflicts.iter().find(is_real)?);
    let reason = format!(
        "{}. Nothing was written. Work on something else, {}",
        sentences.join("; "),
        session.reader().next_step(first)
    );
    Some(Refused::Held { reason, wants })
}

/// Strict: existing files must have been locked beforehand.
fn unlocked(session: &mut Session<'_>, wants: &[Want]) -> Result<Option<String>, SessionError> {
    for want in wants {
        let Target::File(key) = &want.target else { continue };
        let is_there = session.scope.root().join(key.as_path()).symlink_metadata().is_ok();
        let holders = session.store.holders(want)?;
        let is_ours =
            holders.iter().any(|lock| lock.agent == session.party.agent && lock.mode == Mode::Exclusive);
        if is_there && !is_ours && holders.is_empty() {
            return Ok(Some(format!(
                "you hold no lock on `{}`; take it first: {}",
                plain(key),
                session.reader().command("lock acquire", &want.target)
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
