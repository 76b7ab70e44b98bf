//! Agents settle conflicts: what holders and askers hear, and what neither can do.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use mala_tests::{World, eventually};
use serde_json::{Value, json};

use crate::cli::{Answer, MALA, done, held, mala, pair};

/// A checkout with two committed files.
fn world() -> World {
    let world = World::new();
    world.write("a", "committed\n");
    world.write("b", "committed\n");
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.invalid"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    world
}

/// A shell that is an agent under enforcement and does what it is told, line by line.
struct Shell {
    process: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Shell {
    fn start(world: &World, agent: &str) -> Self {
        Self::start_with(world, agent, &[])
    }

    fn start_with(world: &World, agent: &str, env: &[(&str, &str)]) -> Self {
        let mut process = mala(world, ["exec", "--agent", agent, "--", "sh"])
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { input: process.stdin.take(), process, lines }
    }

    /// Gives a command without waiting for its end.
    fn begin(&mut self, script: &str) {
        writeln!(self.input.as_ref().unwrap(), "{script}").unwrap();
    }

    /// What a command prints, and its exit code.
    fn run(&mut self, script: &str) -> (String, i32) {
        self.begin(&format!("{{ {script}\n}} 2>&1; echo \"[ended $?]\""));
        let mut text = String::new();
        loop {
            let line = self.lines.next().unwrap().unwrap();
            if let Some(code) = line.strip_prefix("[ended ") {
                return (text, code.trim_end_matches(']').parse().unwrap());
            }
            text.push_str(&line);
            text.push('\n');
        }
    }

    /// A command that must succeed.
    fn done(&mut self, script: &str) -> String {
        let (text, code) = self.run(script);
        assert_eq!(code, 0, "{script}: {text}");
        text
    }

    /// What a hook of Claude answers to a call.
    fn hook(&mut self, call: &Value) -> Value {
        let text = self.done(&format!("{MALA} hook claude <<'END'\n{call}\nEND"));
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    }

    /// Ends the shell; what it said on stderr meanwhile.
    fn end(mut self) -> String {
        drop(self.input.take());
        Answer::from(self.process.wait_with_output().unwrap()).err
    }
}

fn call(world: &World, event: &str, tool: &str, input: &Value) -> Value {
    json!({ "hook_event_name": event, "session_id": "s", "cwd": world.root(), "tool_name": tool,
        "tool_input": input, "tool_use_id": "t1" })
}

fn read(world: &World) -> Value {
    call(world, "PreToolUse", "Read", &json!({ "file_path": world.root().join("b") }))
}

fn write(world: &World, path: &str) -> Value {
    call(world, "PreToolUse", "Write", &json!({ "file_path": world.root().join(path), "content": "x" }))
}

fn context(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default()
}

fn ask(world: &World, path: &str) -> String {
    let answer = done(world, &format!("lock ask {path} --why tests --agent bob --json")).json();
    answer["asks"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_holder_hears_an_ask_once_at_its_next_call_and_the_asker_the_answer() {
    let world = world();
    let (mut ann, mut bob) = (Shell::start(&world, "ann"), Shell::start(&world, "bob"));
    ann.done("echo x > a");
    assert_eq!(context(&ann.hook(&read(&world))), "");
    let asked = bob.done(&format!("{MALA} lock ask a --why tests --json"));
    let id = serde_json::from_str::<Value>(&asked).unwrap()["asks"][0]["id"].as_str().unwrap().to_owned();
    let heard = ann.hook(&read(&world));
    assert!(context(&heard).contains("`bob` asks for `a`, which you hold"), "{heard}");
    assert!(context(&heard).contains(&format!("mala lock answer {id} release")), "{heard}");
    assert_eq!(context(&ann.hook(&read(&world))), "", "told once");
    assert_eq!(ann.hook(&write(&world, "a")), json!({}), "hooks only advise: it is still ann's");
    ann.done(&format!("{MALA} lock answer {id} defer --eta 20m"));
    assert!(context(&bob.hook(&read(&world))).contains("`ann` still needs `a` for "));
    ann.done(&format!("{MALA} lock answer {id} release"));
    assert!(context(&bob.hook(&read(&world))).contains("`a`, which you asked `ann` for, is yours now"));
    bob.done("echo y > a");
    let (refused, code) = ann.run("echo z > a");
    assert!(code != 0 && refused.contains("held by `bob`"), "{refused}");
    assert!(refused.contains("mala lock ask a --why REASON"), "{refused}");
}

#[test]
fn a_file_that_is_still_open_is_not_handed_to_whoever_asked_for_it() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done("exec 3>> a");
    let id = ask(&world, "a");
    let (text, code) = ann.run(&format!("{MALA} lock answer {id} release"));
    assert!(code == 1 && text.contains("`a` is still open for writing by sh"), "{text}");
    assert_eq!(held(&world), [pair("a", "ann")]);
    ann.done("exec 3>&-");
    ann.done(&format!("{MALA} lock answer {id} release"));
    assert_eq!(held(&world), [pair("a", "bob")]);
}

#[test]
fn nothing_is_taken_while_its_holder_has_it_open() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done("exec 3>> a");
    let id = ask(&world, "a");
    let forced: Answer = mala(&world, ["lock", "take", &id, "--force"]).output().unwrap().into();
    assert!(forced.code == 1 && forced.err.contains("`a` is still open for writing by sh"), "{forced:?}");
    assert_eq!(held(&world), [pair("a", "ann")]);
    ann.done("exec 3>&-");
    done(&world, &format!("lock take {id} --force"));
    assert_eq!(held(&world), [pair("a", "bob")]);
}

#[test]
fn a_wait_for_an_answer_ends_with_whoever_waits() {
    let world = world();
    done(&world, "lock acquire a --agent ann");
    let mut bob = Shell::start(&world, "bob");
    bob.begin(&format!("{MALA} lock ask a --why tests --wait 60s & echo $!"));
    let pid = bob.lines.next().unwrap().unwrap();
    eventually("bob waits", || world.count("waiter") == 1);
    bob.done(&format!("kill -9 {pid}"));
    eventually("nobody waits any more", || world.count("waiter") == 0);
    assert_eq!(
        done(&world, "lock asks --json").json()["asks"][0]["state"],
        "open",
        "the ask is bob's, not the wait's"
    );
}

#[test]
fn force_is_for_people_only() {
    let world = world();
    done(&world, "lock acquire a --agent ann");
    let mut bob = Shell::start(&world, "bob");
    let asked = bob.done(&format!("{MALA} lock ask a --why tests --json"));
    let id = serde_json::from_str::<Value>(&asked).unwrap()["asks"][0]["id"].as_str().unwrap().to_owned();
    for line in [
        format!("{MALA} lock take {id} --force"),
        format!("MALA_AGENT=ann {MALA} lock take {id} --force --agent ann"),
    ] {
        let (text, code) = bob.run(&line);
        assert!(code == 1 && text.contains("only a person can force"), "{line}: {text}");
    }
    assert_eq!(held(&world), [pair("a", "ann")]);
    done(&world, &format!("lock take {id} --force"));
    assert_eq!(held(&world), [pair("a", "bob")]);
}

#[test]
fn whoever_lost_a_lock_hears_who_took_it_when_why_and_how_to_get_it_back() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done("echo half > a");
    let id = ask(&world, "a");
    done(&world, &format!("lock take {id} --force --agent eve"));
    let (refused, code) = ann.run("echo more > a");
    for words in ["held by `bob`", "taken from you by `eve`", "ago: tests", "mala lock ask a --why REASON"] {
        assert!(code != 0 && refused.contains(words), "{words}: {refused}");
    }
    let denied = ann.hook(&write(&world, "a"));
    let reason = denied["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap();
    assert!(
        reason.contains("taken from you by `eve`") && reason.contains("mala lock ask a --why REASON"),
        "{reason}"
    );
    let told = ann.hook(&read(&world));
    assert!(context(&told).contains("`a` was taken from you by `eve`"), "{told}");
    let letter = ann.done(&format!("{MALA} msg thread {id}"));
    assert!(letter.contains(&format!("saved in refs/mala/taken/{id}")), "{letter}");
    assert_eq!(world.git(&["show", &format!("refs/mala/taken/{id}:a")]), "half");
}

#[test]
fn an_agent_hears_a_message_once_and_answers_it() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done("true");
    let send = |body: &str| -> Answer {
        mala(&world, ["msg", "send", "--to", "ann", "--thread", "bd-1", "--ack", body])
            .env("USER", "eve")
            .output()
            .unwrap()
            .into()
    };
    assert_eq!(send("look at b").code, 0);
    let heard = ann.hook(&read(&world));
    assert!(context(&heard).contains("message from `eve` about bd-1: look at b"), "{heard}");
    assert!(context(&heard).contains("mala msg ack 1"), "{heard}");
    assert_eq!(context(&ann.hook(&read(&world))), "", "told once");
    ann.done(&format!("{MALA} msg ack 1 && {MALA} msg send --to eve --thread bd-1 'it is fine'"));
    let inbox: Answer = mala(&world, ["msg", "inbox", "--json"]).env("USER", "eve").output().unwrap().into();
    assert_eq!(inbox.json()["messages"][0]["from"], json!({ "kind": "agent", "name": "ann" }));
    assert_eq!(send(&"long ".repeat(1_000)).code, 0);
    let long = ann.hook(&read(&world));
    assert!(
        context(&long).len() < 3_000 && context(&long).contains("the rest: mala msg thread bd-1"),
        "{long}"
    );
}

