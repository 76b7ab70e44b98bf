//! What is known of the shell between two commands: the folder, variables, functions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::ast::{Command, Word};
use super::expand::{Arg, Known};
use crate::intent::MAX_PATH_BYTES;

/// Folders the shell may be in at once before nobody knows where it is.
const MAX_FOLDERS: usize = 8;

const MAX_VARIABLES: usize = 64;
const MAX_FUNCTIONS: usize = 64;
const MAX_VALUE: usize = 4096;

const POSITIONAL: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Copies are cheap: maps are shared until one side changes.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// Where the shell may be; empty if that is not known.
    pub(super) folders: Vec<PathBuf>,
    /// `cd -`
    previous: Vec<PathBuf>,
    variables: Rc<BTreeMap<String, Arg>>,
    /// Variables of the function that runs.
    locals: Vec<String>,
    /// Nothing where it is not sure which one it is, or whether it is one.
    functions: Rc<BTreeMap<String, Option<Function>>>,
    /// The here-documents of the text that runs.
    pub(super) docs: Rc<Vec<Word>>,
}

/// What a function's body hides while it runs.
pub(super) struct OuterFunction {
    positional: [Option<Arg>; 9],
    docs: Rc<Vec<Word>>,
    locals: Vec<String>,
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
            locals: Vec::new(),
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

    /// The function of that name; `Some(None)` if there may be one.
    pub(super) fn function(&self, name: &str) -> Option<Option<Function>> {
        self.functions.get(name).cloned()
    }

    /// A function's body runs: its arguments, and the variables set in front of it, hold until it is left.
    pub(super) fn enter_function(
        &mut self,
        env: &[(String, Arg)],
        args: &[Arg],
        docs: &Rc<Vec<Word>>,
    ) -> OuterFunction {
        let outer = OuterFunction {
            positional: POSITIONAL.map(|name| self.variables.get(name).cloned()),
            docs: std::mem::replace(&mut self.docs, Rc::clone(docs)),
            locals: std::mem::take(&mut self.locals),
        };
        for (name, value) in env {
            self.set(name, value.clone());
            self.locals.push(name.clone());
        }
        // Behind a word that may become several, nobody knows which is which.
        let sure = args.iter().position(|arg| arg.known != Known::All).unwrap_or(args.len());
        for (number, name) in POSITIONAL.iter().enumerate() {
            self.set(
                name,
                match args.get(number + 1) {
                    Some(arg) if number < sure => arg.clone(),
                    None if sure == args.len() => Arg::literal(""),
                    _ => Arg::unknown(),
                },
            );
        }
        outer
    }

    /// Locals have what they had before, which is forgotten here.
    pub(super) fn leave_function(&mut self, outer: OuterFunction) {
        for name in std::mem::replace(&mut self.locals, outer.locals) {
            self.set(&name, Arg::unknown());
        }
        for (name, value) in POSITIONAL.iter().zip(outer.positional) {
            self.set(name, value.unwrap_or_else(Arg::unknown));
        }
        self.docs = outer.docs;
    }

    /// `local`
    pub(super) fn make_local(&mut self, name: &str) {
        self.locals.push(name.to_owned());
    }

    /// `shift`, `set --`
    pub(super) fn forget_positional(&mut self) {
        POSITIONAL.iter().for_each(|name| self.set(name, Arg::unknown()));
    }

    /// What another shell, or this one later, knows of it: nothing.
    pub(super) fn forgetful(&self) -> Self {
        let variables = self.variables.keys().map(|name| (name.clone(), Arg::unknown())).collect();
        let functions = self.functions.keys().map(|name| (name.clone(), None)).collect();
        Self { variables: Rc::new(variables), functions: Rc::new(functions), ..self.clone() }
    }

    /// `unset`
    pub(super) fn doubt_function(&mut self, name: &str) {
        if self.functions.contains_key(name) {
            Rc::make_mut(&mut self.functions).insert(name.to_owned(), None);
        }
    }

    /// False if there are too many to be remembered.
    pub(super) fn define(&mut self, name: &str, function: Function) -> bool {
        let has_room = self.functions.len() < MAX_FUNCTIONS;
        if has_room {
            Rc::make_mut(&mut self.functions).insert(name.to_owned(), Some(function));
        }
        has_room
    }

    pub(super) fn enter(&mut self, folders: Vec<PathBuf>) {
        let is_long = folders.iter().any(|folder| folder.as_os_str().len() > 2 * MAX_PATH_BYTES);
        let folders = if is_long || folders.len() > MAX_FOLDERS { Vec::new() } else { folders };
        self.previous = std::mem::replace(&mut self.folders, folders);
    }

    pub(super) fn go_back(&mut self) {
        std::mem::swap(&mut self.folders, &mut self.previous);
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.folders == other.folders
            && Rc::ptr_eq(&self.variables, &other.variables)
            && Rc::ptr_eq(&self.functions, &other.functions)
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
            let is_same = |one: &Option<Function>, other: Option<&Option<Function>>| match (one, other) {
                (Some(one), Some(Some(other))) => Rc::ptr_eq(&one.body, &other.body),
                _ => false,
            };
            let functions = Rc::make_mut(&mut self.functions);
            for (name, function) in functions.iter_mut() {
                if !is_same(function, other.functions.get(name)) {
                    *function = None;
                }
            }
            for name in other.functions.keys() {
                functions.entry(name.clone()).or_insert(None);
            }
        }
    }
}
