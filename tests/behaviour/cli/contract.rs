//! What every command promises: one JSON document, one exit code for one kind of mistake, and errors that name the thing and
//! the way out.

use mala_tests::World;
use serde_json::{Value, json};

use super::{Answer, MALA, done, mala, run};

fn words(world: &World, args: &[&str]) -> Answer {
    mala(world, args).output().unwrap().into()
}

/// The hints of the one document on stdout.
fn hints(answer: &Answer) -> Vec<String> {
    let hints = answer.json()["error"]["hints"].as_array().unwrap().clone();
    hints.iter().map(|hint| hint.as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_cannot_be_understood_is_a_json_document_too() {
    let world = World::new();
    for (line, message) in [
        ("--json lock acquire", "required arguments were not provided: <PATH>"),
        ("--json bogus", "unrecognized subcommand 'bogus'"),
        ("status extra --json", "unexpected argument 'extra' found"),
        ("--json msg inbox --limit 0", "invalid value '0' for '--limit <N>'"),
        ("--json lock", "a command is missing"),
        ("--json", "a command is missing"),
    ] {
        let answer = run(&world, line);
        assert_eq!(answer.code, 2, "`mala {line}`: {answer:?}");
        let error = &answer.json()["error"];
        assert_eq!(error["kind"], "usage", "`mala {line}`: {answer:?}");
        assert!(error["message"].as_str().unwrap().contains(message), "`mala {line}`: {error}");
        assert!(!hints(&answer).is_empty() && answer.err.contains("--help"), "`mala {line}`: {answer:?}");
    }
    let misspelt = hints(&run(&world, "--json lock aquire"));
    assert!(misspelt.iter().any(|hint| hint.contains("'acquire'")), "{misspelt:?}");
    for line in ["lock acquire", "bogus", "status extra -- --json", "bogus -- --json"] {
        let answer = run(&world, line);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "`mala {line}`: {answer:?}");
    }
    assert!(done(&world, "--json --version").out.starts_with("mala "));
    assert!(done(&world, "--json lock --help").out.contains("Usage:"));
}

#[test]
fn an_answer_that_cannot_be_written_says_where_it_should_go_and_what_to_do() {
    let world = World::new();
    for args in [&["status"][..], &["status", "--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let answer: Answer = mala(&world, args).stdout(full).output().unwrap().into();
        assert_eq!(answer.code, 3, "{answer:?}");
        let why = "error: cannot write to standard output: No space left on device (os error 28)\n\
                   hint: make room on the disk and try again\n";
        assert_eq!(answer.err, why);
    }
}

#[test]
fn help_says_which_commands_answer_with_more_than_one_document() {
    let world = World::new();
    for (line, is_one) in [("run", false), ("logs tail", false), ("logs list", true), ("status", true)] {
        let help = done(&world, &format!("{line} --help")).out;
        assert_eq!(help.contains("one object per line"), !is_one, "{help}");
        assert_eq!(help.contains("Answer with one JSON document"), is_one, "{help}");
        assert_eq!(help.matches("--json\n").count() + help.matches("--json  ").count(), 1, "{help}");
    }
    done(&world, "lock acquire a --agent ann");
    for line in ["--json logs tail", "logs --json tail", "logs tail --json"] {
        let told = done(&world, line).out;
        assert!(told.lines().count() > 1 && told.lines().all(|line| line.starts_with('{')), "{told}");
    }
}

#[test]
fn git_hooks_answer_in_json_whoever_commits() {
    let world = World::new();
    world.write("file", "a\n");
    world.write("message", "bd-1: add a file\n");
    world.git(&["add", "file"]);
    world.git(&["commit", "-q", "-m", "bd-1: add a file"]);
    let head = world.git(&["rev-parse", "HEAD"]);
    assert_eq!(done(&world, "gate pre-commit --json").json(), json!({ "refused": [] }));
    assert_eq!(done(&world, "gate commit-msg message --json").json(), json!({ "checked": false }));
    assert_eq!(done(&world, "gate commit-msg message --agent A --json").json(), json!({ "checked": true }));
    assert_eq!(
        done(&world, "gate post-commit --json").json(),
        json!({ "commit": Value::Null, "agent": Value::Null })
    );
    assert_eq!(
        done(&world, "gate post-commit --agent A --json").json(),
        json!({ "commit": head, "agent": "A" })
    );
}

#[test]
fn hints_about_settings_are_in_the_document() {
    let world = World::new();
    let zero = hints(&run(&world, "--json lock acquire a --ttl 0"));
    assert!(zero.iter().any(|hint| hint.contains("for example `--ttl 30m`")), "{zero:?}");
    world.write("mala.toml", "[lock]\nttl = \"soon\"\nmax_ttl = 5\n");
    let answer = run(&world, "--json status");
    assert_eq!(hints(&answer).len(), 2, "one for each mistake: {answer:?}");
    world.write("mala.toml", "[lock\n");
    let answer = run(&world, "--json status");
    assert_eq!((answer.code, hints(&answer).len()), (2, 1), "{answer:?}");
}

#[test]
fn one_kind_of_mistake_has_one_exit_code() {
    let world = World::new();
    done(&world, "issue add first");
    world.write("bad.jsonl", "{\"id\":\n");
    let unknown = "no issue `nope` is known";
    for (args, message) in [
        (&["issue", "show", "nope"][..], unknown),
        (&["issue", "note", "nope", "text"], unknown),
        (&["issue", "close", "nope"], unknown),
        (&["issue", "reopen", "nope"], unknown),
        (&["issue", "add", "second", "--after", "nope"], unknown),
        (&["issue", "add", "second", "--parent", "nope"], unknown),
        (&["lock", "release", "a", "--agent", "nope"], "no agent called `nope`"),
        (&["logs", "show", "nope"], "nope"),
        (&["lock", "answer", "nope", "release"], "no ask `nope` is known"),
        (&["lock", "take", "nope"], "no ask `nope` is known"),
        (&["lock", "cancel", "nope"], "no ask `nope` is known"),
        (&["msg", "ack", "99"], "no message 99"),
        (&["issue", "add", ""], "the title is empty"),
        (&["issue", "note", "bd-1", " "], "the note is empty"),
        (&["msg", "send", "--all", ""], "empty"),
        (&["lock", "ask", "a", "--why", ""], "the reason is empty"),
        (&["issue", "add", "x", "--file", "a["], "`a[` is neither a path nor a pattern"),
        (&["issue", "add", "x", "--label", ""], "label"),
        (&["issue", "add", "x", "--kind", ""], "kind"),
        (&["lock", "acquire", "a["], "invalid pattern"),
        (&["issue", "import", "bad.jsonl"], "line 1"),
    ] {
        let answer = words(&world, args);
        assert_eq!(answer.code, 2, "{args:?}: {answer:?}");
        assert!(answer.err.contains(message), "{args:?}: {}", answer.err);
    }
    assert_eq!(words(&world, &["issue", "add", "x", "--id", "bd-1"]).code, 1, "that is a conflict");
    assert_eq!(world.count("issue"), 1);
}

#[test]
fn errors_name_the_thing_and_the_way_out() {
    let world = World::new();
    done(&world, "issue add first");
    for (args, code, said) in [
        (&["man", "--out", "/proc/nope"][..], 2, &["`/proc/nope`", "hint:"][..]),
        (&["-C", "/nope", "status"], 2, &["`/nope`", "hint: name a folder that exists"]),
        (&["exec", "--agent", "A", "--", "no-such"], 2, &["cannot start `no-such`", "not in PATH"]),
        (&["exec", "--agent", "A", "--", "./no-such"], 2, &["cannot start `./no-such`", "no such file"]),
        (&["test", "--", "no-such"], 2, &["cannot start `no-such`", "not in PATH"]),
        (&["test", "--isolated", "--", "no-such"], 2, &["cannot start `no-such`", "not in PATH"]),
        (&["msg", "ack", "99"], 2, &["no message 99", "mala msg inbox"]),
        (&["issue", "add", "x", "--id", "bd-1"], 1, &["`bd-1`", "mala issue show bd-1"]),
        (&["issue", "add", "x", "--label", ""], 2, &["bad label", "empty"]),
        (&["lock", "acquire", "a", "--ttl", "0"], 2, &["--ttl 0", "for example `--ttl 30m`"]),
        (&["lock", "renew", "a", "--ttl=0s"], 2, &["for example `--ttl 30m`"]),
        (&["lock", "acquire", "a", "--wait", "abc"], 2, &["`--wait`: `abc`", "`30s`"]),
        (&["lock", "ask", "a", "--why", "x", "--wait", "abc"], 2, &["`--wait`: `abc`", "`30s`"]),
        (&["logs", "list", "--since", "abc"], 2, &["`--since`: `abc`", "`30s`"]),
        (&["run", "--timeout", "abc"], 2, &["`--timeout`: `abc`", "`30s`"]),
        (&["test", "--wait", "abc", "--", "true"], 2, &["`--wait`: `abc`", "`30s`"]),
        (&["msg", "send", "--all", "x", "--ack=abc"], 2, &["`--ack`: `abc`", "`30s`"]),
        (&["lock", "release"], 2, &["<PATH|--all>"]),
    ] {
        if args.contains(&"--isolated") {
            world.write("file", "x");
            world.git(&["add", "."]);
            world.git(&["commit", "-q", "-m", "start"]);
        }
        let answer = words(&world, args);
        assert_eq!(answer.code, code, "{args:?}: {answer:?}");
        for said in said {
            assert!(answer.err.contains(said), "{args:?} should say `{said}`: {}", answer.err);
        }
        assert!(!answer.err.contains("friendly"), "{args:?}: {}", answer.err);
    }
}

#[test]
fn hints_can_be_typed_as_they_stand() {
    let world = World::new();
    for file in ["b c.txt", "d e.txt"] {
        world.write(file, "x\n");
    }
    assert_eq!(words(&world, &["lock", "acquire", "b c.txt", "--agent", "bob"]).code, 0);
    world.git(&["add", "."]);
    let refused = run(&world, "gate pre-commit --agent ann").err;
    for (before, command) in [
        ("ask for it: mala ", "lock ask 'b c.txt' --why REASON"),
        ("take it first: mala ", "lock acquire 'd e.txt'"),
    ] {
        assert!(refused.contains(&format!("{before}{command}\n")), "{refused}");
        let typed = format!("{MALA} {command} --agent ann");
        let answer: Answer = world.command("sh").args(["-c", &typed]).output().unwrap().into();
        assert_eq!(answer.code, 0, "`{typed}`: {answer:?}");
    }
}

#[test]
fn a_bad_variable_is_not_blamed_on_an_option() {
    let world = World::new();
    for name in ["", "two\nlines"] {
        let answer: Answer =
            mala(&world, ["lock", "acquire", "a", "--json"]).env("MALA_AGENT", name).output().unwrap().into();
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.err.contains("`MALA_AGENT`") && answer.err.contains("agent name"), "{answer:?}");
        assert!(!answer.err.contains("--agent"), "{answer:?}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("`MALA_AGENT`"), "{answer:?}");
    }
    let other: Answer = mala(&world, ["bogus"]).env("MALA_AGENT", "").output().unwrap().into();
    assert!(other.err.contains("'bogus'") && !other.err.contains("MALA_AGENT"), "{other:?}");
}

#[test]
fn a_long_title_does_not_flood_the_list() {
    let world = World::new();
    let title = "x".repeat(100_000);
    done(&world, &format!("issue add {title}"));
    for line in ["issue list", "issue ready"] {
        let list = done(&world, line).out;
        assert!(list.len() < 500 && list.contains("xxx..."), "`mala {line}`: {} bytes", list.len());
    }
    assert_eq!(
        done(&world, "issue list --json").json()["issues"][0]["title"],
        title,
        "programs get all of it"
    );
}
