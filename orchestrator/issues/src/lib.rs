//! Where mala gets its work from.
//!
//! [`IssueSource`] is the port: what a run needs of a tracker, and nothing more. Its documentation is the contract, and
//! `tests/issues/contract` is the same contract as checks that every source has to pass. Two trackers are adapted here, `br` and
//! `bd`; the built-in one lives over the store and plugs into the same port.
//!
//! A tracker is another program with a life of its own. It is found ([`detect`]), never assumed; it is started without a
//! shell, one call at a time, with a bound on its time and on its output; and whatever goes wrong is an [`IssueError`]
//! that says so. No failure is ever reported as an empty list: "no work" means that a tracker said so.
//!
//! [`read_export`] reads what a tracker has written into a file. [`hints`] reads from an issue's text which files it will touch. Nothing here prints, remembers or decides what to do
//! next.

mod bd;
mod beads;
mod br;
mod detect;
mod error;
mod export;
pub mod hints;
mod notes;
mod program;
mod source;
mod tracker;
mod wire;

pub use beads::Beads;
pub use detect::{Choice, ChoiceError, Found, choose, detect, find};
pub use error::{IssueError, Result, Trouble};
pub use export::{ExportError, read_export};
pub use program::Limits;
pub use source::{ClaimAnswer, IssueSource, Label, LabelError, MAX_TEXT};
pub use tracker::Tracker;
