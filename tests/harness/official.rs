//! Brings the official MCP client library for Python, at the versions that `tests/mcp/requirements.txt` pins by hash.
//!
//! It is installed once by pip, from whichever index the user has set up, into an environment of its own named after the
//! pins. An environment that is there is whole: the mark in it is set only after pip has succeeded.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use thiserror::Error;

const PINS: &str = include_str!("../mcp/requirements.txt");

/// Why it cannot be had.
#[derive(Debug, Error)]
pub enum Missing {
    #[error("`{program}` cannot be started")]
    Start { program: String, source: io::Error },
    #[error("`{program}` failed: {reason}")]
    Failed { program: String, reason: String },
    #[error("no folder for it at {place}")]
    Folder { place: PathBuf, source: io::Error },
}

/// The Python that has the library, installed below `cache` if it is not there yet.
///
/// Without it (no Python, no network) this says so past the test runner and returns nothing, so that the test can end; on
/// CI, where `CI=true`, it fails the test instead.
pub fn python_or_skip(cache: &Path) -> Option<&'static Path> {
    static INSTALLED: OnceLock<Result<PathBuf, Missing>> = OnceLock::new();
    match INSTALLED.get_or_init(|| install(cache)) {
        Ok(python) => Some(python),
        Err(missing) => {
            crate::skip(&format!("the official MCP client: {missing}"));
            None
        }
    }
}

/// Installs below `cache`. Processes that come at the same time wait for the first.
fn install(cache: &Path) -> Result<PathBuf, Missing> {
    let digest = Sha256::digest(PINS);
    let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.join("mcp-client").join(name);
    let at = |place: &Path| {
        let place = place.to_owned();
        move |source| Missing::Folder { place, source }
    };
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let turn = folder.with_extension("lock");
    let turn = File::create(&turn).and_then(|file| file.lock().map(|()| file)).map_err(at(&turn))?;
    let (python, mark, pins) =
        (folder.join("bin/python"), folder.join("complete"), folder.join("requirements.txt"));
    if !mark.is_file() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        fs::write(&pins, PINS).map_err(at(&pins))?;
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"];
        run(Command::new(&python).args(pip).arg(&pins))?;
        fs::write(&mark, "").map_err(at(&mark))?;
    }
    drop(turn);
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), Missing> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|source| Missing::Start { program: program.clone(), source })?;
    if done.status.success() {
        return Ok(());
    }
    let complaints = String::from_utf8_lossy(&done.stderr).into_owned();
    let reason: Vec<&str> = complaints.lines().filter(|line| line.starts_with("ERROR")).take(3).collect();
    Err(Missing::Failed { program, reason: reason.join("; ") })
}
