//! Helper programs: real processes that can be told things, stopped and killed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use mala_core::Owner;
use mala_store::process::Process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{DEADLINE, eventually};

/// Makes a program out of a script. Another process writes the file: what other tests start meanwhile would inherit a
/// descriptor of ours for a moment, and nobody can run a file that is open for writing.
pub fn write_script(path: &Path, text: &str) {
    let write = "mkdir -p \"${0%/*}\" && printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(path).arg(text).status();
    assert!(written.is_ok_and(|status| status.success()), "{} can be written", path.display());
}

/// Copies a program, for the same reason by another process.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} can be written", to.display());
}

/// The processes that `pid` has started, by whichever of its threads.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The process that ends the tree of a `mala exec` when its supervisor is gone.
pub fn keeper_of(supervisor: u32) -> Option<Pid> {
    let is_keeper =
        |pid: &u32| fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"mala-keeper\n");
    children(supervisor).into_iter().find(is_keeper).map(|pid| Pid::from_raw(pid.cast_signed()))
}

/// A running program. It dies with the value.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("helper programs can be started");
        let (said, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Self { stdin: child.stdin.take(), child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn owner(&self) -> Owner {
        Process::find(self.pid()).expect("the program is running").owner()
    }

    pub fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the program still listens");
        writeln!(stdin, "{line}").expect("the program is running");
    }

    /// The next line that the program says.
    pub fn hear(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("the program says something")
    }

    pub fn expect(&self, line: &str) {
        assert_eq!(self.hear(), line);
    }

    /// What it has said that nobody has heard yet.
    pub fn heard_already(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("pids are small");
        kill(Pid::from_raw(pid), signal).expect("own children can be signalled");
    }

    /// Stops the program as Ctrl-Z does, and waits until it has really stopped.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.pid());
        eventually("the program stops", || {
            let stat = std::fs::read_to_string(&stat).expect("a stopped program is in the process table");
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        });
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills the program as `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// True once the program has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("own children can be waited for").is_some()
    }

    /// Closes its input and waits for its end; returns how it ended and what it said last.
    pub fn finish(mut self) -> (ExitStatus, Vec<String>) {
        drop(self.stdin.take());
        let said = self.lines.iter().collect();
        (self.child.wait().expect("own children can be waited for"), said)
    }

    /// Processor time used so far, in clock ticks.
    pub fn ticks(&self) -> u64 {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the program is running");
        let fields: Vec<&str> = stat.rsplit_once(") ").expect("stat has a name").1.split(' ').collect();
        let number = |place: usize| fields[place].parse::<u64>().expect("times are numbers");
        number(11) + number(12)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
