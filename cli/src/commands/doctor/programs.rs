//! Programs that are installed, and asking those that may never answer.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mala_agents::Client;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::Check;

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
    let said = match output(Command::new(program).arg("--version"), &[]) {
        Ok(out) => String::from_utf8_lossy(&out.stdout).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return "(does not answer)".to_owned(),
        Err(_) => return "(does not start)".to_owned(),
    };
    said.lines().next().unwrap_or("(version unknown)").trim().to_owned()
}

/// Some clients take a second to say their version; what takes this long is broken.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What the command says to `input`. One that does not end is killed with all that it has started.
pub(super) fn output(command: &mut Command, input: &[u8]) -> io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = child.id();
    let stdin = child.stdin.take();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    if let Some(mut stdin) = stdin {
        // One that does not listen shows that by its answer.
        let _ = stdin.write_all(input);
    }
    told.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| {
        if let Ok(group) = i32::try_from(group) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let why = format!("it does not end within {} s", ANSWER_TIMEOUT.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}
