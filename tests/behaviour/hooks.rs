//! `mala hook`: clients get a clear answer before they write.

mod elsewhere;
mod stale;
mod unknown;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use mala_tests::World;
use serde_json::{Value, json};

use crate::cli::{Answer, MALA, done, held, mala, pair};

/// A checkout in which `other` holds `held.txt`.
fn world() -> World {
    let world = World::new();
    for (path, text) in [("held.txt", "theirs\n"), ("free.txt", "anybody's\n"), (".gitignore", "target/\n")] {
        world.write(path, text);
    }
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other --issue bd-7");
    world
}

/// A client: a session is known by its process, and this is a shell that runs a script of its own.
fn client(world: &World, script: &str) -> Command {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let file = world.base().join(format!("client-{}.sh", COUNT.fetch_add(1, Ordering::Relaxed)));
    fs::write(&file, script).unwrap();
    let mut command = world.command("bash");
    command.arg(file).env_remove("MALA_AGENT");
    command
}

/// Hands `input` to a hook that `name` calls from a session of its own.
fn send(world: &World, name: &str, input: &[u8]) -> Answer {
    let mut child = client(world, &format!("\"{MALA}\" hook {name}; exit $?"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have answered before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap().into()
}

fn call(world: &World, event: &str, tool: &str, input: &Value) -> Value {
    json!({ "hook_event_name": event, "session_id": "s", "cwd": world.root(), "tool_name": tool,
        "tool_input": input, "tool_use_id": "t1" })
}

fn write(world: &World, path: &str) -> Value {
    call(world, "PreToolUse", "Write", &json!({ "file_path": world.root().join(path), "content": "x" }))
}

fn bash(world: &World, command: &str) -> Value {
    call(world, "PreToolUse", "Bash", &json!({ "command": command }))
}

fn before(world: &World, call: &Value) -> Value {
    let answer = send(world, "claude", call.to_string().as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.json()
}

fn denial(answer: &Value) -> Option<&str> {
    let output = &answer["hookSpecificOutput"];
    (output["permissionDecision"] == "deny").then(|| output["permissionDecisionReason"].as_str().unwrap())
}

#[test]
fn a_write_to_a_held_file_is_denied_with_holder_issue_and_next_step() {
    let world = world();
    let answer = before(&world, &write(&world, "held.txt"));
    let reason = denial(&answer).expect("it is denied");
    assert!(reason.contains("`held.txt` is held by `other` (issue bd-7)"), "{reason}");
    assert!(reason.contains("mala lock acquire held.txt --wait"), "{reason}");
}

#[test]
fn what_is_free_is_taken_for_the_session_and_passes() {
    let world = world();
    assert_eq!(before(&world, &write(&world, "free.txt")), json!({}));
    // The session has ended with its process, and its lock with it: look into the log.
    let log = done(&world, "logs list --kind lock.acquired --json").json();
    let taken: Vec<_> = log["events"].as_array().unwrap().iter().map(|event| event["path"].clone()).collect();
    assert_eq!(taken, ["held.txt", "free.txt"]);
}

#[test]
fn every_path_of_a_call_is_taken_or_none() {
    let world = world();
    let patch = "*** Begin Patch\n*** Update File: free.txt\n@@\n-anybody's\n+mine\n*** Update File: held.txt\n@@\n-theirs\n+mine\n*** End Patch\n";
    let patch = call(&world, "PreToolUse", "apply_patch", &json!({ "command": patch }));
    let answer = send(&world, "codex", patch.to_string().as_bytes());
    assert!(denial(&answer.json()).is_some(), "{answer:?}");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
    let log = done(&world, "logs list --kind lock.acquired --json").json();
    assert_eq!(log["events"].as_array().unwrap().len(), 1, "nothing was taken on the way");
}

#[test]
fn harmful_shell_commands_are_denied_and_words_about_them_are_not() {
    let world = world();
    for command in [
        "sed -i s/theirs/mine/ held.txt",
        "git add held.txt",
        "git restore --staged held.txt",
        "git reset -q -- held.txt",
        "git rm -q --cached held.txt",
        "echo x > held.txt",
        "cat free.txt | tee -a held.txt",
        "mv free.txt held.txt",
        "rm -f held.txt",
        "cd . && echo x >> ./held.txt",
        "git reset --hard",
        "git stash",
        "git checkout .",
        "git clean -fdx",
        "git commit --no-verify -m x",
        "bash -c 'rm held.txt'",
        "rm -rf .git/hooks",
        "echo '{}' > .claude/settings.json",
    ] {
        assert!(denial(&before(&world, &bash(&world, command))).is_some(), "{command}");
    }
    for command in [
        "cat held.txt",
        "grep -r theirs .",
        "echo 'git reset --hard'",
        "git commit -m 'do not git stash' -- free.txt",
        "echo x > /dev/null",
        "git status",
        "git diff held.txt",
        "echo x > target/out.txt",
    ] {
        assert_eq!(denial(&before(&world, &bash(&world, command))), None, "{command}");
    }
}

#[test]
fn in_a_run_the_hook_sends_commits_to_mala() {
    let world = world();
    let denial = |command: &str, more: &[&str]| {
        let input = world.base().join("input.json");
        fs::write(&input, bash(&world, command).to_string()).unwrap();
        let script = format!("{MALA} hook claude < {}", input.display());
        let mut exec = mala(&world, ["exec", "--agent", "me", "--issue", "bd-1"]);
        let answer: Answer = exec.args(more).args(["--", "bash", "-c", &script]).output().unwrap().into();
        assert_eq!(answer.code, 0, "{answer:?}");
        denial(&answer.json()).map(str::to_owned)
    };
    for command in
        ["cd . && git commit -m x -- free.txt", "git branch -m other", "echo x > .mala/prompts/task.md"]
    {
        assert_eq!(denial(command, &[]), None, "outside of a run: {command}");
        let reason = denial(command, &["--run", "r-1"]).unwrap_or_default();
        assert!(reason.contains("is refused in a run"), "{command}: {reason}");
    }
    let reason = denial("git commit -m x", &["--run", "r-1"]).unwrap_or_default();
    assert!(reason.contains("offer your work: mala commit -m 'bd-1: x'"), "{reason}");
    let elsewhere = "git init -q ../repo && cd ../repo && git commit -q --allow-empty -m x";
    assert_eq!(denial(elsewhere, &["--run", "r-1"]), None, "another repository is none of the run's");
}

#[test]
fn whatever_goes_wrong_the_answer_is_a_refusal_with_its_reason() {
    let world = world();
    for input in ["", "nonsense", "{}", "[1]", "{\"hook_event_name\":\"PreToolUse\"}", "\u{feff}{"] {
        for client in ["claude", "codex", "gemini", "opencode"] {
            let answer = send(&world, client, input.as_bytes());
            assert_eq!(answer.code, 2, "{client} {input}: {answer:?}");
            assert!(answer.err.contains("mala:"), "{client} {input}: {answer:?}");
        }
    }
    assert_eq!(send(&world, "unknown", b"{}").code, 2);
    let mut without_tool = write(&world, "free.txt");
    without_tool.as_object_mut().unwrap().remove("tool_input");
    assert_eq!(send(&world, "claude", without_tool.to_string().as_bytes()).code, 2);
    for rest in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(world.state_dir().join(rest));
    }
    fs::write(world.state_dir().join("state.db"), "no database").unwrap();
    let answer = send(&world, "claude", write(&world, "free.txt").to_string().as_bytes());
    assert_eq!(answer.code, 2, "an unreadable store grants nothing: {answer:?}");
    assert!(answer.err.contains("nothing may be written"), "{answer:?}");
}

#[test]
fn an_answer_that_nobody_reads_is_no_yes() {
    let world = world();
    let call = write(&world, "free.txt").to_string();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = mala(&world, ["hook", "claude"]).stdin(Stdio::piped()).stdout(full).spawn().unwrap();
    child.stdin.take().unwrap().write_all(call.as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn hostile_names_are_data() {
    let world = world();
    let long = "x".repeat(4_000);
    for name in ["$(touch pwned)", "a\"b\\c", "line\nbreak", "🦀'; rm -rf /", "-rf", &format!("{long}/y")] {
        world.write("held.txt", "theirs\n");
        let answer = before(&world, &write(&world, name));
        assert!(answer.is_object(), "{name:?}");
    }
    assert!(!world.root().join("pwned").exists());
    let big = "y".repeat(1 << 20);
    let call = call(
        &world,
        "PreToolUse",
        "Write",
        &json!({ "file_path": world.root().join("free.txt"), "content": big }),
    );
    assert_eq!(before(&world, &call), json!({}));
}

#[test]
fn two_racing_hooks_never_both_get_a_file() {
    let world = World::in_memory();
    world.write("a", "");
    let race = |number: usize| {
        let input = write(&world, &format!("file-{number}")).to_string();
        let mut pair: Vec<_> = (0..2)
            .map(|_| {
                // The session outlives its answer, so that the lock does too, until both have answered.
                let script = format!("\"{MALA}\" hook claude <<< \"$CALL\"; read -r line; : end");
                let mut command = client(&world, &script);
                command.env("CALL", &input).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let answers: Vec<Value> = pair
            .iter_mut()
            .map(|child| {
                let mut line = String::new();
                let out = child.stdout.as_mut().unwrap();
                std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
                serde_json::from_str(&line).unwrap()
            })
            .collect();
        for child in &mut pair {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        answers.iter().filter(|answer| denial(answer).is_some()).count()
    };
    std::thread::scope(|threads| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                threads
                    .spawn(move || (0..RACES / 4).map(|turn| race(worker * RACES + turn)).collect::<Vec<_>>())
            })
            .collect();
        for worker in workers {
            assert!(worker.join().unwrap().iter().all(|denied| *denied == 1), "one allow, one deny");
        }
    });
}

const RACES: usize = 1_000;

/// A call as another conversation of the same process makes it.
fn in_conversation(name: &str, call: &Value) -> String {
    let mut call = call.clone();
    call["session_id"] = json!(name);
    call.to_string()
}

#[test]
fn conversations_of_one_process_are_agents_of_their_own_and_sub_agents_are_not() {
    let world = world();
    let calls = [
        in_conversation("a", &write(&world, "free.txt")),
        in_conversation("b", &write(&world, "free.txt")),
        in_conversation("a", &write(&world, "free.txt")),
        {
            let mut call = write(&world, "free.txt");
            call["agent_id"] = json!("helper");
            in_conversation("a", &call)
        },
        in_conversation("b", &write(&world, "other.txt")),
    ];
    let variables = calls.iter().enumerate().map(|(number, call)| (format!("CALL{number}"), call));
    let script: String =
        (0..calls.len()).map(|number| format!("\"{MALA}\" hook claude <<< \"$CALL{number}\"\n")).collect();
    let out = client(&world, &script).envs(variables).output().unwrap();
    let answers = String::from_utf8(out.stdout).unwrap();
    let denied: Vec<bool> =
        answers.lines().map(|line| denial(&serde_json::from_str(line).unwrap()).is_some()).collect();
    assert_eq!(denied, [false, true, false, false, false], "{answers}");
}

#[test]
fn a_cleared_or_resumed_conversation_is_still_the_same_agent() {
    let world = world();
    let start = |source: &str| {
        let call = json!({ "hook_event_name": "SessionStart", "cwd": world.root(), "source": source });
        in_conversation("b", &call)
    };
    for source in ["clear", "compact", "resume"] {
        let script = format!(
            "\"{MALA}\" hook claude <<< \"$FIRST\"; \"{MALA}\" hook claude <<< \"$START\" >/dev/null; \"{MALA}\" hook claude <<< \"$SECOND\"; : end"
        );
        let out = client(&world, &script)
            .env("FIRST", in_conversation("a", &write(&world, "free.txt")))
            .env("START", start(source))
            .env("SECOND", in_conversation("b", &write(&world, "free.txt")))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), "{}\n{}\n", "{source}");
    }
}

#[test]
fn test_commands_are_rewritten_to_take_turns() {
    let world = world();
    world.write("mala.toml", "[test]\ncommands = [\"pytest\"]\n");
    let answer = before(&world, &bash(&world, "cd . && X=1 pytest -x | tail -3; echo pytest"));
    let rewritten = answer["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap();
    assert!(rewritten.starts_with("cd . && X=1 '/"), "{rewritten}");
    assert!(rewritten.ends_with("test -- pytest -x | tail -3; echo pytest"), "{rewritten}");
}

/// Runs a client that calls its hook before and after a command, as real ones do.
fn session(world: &World, command: &str) -> Vec<Value> {
    let (before, after) =
        (bash(world, command), call(world, "PostToolUse", "Bash", &json!({ "command": command })));
    let script = format!(
        ": client; \"{MALA}\" hook claude <<< \"$BEFORE\"; sh -c \"$COMMAND\"; \"{MALA}\" hook claude <<< \"$AFTER\"; : end"
    );
    let out = client(world, &script)
        .envs([("BEFORE", before.to_string()), ("AFTER", after.to_string()), ("COMMAND", command.to_owned())])
        .output()
        .unwrap();
    let answers = String::from_utf8(out.stdout).unwrap();
    answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_unknown_writer_is_looked_at_again_and_what_it_did_to_others_is_told_and_recorded() {
    let world = world();
    let answers = session(&world, "python3 -c 'open(\"held.txt\", \"w\").write(\"mine\")'");
    assert_eq!(answers[0], json!({}), "what it does cannot be known beforehand");
    let told = answers[1]["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(told.contains("`held.txt` (held by `other`)"), "{told}");
    let log = done(&world, "logs list --kind write.foreign --json").json();
    assert_eq!(log["events"][0]["path"], "held.txt");
    let harmless = session(&world, "python3 -c 'open(\"new.txt\", \"w\").write(\"mine\")'");
    assert_eq!(harmless, [json!({}), json!({})]);
    let log = done(&world, "logs list --kind lock.acquired --json").json();
    let paths: Vec<_> = log["events"].as_array().unwrap().iter().map(|event| event["path"].clone()).collect();
    assert!(paths.contains(&json!("new.txt")), "what it made is its own: {paths:?}");
}

#[test]
fn below_a_session_nobody_is_anybody_else() {
    let world = world();
    let start = json!({ "hook_event_name": "SessionStart", "session_id": "s", "cwd": world.root(), "source": "startup" });
    let script = format!(
        ": client; \"{MALA}\" hook claude <<< \"$START\" >&2; MALA_AGENT=other \"{MALA}\" lock release held.txt --agent other; \
         \"{MALA}\" whoami --agent other --json; : end"
    );
    let out: Answer = client(&world, &script).env("START", start.to_string()).output().unwrap().into();
    let who = out.json();
    assert_eq!(who["bound"], true);
    assert!(who["agent"].as_str().unwrap().starts_with("bash-"), "{who}");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
    assert!(out.err.contains("You are agent `bash-"), "{out:?}");
}

#[test]
fn a_session_that_ends_leaves_nothing_and_a_stop_keeps_what_is_not_committed() {
    let world = world();
    let stop = json!({ "hook_event_name": "Stop", "session_id": "s", "cwd": world.root(), "stop_hook_active": false });
    let end =
        json!({ "hook_event_name": "SessionEnd", "session_id": "s", "cwd": world.root(), "reason": "exit" });
    let script = format!(
        ": client; \"{MALA}\" lock acquire free.txt new.txt >/dev/null; \"{MALA}\" hook claude <<< \"$FREE\"; echo x > new.txt; \
         \"{MALA}\" hook claude <<< \"$NEW\"; \"{MALA}\" hook claude <<< \"$STOP\"; \"{MALA}\" lock list --json; \
         \"{MALA}\" hook claude <<< \"$END\"; \"{MALA}\" lock list --json; : end"
    );
    let out = client(&world, &script)
        .envs([
            ("FREE", write(&world, "free.txt").to_string()),
            ("NEW", write(&world, "new.txt").to_string()),
            ("STOP", stop.to_string()),
            ("END", end.to_string()),
        ])
        .output()
        .unwrap();
    let lines: Vec<Value> = String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let paths = |locks: &Value| -> Vec<Value> {
        locks["locks"].as_array().unwrap().iter().map(|lock| lock["path"].clone()).collect()
    };
    assert_eq!(paths(&lines[3]), ["held.txt", "new.txt"], "free.txt was not changed: {lines:?}");
    assert_eq!(paths(&lines[5]), ["held.txt"]);
}

#[test]
fn under_mala_exec_the_hook_speaks_for_the_trees_agent() {
    let world = world();
    let script = format!("\"{MALA}\" hook claude <<< \"$CALL\"");
    let mut command = mala(&world, ["exec", "--agent", "me", "--", "bash", "-c", &script]);
    let answer: Answer = command.env("CALL", write(&world, "held.txt").to_string()).output().unwrap().into();
    assert!(denial(&answer.json()).unwrap().contains("held by `other`"), "{answer:?}");
    let lost = format!("MALA_SUPERVISOR=/nowhere \"{MALA}\" hook claude <<< \"$CALL\"; echo $?");
    let mut command = mala(&world, ["exec", "--agent", "me", "--", "bash", "-c", &lost]);
    let answer: Answer = command.env("CALL", write(&world, "free.txt").to_string()).output().unwrap().into();
    assert_eq!(answer.out.trim(), "2", "without its supervisor nothing is allowed: {answer:?}");
}

#[test]
fn in_a_client_that_a_run_has_given_hooks_those_of_the_project_have_nothing_to_say() {
    let world = world();
    let input = world.base().join("input.json");
    fs::write(&input, bash(&world, "git commit -m x").to_string()).unwrap();
    let session = world.base().join("session.sh");
    let hooks = format!(
        "{MALA} hook claude < {0}\necho \n{MALA} hook claude --injected < {0}\necho; : end\n",
        input.display()
    );
    fs::write(&session, hooks).unwrap();
    let denials = |args: &[&str]| {
        let mut exec =
            mala(&world, ["exec", "--agent", "me", "--issue", "bd-1", "--run", "r-1", "--", "bash"]);
        let answer: Answer = exec.arg(&session).args(args).output().unwrap().into();
        let answers: Vec<Value> = answer
            .out
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        answers.iter().map(|answer| denial(answer).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(denials(&["--settings", "mala hook claude --injected"]), [false, true], "once is enough");
    assert_eq!(denials(&["--settings", "{}"]), [true, true], "without them the project's decide");
}

#[test]
fn a_write_that_the_kernel_refused_is_told_once_at_the_next_call() {
    let world = world();
    let prompt = json!({ "hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": world.root(), "prompt": "go on" });
    let script = format!(
        "sh -c 'echo x > held.txt' 2>/dev/null; \"{MALA}\" hook claude <<< \"$CALL\"; \"{MALA}\" hook claude <<< \"$CALL\""
    );
    let mut command = mala(&world, ["exec", "--agent", "me", "--", "bash", "-c", &script]);
    let answer: Answer = command.env("CALL", prompt.to_string()).output().unwrap().into();
    let lines: Vec<Value> = answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = lines[0]["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(told.contains("writes of your programs were refused: `held.txt`"), "{told}");
    assert_eq!(lines[1], json!({}), "once is enough");
}

#[test]
fn what_was_done_to_others_files_is_held_against_an_agent_by_the_gate() {
    let world = world();
    let command = "python3 -c 'open(\"held.txt\", \"w\").write(\"mine\")'";
    let (before, after) =
        (bash(&world, command), call(&world, "PostToolUse", "Bash", &json!({ "command": command })));
    let script = format!(
        "\"{MALA}\" hook claude <<< \"$BEFORE\"; sh -c \"$COMMAND\"; \"{MALA}\" hook claude <<< \"$AFTER\"; \
         \"{MALA}\" gate check --commit HEAD --json; : end"
    );
    let out = client(&world, &script)
        .envs([("BEFORE", before.to_string()), ("AFTER", after.to_string()), ("COMMAND", command.to_owned())])
        .output()
        .unwrap();
    let verdict: Value =
        serde_json::from_str(String::from_utf8(out.stdout).unwrap().lines().last().unwrap()).unwrap();
    let checks = verdict["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "foreign-writes").unwrap();
    assert_eq!(check["status"], "fail", "{verdict}");
    assert!(check["detail"].as_str().unwrap().contains("held.txt"), "{check}");
}
