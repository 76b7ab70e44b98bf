//! What is known of the shell between two commands: the folder, variables, functions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::ast::{Command, Word};
use super::expand::Arg;

/// Folders the shell may be in at once before nobody knows where it is.
const MAX_FOLDERS: usize = 8;

const MAX_VARIABLES: usize = 64;
const MAX_FUNCTIONS: usize = 64;
const MAX_VALUE: usize = 4096;

/// Copies are cheap: maps are shared until one side changes.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// Where the shell may be; empty if that is not known.
    pub(super) folders: Vec<PathBuf>,
    /// `cd -`
    previous: Vec<PathBuf>,
    variables: Rc<BTreeMap<String, Arg>>,
    functions: Rc<BTreeMap<String, Function>>,
    /// The here-documents of the text that runs.
    pub(super) docs: Rc<Vec<Word>>,
}

/// A function's body, with the here-documents of the text it was defined in.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) body: Rc<Command>,
    pub(super) docs: Rc<Vec<Word>>,
}

impl State {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folders: vec![folder.to_path_buf()],
            previous: Vec::new(),
            variables: Rc::default(),
            functions: Rc::default(),
            docs: Rc::default(),
        }
    }

    pub(super) fn variable(&self, name: &str, home: Option<&Path>) -> Option<Arg> {
        // With another separator, any value may fall apart differently.
        if self.variables.contains_key("IFS") {
            return None;
        }
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        match (name, self.folders.as_slice()) {
            ("HOME", _) => Some(Arg::literal(home?.to_str()?)),
            ("PWD", [folder]) => Some(Arg::literal(folder.to_str()?)),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, name: &str, value: Arg) {
        let is_full = self.variables.len() >= MAX_VARIABLES && !self.variables.contains_key(name);
        let value = if value.text.len() > MAX_VALUE { Arg::unknown() } else { value };
        if !is_full {
            Rc::make_mut(&mut self.variables).insert(name.to_owned(), value);
        }
    }

    pub(super) fn function(&self, name: &str) -> Option<Function> {
        self.functions.get(name).cloned()
    }

    /// False if there are too many to be remembered.
    pub(super) fn define(&mut self, name: &str, function: Function) -> bool {
        let has_room = self.functions.len() < MAX_FUNCTIONS;
        if has_room {
            Rc::make_mut(&mut self.functions).insert(name.to_owned(), function);
        }
        has_room
    }

    pub(super) fn enter(&mut self, folders: Vec<PathBuf>) {
        let folders = if folders.len() > MAX_FOLDERS { Vec::new() } else { folders };
        self.previous = std::mem::replace(&mut self.folders, folders);
    }

    pub(super) fn go_back(&mut self) {
        std::mem::swap(&mut self.folders, &mut self.previous);
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.folders == other.folders && Rc::ptr_eq(&self.variables, &other.variables)
    }

    /// What is known if either this or `other` is the case.
    pub(super) fn join(&mut self, other: &Self) {
        if self.folders != other.folders {
            if self.folders.is_empty() || other.folders.is_empty() {
                self.folders.clear();
            } else {
                for folder in &other.folders {
                    if !self.folders.contains(folder) {
                        self.folders.push(folder.clone());
                    }
                }
                if self.folders.len() > MAX_FOLDERS {
                    self.folders.clear();
                }
            }
        }
        if !Rc::ptr_eq(&self.variables, &other.variables) {
            let names: Vec<String> = self.variables.keys().chain(other.variables.keys()).cloned().collect();
            let joined = Rc::make_mut(&mut self.variables);
            for name in names {
                if joined.get(&name) != other.variables.get(&name) {
                    joined.insert(name, Arg::unknown());
                }
            }
        }
        if !Rc::ptr_eq(&self.functions, &other.functions) {
            let functions = Rc::make_mut(&mut self.functions);
            for (name, function) in other.functions.iter() {
                functions.entry(name.clone()).or_insert_with(|| function.clone());
            }
        }
    }
}
