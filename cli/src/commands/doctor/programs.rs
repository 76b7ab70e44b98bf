//! Agent clients and trackers that are installed.

use std::io;
use std::path::Path;
use std::process::Command;

use mala_agents::Client;

use super::{Check, patience};

pub(super) fn clients() -> Check {
    found(
        "clients",
        &Client::ALL.map(Client::name),
        "none of claude, codex, gemini, opencode; any command works with `mala exec`",
    )
}

pub(super) fn trackers() -> Check {
    found("trackers", &["br", "bd"], "neither br nor bd; issues are kept by mala itself")
}

fn found(name: &'static str, programs: &[&str], none: &str) -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |program: &&&str| {
        std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
    };
    let found: Vec<String> = programs
        .iter()
        .filter_map(|program| find(&program).map(|file| format!("{program} {}", version(&file))))
        .collect();
    Check::ok(name, if found.is_empty() { none.to_owned() } else { found.join(", ") })
}

/// The first line that it says about itself.
fn version(program: &Path) -> String {
    let said = match patience::output(Command::new(program).arg("--version"), &[]) {
        Ok(out) => String::from_utf8_lossy(&out.stdout).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return "(does not answer)".to_owned(),
        Err(_) => return "(does not start)".to_owned(),
    };
    said.lines().next().unwrap_or("(version unknown)").trim().to_owned()
}
