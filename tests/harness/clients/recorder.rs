//! A hook that notes what it was told, and says nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::World;

/// What differs from run to run though it means the same, with what stands for it in a fixture.
const IDS: &[(&str, &str)] = &[
    ("session_id", "SESSION"),
    ("prompt_id", "PROMPT"),
    ("turn_id", "TURN"),
    ("agent_id", "AGENT"),
    ("agentId", "AGENT"),
    ("taskId", "TASK"),
];

/// The notes of a hook, in a folder beside the checkout.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
}

impl Recorder {
    pub fn new(world: &World) -> Self {
        let folder = world.base().join("hook-payloads");
        fs::create_dir_all(&folder).expect("a folder can be made in the temporary folder");
        Self { folder }
    }

    /// The hook's command.
    pub fn command(&self) -> String {
        format!("cat > $(mktemp {}/XXXXXXXX)", self.folder.display())
    }

    /// What the hook was told, first things first, made the same for every run: `/checkout` is the checkout, `/home`
    /// the client's HOME, and ids are named after their field.
    pub fn payloads(&self, world: &World, home: &Path) -> Vec<Value> {
        let mut files: Vec<_> = fs::read_dir(&self.folder)
            .expect("the folder was made")
            .map(|entry| {
                let entry = entry.expect("the folder can be read");
                (entry.metadata().and_then(|data| data.modified()).expect("files have times"), entry.path())
            })
            .collect();
        files.sort();
        let mut payloads: Vec<Value> = files
            .iter()
            .map(|(_, path)| fs::read_to_string(path).expect("the note can be read"))
            .map(|text| serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
            .collect();
        let names = names(world, home, &payloads);
        payloads.iter_mut().for_each(|payload| steady(payload, &names));
        payloads
    }
}

/// Texts and what stands for them.
fn names(world: &World, home: &Path, payloads: &[Value]) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for (path, name) in [(home, "/home"), (world.root(), "/checkout")] {
        let path = path.to_string_lossy().into_owned();
        // Claude names a project's folder after its path.
        let dashes: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        names.push((path, name.to_owned()));
        names.push((dashes, name.replace('/', "-")));
    }
    payloads.iter().for_each(|payload| collect_ids(payload, &mut names));
    names
}

fn collect_ids(value: &Value, names: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match (IDS.iter().find(|(id, _)| id == field), value.as_str()) {
                    (Some((_, name)), Some(id)) => names.push((id.to_owned(), (*name).to_owned())),
                    _ => collect_ids(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_ids(item, names)),
        _ => {}
    }
}

fn steady(value: &mut Value, names: &[(String, String)]) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match (field.as_str(), &mut *value) {
                    ("duration_ms" | "totalDurationMs", time) => *time = 0.into(),
                    ("timestamp", Value::String(time)) => "TIME".clone_into(time),
                    // Whether a task of the background has ended already is a matter of luck.
                    ("background_tasks", tasks) => *tasks = Value::Array(Vec::new()),
                    (_, Value::String(hash)) if field.ends_with("Hash") => "HASH".clone_into(hash),
                    (_, Value::String(path)) if field.ends_with("transcript_path") => {
                        *path = without_date(path);
                    }
                    _ => {}
                }
                steady(value, names);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| steady(item, names)),
        Value::String(text) => *text = steady_text(text, names),
        _ => {}
    }
}

fn steady_text(text: &str, names: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in names {
        text = text.replace(from, to);
    }
    // Calls from JavaScript have a random id; codex says how long a command took, gemini which process it was.
    if text.starts_with("exec-") && text.len() == "exec-".len() + 36 {
        "exec-CALL".clone_into(&mut text);
    }
    if let Some((before, after)) = text.split_once("Process Group PGID: ")
        && let Some((_, after)) = after.split_once('\n')
    {
        text = format!("{before}Process Group PGID: PID\n{after}");
    }
    if let Some((before, after)) = text.split_once("Wall time: ")
        && let Some((_, after)) = after.split_once(" seconds")
    {
        text = format!("{before}Wall time: 0 seconds{after}");
    }
    text
}

/// Codex files a transcript under the day and names it after the second; gemini names it after the minute.
fn without_date(path: &str) -> String {
    if let Some((folder, _)) = path.split_once("/chats/session-") {
        return format!("{folder}/chats/session-TIME-ID.jsonl");
    }
    let Some((folder, rest)) = path.split_once("/sessions/") else { return path.to_owned() };
    let session = rest.rsplit('/').next().and_then(|name| name.get("rollout-0000-00-00T00-00-00-".len()..));
    format!("{folder}/sessions/DAY/rollout-TIME-{}", session.unwrap_or(rest))
}
