//! What a client wrote down itself counts only where the settings say so, and is marked as weaker.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mala_tests::World;
use serde_json::{Value, json};

use super::{checks, failed, with_path, world};
use crate::cli::{Answer, MALA, done, mala};
use crate::run::{Batch, Run};

/// A transcript of Claude Code: `check-all` was run now, in this checkout, and passed.
fn claude(world: &World, name: &str) -> PathBuf {
    let path = world.base().join(name);
    fs::write(&path, claude_text(world, "check-all", &Timestamp::now().to_string())).unwrap();
    path
}

fn claude_text(world: &World, command: &str, at: &str) -> String {
    let lines = [
        json!({"type": "assistant", "sessionId": "s", "timestamp": at, "cwd": world.root(), "message": {"content": [
            {"type": "tool_use", "id": "toolu_7", "name": "Bash", "input": {"command": command}}]}}),
        json!({"type": "user", "sessionId": "s", "timestamp": at, "cwd": world.root(), "message": {"content": [
            {"type": "tool_result", "tool_use_id": "toolu_7", "is_error": false, "content": "checking"}]}}),
    ];
    lines.map(|line| format!("{line}\n")).concat()
}

/// The same as Codex writes it.
fn codex(world: &World, name: &str) -> PathBuf {
    let (at, path) = (Timestamp::now().to_string(), world.base().join(name));
    let arguments = json!({"command": ["bash", "-lc", "check-all"]}).to_string();
    let lines = [
        json!({"timestamp": at, "type": "session_meta", "payload": {"cwd": world.root()}}),
        json!({"timestamp": at, "type": "response_item", "payload": {"type": "function_call", "name": "shell",
            "arguments": arguments, "call_id": "call_7"}}),
        json!({"timestamp": at, "type": "response_item", "payload": {"type": "function_call_output",
            "call_id": "call_7", "output": "Exit code: 0\nOutput:\nchecking"}}),
    ];
    fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).unwrap();
    path
}

/// A file that `ann` holds and has changed a moment ago: what starts from now on has seen it.
fn edited(world: &World) {
    done(world, "lock acquire file.txt --agent ann --issue bd-7");
    world.write("file.txt", "changed\n");
    std::thread::sleep(std::time::Duration::from_millis(50));
}

fn gate(world: &World, transcript: Option<&Path>) -> Answer {
    let mut command = mala(world, ["gate", "check", "--issue", "bd-7", "--agent", "ann", "--json"]);
    command.args(transcript.map(|path| format!("--transcript={}", path.display())));
    with_path(world, &mut command)
}

fn accept_transcripts(world: &World) {
    let settings = "[validate]\ncommands = [\"check-all\"]\n[transcripts]\nevidence = true\n";
    world.write("mala.toml", settings);
    world.git(&["commit", "-qam", "accept transcripts"]);
}

#[test]
fn a_transcript_counts_where_the_settings_say_so_and_the_verdict_says_that_it_is_one() {
    for (transcript, id) in [(claude as fn(&World, &str) -> PathBuf, "toolu_7"), (codex, "call_7")] {
        let world = world();
        accept_transcripts(&world);
        edited(&world);
        let path = transcript(&world, "session.jsonl");
        done(&world, "commit --agent ann -m bd-7:change");
        assert_eq!(failed(&gate(&world, None)), ["command"], "nobody has told of one");
        let answer = gate(&world, Some(&path));
        assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
        let check = answer.json()["checks"].as_array().unwrap().clone();
        let check = check.iter().find(|check| check["name"] == "command").unwrap().clone();
        assert!(check["detail"].as_str().unwrap().ends_with("(as its client's transcript says)"), "{check}");
        assert_eq!(check["evidence"], json!([id]));
    }
}

#[test]
fn by_default_no_transcript_counts() {
    let world = world();
    edited(&world);
    let path = claude(&world, "session.jsonl");
    done(&world, "commit --agent ann -m bd-7:change");
    let answer = gate(&world, Some(&path));
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.out.contains("[transcripts] evidence = true"), "it says what to do: {answer:?}");
    assert_eq!(failed(&gate(&world, None)), ["command"]);
}

