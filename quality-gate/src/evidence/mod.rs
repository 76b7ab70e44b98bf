//! Evidence: what mala itself saw of a command.
//!
//! Every way to run a test makes its record with a [`TestRun`](crate::TestRun). Its [`Recording`] notes, before a command starts, which commit the checkout is on and the content of every file that
//! differs from it; after it ended, what changed meanwhile and whose it is. The record goes into a chained log that
//! agents cannot write. The gate compares records with commits; nobody's word counts.

pub mod anchoring;
mod log;
pub mod output;
mod record;
mod recording;
pub mod retention;

pub use self::log::{EvidenceLog, Head, Of, Sighting};
pub use self::record::{Evidence, Strength};
pub use self::recording::{Ended, EvidenceError, Launch, Place, Recording, command_line, lossy};
