//! Calls as the clients make them, from `tests/fixtures`.

use std::fs;
use std::path::Path;

use mala_agents::hook::{Event, HookCall, parse};
use mala_agents::intent::Intent;

/// The fixture's call; the client is the first word of its name.
fn call(name: &str) -> HookCall {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = fs::read(folder.join(format!("{name}.json"))).unwrap();
    let client = name.split('-').next().unwrap().parse().unwrap();
    parse(client, &text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn intent(name: &str) -> Intent {
    call(name).tool.unwrap().intent().unwrap()
}

fn writes(paths: &[&str]) -> Intent {
    Intent::Writes { paths: paths.iter().map(Into::into).collect() }
}

#[test]
fn every_payload_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names: Vec<_> = names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert!(names.len() >= 20, "{}", names.len());
    for name in names {
        let call = call(&name);
        assert!(!matches!(call.event, Event::Other(_)), "{name}");
        assert_eq!(call.tool.is_some(), call.event.is_about_tool(), "{name}");
    }
}

#[test]
fn every_client_s_edits_are_seen() {
    assert_eq!(intent("claude-before-write"), writes(&["/w/src/a.rs"]));
    assert_eq!(intent("claude-before-edit-by-subagent"), writes(&["/w/src/a.rs"]));
    assert_eq!(intent("claude-before-notebook"), writes(&["/w/n.ipynb"]));
    let Intent::Unknown(guess) = intent("claude-before-mcp") else { panic!("it is no tool that mala knows") };
    assert_eq!(guess.writes, [Path::new("src/a.rs")]);
    assert_eq!(intent("claude-before-read"), Intent::Reads);
    assert_eq!(intent("codex-before-apply-patch"), writes(&["src/a.rs", "src/new.rs"]));
    assert_eq!(intent("gemini-before-write"), writes(&["src/a.rs"]));
    assert_eq!(intent("opencode-before-edit"), writes(&["/w/src/a.rs"]));
}

#[test]
fn every_client_s_shell_is_seen() {
    for (name, expected) in [
        ("claude-before-bash", "sed -i s/a/b/ src/a.rs"),
        ("codex-before-bash", "cargo test"),
        ("gemini-before-shell", "rm src/a.rs"),
        ("opencode-before-bash", "echo x > src/a.rs"),
    ] {
        assert_eq!(intent(name), Intent::Shell { command: expected.to_owned(), cwd: None }, "{name}");
    }
}

#[test]
fn what_a_session_says_about_itself_is_read() {
    let stop = call("claude-stop");
    assert_eq!((stop.event, stop.was_sent_back), (Event::Stop, true));
    assert_eq!(stop.last_message.as_deref(), Some("Done."));
    assert_eq!(call("gemini-after-agent").last_message.as_deref(), Some("Done."));
    assert_eq!(call("codex-stop").last_message, None);
    assert_eq!(call("claude-before-edit-by-subagent").subagent.as_deref(), Some("a7f2"));
    assert_eq!(call("claude-session-start").source.as_deref(), Some("startup"));
    assert_eq!(call("claude-session-end").source.as_deref(), Some("other"));
    let failed = call("claude-after-bash-failed");
    assert_eq!(failed.event, Event::AfterToolFailed);
    assert_eq!(failed.tool.unwrap().error.as_deref(), Some("Exit code 3\noops"));
}
