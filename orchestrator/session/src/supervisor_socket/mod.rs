//! Where an agent's process tree turns to its supervisor.
//!
//! Inside the tree nobody may touch the store, so `mala` there hands its arguments, its folder and its standard streams
//! to the supervisor over a socket. The supervisor runs the very same command as the tree's agent, whatever name was
//! given, and answers with the exit code. Who is asking is told by the kernel: only processes of the tree are served.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod server;

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use crate::Supervised;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{SupervisorSocket, ask, ask_for, find, left, query, relay, supervisor};
#[cfg(target_os = "linux")]
pub use linux::{ask, ask_for, find, left, query, relay, supervisor};
#[cfg(target_os = "linux")]
pub use server::SupervisorSocket;

/// Tells the tree where its supervisor listens. It gives no rights: whoever forgets it is merely refused the store.
pub const VARIABLE: &str = "MALA_SUPERVISOR";
/// Another process's standard streams.
#[derive(Debug)]
pub struct ClientStreams {
    pub input: File,
    pub out: File,
    pub err: File,
}

/// A command that a process of the tree wants its supervisor to run.
#[derive(Debug)]
pub struct CommandRequest {
    /// The directory that it was typed in.
    pub here: PathBuf,
    /// The program first.
    pub args: Vec<OsString>,
    pub streams: ClientStreams,
    pub supervised: Supervised,
}

/// Runs a command for the tree and says its exit code.
pub type RunCommand = fn(CommandRequest) -> u8;
