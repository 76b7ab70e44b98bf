//! Programs that wait for their turn.

mod capture;
mod descent;
mod programs;
mod stage;

use std::fs;

use mala_sandbox::SandboxError;

use self::stage::{Event, Stage, code, signal};
use crate::world::have;

fn waits(name: &str) -> Event {
    Event::Waits(name.to_owned())
}

fn goes(name: &str) -> Event {
    Event::Goes(name.to_owned())
}

fn died(name: &str) -> Event {
    Event::Died(name.to_owned())
}

fn ended(name: &str, exit: Option<mala_sandbox::Exit>) -> Event {
    Event::Ended(name.to_owned(), exit)
}

#[test]
fn a_program_runs_when_its_turn_has_come_and_not_before() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\necho ran > $OUT/ran; exit 7\n");
    let show = stage.sh("$OUT/turn-a; echo $? after");
    stage.await_waiting(1);
    assert!(!stage.out("ran").exists());
    stage.let_go("turn-a");
    assert_eq!(show.end().out, "7 after\n");
    assert!(stage.out("ran").exists());
    assert_eq!(stage.events(), [waits("turn-a"), goes("turn-a"), ended("turn-a", code(7))]);
}

#[test]
fn programs_go_in_the_order_they_are_let_go() {
    let stage = Stage::new();
    for name in ["turn-a", "turn-b", "turn-c"] {
        stage.script(name, "#!/bin/sh\necho ${0##*/}\n");
    }
    let show = stage.sh("$OUT/turn-a & $OUT/turn-b & $OUT/turn-c & wait");
    stage.await_waiting(3);
    for name in ["turn-c", "turn-a", "turn-b"] {
        stage.let_go(name);
        stage.await_events(name, |events| events.contains(&ended(name, code(0))));
    }
    assert_eq!(show.end().out, "turn-c\nturn-a\nturn-b\n");
}

#[test]
fn fifty_programs_wait_at_once() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\necho x\n");
    let show = stage.sh("for i in {1..50}; do $OUT/turn-a & done; wait; echo > new; echo all");
    stage.await_waiting(50);
    stage.let_go("turn-a");
    assert_eq!(show.end().out, "x\n".repeat(50) + "all\n");
    let events = stage.events();
    assert_eq!(events.iter().filter(|event| **event == ended("turn-a", code(0))).count(), 50);
    assert_eq!(events.len(), 150);
}

#[test]
fn a_parent_with_a_time_limit_is_not_held_up() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\n");
    let show = stage.python(
        "import os, subprocess
try: subprocess.run([os.environ['OUT'] + '/turn-a'], timeout=1)
except subprocess.TimeoutExpired: print('in time')",
    );
    // Nobody lets it go.
    assert_eq!(show.end().out, "in time\n");
    assert_eq!(stage.events(), [waits("turn-a"), died("turn-a"), ended("turn-a", signal(9))]);
}

#[test]
fn an_event_loop_is_not_held_up() {
    if !have(&["node"]) {
        return;
    }
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\n");
    let script = "
const child = require('child_process').spawn(process.env.OUT + '/turn-a');
child.on('exit', (code, signal) => console.log(code, signal));
let ticks = 0;
const timer = setInterval(() => { if (++ticks == 5) { clearInterval(timer); console.log('ticks'); child.kill(); } }, 20);";
    let show = stage.play("node", &["-e", script]);
    assert_eq!(show.end().out, "ticks\nnull SIGTERM\n");
    assert_eq!(stage.events().last(), Some(&ended("turn-a", signal(15))));
}

#[test]
fn signals_kill_a_program_that_waits() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\n");
    let show = stage.python(
        "import os, signal, subprocess, time
# Whoever runs the tests may ignore them, as `nohup` does, and shells for what they run beside them.
for number in signal.SIGHUP, signal.SIGINT: signal.signal(number, signal.SIG_DFL)
out = os.environ['OUT']
for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL:
    child = subprocess.Popen([out + '/turn-a'])
    while not os.path.exists('%s/waits-%d' % (out, child.pid)): time.sleep(0.01)
    child.send_signal(number)
    print(child.wait() == -number)",
    );
    assert_eq!(show.end().out, "True\n".repeat(4));
    let ends: Vec<_> = stage.events().into_iter().filter(|event| matches!(event, Event::Ended(..))).collect();
    assert_eq!(ends, [15, 2, 1, 9].map(|number| ended("turn-a", signal(number))));
}

#[test]
fn a_refused_program_is_told_why_and_ends() {
    let stage = Stage::new();
    stage.script("turn-refused", "#!/bin/sh\necho ran\n");
    let show = stage.sh("$OUT/turn-refused; echo $?; trap '' TERM; $OUT/turn-refused; echo $?");
    let out = show.end().out;
    let told: Vec<_> = out
        .lines()
        .filter(|line| line.starts_with(|first: char| first == 'm' || first.is_ascii_digit()))
        .collect();
    let message = "mala: `turn-refused` may not run";
    assert_eq!(told, [message, "143", message, "137"], "{out}");
    let ends = [ended("turn-refused", signal(15)), ended("turn-refused", signal(9))];
    assert!(ends.iter().all(|end| stage.events().contains(end)), "{:?}", stage.events());
}

#[test]
fn a_hold_that_panics_refuses() {
    let stage = Stage::new();
    stage.script("turn-panics", "#!/bin/sh\necho ran\n");
    let out = stage.sh("$OUT/turn-panics; echo $?").end().out;
    assert!(out.contains("could not be given its turn") && out.contains("143\n"), "{out}");
    assert!(!out.contains("ran"), "{out}");
    assert_eq!(stage.events(), []);
}

#[test]
fn holds_are_told_the_end_before_the_tree_is_gone() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\n");
    stage.script("turn-b", "#!/bin/sh\nsleep 60\n");
    let show = stage
        .sh("(setsid $OUT/turn-a &); (setsid $OUT/turn-b &); while ! test -e $OUT/go; do sleep 0.01; done");
    stage.let_go("turn-b");
    stage.await_waiting(2);
    stage.await_events("b goes", |events| events.contains(&goes("turn-b")));
    fs::write(stage.out("go"), "").unwrap();
    assert!(show.end().exit.unwrap().success());
    for name in ["turn-a", "turn-b"] {
        assert!(stage.events().contains(&ended(name, signal(9))), "{:?}", stage.events());
    }
}

#[test]
fn holds_are_told_the_end_when_the_keeper_is_killed() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\n");
    let show = stage.sh("(setsid $OUT/turn-a > /dev/null 2>&1 &); sleep 60");
    stage.await_waiting(1);
    let parent = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_owned()
    };
    let mut keeper = stage.pids()[0].to_string();
    while fs::read_to_string(format!("/proc/{keeper}/comm")).unwrap() != "mala-keeper\n" {
        keeper = parent(&keeper);
    }
    assert!(std::process::Command::new("kill").args(["-KILL", &keeper]).status().unwrap().success());
    assert!(matches!(show.end().exit, Err(SandboxError::KeeperLost)));
    assert_eq!(stage.events(), [waits("turn-a"), died("turn-a"), ended("turn-a", signal(9))]);
}
