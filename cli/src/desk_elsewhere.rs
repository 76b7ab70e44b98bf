//! Without a kernel tier there are no trees to serve: see `desk.rs`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mala_agents::mcp::{CommandLine, Leash, Ran};
use mala_store::Party;

use crate::commands::Command;
use crate::enforce::StoreGuard;
use crate::error::{CliError, Code};

pub(crate) const VARIABLE: &str = "MALA_SUPERVISOR";

pub(crate) fn supervisor_of(_command: &Command) -> Option<PathBuf> {
    None
}

pub(crate) fn ask(_socket: &Path) -> Result<Code, CliError> {
    Err(io::Error::from(io::ErrorKind::Unsupported).into())
}

pub(crate) fn ask_for(_socket: &Path, _args: impl Iterator<Item = OsString>) -> Result<Code, CliError> {
    Err(io::Error::from(io::ErrorKind::Unsupported).into())
}

pub(crate) fn query(
    _socket: &Path,
    _args: impl Iterator<Item = OsString>,
) -> Result<(Code, Vec<u8>), CliError> {
    Err(io::Error::from(io::ErrorKind::Unsupported).into())
}

pub(crate) fn relay(
    _socket: &Path,
    _here: &Path,
    _line: &CommandLine,
    _leash: &Leash,
) -> Result<Ran, CliError> {
    Err(io::Error::from(io::ErrorKind::Unsupported).into())
}

pub(crate) fn find(_dir: &Path) -> Option<PathBuf> {
    None
}

pub(crate) fn left(_dir: &Path) -> Vec<PathBuf> {
    Vec::new()
}

pub(crate) fn supervisor() -> Option<PathBuf> {
    None
}

#[derive(Debug)]
pub(crate) struct Desk;

impl Desk {
    pub(crate) fn open(_dir: &Path, _party: &Party, _guard: &Arc<StoreGuard>) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn socket(&self) -> &Path {
        Path::new("")
    }
}
