//! The real agent clients, run against a scripted [model](crate::model).
//!
//! [`Installed`] brings the pinned programs. [`Client`] starts one of them in a [`World`](crate::World), with a HOME of
//! its own, nothing of the user's environment, and no way to a model but the scripted one. [`Running`] collects what
//! it reports, and ends it with everything it has started.

mod client;
mod install;
mod profile;
mod recorder;
mod run;

pub use client::{
    CODE_MODE, Client, Kind, OPENCODE_OFFLINE, claude_hooks, codex_hooks, gemini_hooks, opencode_settings,
};
pub use install::{Installed, Missing};
pub use profile::profile;
pub use recorder::Recorder;
pub use run::{Ended, Running};
