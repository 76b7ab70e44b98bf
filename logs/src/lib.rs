//! Records of what happened: JSONL files with a hash chain, and OpenTelemetry.
//!
//! Owns how logs lie on disk and how they are read back. It does not know what is recorded: callers bring their own
//! types. Nothing here prints.

pub mod chain;
pub mod post;
pub mod secrets;
pub mod telemetry;

mod disk;
mod files;
mod lines;
mod turn;