#[test]
fn inside_the_tree_nobody_writes_as_anybody_else() {
    let world = world();
    done(&world, "lock acquire b --agent other");
    let mut ann = Shell::start(&world, "ann");
    ann.done(&format!("MALA_AGENT=other USER=root {MALA} msg send --to other --agent other hello"));
    let inbox = done(&world, "msg inbox --agent other --json").json();
    assert_eq!(inbox["messages"][0]["from"], json!({ "kind": "agent", "name": "ann" }));
}

#[test]
fn an_agents_commit_hands_on_what_others_asked_for() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done("echo done > a");
    ask(&world, "a");
    let text = ann.done(&format!("{MALA} commit -m 'a is done'"));
    assert!(text.contains("`a` belongs to `bob` now, who asked for it"), "{text}");
    assert_eq!(held(&world), [pair("a", "bob")]);
}

#[test]
fn the_end_of_a_turn_hands_on_what_is_done() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done(&format!("{MALA} lock acquire a b && echo half > b"));
    ask(&world, "a");
    done(&world, "lock ask b --why tests --agent cleo");
    ann.hook(&call(&world, "Stop", "", &json!({})));
    assert_eq!(held(&world), [pair("a", "bob"), pair("b", "ann")]);
}

#[test]
fn a_supervisor_says_what_is_overdue_while_nobody_asks() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done("echo x > a");
    mala(&world, ["lock", "ask", "a", "--why", "tests", "--agent", "bob"])
        .env("MALA_ASKS_DUE", "1s")
        .status()
        .unwrap();
    let count = "SELECT count(*) FROM event WHERE kind = 'ask.overdue'";
    let overdue = || world.sql().query_row(count, [], |row| row.get::<_, i64>(0)).unwrap();
    eventually("it is said", || overdue() == 1);
    assert!(context(&ann.hook(&read(&world))).contains("`bob` asks for `a`"));
    assert_eq!((ann.end(), overdue()), (String::new(), 1));
}

#[test]
fn background_work_that_fails_is_said_and_harms_nobody() {
    let world = world();
    let mut ann = Shell::start(&world, "ann");
    ann.done("echo x > a");
    ask(&world, "a");
    let damage = "PRAGMA ignore_check_constraints = ON; UPDATE ask SET mode = 7";
    world.sql().execute_batch(damage).unwrap();
    let mut errors = BufReader::new(ann.process.stderr.take().unwrap()).lines();
    let first = errors.next().unwrap().unwrap();
    assert!(first.contains("cannot look for overdue asks") && first.contains("makes no sense"), "{first}");
    world.sql().execute_batch("UPDATE ask SET mode = 2").unwrap();
    ann.done("echo y > a");
    drop(ann.input.take());
    assert!(ann.process.wait().unwrap().success());
    let rest = errors.map(Result::unwrap).filter(|line| line.contains("cannot look")).count();
    assert!(rest <= 1, "said {rest} more times");
}
