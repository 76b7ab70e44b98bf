//! Which program git is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// By these a user's settings make git write files of their choice.
const TRACES: [&str; 3] = ["GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF"];

/// Git as it was found first. Looked for only once: agents may put programs where `PATH` leads, and a supervisor that looked
/// again would run them with rights that they do not have.
pub fn program() -> &'static OsStr {
    static FOUND: OnceLock<OsString> = OnceLock::new();
    // If there is none, starting it says so.
    FOUND.get_or_init(|| which::which("git").map_or_else(|_| "git".into(), Into::into))
}

static SETTINGS: OnceLock<PathBuf> = OnceLock::new();

/// From now on this file counts instead of the user's own settings.
pub fn settings_from(file: PathBuf) {
    SETTINGS.get_or_init(|| file);
}

/// A call of git, which writes traces only if the environment asks for them.
pub fn command() -> Command {
    let mut command = Command::new(program());
    for name in TRACES.into_iter().filter(|name| env::var_os(name).is_none()) {
        command.env(name, "0");
    }
    if let Some(settings) = SETTINGS.get() {
        command.env("GIT_CONFIG_GLOBAL", settings);
    }
    command
}
