//! Test commands take turns, whoever starts them and however they end.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use mala_tests::{World, eventually, write_script};

use crate::cli::{Answer, MALA, done, mala};

/// A program that notes when it runs, for `hold` or until `open` appears, and ends with `code`.
const TESTER: &str = "#!/bin/sh
echo \"begin $1 $(date +%s%N)\" >> \"$LOG\"
i=0; while [ -n \"$GATE\" ] && [ ! -e \"$GATE\" ] && [ $i -lt 600 ]; do sleep 0.05; i=$((i + 1)); done
sleep \"${HOLD:-0.02}\"
echo \"end $1 $(date +%s%N)\" >> \"$LOG\"
exit \"${CODE:-0}\"
";

/// A checkout whose settings guard `tester` and `other-tester`, which lie outside of it.
fn world() -> World {
    let world = World::new();
    world.write("mala.toml", "[test]\ncommands = [\"tester\", \"other-tester run\"]\n");
    world.write("file.txt", "text\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    for name in ["tester", "other-tester"] {
        write_script(&world.base().join(name), TESTER);
    }
    world
}

fn command(world: &World, agent: &str, script: &str) -> std::process::Command {
    let mut command = mala(world, ["exec", "--agent", agent, "--", "sh", "-c", script]);
    let path = format!("{}:{}", world.base().display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("LOG", world.base().join("log")).stdin(Stdio::null());
    command
}

fn start(world: &World, agent: &str, script: &str) -> Child {
    command(world, agent, script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Answer {
    child.wait_with_output().unwrap().into()
}

/// What ran, as (name, begin, end), in the order of their begins.
fn intervals(world: &World) -> Vec<(String, u128, u128)> {
    let log = fs::read_to_string(world.base().join("log")).unwrap_or_default();
    let mut open: Vec<(String, u128)> = Vec::new();
    let mut done = Vec::new();
    for line in log.lines() {
        let mut words = line.split(' ');
        let (what, name, at) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let at: u128 = at.parse().unwrap();
        if what == "begin" {
            open.push((name.to_owned(), at));
        } else {
            let place = open.iter().position(|(other, _)| other == name).unwrap();
            let (name, begin) = open.remove(place);
            done.push((name, begin, at));
        }
    }
    done.sort_by_key(|(_, begin, _)| *begin);
    done
}

fn assert_disjoint(intervals: &[(String, u128, u128)]) {
    for pair in intervals.windows(2) {
        assert!(pair[0].2 <= pair[1].1, "{} runs while {} does", pair[1].0, pair[0].0);
    }
}

fn waiting(world: &World) -> usize {
    done(world, "status --json").json()["waiters"].as_array().unwrap().len()
}

#[test]
fn eight_agents_with_five_test_commands_each_never_overlap() {
    let world = world();
    let script = |agent: usize| {
        let one = |turn: usize| match turn % 3 {
            0 => format!("tester a{agent}-{turn}"),
            1 => format!("other-tester --quiet run; tester a{agent}-{turn}"),
            _ => format!("{MALA} test -- tester a{agent}-{turn}"),
        };
        (0..5).map(one).collect::<Vec<_>>().join("; ")
    };
    let agents: Vec<Child> =
        (0..8).map(|agent| start(&world, &format!("agent-{agent}"), &script(agent))).collect();
    for agent in agents {
        let answer = end(agent);
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    let intervals = intervals(&world);
    assert_eq!(intervals.iter().filter(|(name, ..)| name.starts_with('a')).count(), 40);
    assert_disjoint(&intervals);
}

#[test]
fn turns_come_in_the_order_of_arrival_and_two_commands_of_one_agent_take_turns_too() {
    let world = world();
    let gate = world.base().join("gate");
    let mut first = command(&world, "first", "tester first");
    let first = first.env("GATE", &gate).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the first one runs", || fs::read_to_string(world.base().join("log")).is_ok());
    let second = start(&world, "second", "tester second-a & tester second-b; wait");
    eventually("both of the second agent wait", || waiting(&world) == 2);
    let third = start(&world, "third", "tester third");
    eventually("the third waits", || waiting(&world) == 3);
    fs::write(&gate, "").unwrap();
    for child in [first, second, third] {
        assert_eq!(end(child).code, 0);
    }
    let intervals = intervals(&world);
    assert_disjoint(&intervals);
    let names: Vec<&str> = intervals.iter().map(|(name, ..)| &name[..5]).collect();
    assert_eq!(names, ["first", "secon", "secon", "third"]);
}

#[test]
fn whoever_waits_is_told_for_whom_and_status_shows_the_queue() {
    let world = world();
    let gate = world.base().join("gate");
    let mut first = command(&world, "first", "tester first");
    let first = first.env("GATE", &gate).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the first one runs", || fs::read_to_string(world.base().join("log")).is_ok());
    let second = start(&world, "second", "tester second");
    eventually("the second waits", || waiting(&world) == 1);
    let status = done(&world, "status --json").json();
    let mutex = &status["mutexes"][0];
    assert_eq!((&mutex["name"], &mutex["holder"]), (&"test".into(), &"first".into()));
    assert_eq!(mutex["queue"], serde_json::json!(["second"]));
    fs::write(&gate, "").unwrap();
    assert_eq!(end(first).code, 0);
    let told = end(second);
    assert_eq!(told.code, 0);
    let line =
        told.err.lines().find_map(|line| line.strip_prefix("mala: waiting for the test mutex, ")).unwrap();
    let (seconds, command) =
        line.strip_prefix("held by first for ").and_then(|rest| rest.split_once(" s ")).unwrap();
    assert!(
        seconds.parse::<u32>().is_ok() && command.starts_with('(') && command.contains("tester first"),
        "{line}"
    );
}

#[test]
fn a_killed_test_command_frees_its_turn_and_its_end_is_passed_on() {
    let world = world();
    let gate = world.base().join("never");
    let mut first =
        command(&world, "first", "sh -c 'echo $$ > \"$LOG.pid\"; exec tester first'; echo code $?");
    let first = first.env("GATE", &gate).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the first one runs", || fs::read_to_string(world.base().join("log")).is_ok());
    let second = start(&world, "second", "CODE=7 tester second");
    eventually("the second waits", || waiting(&world) == 1);
    let pid = fs::read_to_string(world.base().join("log.pid")).unwrap();
    assert!(std::process::Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    assert_eq!(end(second).code, 7);
    assert!(end(first).out.contains("code 137"));
}

#[test]
fn a_test_command_inside_a_test_command_does_not_wait_for_itself() {
    let world = world();
    let script =
        format!("{MALA} test -- sh -c 'tester inner; sh -c \"tester deeper\"; {MALA} test -- tester third'");
    let answer = end(start(&world, "me", &script));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(intervals(&world).len(), 3);
}

#[test]
fn whoever_waits_for_a_turn_can_be_killed_and_is_forgotten() {
    let world = world();
    let gate = world.base().join("gate");
    let mut first = command(&world, "first", "tester first");
    let first = first.env("GATE", &gate).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the first one runs", || fs::read_to_string(world.base().join("log")).is_ok());
    let script = "import subprocess
try: subprocess.run(['tester', 'late'], timeout=0.5)
except subprocess.TimeoutExpired: print('timed out')";
    world.write("../late.py", script);
    let second = end(start(&world, "second", "python3 ../late.py"));
    assert!(second.out.contains("timed out"), "{second:?}");
    assert_eq!(waiting(&world), 0);
    fs::write(&gate, "").unwrap();
    assert_eq!(end(first).code, 0);
    assert_eq!(intervals(&world).len(), 1);
}

#[test]
fn whoever_runs_a_test_is_refused_files_at_once_instead_of_waiting_for_them() {
    let world = world();
    done(&world, "lock acquire file.txt --agent other");
    let script = format!("{MALA} test -- sh -c '{MALA} lock acquire file.txt --wait 1m'");
    let answer = end(start(&world, "me", &script));
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.err.contains("an agent that holds a named lock does not queue for files"),
        "{}",
        answer.err
    );
}

#[test]
fn mutexes_with_names_of_their_own_are_apart_from_each_other() {
    let world = world();
    world.write(
        "mala.toml",
        "[test]\ncommands = [\"tester\"]\n[mutex.db]\ncommands = [\"other-tester run\"]\n",
    );
    let gate = world.base().join("gate");
    let hold = |agent: &str, script: &str| {
        let mut held = command(&world, agent, script);
        held.env("GATE", &gate).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let log = || fs::read_to_string(world.base().join("log")).unwrap_or_default();
    let first = hold("first", "tester first");
    eventually("the first one runs", || log().contains("begin first"));
    let second = hold("second", "other-tester run second");
    eventually("both run, each under its own mutex", || log().contains("begin run"));
    let third = start(&world, "third", "other-tester run third");
    eventually("the third waits for the second", || waiting(&world) == 1);
    let mutexes = done(&world, "status --json").json()["mutexes"].clone();
    let db = mutexes.as_array().unwrap().iter().find(|mutex| mutex["name"] == "db").unwrap().clone();
    assert_eq!((&db["holder"], &db["queue"]), (&"second".into(), &serde_json::json!(["third"])));
    fs::write(&gate, "").unwrap();
    for child in [first, second, third] {
        assert_eq!(end(child).code, 0);
    }
}

#[test]
fn a_wait_for_a_turn_can_be_bounded() {
    let world = world();
    let gate = world.base().join("gate");
    let mut first = command(&world, "first", "tester first");
    let first = first.env("GATE", &gate).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the first one runs", || fs::read_to_string(world.base().join("log")).is_ok());
    let tester = world.base().join("tester");
    let late: Answer = mala(&world, ["test", "--agent", "late", "--wait", "200ms", "--"])
        .arg(&tester)
        .env("LOG", world.base().join("log"))
        .output()
        .unwrap()
        .into();
    assert_eq!(late.code, 1, "{late:?}");
    assert!(late.err.contains("its turn did not come within"), "{}", late.err);
    let inside =
        end(start(&world, "second", &format!("{MALA} test --wait 200ms -- tester second; echo code $?")));
    assert!(inside.err.contains("its turn did not come within"), "{inside:?}");
    assert!(inside.out.contains("code 1\n"), "{inside:?}");
    let script = format!("{MALA} test --json --wait 200ms -- tester third");
    let told = end(start(&world, "third", &script));
    assert!(told.err.contains("its turn did not come within"), "{told:?}");
    assert_eq!((told.code, &told.json()["error"]["kind"]), (1, &"refused".into()), "{told:?}");
    assert_eq!(waiting(&world), 0, "nobody is left in the queue");
    fs::write(&gate, "").unwrap();
    assert_eq!(end(first).code, 0);
    assert_eq!(intervals(&world).len(), 1, "neither of them ran");
}

#[test]
fn inside_a_tree_a_test_that_cannot_be_started_is_answered_in_json_too() {
    let world = world();
    let answer = end(start(&world, "me", &format!("{MALA} test --json -- no-such-program")));
    assert_eq!((answer.code, &answer.json()["error"]["kind"]), (2, &"usage".into()), "{answer:?}");
    assert!(answer.err.contains("cannot start `no-such-program`"), "{}", answer.err);
    let after = end(start(&world, "me", &format!("{MALA} test --json -- tester fine")));
    assert_eq!((after.code, after.json()["argv"].clone()), (0, serde_json::json!(["tester", "fine"])));
}

#[test]
fn a_killed_mala_takes_all_that_its_test_started_with_it() {
    let world = world();
    let pids = ["own-session", "orphan"].map(|name| world.base().join(name));
    let [own_session, orphan] = pids.each_ref().map(|path| {
        let path = path.display();
        format!("setsid sh -c 'echo $$ > {path}.new; mv {path}.new {path}; exec sleep 600'")
    });
    world.write("check.sh", &format!("{own_session} & ({orphan} &) & wait\n"));
    let mut test = mala(&world, ["test", "--agent", "ann", "--", "sh", "check.sh"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("they run", || pids.iter().all(|path| path.exists()));
    test.kill().unwrap();
    test.wait().unwrap();
    let is_gone = |pid: &String| !Path::new("/proc").join(pid.trim()).exists();
    let left = pids.each_ref().map(|path| fs::read_to_string(path).unwrap());
    eventually("nothing is left", || left.iter().all(is_gone));
}

#[test]
fn a_test_outside_of_any_tree_gets_its_signals_and_its_end_is_passed_on() {
    let world = world();
    let run = |script: &str| mala(&world, ["test", "--agent", "ann", "--", "sh", "-c", script]);
    let code = |script: &str| Answer::from(run(script).output().unwrap()).code;
    assert_eq!((code("exit 7"), code("kill -9 $$")), (7, 137));
    let ready = world.base().join("ready");
    let script = format!("trap 'exit 5' TERM; echo > {}; while :; do sleep .05; done", ready.display());
    let child =
        run(&script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it runs", || ready.exists());
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(end(child).code, 5);
    let missing: Answer =
        mala(&world, ["test", "--agent", "ann", "--", "no-such-program"]).output().unwrap().into();
    assert!(missing.code == 2 && missing.err.contains("no-such-program"), "{missing:?}");
}

#[test]
fn a_killed_mala_takes_its_test_and_its_turn_with_it() {
    let world = world();
    let (gate, log) = (world.base().join("never"), world.base().join("log"));
    let mut first = mala(&world, ["test", "--agent", "first", "--"])
        .arg(world.base().join("tester"))
        .arg("first")
        .env("LOG", &log)
        .env("GATE", &gate)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the first one runs", || fs::read_to_string(&log).is_ok());
    let second = start(&world, "second", "tester second");
    eventually("the second waits", || waiting(&world) == 1);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(end(second).code, 0);
    fs::write(&gate, "").unwrap();
    let ran: Vec<String> = intervals(&world).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(ran, ["second"], "what was killed did not go on");
}
