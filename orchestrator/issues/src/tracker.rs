//! The trackers mala knows how to talk to, and what sets them apart for a person.

use std::fmt;

use semver::Version;
use serde::Serialize;

/// A tracker that is a program of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tracker {
    /// beads_rust.
    Br,
    /// beads.
    Bd,
}

impl Tracker {
    pub const ALL: [Self; 2] = [Self::Br, Self::Bd];

    /// The name of the program, which is also how people call the tracker.
    pub fn program(self) -> &'static str {
        match self {
            Self::Br => "br",
            Self::Bd => "bd",
        }
    }

    /// What to type to get it.
    pub fn install(self) -> &'static str {
        match self {
            Self::Br => "cargo +nightly install beads_rust --locked",
            Self::Bd => "npm install -g @beads/bd",
        }
    }

    /// The oldest version that has what the port needs, where one is known to be too old.
    pub fn oldest(self) -> Option<Version> {
        match self {
            // Updates that are refused if the issue has changed meanwhile: without them, notes get lost.
            Self::Br => Some(Version::new(0, 7, 0)),
            Self::Bd => None,
        }
    }
}

impl fmt::Display for Tracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}
