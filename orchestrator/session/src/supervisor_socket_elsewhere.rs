//! Without a kernel tier there are no trees to serve: see `supervisor_socket.rs`.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mala_agents::mcp::{CommandLine, Leash, Ran};
use mala_store::Party;

use crate::{SessionError, StoreGuard, Supervised};

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
    pub here: PathBuf,
    pub args: Vec<OsString>,
    pub streams: ClientStreams,
    pub supervised: Supervised,
}

pub type RunCommand = fn(CommandRequest) -> u8;

fn unsupported() -> io::Error {
    io::Error::from(io::ErrorKind::Unsupported)
}

pub fn ask(_socket: &Path) -> Result<u8, SessionError> {
    Err(unsupported().into())
}

pub fn ask_for(_socket: &Path, _args: impl Iterator<Item = OsString>) -> Result<u8, SessionError> {
    Err(unsupported().into())
}

pub fn query(_socket: &Path, _args: impl Iterator<Item = OsString>) -> Result<(u8, Vec<u8>), SessionError> {
    Err(unsupported().into())
}

pub fn relay(_socket: &Path, _here: &Path, _line: &CommandLine, _leash: &Leash) -> Result<Ran, SessionError> {
    Err(unsupported().into())
}

pub fn find(_dir: &Path) -> Option<PathBuf> {
    None
}

pub fn left(_dir: &Path) -> Vec<PathBuf> {
    Vec::new()
}

pub fn supervisor() -> Option<PathBuf> {
    None
}

#[derive(Debug)]
pub struct SupervisorSocket;

impl SupervisorSocket {
    pub fn open(_dir: &Path, _party: &Party, _guard: &Arc<StoreGuard>, _run: RunCommand) -> io::Result<Self> {
        Err(unsupported())
    }

    pub fn socket(&self) -> &Path {
        Path::new("")
    }
}
