//! What a shell command would do, judged before it runs.
//!
//! [`plan`] reads a command line as bash would, follows `cd`, literal variables, loops, functions, substitutions and nested
//! shells, and says which files would be written, which parts are wrong in a shared checkout, which are guarded test
//! commands, and what cannot be known. A command is judged by what would run, never by words that merely occur in it.
//!
//! The plan explains and guides; it is no wall. A command is harmless only if all of it is known to be: each program, each
//! option, each variable in front of it, each expansion. `table` says what is known, and everything else is named in
//! [`Plan::unknown`]. Time grows with the length of the text and is bounded.

mod ast;
mod compound;
mod expand;
mod git_paths;
mod notes;
mod options;
mod parse;
mod programs;
mod redirects;
mod rewrite;
mod scripts;
mod sed;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod variables;
mod walk;
mod words;
mod wrappers;
mod writers;

use std::ops::Range;
use std::path::{Path, PathBuf};

use mala_core::CommandPattern;

pub use rewrite::rewrite_tests;

use crate::git::RunAgent;
use crate::objection::Objection;

/// The longest command that is judged; longer ones are unknown as a whole.
pub const MAX_COMMAND_BYTES: usize = 4 << 20;

/// What a command is judged by.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The folder it starts in.
    pub cwd: &'a Path,
    /// Where `~` leads.
    pub home: Option<&'a Path>,
    /// Whether a path is there. A folder `d` is recognised by `d/.`, so ask the file system, not a list.
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// What a command that git does not have stands for, as git's settings say.
    pub alias: &'a dyn Fn(&str) -> Option<String>,
    /// The guarded commands.
    pub tests: &'a [CommandPattern],
    /// For an agent of a run.
    pub run: Option<&'a RunAgent>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("cwd", &self.cwd)
            .field("home", &self.home)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

/// What a command would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What it would create, change or delete, by absolute paths, also outside the checkout.
    pub writes: Vec<Write>,
    pub objections: Vec<Objection>,
    pub tests: Vec<TestCommand>,
    /// The parts whose writes cannot be known, each in words.
    pub unknown: Vec<String>,
    /// It makes a git commit.
    pub commits: bool,
}

impl Plan {
    /// True if everything that the command writes is named. If not, what it has done must be looked at afterwards.
    pub fn is_known(&self) -> bool {
        self.unknown.is_empty() && !self.writes.iter().any(|write| matches!(write, Write::Pattern { .. }))
    }
}

/// Something a command would write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Write {
    File(PathBuf),
    /// What is staged of a file.
    Staged(PathBuf),
    /// Whatever matches `rest` (in the language of [`mala_core::pattern`]) below the folder `base`.
    Pattern {
        base: PathBuf,
        rest: String,
    },
}

/// A guarded command in a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestCommand {
    /// The command as it will run, without what starts it (`env`, `timeout`, ...). Unknown parts are `?`.
    pub argv: Vec<String>,
    /// Where it stands, together with what starts it, if a prefix can be put there without changing what happens.
    pub range: Option<Range<usize>>,
}

/// Judges `command`.
pub fn plan(command: &str, surroundings: Surroundings<'_>) -> Plan {
    walk::Walker::new(surroundings).whole(command)
}
