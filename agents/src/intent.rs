//! What a tool call is about to do to files.
//!
//! Tools known by name are taken at their word. Any other tool, today's or tomorrow's, is judged by its arguments, unless its
//! name says that it only reads.

mod content;
mod guess;
mod names;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde_json::Value;
use thiserror::Error;

pub use self::guess::Guess;
use self::names::{FILE_KEYS, FOLDER_KEYS, OWN, OWN_SHELL, READERS, SHELLS, WRITERS};
use crate::hook::ToolCall;
use crate::patch::{self, PatchError};

/// The longest path that the kernel opens (`PATH_MAX`).
pub const MAX_PATH_BYTES: usize = 4096;
/// Files that one call may name.
pub const MAX_PATHS: usize = 1_000;
/// Texts of an unknown tool's call that are looked at.
const MAX_MENTIONS: usize = 10_000;
/// The longest command. Linux starts none with an argument of more than 128 KiB; a terminal may be typed more.
const MAX_COMMAND_BYTES: usize = 1 << 20;

/// What a tool call intends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// It changes no files.
    Reads,
    /// It changes these files, by the paths as they were given.
    Writes { paths: Vec<PathBuf> },
    /// It runs a shell command, in `cwd` if the call names a folder.
    Shell { command: String, cwd: Option<PathBuf> },
    /// A tool that is not known: what its arguments say.
    Unknown(Guess),
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
    #[error("the tool `{tool}` names a path of {bytes} bytes; the longest has {MAX_PATH_BYTES}")]
    PathTooLong { tool: String, bytes: usize },
    #[error("the tool `{tool}` names more than {most} files: do it in several calls")]
    TooManyPaths { tool: String, most: usize },
    #[error("the tool `{tool}` runs a command of {bytes} bytes, more than mala reads: put it in a file")]
    CommandTooLong { tool: String, bytes: usize },
}

impl ToolCall {
    /// What this call would do. Nothing is longer, or more, than can be judged in a moment.
    pub fn intent(&self) -> Result<Intent, IntentError> {
        let intent = self.of_any_length()?;
        let (paths, commands, cwd): (&[PathBuf], &[String], _) = match &intent {
            Intent::Reads => return Ok(intent),
            Intent::Writes { paths } => (paths, &[], &None),
            Intent::Shell { command, cwd } => (&[], std::slice::from_ref(command), cwd),
            Intent::Unknown(guess) => {
                let most = MAX_MENTIONS;
                if guess.mentions.len() > most {
                    return Err(IntentError::TooManyPaths { tool: self.name.clone(), most });
                }
                (&guess.writes, &guess.commands, &guess.cwd)
            }
        };
        if paths.len() > MAX_PATHS {
            return Err(IntentError::TooManyPaths { tool: self.name.clone(), most: MAX_PATHS });
        }
        let lengths = paths.iter().chain(cwd).map(|path| path.as_os_str().len());
        if let Some(bytes) = lengths.max().filter(|bytes| *bytes > MAX_PATH_BYTES) {
            return Err(IntentError::PathTooLong { tool: self.name.clone(), bytes });
        }
        let bytes = commands.iter().map(String::len).sum();
        if bytes > MAX_COMMAND_BYTES {
            return Err(IntentError::CommandTooLong { tool: self.name.clone(), bytes });
        }
        Ok(intent)
    }

    fn of_any_length(&self) -> Result<Intent, IntentError> {
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
            _ if WRITERS.contains(&name) => self.writes(FILE_KEYS, "file_path"),
            _ if guess::only_reads(name) => Ok(Intent::Reads),
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
        Ok(Intent::Shell { command, cwd: self.folder() })
    }

    /// The folder that the call names for its command.
    fn folder(&self) -> Option<PathBuf> {
        self.text(FOLDER_KEYS).map(PathBuf::from)
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
        let missing = || IntentError::Missing { tool: self.name.clone(), field: "command" };
        let paths = patch::paths(self.patch_text().ok_or_else(missing)?).map_err(IntentError::Patch)?;
        self.checked(paths)
    }

    fn patch_text(&self) -> Option<&str> {
        self.input.as_str().or_else(|| self.text(&["command", "input", "patch", "patchText", "patch_text"]))
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
        let mut guess = Guess { cwd: self.folder(), ..Guess::of(&self.input) };
        if !guess.commands.is_empty() {
            guess.writes.retain(|path| guess.cwd.as_ref() != Some(path));
        }
        let has_nul = |path: &PathBuf| path.as_os_str().as_encoded_bytes().contains(&0);
        if guess.writes.iter().any(has_nul) {
            return Err(IntentError::Nul(self.name.clone()));
        }
        Ok(Intent::Unknown(guess))
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
