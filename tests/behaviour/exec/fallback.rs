//! Where the kernel cannot enforce, mala says so, and refuses where it was told to.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use mala_tests::World;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{read, world};
use crate::cli::{Answer, MALA, done, run};

/// Runs a command on a kernel without Landlock, as far as it can tell.
const WITHOUT_LANDLOCK: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
# Load the call's number; 444 creates a rule set: it is not supported; everything else is allowed.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 95), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in code))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 4, ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
";

fn without_landlock(world: &World, args: &[&str]) -> Command {
    let mut command = world.command("python3");
    command.args(["-Sc", WITHOUT_LANDLOCK, MALA]).args(args).env_remove("MALA_AGENT");
    command
}

fn answer(mut command: Command) -> Answer {
    command.output().unwrap().into()
}

const SCRIPT: &str = "echo x > new.txt; echo $MALA_AGENT; exit 7";

#[test]
fn what_is_not_enforced_is_said_before_the_command_runs() {
    let world = world();
    let ran = answer(without_landlock(&world, &["exec", "--agent", "me", "--", "sh", "-c", SCRIPT]));
    assert_eq!((ran.code, ran.out.as_str()), (7, "me\n"), "{ran:?}");
    assert!(
        ran.err
            .starts_with("unprotected: the kernel does not protect anybody here: the kernel has no Landlock"),
        "{}",
        ran.err
    );
    let doctor = answer(without_landlock(&world, &["doctor", "--json"])).json();
    let check =
        doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "enforcement").unwrap();
    assert_eq!(check["status"], "warn");
    let detail = check["detail"].as_str().unwrap();
    assert!(detail.contains("no Landlock") && detail.contains("locks bind only those who ask"), "{detail}");
    let json = answer(without_landlock(&world, &["exec", "--json", "--agent", "me", "--", "true"])).json();
    assert_eq!(json["enforced"], false);
}

#[test]
fn who_requires_the_kernel_runs_nothing_without_it() {
    let world = world();
    let flag = ["exec", "--agent", "me", "--require-kernel", "--", "sh", "-c", SCRIPT];
    let by_flag = answer(without_landlock(&world, &flag));
    let mut by_variable = without_landlock(&world, &["exec", "--agent", "me", "--", "sh", "-c", SCRIPT]);
    by_variable.env("MALA_ENFORCEMENT_REQUIRE_KERNEL", "true");
    for refused in [by_flag, answer(by_variable)] {
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
        assert!(
            refused.err.contains("no Landlock") && refused.err.contains("mala doctor"),
            "{}",
            refused.err
        );
    }
    world.write("mala.toml", "[enforcement]\nrequire_kernel = true\n");
    assert_eq!(
        answer(without_landlock(&world, &["exec", "--agent", "me", "--", "sh", "-c", SCRIPT])).code,
        1
    );
    assert!(!world.root().join("new.txt").exists());
}

/// Where names that differ only in case are one file, as the second name of a checkout's `.git` makes believe.
#[test]
fn names_that_mean_the_same_in_another_case_are_not_told_apart_by_the_kernel() {
    let world = world();
    fs::rename(world.root().join(".git"), world.base().join("repository")).unwrap();
    world.write(".git", &format!("gitdir: {}\n", world.base().join("repository").display()));
    fs::hard_link(world.root().join(".git"), world.root().join(".GIT")).unwrap();
    let ran = done(&world, "exec --agent me -- true");
    assert!(ran.err.contains("does not protect anybody here: names that differ only in case"), "{}", ran.err);
    assert_eq!(run(&world, "exec --agent me --require-kernel -- true").code, 1);
    let doctor = done(&world, "doctor").out;
    assert!(doctor.contains("differ only in case are one file here"), "{doctor}");
}

#[test]
fn without_the_kernel_signals_still_reach_the_command() {
    let world = world();
    let script = "trap 'echo got it > sign; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let mut command = without_landlock(&world, &["exec", "--agent", "me", "--", "sh", "-c", script]);
    let mut agent = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(agent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    kill(Pid::from_raw(i32::try_from(agent.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(7));
    assert_eq!(read(&world, "sign"), "got it\n");
    assert!(fs::read_dir(world.state_dir().join("desk")).is_err(), "there is no desk to leave behind");
}
