//! What the arguments of a tool that nobody knows say about the files it changes.

use std::path::PathBuf;

use serde_json::Value;

use super::names::{COMMAND_KEYS, FOLDER_KEYS, PATH_KEYS, READING};
use super::{MAX_PATH_BYTES, MAX_PATHS, command_of_words};

/// How deep arguments are searched; JSON that is nested deeper was refused before.
const MAX_DEPTH: usize = 128;

/// What may be meant. Nothing of it is certain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guess {
    /// What stands where a path is expected counts as written.
    pub writes: Vec<PathBuf>,
    /// Any other text that could be a path: nobody else may hold it.
    pub mentions: Vec<PathBuf>,
    /// Commands for a shell.
    pub commands: Vec<String>,
    /// Where those run, if the call says so.
    pub cwd: Option<PathBuf>,
}

impl Guess {
    pub(super) fn of(input: &Value) -> Self {
        let mut guess = Self::default();
        guess.collect(None, input, MAX_DEPTH);
        guess.mentions.sort_unstable();
        guess.mentions.dedup();
        guess
    }

    /// Looks at a value, and at the key that it stands behind.
    fn collect(&mut self, key: Option<&str>, value: &Value, depth: usize) {
        match value {
            Value::String(text) => self.text(key, text),
            Value::Array(values) if key.is_some_and(is_argv) => self.words(values),
            Value::Array(values) if depth > 0 => {
                values.iter().for_each(|value| self.collect(key, value, depth - 1));
            }
            Value::Object(fields) if depth > 0 => {
                fields.iter().for_each(|(key, value)| self.collect(Some(key.as_str()), value, depth - 1));
            }
            _ => {}
        }
    }

    fn text(&mut self, key: Option<&str>, text: &str) {
        if key.is_some_and(is_command_key) {
            self.commands.push(text.to_owned());
        } else if key.is_some_and(is_path_key) || text.starts_with("file://") {
            // Whoever names too many is refused, however many those are.
            let has_room = self.writes.len() <= MAX_PATHS;
            self.writes.extend(path(text).filter(|path| has_room && !self.writes.contains(path)));
        } else if !key.is_some_and(|key| FOLDER_KEYS.contains(&key))
            // Longer texts, and those of several lines, are no paths.
            && text.len() <= MAX_PATH_BYTES
            && !text.contains(['\n', '\0'])
        {
            self.mentions.extend(path(text));
        }
    }

    /// A command as its words, each of which may be a path.
    fn words(&mut self, values: &[Value]) {
        let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        self.commands.push(command_of_words(&words));
        words.iter().for_each(|word| self.text(None, word));
    }
}

fn is_command_key(key: &str) -> bool {
    COMMAND_KEYS.contains(&plain(key).as_str())
}

/// `command: [..]` is one command, `commands: [..]` are several.
fn is_argv(key: &str) -> bool {
    is_command_key(key) && !plain(key).ends_with('s')
}

fn is_path_key(key: &str) -> bool {
    let plain = plain(key);
    PATH_KEYS.contains(&plain.as_str()) || plain.ends_with("path") || plain.ends_with("file")
}

/// True if the tool's own name, without its server's, begins with a word for reading.
pub(super) fn only_reads(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    let words = words_of(own);
    let writes = [
        "write", "edit", "create", "delete", "remove", "update", "set", "save", "move", "rename", "replace",
        "apply",
    ];
    words.first().is_some_and(|first| READING.contains(&first.as_str()))
        && !words.iter().any(|word| writes.contains(&word.as_str()))
}

/// `getFile_list` as `get`, `file`, `list`.
pub(super) fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for char in name.chars() {
        let is_break = !char.is_alphanumeric() || (char.is_uppercase() && was_lower);
        if is_break {
            words.push(String::new());
        }
        if char.is_alphanumeric() {
            words.last_mut().expect("there is always one").extend(char.to_lowercase());
        }
        was_lower = char.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn plain(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// The path that a text is, if it can be one.
fn path(text: &str) -> Option<PathBuf> {
    let path = match text.strip_prefix("file://") {
        // `file://host/path` and `file:///path`
        Some(rest) => unescape(rest.find('/').map_or("", |slash| &rest[slash..])),
        None if text.contains("://") => return None,
        None => text.to_owned(),
    };
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// Resolves `%20` and its like.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|_| *first == b'%').and_then(|pair| std::str::from_utf8(pair).ok());
        match digits.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
