//! A client at work, and what it leaves.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::model::Talk;

/// How long a client may take. It takes seconds, and more on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(240);

/// Every process that a client starts inherits this, so that none is overlooked at the end.
const MARK: &str = "MALA_TEST_CLIENT";

/// A client that was started. Its whole process tree ends with the value.
#[derive(Debug)]
pub struct Running {
    child: Child,
    mark: String,
    events: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    talk: Talk,
}

/// What a client left when it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none if it was ended by a signal.
    pub code: Option<i32>,
    /// What it reported on stdout, one JSON value per line.
    pub events: Vec<Value>,
    pub stderr: String,
}

impl Running {
    pub(super) fn start(mut command: Command, talk: Talk) -> Self {
        let mark = format!("{}-{}-{}", std::process::id(), talk.url(), talk.key());
        command.env(MARK, &mark).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("an installed client starts");
        let (said, events) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        let mut complaints = child.stderr.take().expect("its errors are piped");
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = complaints.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child, mark, events, stderr: Some(stderr), talk }
    }

    /// Waits for its end. The script must have had an answer to everything.
    pub fn finish(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let code = loop {
            match self.child.try_wait().expect("own children can be waited for") {
                Some(status) => break status.code(),
                None if Instant::now() > deadline => break None,
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        let in_time = Instant::now() <= deadline;
        self.end_the_tree();
        let lines: Vec<String> = self.events.iter().collect();
        let events =
            lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.clone().into()));
        let stderr = self.stderr.take().and_then(|stderr| stderr.join().ok()).unwrap_or_default();
        let ended = Ended { code, events: events.collect(), stderr };
        assert!(in_time, "the client did not end in time: {ended:?}");
        assert_eq!(self.talk.complaints(), Vec::<String>::new(), "{ended:?}");
        ended
    }

    /// Kills its process group, and whatever has left that group but carries the mark.
    fn end_the_tree(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("pids are small");
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        let _ = self.child.wait();
        let mark = format!("{MARK}={}", self.mark);
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        for process in processes.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_the_tree();
    }
}

impl Ended {
    /// The events of one type.
    pub fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind)
    }
}
