//! What agents have read: which content of a file a conversation has seen last, so that it is told when others have changed it.
//!
//! One small file for each file that a conversation has seen, below mala's state directory, where no supervised agent writes:
//! the hash of what was seen, the newest event of then, and the text itself if it is short, for the difference. It is no table of
//! the store because every read would then be a change of it, and each change makes all guards ask the store again.
//!
//! Nothing depends on these files. One that is lost makes mala say less, never allow what a lock forbids.

mod content;
mod stale;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mala_agents::HookCall;
use mala_core::{AgentId, Fence, Key, Scope};

pub(crate) use self::content::FileContent;
pub(crate) use self::stale::{Freshness, Look, Stale, changed_by, difference};

/// Files that are remembered for one agent.
const MAX_FILES_PER_AGENT: usize = 500;

/// Where it is written down, below the state directory.
const DIRECTORY: &str = "reads";

/// One conversation of an agent's client, or one of its sub-agents: what one of them has read, another need not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation(String);

impl Conversation {
    pub(crate) fn of(call: &HookCall) -> Self {
        let name = [call.session.as_str(), call.subagent.as_deref().unwrap_or_default()].join("\0");
        Self(short_id(name))
    }
}

/// What a conversation has seen last of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRead {
    pub(crate) content: FileContent,
    /// The newest event when it was seen.
    pub(crate) as_of: Fence,
}

/// What one agent has read.
#[derive(Debug)]
pub(crate) struct Reads {
    directory: PathBuf,
    root: PathBuf,
}

impl Reads {
    pub(crate) fn of(scope: &Scope, agent: &AgentId) -> Self {
        let directory = directory(scope).join(short_id(agent.as_str()));
        Self { directory, root: scope.root().to_path_buf() }
    }

    /// What the file holds now.
    pub(crate) fn content(&self, key: &Key) -> Option<FileContent> {
        FileContent::of(&self.root.join(key.as_path()))
    }

    /// Notes that the conversation knows what the file holds.
    pub(crate) fn note(&self, reader: &Conversation, key: &Key, as_of: Fence) {
        if let Some(content) = self.content(key) {
            self.write(&reader.0, key, &LastRead { content, as_of });
        }
    }

    pub(crate) fn last(&self, reader: &Conversation, key: &Key) -> Option<LastRead> {
        read(&self.of_key(key).join(&reader.0))
    }

    /// What the agent knows of the file, whichever of its conversations read it last.
    pub(crate) fn newest(&self, key: &Key) -> Option<LastRead> {
        self.all(key).into_iter().map(|(_, known)| known).max_by_key(|known| known.as_of)
    }

    /// The file is the agent's alone from now on. Who knows what it holds at this moment knows all that others have done.
    pub(crate) fn confirm(&self, key: &Key, as_of: Fence) {
        let all = self.all(key);
        if all.is_empty() {
            return;
        }
        let Some(now) = self.content(key) else { return };
        for (reader, known) in all.into_iter().filter(|(_, known)| known.content.is_same(&now)) {
            self.write(&reader, key, &LastRead { as_of, ..known });
        }
    }

    /// What is to be told with the next call that can carry it.
    pub(crate) fn keep_untold(&self, reader: &Conversation, text: &str) {
        let name = self.untold(reader);
        let before = fs::read_to_string(&name).unwrap_or_default();
        let _ = fs::create_dir_all(&self.directory);
        let _ =
            fs::write(name, if before.is_empty() { text.to_owned() } else { format!("{before}\n{text}") });
    }

    pub(crate) fn take_untold(&self, reader: &Conversation) -> Option<String> {
        let name = self.untold(reader);
        let text = fs::read_to_string(&name).ok()?;
        fs::remove_file(name).ok()?;
        Some(text)
    }

    fn untold(&self, reader: &Conversation) -> PathBuf {
        self.directory.join(format!("untold-{}", reader.0))
    }

    fn of_key(&self, key: &Key) -> PathBuf {
        self.directory.join(key.short_id())
    }

    fn all(&self, key: &Key) -> Vec<(String, LastRead)> {
        let Ok(entries) = fs::read_dir(self.of_key(key)) else { return Vec::new() };
        let known = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, read(&entry.path())?));
        entries.flatten().filter_map(known).collect()
    }

    fn write(&self, reader: &str, key: &Key, known: &LastRead) {
        let directory = self.of_key(key);
        if !directory.is_dir() {
            self.make_room();
            // What cannot be written down is not known.
            let _ = fs::create_dir_all(&directory);
        }
        let temporary = directory.join(format!(".{reader}"));
        let text = [format!("{} ", known.as_of.0).as_bytes(), &known.content.to_bytes()].concat();
        let _ = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, directory.join(reader)));
    }

    /// Forgets the file that was read the longest ago, if there are many. Which one that is, is of no consequence.
    fn make_room(&self) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        if files.len() >= MAX_FILES_PER_AGENT
            && let Some(oldest) = files.iter().min_by_key(|path| modified(path))
        {
            let _ = fs::remove_dir_all(oldest);
        }
    }
}

/// Forgets what agents have read that have ended.
pub(crate) fn forget_others<'a>(scope: &Scope, living: impl Iterator<Item = &'a AgentId>) {
    let Ok(entries) = fs::read_dir(directory(scope)) else { return };
    let living: Vec<String> = living.map(|agent| short_id(agent.as_str())).collect();
    for entry in entries.flatten() {
        let is_living =
            entry.file_name().to_str().is_some_and(|name| living.iter().any(|known| known == name));
        if !is_living {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Agents are known by their names in one checkout.
fn directory(scope: &Scope) -> PathBuf {
    scope.state_dir().join(DIRECTORY).join(short_id(scope.root().as_os_str().as_encoded_bytes()))
}

fn read(path: &Path) -> Option<LastRead> {
    let bytes = fs::read(path).ok()?;
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let as_of = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    Some(LastRead { content: FileContent::from_bytes(&bytes[space + 1..])?, as_of: Fence(as_of) })
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn short_id(text: impl AsRef<[u8]>) -> String {
    Key::from_stored(text.as_ref().to_vec()).short_id()
}

#[cfg(test)]
mod tests;
