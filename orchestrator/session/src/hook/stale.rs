//! Files that others have changed since this conversation has read them.
//!
//! A call that would replace such a file whole is refused once, with the difference: its content was made from what is not there
//! any more. A call that exchanges a piece of text fails by itself if the text is gone, so it is only told. Either way the
//! conversation knows of the change from then on.

use std::collections::HashSet;
use std::path::PathBuf;

use mala_agents::answer::carries_context;
use mala_agents::{Intent, ToolCall};
use mala_core::claim::Reading;
use mala_core::shell::word;
use mala_core::text::plain;
use mala_core::{Key, Mode, Target};

use super::places::Places;
use super::session::Session;
use crate::SessionError;
use crate::reads::{Conversation, Freshness, Look, Reads, Stale, difference};

/// What is shown of all differences of one call. Clients cut longer texts.
const MAX_DIFF_BYTES: usize = 2_500;

/// What a call that writes is to be told about the files that it changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Staleness {
    Fresh,
    /// It goes on, and hears this.
    Told(String),
    /// It would lose what others have done.
    Refused {
        summary: String,
        difference: String,
    },
}

/// Notes what a call is about to show to its conversation.
pub(super) fn note_shown(places: &mut Places<'_>, tool: &ToolCall) -> Result<(), SessionError> {
    note(places, tool.shown_files())
}

/// Notes what a call has written: its conversation knows that.
pub(super) fn note_written(places: &mut Places<'_>, tool: &ToolCall) -> Result<(), SessionError> {
    let mut files = tool.replaced_files();
    if let Ok(Intent::Writes { paths }) = tool.intent() {
        files.extend(paths);
    }
    note(places, files)
}

fn note(places: &mut Places<'_>, files: Vec<PathBuf>) -> Result<(), SessionError> {
    let reader = Conversation::of(places.call);
    for path in files {
        let Some((session, key)) = found(places, &path)? else { continue };
        // Before the content: what changes in between counts as not seen.
        let as_of = session.store.newest_event()?;
        Reads::of(&session.scope, &session.party.agent).note(&reader, &key, as_of);
    }
    Ok(())
}

/// Judges the files of a call, which are its agent's by now.
pub(super) fn judge(
    places: &mut Places<'_>,
    tool: &ToolCall,
    files: &[PathBuf],
) -> Result<Staleness, SessionError> {
    let reader = Conversation::of(places.call);
    let mut replaced = HashSet::new();
    for path in tool.replaced_files() {
        replaced.extend(found(places, &path)?.map(|(_, key)| key));
    }
    let (mut stale, mut told) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for path in files {
        let Some((session, key)) = found(places, path)? else { continue };
        if !seen.insert(key.clone()) {
            continue;
        }
        match look(session, &reader, &key)? {
            Finding::Stale(found) if replaced.contains(&key) => stale.push(*found),
            Finding::Stale(found) => told.push(edited(&found)),
            Finding::Told(text) => told.push(text),
            Finding::Fresh => {}
        }
    }
    if !stale.is_empty() {
        return Ok(refusal(&stale));
    }
    Ok(if told.is_empty() { Staleness::Fresh } else { Staleness::Told(told.join("\n")) })
}

/// What is found of one file.
enum Finding {
    Fresh,
    Told(String),
    Stale(Box<Stale>),
}

fn look(session: &mut Session<'_>, reader: &Conversation, key: &Key) -> Result<Finding, SessionError> {
    let reads = Reads::of(&session.scope, &session.party.agent);
    let (agent, call_began) = (session.party.agent.clone(), session.began);
    let store = &mut session.store;
    let mut look = Look { scope: &session.scope, store, agent: &agent, call_began };
    match look.freshness(&reads, reader, key)? {
        Freshness::Fresh => Ok(Finding::Fresh),
        Freshness::Unseen => Ok(match look.landed_unseen(key, session.party.run.as_ref())? {
            Some(change) => Finding::Told(format!(
                "mala: `{}` has changed {}, {}; if you have not read it since, look at what is different: git log -p -1 -- {}",
                plain(key),
                change.since,
                change.by,
                word(plain(key))
            )),
            None => Finding::Fresh,
        }),
        Freshness::Stale(stale) => {
            // It is told what has changed, so it knows.
            let as_of = session.store.newest_event()?;
            reads.note(reader, key, as_of);
            Ok(Finding::Stale(stale))
        }
    }
}

fn edited(stale: &Stale) -> String {
    let difference = difference(stale, MAX_DIFF_BYTES).unwrap_or_default();
    format!("mala: {stale}. Your edit applies to what is there now. The difference before it:\n{difference}")
}

fn refusal(stale: &[Stale]) -> Staleness {
    let names: Vec<String> = stale.iter().map(ToString::to_string).collect();
    let (it, them) = if stale.len() == 1 { ("it", "its") } else { ("them", "their") };
    let summary = format!(
        "{}. Nothing was written, because that would undo the change. Read {it} again, then write {them} new content",
        names.join("; ")
    );
    let each = MAX_DIFF_BYTES / stale.len();
    let differences: Vec<String> = stale.iter().filter_map(|stale| difference(stale, each)).collect();
    Staleness::Refused { summary, difference: differences.join("\n") }
}

/// What is to be said with this call: what is new, and what no earlier call could carry. If this one cannot either, it is kept.
pub(super) fn say(places: &mut Places<'_>, text: Option<String>) -> Result<Option<String>, SessionError> {
    let reader = Conversation::of(places.call);
    let carries = carries_context(places.call);
    let Some(session) = places.home()? else { return Ok(text) };
    let reads = Reads::of(&session.scope, &session.party.agent);
    if carries {
        let said: Vec<String> = reads.take_untold(&reader).into_iter().chain(text).collect();
        return Ok((!said.is_empty()).then(|| said.join("\n")));
    }
    if let Some(text) = text {
        reads.keep_untold(&reader, &text);
    }
    Ok(None)
}

/// The innermost checkout in use that a path lies in, and its name there.
fn found<'p, 'a>(
    places: &'p mut Places<'a>,
    path: &std::path::Path,
) -> Result<Option<(&'p mut Session<'a>, Key)>, SessionError> {
    let path = places.call.cwd.join(path);
    // What cannot be resolved is refused where it is taken, and shows nothing.
    let Some(scope) = places.around(&path).unwrap_or_default().into_iter().next() else { return Ok(None) };
    let want = scope.want(scope.root(), path.as_os_str(), Mode::Exclusive, Reading::Literal);
    let Ok(Target::File(key)) = want.map(|want| want.target) else { return Ok(None) };
    Ok(Some((places.session(&scope)?, key)))
}
