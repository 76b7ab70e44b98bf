//! Agent clients: what their hooks say and how they are answered.
//!
//! Everything here is a pure function over text: nothing is read, written or started. A client calls a hook; its call is
//! parsed, turned into what it intends, and answered in the client's own words. Who may write what is decided elsewhere.
//! Only [`mcp`] talks to a client itself, over this process's standard streams.

pub mod answer;
pub mod client;
pub mod git;
pub mod hook;
pub mod install;
pub mod intent;
pub mod launch;
pub mod mcp;
pub mod objection;
pub mod patch;
pub mod probe;
pub mod protected;
pub mod question;
pub mod shell;
pub mod start;
pub mod stream;

pub use answer::{Answer, Rendered};
pub use client::Client;
pub use hook::{Event, HookCall, ToolCall};
pub use intent::{Guess, Intent};
pub use objection::{Objection, When};
