use serde_json::json;

use super::*;

fn intent(name: &str, input: Value) -> Result<Intent, IntentError> {
    ToolCall { name: name.to_owned(), input, id: None, response: None, error: None }.intent()
}

fn written(name: &str, input: Value) -> Vec<String> {
    match intent(name, input).unwrap() {
        Intent::Writes { paths } | Intent::Unknown(Guess { writes: paths, .. }) => {
            paths.iter().map(|path| path.display().to_string()).collect()
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_edit_tool_says_which_file_it_writes() {
    assert_eq!(written("Write", json!({"file_path": "/w/a", "content": "x"})), ["/w/a"]);
    assert_eq!(written("Edit", json!({"file_path": "a", "old_string": "", "new_string": ""})), ["a"]);
    assert_eq!(written("MultiEdit", json!({"file_path": "a", "edits": []})), ["a"]);
    assert_eq!(written("NotebookEdit", json!({"notebook_path": "n.ipynb", "new_source": ""})), ["n.ipynb"]);
    assert_eq!(written("write_file", json!({"file_path": "g", "content": ""})), ["g"]);
    assert_eq!(written("replace", json!({"file_path": "g", "old_string": "a"})), ["g"]);
    assert_eq!(written("edit", json!({"filePath": "o", "oldString": "a"})), ["o"]);
    let patch = "*** Begin Patch\n*** Update File: p\n*** Move to: q\n*** End Patch";
    assert_eq!(written("apply_patch", json!({"command": patch})), ["p", "q"]);
    assert_eq!(written("patch", json!({"patchText": patch})), ["p", "q"]);
    assert_eq!(written("apply_patch", json!(patch)), ["p", "q"]);
}

#[test]
fn an_edit_tool_without_its_path_is_an_error() {
    for (name, input) in [
        ("Write", json!({"content": "x"})),
        ("Write", json!({"file_path": 7})),
        ("Write", json!({"file_path": ""})),
        ("Write", json!("a")),
        ("Edit", json!({"file_path": ["a"]})),
        ("NotebookEdit", json!({"file_path": "a"})),
        ("apply_patch", json!({"command": "no patch"})),
        ("apply_patch", json!({})),
        ("Bash", json!({})),
        ("Bash", json!({"command": ["a", 1]})),
        ("Write", json!({"file_path": "a\0b"})),
    ] {
        assert!(intent(name, input.clone()).is_err(), "{name} {input}");
    }
}

#[test]
fn a_tool_nobody_knows_writes_every_path_it_is_given() {
    assert_eq!(written("mcp__fs__write_file", json!({"path": "a.txt"})), ["a.txt"]);
    assert_eq!(written("mcp__fs__move_file", json!({"source": "a", "destination": "b"})), ["b", "a"]);
    assert_eq!(
        written("mcp__ide__rename", json!({"edit": {"changes": [{"uri": "file:///w/x%20y"}]}})),
        ["/w/x y"]
    );
    assert_eq!(written("mcp__x__y", json!({"files": ["a", "b", {"path": "c"}]})), ["a", "b", "c"]);
    assert_eq!(written("FutureTool", json!({"filename": "z", "url": "https://x/y"})), ["z"]);
    assert_eq!(written("mcp__x__get_and_delete", json!({"path": "z"})), ["z"]);
    assert_eq!(written("mcp__read__apply", json!({"target_file": "z"})), ["z"]);
}

#[test]
fn a_tool_whose_name_says_it_reads_only_reads() {
    for name in [
        "Read",
        "Grep",
        "mcp__fs__read_file",
        "mcp__git__list_files",
        "mcp__x__getSymbols",
        "mcp__a__search",
        "read_file",
        "mcp__mala__lock_acquire",
        "collaborationwait_agent",
    ] {
        assert_eq!(intent(name, json!({"path": "a", "file_path": "b"})).unwrap(), Intent::Reads, "{name}");
    }
}

#[test]
fn whatever_an_unknown_tool_is_given_may_be_a_path() {
    let guess = |input| match intent("mcp__x__do", input).unwrap() {
        Intent::Unknown(guess) => guess,
        other => panic!("{other:?}"),
    };
    let told =
        guess(json!({"foo": "/w/a", "deep": [{"bar": "b"}], "text": "two\nlines", "url": "https://x/y"}));
    assert_eq!(told.mentions, [PathBuf::from("/w/a"), PathBuf::from("b")]);
    assert!(told.writes.is_empty() && told.commands.is_empty(), "{told:?}");
    assert_eq!(guess(json!(null)), Guess::default());
}

#[test]
fn an_unknown_tool_s_commands_are_for_a_shell() {
    for (input, commands) in [
        (json!({"command": "echo > a", "cwd": "/w"}), vec!["echo > a"]),
        (json!({"cmd": "a"}), vec!["a"]),
        (json!({"shell_command": "a"}), vec!["a"]),
        (json!({"steps": [{"script": "a\nb"}]}), vec!["a\nb"]),
        (json!({"command": ["bash", "-c", "rm a"]}), vec!["rm a"]),
        (json!({"commands": ["a", "b"]}), vec!["a", "b"]),
    ] {
        let Intent::Unknown(guess) = intent("mcp__x__shell", input.clone()).unwrap() else {
            panic!("{input}")
        };
        assert_eq!(guess.commands, commands, "{input}");
        assert_eq!(guess.cwd.is_some(), input["cwd"].is_string(), "{input}");
    }
}

#[test]
fn shell_tools_give_their_command_also_as_words() {
    let shell = |name: &str, input| match intent(name, input).unwrap() {
        Intent::Shell { command, cwd } => (command, cwd),
        other => panic!("{other:?}"),
    };
    assert_eq!(shell("Bash", json!({"command": "ls"})), ("ls".to_owned(), None));
    assert_eq!(shell("Monitor", json!({"command": "tail -f x"})).0, "tail -f x");
    assert_eq!(
        shell("run_shell_command", json!({"command": "ls", "dir_path": "/w/s"})).1,
        Some(PathBuf::from("/w/s"))
    );
    assert_eq!(shell("exec_command", json!({"cmd": "ls", "workdir": "s"})).1, Some(PathBuf::from("s")));
    assert_eq!(shell("shell", json!({"command": ["bash", "-lc", "rm a"]})).0, "rm a");
    assert_eq!(shell("shell", json!({"command": ["rm", "it's"]})).0, r"'rm' 'it'\''s'");
    let own = shell("mcp__mala__test_run", json!({"command": ["sh", "-c", "rm a"]})).0;
    assert_eq!(own, "mala test -- 'sh' '-c' 'rm a'");
    assert_eq!(shell("write_stdin", json!({"session_id": 1, "chars": "rm a\n"})).0, "rm a\n");
}

#[test]
fn what_is_too_long_or_too_much_is_refused_with_the_reason() {
    let deep = "a/".repeat(5_000_000);
    let many: Vec<String> = (0..200_000).map(|number| format!("f{number}")).collect();
    let patch: String = many.iter().map(|name| format!("*** Delete File: {name}\n")).collect();
    for (tool, input, words) in [
        ("Write", json!({"file_path": deep}), "a path of 10000000 bytes; the longest has 4096"),
        ("strange", json!({"path": deep}), "a path of 10000000 bytes"),
        ("strange", json!({"paths": many}), "more than 1000 files"),
        ("strange", json!({"rows": many}), "more than 10000 files"),
        ("apply_patch", json!({"command": patch}), "cannot be judged"),
        ("Bash", json!({"command": "x".repeat(2 << 20)}), "a command of 2097152 bytes"),
        ("Bash", json!({"command": "ls", "cwd": deep}), "a path of 10000000 bytes"),
        ("strange", json!({"commands": vec!["x".repeat(1 << 19); 3]}), "more than mala reads"),
    ] {
        let error = intent(tool, input).unwrap_err();
        assert!(error.to_string().contains(words), "{tool}: {error}");
    }
    assert!(intent("Write", json!({"file_path": "a".repeat(4096)})).is_ok());
    assert!(intent("Write", json!({"file_path": "a", "content": "x".repeat(20 << 20)})).is_ok());
}
