//! A process that outlives mala just long enough to kill what mala started.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// It reads from a pipe that only mala holds. A word means that all is well; the end of the pipe means that mala is gone.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; read -r word || kill -KILL 0";

/// Leads the process group that the command joins, from before the command starts.
#[derive(Debug)]
pub struct Guard {
    process: Child,
}

impl Guard {
    pub fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "mala-guard"]).process_group(0);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { process })
    }

    pub fn group(&self) -> i32 {
        i32::try_from(self.process.id()).expect("process ids are small")
    }

    /// Sends the signal to the command and all it started; the guard does not mind.
    pub fn signal(&self, signal: Signal) {
        // Nobody is left if this fails.
        killpg(Pid::from_raw(self.group()), signal).ok();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.process.stdin.take() {
            stdin.write_all(b"done\n").ok();
        }
        self.process.wait().ok();
    }
}
