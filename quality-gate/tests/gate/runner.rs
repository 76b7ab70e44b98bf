//! Running a command: its output, its end, and what happens to it when mala is told to stop or killed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mala_gate::evidence::Ended;
use mala_gate::runner::{Manner, Task, Tee, Tie, run};

const GROUP: Manner<'_> = Manner::Plain(Tie::Group);
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sha2::{Digest, Sha256};

use crate::world::World;

fn run_script(w: &World, script: &str) -> (Ended, String, String, Vec<u8>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let argv = ["sh", "-c", script].map(Into::into);
    let log = w.base().join("log");
    let task = Task { argv: &argv, cwd: &w.root, log: &log, manner: GROUP };
    let ended = run(&task, &mut Tee { out: &mut out, err: &mut err }).unwrap();
    (ended, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), fs::read(&log).unwrap())
}

#[test]
fn output_goes_to_the_caller_apart_and_to_the_log_in_order() {
    let w = World::empty();
    let (ended, out, err, log) =
        run_script(&w, "echo 1; sleep .1; echo 2 >&2; sleep .1; echo 3; pwd; exit 5");
    let root = w.root.display();
    assert_eq!((out, err), (format!("1\n3\n{root}\n"), "2\n".to_owned()));
    assert_eq!(String::from_utf8_lossy(&log), format!("1\n2\n3\n{root}\n"));
    let sum = Sha256::digest(&log).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(ended, Ended { exit_code: Some(5), signal: None, output_sha256: Some(sum) });
}

#[test]
fn output_that_cannot_be_saved_is_shown_and_the_file_is_named() {
    let w = World::empty();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let argv = ["sh", "-c", "echo 1"].map(Into::into);
    let task = Task { argv: &argv, cwd: &w.root, log: Path::new("/dev/full"), manner: GROUP };
    let error = run(&task, &mut Tee { out: &mut out, err: &mut err }).unwrap_err();
    assert_eq!(error.to_string(), "cannot save the output in `/dev/full`");
    assert_eq!(out, b"1\n");
}

#[test]
fn an_end_by_a_signal_is_told_from_an_exit_code() {
    let w = World::empty();
    let (ended, ..) = run_script(&w, "kill -9 $$");
    assert_eq!((ended.exit_code, ended.signal), (None, Some(9)));
}

#[test]
fn a_lot_of_output_is_complete() {
    let w = World::empty();
    let (ended, out, err, log) =
        run_script(&w, "head -c 3000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero | tr '\\0' y >&2");
    assert_eq!(
        (ended.exit_code, out.len(), err.len(), log.len()),
        (Some(0), 3_000_000, 2_000_000, 5_000_000)
    );
}

#[test]
fn what_a_command_leaves_running_does_not_hold_anybody_up() {
    let w = World::empty();
    let (ended, out, ..) = run_script(&w, "sleep 600 & echo $!");
    assert_eq!(ended.exit_code, Some(0));
    let left = out.trim();
    let is_running = std::process::Command::new("kill").arg(left).status().unwrap().success();
    assert!(is_running, "it was waited for");
}

#[test]
fn what_a_command_leaves_talking_does_not_hold_anybody_up() {
    let w = World::empty();
    let (ended, out, ..) =
        run_script(&w, "(for i in $(seq 500); do echo $i; sleep .02; done; echo > over) & echo on; exit 3");
    assert_eq!(ended.exit_code, Some(3));
    assert!(out.contains("on\n"), "{out}");
    assert!(!w.root.join("over").exists(), "it was waited for");
}

#[test]
fn a_caller_that_stops_listening_does_not_stop_the_command() {
    struct Deaf;
    impl Write for Deaf {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let w = World::empty();
    let argv = ["sh", "-c", "echo 1; echo 2; exit 3"].map(Into::into);
    let log = w.base().join("log");
    let ended = run(
        &Task { argv: &argv, cwd: &w.root, log: &log, manner: GROUP },
        &mut Tee { out: &mut Deaf, err: &mut Deaf },
    )
    .unwrap();
    assert_eq!((ended.exit_code, fs::read(&log).unwrap()), (Some(3), b"1\n2\n".to_vec()));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let w = World::empty();
    let log = w.base().join("log");
    let argv = ["no-such-program".into()];
    let mut tee = Tee { out: &mut io::sink(), err: &mut io::sink() };
    let error = run(&Task { argv: &argv, cwd: &w.root, log: &log, manner: GROUP }, &mut tee).unwrap_err();
    assert_eq!(error.to_string(), "cannot start `no-such-program`");
    let error = run(&Task { argv: &[], cwd: &w.root, log: &log, manner: GROUP }, &mut tee).unwrap_err();
    assert_eq!(error.to_string(), "there is no command to run: write it behind `--`");
}

/// A runner in a process of its own, once its command has written a file.
fn start(w: &World, script: &str) -> Child {
    let script = format!("echo $$ > ../pid.new; mv ../pid.new ../pid; {script}");
    let mut command = w.command(env!("CARGO_BIN_EXE_gate-puppet"));
    let log = w.base().join("log");
    command.args(["run", log.to_str().unwrap(), "sh", "-c", &script]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| w.base().join("pid").exists());
    child
}

fn wait_for(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not happen within 30 s");
        sleep(Duration::from_millis(10));
    }
}

fn pid_in(path: &Path) -> Pid {
    Pid::from_raw(fs::read_to_string(path).unwrap().trim().parse().unwrap())
}

fn is_gone(pid: Pid) -> bool {
    // A process that nobody has reaped yet is gone as well.
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    kill(pid, None).is_err() || state.is_some_and(|state| state.contains(") Z "))
}

#[test]
fn signals_are_passed_on_and_the_command_decides() {
    let w = World::empty();
    for (signal, name) in [(Signal::SIGINT, "INT"), (Signal::SIGTERM, "TERM"), (Signal::SIGHUP, "HUP")] {
        fs::remove_file(w.base().join("pid")).ok();
        let mut child = start(&w, &format!("trap 'exit 7' {name}; while :; do sleep .05; done"));
        // Until the trap is set, the signal would simply end it.
        sleep(Duration::from_millis(300));
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7), "{name}");
    }
}

#[test]
fn a_command_dies_with_mala_and_with_all_that_it_started() {
    let w = World::empty();
    let mut child = start(&w, "sleep 60 & echo $! > ../child; wait");
    wait_for(|| fs::read_to_string(w.base().join("child")).is_ok_and(|text| text.ends_with('\n')));
    let pids = ["pid", "child"].map(|name| pid_in(&w.base().join(name)));
    assert!(!pids.iter().any(|pid| is_gone(*pid)));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    wait_for(|| pids.iter().all(|pid| is_gone(*pid)));
}
