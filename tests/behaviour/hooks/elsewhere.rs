//! A path is judged in the checkout it lies in, whatever folder the client is in.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

/// A repository, in which mala is not used yet.
fn repository(world: &World, at: PathBuf) -> PathBuf {
    let made = world.command("git").args(["init", "-q"]).arg(&at).status().unwrap();
    assert!(made.success());
    at
}

fn call_in(cwd: &Path, tool: &str, input: &Value) -> Value {
    json!({ "hook_event_name": "PreToolUse", "session_id": "s", "cwd": cwd, "tool_name": tool,
        "tool_input": input, "tool_use_id": "t1" })
}

#[test]
fn a_held_file_is_refused_whatever_folder_the_client_is_in() {
    let world = world();
    let held = world.root().join("held.txt");
    let other = repository(&world, world.base().join("other"));
    let nested = repository(&world, world.root().join("nested"));
    let link = world.base().join("link.txt");
    symlink(&held, &link).unwrap();
    for cwd in [other.as_path(), nested.as_path(), world.base(), Path::new("/")] {
        for (tool, input) in [
            ("Write", json!({ "file_path": held, "content": "x" })),
            ("Write", json!({ "file_path": link, "content": "x" })),
            ("Edit", json!({ "file_path": held, "old_string": "a", "new_string": "b" })),
            ("Bash", json!({ "command": format!("sed -i s/a/b/ {}", held.display()) })),
            ("Bash", json!({ "command": format!("cd {} && rm *.txt", world.root().display()) })),
            ("Bash", json!({ "command": format!("git -C {} reset --hard", world.root().display()) })),
            ("Write", json!({ "file_path": world.root().join("mala.toml"), "content": "x" })),
        ] {
            let answer = before(&world, &call_in(cwd, tool, &input));
            assert!(denial(&answer).is_some(), "{} {tool} {input}: {answer}", cwd.display());
        }
        let free = json!({ "file_path": world.root().join("free.txt"), "content": "x" });
        assert_eq!(denial(&before(&world, &call_in(cwd, "Write", &free))), None, "{}", cwd.display());
    }
    for (cwd, path) in [(&other, "own.txt"), (&nested, "own.txt")] {
        let own = json!({ "file_path": cwd.join(path), "content": "x" });
        assert_eq!(denial(&before(&world, &call_in(cwd, "Write", &own))), None, "{}", cwd.display());
    }
}

#[test]
fn a_file_of_a_nested_repository_belongs_to_whoever_holds_it_there() {
    let world = world();
    let nested = repository(&world, world.root().join("nested"));
    fs::write(nested.join("inner.txt"), "").unwrap();
    let taken =
        mala(&world, ["lock", "acquire", "inner.txt", "--agent", "inner"]).current_dir(&nested).output();
    assert!(taken.unwrap().status.success());
    let write = json!({ "file_path": nested.join("inner.txt"), "content": "x" });
    let answer = before(&world, &call_in(world.root(), "Write", &write));
    assert!(denial(&answer).is_some_and(|reason| reason.contains("held by `inner`")), "{answer}");
    // Whoever holds it by its name in the checkout around it holds it, too.
    done(&world, "lock acquire nested/outer.txt --agent outer");
    let write = json!({ "file_path": nested.join("outer.txt"), "content": "x" });
    let answer = before(&world, &call_in(&nested, "Write", &write));
    assert!(denial(&answer).is_some_and(|reason| reason.contains("held by `outer`")), "{answer}");
}

#[test]
fn a_refusal_says_what_to_type_in_the_clients_folder() {
    let world = world();
    let other = repository(&world, world.base().join("other"));
    let sub = world.root().join("sub");
    fs::create_dir(&sub).unwrap();
    let write = json!({ "file_path": world.root().join("held.txt"), "content": "x" });
    let far = format!("mala -C {} lock ask held.txt --why", world.root().display());
    for (cwd, hint) in [(&sub, "mala lock ask ../held.txt --why"), (&other, far.as_str())] {
        let answer = before(&world, &call_in(cwd, "Write", &write));
        assert!(denial(&answer).is_some_and(|reason| reason.contains(hint)), "{hint}: {answer}");
    }
}

#[test]
fn a_folder_is_refused_with_what_is_held_in_it() {
    let world = world();
    let answer = before(&world, &bash(&world, "rm -rf ."));
    let reason = denial(&answer).unwrap();
    assert!(reason.contains("`held.txt` is held by `other`") && !reason.contains("`**`"), "{reason}");
    assert!(reason.contains("mala lock ask held.txt"), "{reason}");
}

#[test]
fn nothing_is_left_where_mala_was_never_used() {
    let world = world();
    let other = repository(&world, world.base().join("other"));
    let write = json!({ "file_path": other.join("a.txt"), "content": "x" });
    assert_eq!(before(&world, &call_in(world.root(), "Write", &write)), json!({}));
    assert!(!other.join(".git/mala").exists());
}

#[test]
fn a_session_is_at_home_in_the_project_that_its_client_names() {
    let world = world();
    let start = json!({ "hook_event_name": "SessionStart", "session_id": "s", "cwd": world.base(), "source": "startup" });
    let file = world.base().join("start.json");
    fs::write(&file, start.to_string()).unwrap();
    let script = format!(
        "CLAUDE_PROJECT_DIR=\"{}\" \"{MALA}\" hook claude < {}; exit $?",
        world.root().display(),
        file.display()
    );
    let answer: Answer = client(&world, &script).output().unwrap().into();
    assert!(answer.out.contains("You are agent"), "{answer:?}");
}
