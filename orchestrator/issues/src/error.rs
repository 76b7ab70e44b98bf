//! What can go wrong between mala and a tracker, in words for the person who has to act on it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use mala_core::IssueId;
use semver::Version;
use thiserror::Error;

use crate::source::MAX_TEXT;
use crate::tracker::Tracker;

pub type Result<T, E = IssueError> = std::result::Result<T, E>;

#[derive(Debug, Error)]
pub enum IssueError {
    #[error("`{tracker}` is not installed: install it with `{}`", .tracker.install())]
    NotInstalled { tracker: Tracker },
    #[error("`{tracker}` {found} is too old, mala needs {needed}: update it with `{}`", .tracker.install())]
    TooOld { tracker: Tracker, found: Version, needed: Version },
    #[error("`{tracker}` keeps no issues for `{}` ({message}): set it up there with `{tracker} init`", .root.display())]
    NotSetUp { tracker: Tracker, root: PathBuf, message: String },
    #[error("cannot start `{}` in `{}`", .program.display(), .root.display())]
    Start {
        program: PathBuf,
        root: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no issue `{id}`")]
    NotFound { id: IssueId },
    #[error("the issue `{id}` is closed")]
    Closed { id: IssueId },
    #[error("`{command}` was refused: {message}{}", in_brackets(.hint.as_deref()))]
    Failed { command: String, trouble: Trouble, message: String, hint: Option<String> },
    #[error("`{command}` was stopped: it did not end within {} s", .after.as_secs_f32())]
    TimedOut { command: String, after: Duration },
    #[error("`{command}` was stopped: it wrote more than {limit} bytes")]
    TooMuchOutput { command: String, limit: usize },
    #[error("`{command}` ended well but its answer makes no sense: {detail}")]
    Unreadable { command: String, detail: String },
    #[error("lost the connection to `{command}`")]
    Broken {
        command: String,
        #[source]
        source: io::Error,
    },
    #[error("the issue `{id}` was changed by somebody else at every one of {tries} attempts to add to it")]
    Restless { id: IssueId, tries: u32 },
    #[error("a note needs a text")]
    EmptyNote,
    #[error("the text has {len} bytes, a tracker takes {MAX_TEXT}: shorten it")]
    TooLong { len: usize },
    /// For sources that are not programs.
    #[error("`{name}` failed")]
    Other {
        name: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What kind of thing a tracker complained about, as far as it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Its database is locked, damaged or of another version.
    Database,
    /// Somebody else is writing. Trying again may help.
    Busy,
    /// The issue: unknown, ambiguous, or not in a state for this.
    Issue,
    /// The issue changed since it was looked at.
    Stale,
    /// A value or a rule of the tracker's own.
    Validation,
    Dependencies,
    Sync,
    Config,
    Io,
    Unknown,
}

fn in_brackets(hint: Option<&str>) -> String {
    hint.map(|hint| format!(" ({hint})")).unwrap_or_default()
}

/// The longest message that is taken over from a tracker, in characters.
const MAX_MESSAGE: usize = 500;

/// A program's words as one line without control characters: they quote titles, and titles are anybody's.
pub(crate) fn one_line(text: &str) -> String {
    let visible = text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty());
    let line = visible.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_how_to_get_it() {
        let message = |tracker| IssueError::NotInstalled { tracker }.to_string();
        insta::assert_snapshot!(message(Tracker::Br), @"`br` is not installed: install it with `cargo +nightly install beads_rust --locked`");
        insta::assert_snapshot!(message(Tracker::Bd), @"`bd` is not installed: install it with `npm install -g @beads/bd`");
    }

    #[test]
    fn what_a_tracker_says_is_cut_and_cannot_move_the_cursor() {
        assert_eq!(one_line("a\u{1b}[2J\r\n\tb\u{7}  c"), "a [2J b c");
        assert_eq!(one_line(&"ü".repeat(600)).chars().count(), MAX_MESSAGE + 3);
    }
}
