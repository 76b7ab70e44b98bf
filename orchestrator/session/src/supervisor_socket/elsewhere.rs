//! Without a kernel tier there are no trees to serve: see `linux.rs`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mala_agents::mcp::{CommandLine, Leash, Ran};
use mala_store::Party;

use super::RunCommand;
use crate::{SessionError, StoreGuard};

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