/// What the hook of a session that begins tells.
fn start_of(world: &World, transcript: &Path) -> Value {
    json!({"hook_event_name": "SessionStart", "session_id": "s", "cwd": world.root(),
        "transcript_path": transcript, "source": "startup"})
}

/// A session of Claude Code that tells of its transcript, edits, tests by itself, commits and asks for a verdict.
fn session(world: &World, transcript: &Path) -> Answer {
    let start = start_of(world, transcript);
    let write = json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": world.root(),
        "transcript_path": transcript, "tool_name": "Write", "tool_use_id": "t",
        "tool_input": {"file_path": world.root().join("file.txt"), "content": "x"}});
    let script = format!(
        "MALA={MALA}\n\"$MALA\" hook claude > /dev/null <<'X'\n{start}\nX\n\"$MALA\" hook claude > /dev/null <<'X'\n{write}\nX\n\
         echo changed > file.txt\nsleep 0.05\nat=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)\ncheck-all > /dev/null\n\
         sed \"s/AT/$at/g\" \"$1.draft\" > \"$1\"\n\"$MALA\" commit -m 'bd-7: change' > /dev/null\n\
         \"$MALA\" gate check --issue bd-7 --json\ncode=$?\n\"$MALA\" gate check --issue bd-7 --transcript \"$1\"\nexit $code\n"
    );
    let file = world.base().join("client.sh");
    fs::write(&file, script).unwrap();
    let mut command = world.command("bash");
    with_path(world, command.arg(file).arg(transcript).env_remove("MALA_AGENT"))
}

/// Where a session will write its transcript, whose times are filled in when they are known.
fn draft(world: &World, command: &str) -> PathBuf {
    let path = world.base().join("session.jsonl");
    fs::write(path.with_extension("jsonl.draft"), claude_text(world, command, "AT")).unwrap();
    path
}

/// The first verdict that a session was given.
fn first(answer: Answer) -> Answer {
    Answer { out: answer.out.lines().next().unwrap().to_owned(), ..answer }
}

#[test]
fn by_default_a_sessions_own_transcript_does_not_count() {
    let world = world();
    let answer = first(session(&world, &draft(&world, "check-all")));
    assert_eq!((answer.code, failed(&answer)), (1, vec!["command".to_owned()]), "{answer:?}");
}

#[test]
fn a_sessions_own_transcript_is_found_by_what_its_hooks_told() {
    let world = world();
    accept_transcripts(&world);
    let first = first(session(&world, &draft(&world, "check-all")));
    assert_eq!((first.code, failed(&first)), (0, Vec::new()), "{first:?}");
    assert!(checks(&first).iter().any(|(name, status)| name == "command" && status == "pass"));
    assert!(first.err.contains("an agent cannot name its own transcript"), "{}", first.err);
}

/// A run of one issue, whose agent commits what fails, and whose client says that the required command has passed.
#[test]
fn in_a_run_no_transcript_stands_for_what_mala_runs_itself() {
    let script = r#"
        printf '%s' "$START" | "$MALA" hook claude > /dev/null
        echo broken > $id.txt; sleep 0.05
        sed "s/AT/$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)/g" "$TRANSCRIPT.draft" > "$TRANSCRIPT"
        commit done"#;
    let settings = "[run]\ngate_attempts = 0\nattempts = 1\n[transcripts]\nevidence = true";
    let batch = Batch::with(script, settings);
    batch.issue("bd-1", &[]);
    let transcript = draft(&batch.world, "sh check.sh");
    let mut command = batch.command(&[]);
    command.env("START", start_of(&batch.world, &transcript).to_string()).env("TRANSCRIPT", &transcript);
    let run: Run = command.output().map(Answer::from).unwrap().into();
    assert_eq!((run.code, run.issues("handed_over")), (1, vec!["bd-1"]), "{run:?}");
    assert_eq!(run.all("rejected")[0]["failed"][0]["name"], "command", "{run:?}");
}
