//! Why something must not be done in a checkout that several agents share.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// A refusal in words: what, why, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// The command or path, as it was typed.
    pub what: String,
    pub why: &'static str,
    pub instead: Cow<'static, str>,
    pub when: When,
    /// The folder the command runs in, if that is known: what happens outside the checkout needs no objection.
    pub folder: Option<PathBuf>,
}

/// When an objection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// Only while somebody else has changes in the checkout that the command would take along.
    ForeignChanges,
    /// Whatever the agent holds: what would be written is protected.
    Protected,
    /// For an agent of a run, whatever it holds: the branch and the checkout are the run's.
    InRun,
}

impl Objection {
    pub(crate) fn new(
        what: impl Into<String>,
        why: &'static str,
        instead: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { what: what.into(), why, instead: instead.into(), when: When::Always, folder: None }
    }

    pub(crate) fn if_foreign_changes(self) -> Self {
        Self { when: When::ForeignChanges, ..self }
    }

    pub(crate) fn protected(self) -> Self {
        Self { when: When::Protected, ..self }
    }

    pub(crate) fn in_run(self) -> Self {
        Self { when: When::InRun, ..self }
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.when {
            When::Always | When::ForeignChanges | When::Protected => "a shared checkout",
            When::InRun => "a run",
        };
        write!(f, "`{}` is refused in {place}: {}; {}", self.what, self.why, self.instead)
    }
}
