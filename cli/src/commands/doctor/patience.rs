//! Running programs that may never answer.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Some clients take a second to say their version; what takes this long is broken.
const LONGEST: Duration = Duration::from_secs(10);

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
    told.recv_timeout(LONGEST).unwrap_or_else(|_| {
        if let Ok(group) = i32::try_from(group) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let why = format!("it does not end within {} s", LONGEST.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}
