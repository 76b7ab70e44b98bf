//! Looking again at what an unknown writer has done, where the kernel does not watch.
//!
//! Before it runs, the content of everything uncommitted is noted; afterwards it is compared. A change that nobody's lock
//! forbids makes the file this agent's. A change to somebody else's file is reported to the model, recorded, and held
//! against the agent by the gate, unless its holder was at work in the same moment: then it may have been the holder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use mala_agents::{Answer, Event, ToolCall};
use mala_core::text::plain;
use mala_core::{AgentId, Key, Mode, Target, Want};
use mala_git::{Content, Repo, RepoPath};
use mala_store::{EventKind, Outcome, Request};
use serde_json::json;

use super::places::Places;
use super::session::Session;
use super::stale;
use crate::{SessionError, acquire};

type Scene = BTreeMap<RepoPath, Content>;

/// Notes how things are before a tool runs whose writes cannot be known.
pub(super) fn expect(session: &mut Session<'_>, tool: &ToolCall) -> Result<(), SessionError> {
    if session.is_enforced() {
        return Ok(());
    }
    let folder = folder(session, &session.party.agent);
    fs::create_dir_all(&folder)?;
    let text = serde_json::to_vec(&scene(&Repo::new(session.scope.clone()))?)?;
    Ok(fs::write(folder.join(file_name(tool)), text)?)
}

/// Says what a tool has done to files of others, where it was noted before.
pub(super) fn review(places: &mut Places<'_>, tool: &ToolCall) -> Result<Answer, SessionError> {
    let mut said: Vec<String> = stale::say(places, None)?.into_iter().collect();
    if places.call.event == Event::AfterTool {
        stale::note_written(places, tool)?;
    }
    for scope in places.looked_at(&places.call.cwd)? {
        said.extend(found(places.session(&scope)?, tool)?);
    }
    if let Some(session) = places.home()? {
        said.extend(session.news()?);
    }
    Ok(if said.is_empty() { Answer::Continue } else { Answer::Context(said.join("\n")) })
}

fn found(session: &mut Session<'_>, tool: &ToolCall) -> Result<Option<String>, SessionError> {
    let note = folder(session, &session.party.agent).join(file_name(tool));
    // Nothing was expected of it.
    let Ok(text) = fs::read(&note) else { return Ok(None) };
    let started = fs::metadata(&note)?.modified()?;
    fs::remove_file(&note)?;
    let before: Scene = serde_json::from_slice(&text)?;
    let repo = Repo::new(session.scope.clone());
    let after = scene(&repo)?;
    let paths: BTreeSet<&RepoPath> = before.keys().chain(after.keys()).collect();
    let mut foreign = Vec::new();
    for path in paths.into_iter().filter(|path| before.get(*path) != after.get(*path)) {
        if let Some(holder) = claim(session, &repo.key(path), tool)? {
            let is_certain = !was_at_work(session, &holder, started);
            let detail = json!({ "program": tool.name, "holder": holder, "certain": is_certain });
            session.note(EventKind::WriteForeign, Some(&Target::File(repo.key(path))), &detail);
            foreign.push(format!("`{}` (held by `{holder}`)", plain(path)));
        }
    }
    Ok((!foreign.is_empty()).then(|| {
        format!(
            "mala: while this command ran, files of other agents changed: {}. If it was this command, take that back now: \
             undo exactly your change in these files, tell their holders, and do not commit them; the gate knows of it.",
            foreign.join(", ")
        )
    }))
}

/// Takes the file for this agent. If it is somebody else's: whose.
fn claim(session: &mut Session<'_>, key: &Key, tool: &ToolCall) -> Result<Option<AgentId>, SessionError> {
    let want = Want { target: Target::File(key.clone()), aliases: Vec::new(), mode: Mode::Exclusive };
    let request = Request {
        party: session.party.clone(),
        wants: vec![want],
        ttl: session.settings()?.lock.ttl,
        reason: Some(format!("written by {}", tool.name)),
    };
    match acquire(&session.scope, &mut session.store, &request) {
        Ok(Outcome::Refused(refusal)) => {
            Ok(refusal.conflicts.into_iter().next().map(|conflict| conflict.holder.agent))
        }
        // Where a program of another agent still writes, it is nobody's for now.
        Ok(Outcome::Granted(_)) | Err(SessionError::StillOpen { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// True if the holder has called a hook since then.
fn was_at_work(session: &Session<'_>, holder: &AgentId, since: SystemTime) -> bool {
    let touched = fs::metadata(folder(session, holder)).and_then(|folder| folder.modified());
    touched.is_ok_and(|touched| touched >= since)
}

fn scene(repo: &Repo) -> Result<Scene, SessionError> {
    let status = repo.status()?;
    Ok(repo.contents(status.paths())?)
}

/// Where notes about an agent's calls lie.
pub(super) fn folder(session: &Session<'_>, agent: &AgentId) -> PathBuf {
    // A name may be longer than that of a file.
    let name = Key::from_stored(agent.as_str().as_bytes().to_vec()).short_id();
    session.scope.state_dir().join("audits").join(name)
}

fn file_name(tool: &ToolCall) -> String {
    let id = tool.id.as_deref().unwrap_or("call");
    id.bytes().take(100).map(|byte| format!("{byte:02x}")).collect()
}
