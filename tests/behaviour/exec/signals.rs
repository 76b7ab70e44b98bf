//! Signals to `mala exec` are for its command.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Stdio};

use mala_tests::{World, eventually};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::{read, world};
use crate::cli::{MALA, held, mala, pair};

/// Nothing of an agent is left: no lock, no process, no socket.
fn assert_nothing_left(world: &World) {
    assert_eq!(held(world), [pair("held.txt", "other")]);
    let sockets = fs::read_dir(world.state_dir().join("desk")).unwrap().count();
    assert_eq!(sockets, 0, "a socket is left");
    let base = world.base().display().to_string();
    let is_ours = |entry: &fs::DirEntry| {
        fs::read(entry.path().join("environ"))
            .is_ok_and(|text| text.windows(base.len()).any(|part| part == base.as_bytes()))
    };
    // A git that was asked something ends when it sees that nobody asks any more.
    eventually("no process is left", || {
        !fs::read_dir("/proc").unwrap().flatten().any(|entry| is_ours(&entry))
    });
}

const WAIT: &str = "while :; do sleep 0.01; done";

/// Starts an agent in a process group of its own that says `ready` between the two scripts.
fn ready(world: &World, before: &str, after: &str) -> (Child, BufReader<ChildStdout>) {
    let script = format!("{before}; echo x > free.txt; echo ready; {after}");
    // Whoever runs the tests may ignore signals, as `nohup` does, and shells for what they run beside them.
    let bash = ["env", "--default-signal", "bash", "-c"];
    let mut agent = mala(world, ["exec", "--agent", "me", "--"])
        .args(bash)
        .arg(script)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(agent.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (agent, out)
}

fn pid_of(agent: &Child) -> Pid {
    Pid::from_raw(i32::try_from(agent.id()).unwrap())
}

const SIGNALS: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

#[test]
fn signals_to_the_supervisor_reach_the_command_and_nothing_is_left() {
    let world = world();
    for signal in SIGNALS {
        let (mut agent, mut out) =
            ready(&world, &format!("trap 'echo got it; exit 7' {}", signal as i32), WAIT);
        kill(pid_of(&agent), signal).unwrap();
        let mut said = String::new();
        out.read_to_string(&mut said).unwrap();
        assert_eq!((agent.wait().unwrap().code(), said.as_str()), (Some(7), "got it\n"), "{signal}");
        assert_nothing_left(&world);
    }
}

#[test]
fn a_command_that_a_signal_ends_says_so_by_its_code() {
    let world = world();
    for signal in SIGNALS {
        let (mut agent, mut out) = ready(&world, "ulimit -c 0", "echo $$; exec sleep 600");
        let mut pid = String::new();
        out.read_line(&mut pid).unwrap();
        // A shell has its own ways with signals.
        let program = || fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
        eventually("it is another program", || program() == "sleep\n");
        kill(pid_of(&agent), signal).unwrap();
        assert_eq!(agent.wait().unwrap().code(), Some(128 + signal as i32), "{signal}");
        assert_nothing_left(&world);
    }
}

#[test]
fn a_signal_to_the_whole_group_reaches_the_command_once() {
    let world = world();
    let (mut agent, mut out) =
        ready(&world, "trap 'echo group' HUP; trap 'echo alone' USR1; trap 'exit 0' USR2", WAIT);
    let mut heard = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    for _ in 0..3 {
        killpg(pid_of(&agent), Signal::SIGHUP).unwrap();
        assert_eq!(heard(), "group\n");
        // A second one of the same kind that was passed on would have come before this one.
        kill(pid_of(&agent), Signal::SIGUSR1).unwrap();
        assert_eq!(heard(), "alone\n");
        kill(pid_of(&agent), Signal::SIGHUP).unwrap();
        assert_eq!(heard(), "group\n", "and one to the supervisor alone is not mistaken for it");
    }
    kill(pid_of(&agent), Signal::SIGUSR2).unwrap();
    assert_eq!((heard().as_str(), agent.wait().unwrap().code()), ("", Some(0)));
}

#[test]
fn a_closed_terminal_ends_the_command_if_mala_is_all_that_ran_in_it() {
    let world = world();
    let command = format!("trap 'echo heard > free.txt; exit' HUP; echo ready > free.txt; {WAIT}");
    let agent = format!("exec env --default-signal {MALA} exec --agent me -- bash -c \"{command}\"");
    let mut terminal = world.command("script");
    terminal.args(["-q", "-c", &agent, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut terminal = terminal.env("SHELL", "/bin/sh").spawn().unwrap();
    let wrote = |word: &str| read(&world, "free.txt").trim() == word;
    eventually("the command runs", || wrote("ready"));
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    eventually("the command has heard of it", || wrote("heard"));
    eventually("mala has ended", || held(&world) == [pair("held.txt", "other")]);
    assert_nothing_left(&world);
}
