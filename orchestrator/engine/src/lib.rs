//! `mala run`: from issues to proven commits or useful handoffs.
//!
//! # Theory of operation
//!
//! One [`Engine`] works in one checkout. Its dispatcher (`dispatch`) is the only owner of what goes on: sessions, timers,
//! signals and blocking work send it events, and it takes one at a time. A job is in one phase (`dispatch/job`), and one
//! table (`dispatch/events`) says which event means something in which. Every issue that is worked on walks through the
//! states in [`mala_core::attempt`], and each step is in the store's journal before anything follows from it. Which issue
//! is next is decided by [`ready`], a plain data structure.
//!
//! What can take long - the store, trackers, git, the gate - is done by `blocking`, away from the dispatcher, in steps that
//! may each be repeated. An attempt ends in one of two ways: it is accepted and the issue is closed, or the work is saved
//! to a ref, the files are given back, a note (`note`) tells the next attempt what happened, and only then are the agent's
//! locks released.
//!
//! The engine dies without a trace of harm: agents end with it, their locks are free with it, and the next start finds in
//! the journal which attempts were under way and ends them the same way.
//!
//! Two seams have fakes in tests: the agents ([`session::Sessions`]) and what judges their work
//! ([`validator::Validator`]). Nothing here prints or parses arguments.

mod around;
mod blocking;
mod caution;
mod cost;
mod dispatch;
mod engine;
mod error;
mod event;
pub mod health;
pub mod landing_queue;
mod limits;
mod note;
mod notify;
mod options;
mod plan;
mod profiles;
mod prompt;
pub mod ready;
pub mod session;
pub mod source;
mod summary;
mod trace;
pub mod validator;

pub use blocking::unfinished_run;
pub use cost::Cost;
pub use engine::{Engine, EngineParts};
pub use error::EngineError;
pub use event::{Event, Held, Reporter};
pub use limits::Limits;
pub(crate) use mala_core::{AttemptState as State, Step};
pub use options::{AroundOptions, Keeping, Options, Profiles, Prompts, UnversionedOptions};
pub use plan::{Collision, Plan, Planned, Recovers};
pub use summary::{AttemptResult, AttemptSummary, Left, NotAccepted, Recovered, Summary};
pub use trace::Trace;
