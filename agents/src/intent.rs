//! What a tool call is about to do to files.
//!
//! Tools known by name are taken at their word. Any other tool, today's or tomorrow's, counts as a writer of every path it
//! is given, unless its name says that it only reads.

mod names;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde_json::Value;
use thiserror::Error;

use self::names::{OWN, OWN_SHELL, PATH_KEYS, READERS, READING, SHELLS, WRITERS};
use crate::hook::ToolCall;
use crate::patch::{self, PatchError};

/// What a tool call intends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// It changes no files.
    Reads,
    /// It changes these files, by the paths as they were given.
    Writes { paths: Vec<PathBuf> },
    /// It runs a shell command, in `cwd` if the call names a folder.
    Shell { command: String, cwd: Option<PathBuf> },
    /// A tool that is not known and names no file.
    Unknown,
}

/// Why the intent of a known tool cannot be told.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum IntentError {
    #[error("the tool `{tool}` was called without `{field}`, which says what it would write")]
    Missing { tool: String, field: &'static str },
    #[error("the patch cannot be judged")]
    Patch(#[source] PatchError),
    #[error("the tool `{0}` names a path with a NUL byte")]
    Nul(String),
}

/// How deep arguments are searched; JSON that is nested deeper was refused before.
const MAX_DEPTH: usize = 128;

impl ToolCall {
    /// What this call would do.
    pub fn intent(&self) -> Result<Intent, IntentError> {
        if OWN_SHELL.contains(&self.name.as_str()) {
            return self.own_shell();
        }
        let name = self.name.as_str();
        // Codex puts `collaboration` in front of the tools by which its agents talk.
        let plain = name.strip_prefix("collaboration").unwrap_or(name);
        if READERS.contains(&plain) || OWN.iter().any(|own| name.starts_with(own)) {
            return Ok(Intent::Reads);
        }
        if SHELLS.contains(&name) {
            return self.shell();
        }
        match name {
            "write_stdin" => Ok(self
                .text(&["chars", "input", "text"])
                .map_or(Intent::Reads, |command| Intent::Shell { command: command.to_owned(), cwd: None })),
            "apply_patch" | "patch" | "ApplyPatch" => self.patch(),
            "NotebookEdit" => self.writes(&["notebook_path"], "notebook_path"),
            _ if WRITERS.contains(&name) => {
                self.writes(&["file_path", "filePath", "path", "absolute_path"], "file_path")
            }
            _ => self.by_arguments(),
        }
    }

    fn text(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.input.get(key)?.as_str())
    }

    fn shell(&self) -> Result<Intent, IntentError> {
        let missing = || IntentError::Missing { tool: self.name.clone(), field: "command" };
        let value =
            ["command", "cmd", "script"].iter().find_map(|key| self.input.get(key)).ok_or_else(missing)?;
        let command = match value {
            Value::String(text) => text.clone(),
            Value::Array(words) => {
                let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                command_of_words(&words.ok_or_else(missing)?)
            }
            _ => return Err(missing()),
        };
        let cwd = self.text(&["workdir", "cwd", "dir_path", "directory"]).map(PathBuf::from);
        Ok(Intent::Shell { command, cwd })
    }

    /// What mala is told to run is judged like what is typed.
    fn own_shell(&self) -> Result<Intent, IntentError> {
        let missing = || IntentError::Missing { tool: self.name.clone(), field: "command" };
        let words = self.input.get("command").and_then(Value::as_array).ok_or_else(missing)?;
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        let command = format!("mala test -- {}", quoted(&words.ok_or_else(missing)?));
        Ok(Intent::Shell { command, cwd: None })
    }

    fn patch(&self) -> Result<Intent, IntentError> {
        let text = self
            .input
            .as_str()
            .or_else(|| self.text(&["command", "input", "patch", "patchText", "patch_text"]));
        let text = text.ok_or_else(|| IntentError::Missing { tool: self.name.clone(), field: "command" })?;
        let paths = patch::paths(text).map_err(IntentError::Patch)?;
        self.checked(paths)
    }

    fn writes(&self, keys: &[&str], field: &'static str) -> Result<Intent, IntentError> {
        match self.text(keys) {
            Some(path) if !path.is_empty() => self.checked(vec![path.to_owned()]),
            _ => Err(IntentError::Missing { tool: self.name.clone(), field }),
        }
    }

    fn checked(&self, paths: Vec<String>) -> Result<Intent, IntentError> {
        if paths.iter().any(|path| path.contains('\0')) {
            return Err(IntentError::Nul(self.name.clone()));
        }
        Ok(Intent::Writes { paths: paths.into_iter().map(PathBuf::from).collect() })
    }

    /// A tool nobody here knows.
    fn by_arguments(&self) -> Result<Intent, IntentError> {
        if only_reads(&self.name) {
            return Ok(Intent::Reads);
        }
        let mut paths = Vec::new();
        collect_paths(&self.input, MAX_DEPTH, &mut paths);
        if paths.is_empty() { Ok(Intent::Unknown) } else { self.checked(paths) }
    }
}

/// A command given as words, as a shell would read it back. `["bash", "-lc", TEXT]` is just TEXT.
fn command_of_words(words: &[&str]) -> String {
    if let [shell, flag, text] = words
        && matches!(shell.rsplit('/').next(), Some("bash" | "sh" | "zsh"))
        && matches!(*flag, "-c" | "-lc")
    {
        return (*text).to_owned();
    }
    quoted(words)
}

fn quoted(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    quoted.join(" ")
}

/// True if the tool's own name, without its server's, begins with a word for reading.
fn only_reads(name: &str) -> bool {
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
fn words_of(name: &str) -> Vec<String> {
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

fn collect_paths(value: &Value, depth: usize, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) if depth > 0 => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if is_path_key(key) => push_path(text, paths),
                    Value::Array(values) if is_path_key(key) => {
                        values.iter().filter_map(Value::as_str).for_each(|text| push_path(text, paths));
                        values.iter().for_each(|value| collect_paths(value, depth - 1, paths));
                    }
                    Value::String(text) if text.starts_with("file://") => push_path(text, paths),
                    _ => collect_paths(value, depth - 1, paths),
                }
            }
        }
        Value::Array(values) if depth > 0 => {
            values.iter().for_each(|value| collect_paths(value, depth - 1, paths));
        }
        _ => {}
    }
}

fn is_path_key(key: &str) -> bool {
    let plain: String =
        key.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect();
    PATH_KEYS.contains(&plain.as_str()) || plain.ends_with("path") || plain.ends_with("file")
}

fn push_path(text: &str, paths: &mut Vec<String>) {
    let is_elsewhere = text.contains("://") && !text.starts_with("file://");
    if text.is_empty() || is_elsewhere {
        return;
    }
    let path = match text.strip_prefix("file://") {
        // `file://host/path` and `file:///path`
        Some(rest) => unescape(rest.find('/').map_or("", |slash| &rest[slash..])),
        None => text.to_owned(),
    };
    if !path.is_empty() && !paths.contains(&path) {
        paths.push(path);
    }
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
