//! Agent clients and trackers that are installed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mala_agents::Client;

use super::Check;

/// Some clients take a second to say their version; one that takes this long is broken.
const LONGEST: Duration = Duration::from_secs(10);

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
    let started = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else { return "(does not start)".to_owned() };
    let began = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if began.elapsed() > LONGEST {
            let _ = child.kill();
            let _ = child.wait();
            return "(does not answer)".to_owned();
        }
        thread::sleep(Duration::from_millis(10));
    }
    let said = child.wait_with_output().map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    said.unwrap_or_default().lines().next().unwrap_or("(version unknown)").trim().to_owned()
}
