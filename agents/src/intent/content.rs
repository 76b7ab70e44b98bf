//! Which contents a call has to do with: what it shows to the agent, and what it replaces whatever it is.

use std::path::PathBuf;

use serde_json::Value;

use super::guess::{self, Guess, words_of};
use super::names::{FILE_KEYS, OWN};
use crate::hook::ToolCall;
use crate::patch;

/// Tools that show the file they name. What a search shows of a file is not enough to have read it.
const SHOWING: &[&str] = &["Read", "NotebookRead", "read_file", "read_many_files", "read", "view_image"];

/// Tools that replace the whole file they name.
const REPLACING: &[&str] = &["Write", "write", "write_file"];

/// Tools that exchange a piece of text. Without one, they write the file.
const EXCHANGING: &[&str] = &["Edit", "MultiEdit", "edit", "multiedit", "replace"];

impl ToolCall {
    /// The files that this call shows to the agent, by the paths as they were given.
    pub fn shown_files(&self) -> Vec<PathBuf> {
        let name = self.name.as_str();
        if SHOWING.contains(&name) {
            return Guess::of(&self.input).writes;
        }
        let is_reader = guess::only_reads(name) && own_words(name).iter().any(|word| word == "read");
        let is_foreign = !OWN.iter().any(|own| name.starts_with(own));
        if is_reader && is_foreign { Guess::of(&self.input).writes } else { Vec::new() }
    }

    /// The files in which this call leaves nothing of what it finds, by the paths as they were given. Every other change looks
    /// for the text that it exchanges, and fails by itself where that is gone.
    pub fn replaced_files(&self) -> Vec<PathBuf> {
        let name = self.name.as_str();
        let named = || self.text(FILE_KEYS).map(PathBuf::from).into_iter().collect();
        match name {
            _ if REPLACING.contains(&name) => named(),
            _ if EXCHANGING.contains(&name) && looks_for_nothing(&self.input) => named(),
            _ if EXCHANGING.contains(&name) => Vec::new(),
            // A cell is found by its id or its place, not by what is in it.
            "NotebookEdit" if self.text(&["edit_mode"]) != Some("insert") => {
                self.text(&["notebook_path"]).map(PathBuf::from).into_iter().collect()
            }
            "apply_patch" | "patch" | "ApplyPatch" => {
                let replaced = self.patch_text().map(patch::replaced_paths).unwrap_or_default();
                replaced.into_iter().map(PathBuf::from).collect()
            }
            _ if replaces_by_name(name) && !guess::only_reads(name) => Guess::of(&self.input).writes,
            _ => Vec::new(),
        }
    }
}

fn looks_for_nothing(input: &Value) -> bool {
    let old = |edit: &Value| {
        let text = ["old_string", "oldString"].iter().find_map(|key| edit.get(key)?.as_str());
        text.is_some_and(str::is_empty)
    };
    let edits = input.get("edits").and_then(Value::as_array);
    old(input) || edits.is_some_and(|edits| edits.iter().any(old))
}

/// True if the name of a tool that nobody knows says that it writes whole files, or goes by the numbers of lines.
fn replaces_by_name(name: &str) -> bool {
    let words = own_words(name);
    let has = |words_for: &[&str]| words.iter().any(|word| words_for.contains(&word.as_str()));
    has(&["write", "create", "save", "overwrite", "line", "lines"])
}

/// The words of a tool's own name, without its server's.
fn own_words(name: &str) -> Vec<String> {
    words_of(name.rsplit("__").next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { name: name.to_owned(), input, id: None, response: None, error: None }
    }

    #[test]
    fn the_files_that_a_call_shows_are_known() {
        let shown = |name: &str, input| call(name, input).shown_files();
        assert_eq!(shown("Read", json!({"file_path": "/w/a", "offset": 3})), [PathBuf::from("/w/a")]);
        assert_eq!(shown("read_file", json!({"file_path": "a"})), [PathBuf::from("a")]);
        assert_eq!(shown("read", json!({"filePath": "a"})), [PathBuf::from("a")]);
        assert_eq!(shown("mcp__fs__read_file", json!({"path": "a"})), [PathBuf::from("a")]);
        let several = shown("read_many_files", json!({"paths": ["a", "b"]}));
        assert_eq!(several, [PathBuf::from("a"), PathBuf::from("b")]);
        for name in ["Grep", "Glob", "Write", "Bash", "mcp__fs__list_files", "mcp__mala__read_mail"] {
            assert!(shown(name, json!({"path": "a", "file_path": "a"})).is_empty(), "{name}");
        }
    }

    #[test]
    fn what_a_call_replaces_whole_is_told_from_what_it_edits() {
        let replaced = |name: &str, input| call(name, input).replaced_files();
        let a = [PathBuf::from("a")];
        for name in ["Write", "write", "write_file", "mcp__fs__write_file", "mcp__x__create_text_file"] {
            assert_eq!(replaced(name, json!({"path": "a", "content": "x"})), a, "{name}");
        }
        assert_eq!(replaced("mcp__x__replace_lines", json!({"path": "a", "start": 1})), a);
        assert_eq!(replaced("edit", json!({"filePath": "a", "oldString": ""})), a);
        assert_eq!(replaced("MultiEdit", json!({"file_path": "a", "edits": [{"old_string": ""}]})), a);
        assert_eq!(replaced("NotebookEdit", json!({"notebook_path": "a", "new_source": "x"})), a);
        let edits = [
            ("Edit", json!({"file_path": "a", "old_string": "x", "new_string": ""})),
            ("replace", json!({"file_path": "a", "old_string": "x"})),
            ("NotebookEdit", json!({"notebook_path": "a", "edit_mode": "insert"})),
            ("mcp__fs__edit_file", json!({"path": "a"})),
            ("mcp__fs__read_lines", json!({"path": "a"})),
            ("Bash", json!({"command": "echo > a"})),
        ];
        for (name, input) in edits {
            assert!(replaced(name, input).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_patch_replaces_what_it_adds_deletes_and_moves_onto() {
        let patch = "*** Begin Patch\n*** Add File: new\n+x\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n\
                     *** Delete File: old\n*** End Patch\n";
        let replaced = call("apply_patch", json!({"command": patch})).replaced_files();
        assert_eq!(replaced, ["new", "b", "old"].map(PathBuf::from));
        assert!(call("apply_patch", json!({})).replaced_files().is_empty());
    }
}
