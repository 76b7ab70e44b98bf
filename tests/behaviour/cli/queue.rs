//! The landing queue as people steer it: what is offered, shown, paused, dropped and tried again.

use mala_tests::{World, eventually};
use serde_json::{Value, json};

use super::{Answer, MALA, done, fields, mala, run};
use crate::run::Batch;

/// A checkout with a first commit on `main` and one more on `feature`, which is checked out.
fn with_feature() -> World {
    let world = World::new();
    for (name, value) in [("user.name", "Fay"), ("user.email", "fay@example.invalid")] {
        world.git(&["config", name, value]);
    }
    world.write("base.txt", "base\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    world.git(&["switch", "-q", "-c", "feature"]);
    commit(&world, "new.txt", "one");
    world
}

fn commit(world: &World, file: &str, subject: &str) -> String {
    world.write(file, &format!("{subject}\n"));
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", subject]);
    world.git(&["rev-parse", "HEAD"])
}

/// `main` is checked out beside, because landing moves the files of its checkout.
fn with_main_beside(world: &World) -> std::path::PathBuf {
    let beside = world.base().join("beside");
    world.git(&["worktree", "add", "-q", beside.to_str().unwrap(), "main"]);
    beside
}

fn list(world: &World) -> Value {
    done(world, "queue --branch main --json").json()
}

#[test]
fn an_empty_queue_says_so_in_words_and_in_json() {
    let world = with_feature();
    world.git(&["switch", "-q", "main"]);
    for line in ["queue", "queue list"] {
        let text = done(&world, line).out;
        assert!(text.starts_with("main at ") && text.ends_with("nothing waits\n"), "{text}");
    }
    let answer = done(&world, "queue list --json").json();
    let expected = ["base_green", "branch", "entries", "paused", "tip", "validations", "worktrees"];
    assert_eq!(fields(&answer), expected);
    assert_eq!(
        (&answer["branch"], &answer["tip"], &answer["base_green"], &answer["paused"]),
        (&json!("refs/heads/main"), &json!(world.git(&["rev-parse", "main"])), &Value::Null, &Value::Null)
    );
    let nothing = json!([]);
    assert_eq!([&answer["entries"], &answer["validations"], &answer["worktrees"]], [&nothing; 3]);
    assert!(done(&world, "status --json").json()["queue"].as_array().unwrap().is_empty());
    assert!(!done(&world, "status").out.contains("landing queue"));
}

#[test]
fn commits_of_a_person_are_queued_and_shown() {
    let world = with_feature();
    with_main_beside(&world);
    let (base, head) = (world.git(&["rev-parse", "main"]), world.git(&["rev-parse", "HEAD"]));
    let said = done(&world, "land --target main").out;
    assert!(said.contains("as entry 1\n") && said.contains("mala queue run --branch main"), "{said}");
    assert_eq!(world.git(&["rev-parse", "refs/mala/candidates/land/1"]), head);
    assert_eq!(world.git(&["rev-parse", "main"]), base, "the branch has not moved");
    let entry = list(&world)["entries"][0].clone();
    let expected =
        ["agent", "base", "head", "id", "issue", "priority", "reason", "rejections", "since", "state"];
    assert_eq!(fields(&entry), expected);
    assert_eq!(
        (&entry["id"], &entry["state"], &entry["base"], &entry["head"], &entry["priority"]),
        (&json!(1), &json!("waiting"), &json!(base), &json!(head), &json!(2))
    );
    assert_eq!(
        (&entry["issue"], &entry["agent"], &entry["reason"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let again = done(&world, "land --target main --json").json();
    assert_eq!(
        (&again["entry"]["id"], world.count("entry")),
        (&json!(1), 1),
        "one offer is one entry: {again}"
    );
    let text = done(&world, "queue --branch main").out;
    assert!(text.contains("waiting") && text.contains("nobody works it off now: mala queue run"), "{text}");
    let elsewhere = done(&world, "queue").out;
    assert!(elsewhere.contains("1 for `main`: mala queue --branch main"), "{elsewhere}");
    let shown = done(&world, "queue show 1").out;
    for part in ["refs/mala/candidates/land/1", "    new.txt\n", "look at it: git diff ", "mala queue drop 1"]
    {
        assert!(shown.contains(part), "`{part}` is missing in: {shown}");
    }
    let shown = done(&world, "queue show 1 --json").json();
    assert_eq!((&shown["files"], &shown["entry"]["landed"]), (&json!(["new.txt"]), &Value::Null));
    let status = done(&world, "status --json").json();
    assert_eq!(
        status["queue"],
        json!([{ "branch": "refs/heads/main", "open": 1, "states": { "waiting": 1 }, "files_free": 0, "paused": null }])
    );
    assert!(done(&world, "status").out.contains("landing queue of `main`: 1 waiting"));
}

#[test]
fn several_commits_are_offered_as_one_for_an_issue() {
    let world = with_feature();
    with_main_beside(&world);
    commit(&world, "new.txt", "two");
    done(&world, "issue add first --id bd-1 --priority 1");
    let answer = done(&world, "land --target main --issue bd-1 --json").json();
    assert_eq!(answer["candidate"], "refs/mala/candidates/bd-1/land.1");
    assert_eq!((&answer["entry"]["issue"], &answer["entry"]["priority"]), (&json!("bd-1"), &json!(1)));
    let show = |format: &str| world.git(&["show", "-s", format, "refs/mala/candidates/bd-1/land.1"]);
    assert_eq!(show("--format=%P"), world.git(&["rev-parse", "main"]));
    assert_eq!(
        (show("--format=%B").as_str(), show("--format=%an, %cn").as_str()),
        ("two\n\n* one\n* two", "Test, Fay")
    );
    assert_eq!(show("--format=%T"), world.git(&["rev-parse", "HEAD^{tree}"]));
    let again = done(&world, "land --target main --issue bd-1 --json").json();
    assert_eq!(again["entry"]["id"], 1, "squashed once more, it is the same commit: {again}");
    let more = done(&world, "land --target main --issue bd-1 --priority 0 HEAD^ --json").json();
    assert_eq!(
        (&more["candidate"], &more["entry"]["priority"]),
        (&json!("refs/mala/candidates/bd-1/land.2"), &json!(0))
    );
    let ids: Vec<Value> =
        list(&world)["entries"].as_array().unwrap().iter().map(|entry| entry["id"].clone()).collect();
    assert_eq!(ids, [json!(2), json!(1)], "the most urgent is served first");
}

#[test]
fn what_cannot_land_is_said_at_once() {
    let world = with_feature();
    world.git(&["branch", "nowhere", "main"]);
    world.git(&["switch", "-q", "--orphan", "other"]);
    commit(&world, "z.txt", "elsewhere");
    world.git(&["switch", "-q", "feature"]);
    with_main_beside(&world);
    for (line, code, said) in [
        ("land", 2, &["nothing to land: HEAD is on feature already", "--target BRANCH"][..]),
        ("land main --target main", 2, &["nothing to land: main is on main already"]),
        ("land nope --target main", 2, &["`nope` is no commit", "git log"]),
        ("land other --target main", 2, &["other and main have no commit in common", "git rebase main"]),
        ("land --target nope", 2, &["there is no branch `nope`", "git branch"]),
        ("land --target main --issue bd-9", 2, &["bd-9", "mala issue list"]),
        ("land --target main --priority 5", 2, &["--priority"]),
        ("land --target main --wait soon", 2, &["`--wait`: `soon`"]),
        ("land --target nowhere", 1, &["`nowhere` is checked out nowhere", "git worktree add"]),
        ("queue --branch nope", 2, &["there is no branch `nope`"]),
        ("queue show x", 2, &["`x` is not the number of an entry"]),
        ("queue run --timeout soon", 2, &["`--timeout`: `soon`"]),
    ] {
        let answer = run(&world, line);
        assert_eq!(answer.code, code, "`mala {line}`: {answer:?}");
        for said in said {
            assert!(answer.err.contains(said), "`mala {line}` should say `{said}`: {}", answer.err);
        }
    }
    assert_eq!((world.count("entry"), world.git(&["for-each-ref", "refs/mala"]).as_str()), (0, ""));
}

#[test]
fn from_a_linked_worktree_work_lands_on_the_branch_of_the_main_checkout() {
    let world = with_feature();
    world.git(&["switch", "-q", "main"]);
    let linked = world.base().join("linked");
    world.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "feature"]);
    let answer: Answer = mala(&world, ["land", "--json"]).current_dir(&linked).output().unwrap().into();
    assert_eq!((answer.code, &answer.json()["branch"]), (0, &json!("refs/heads/main")), "{answer:?}");
    assert_eq!(list(&world)["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn entries_are_dropped_and_tried_again_and_nothing_else() {
    let world = with_feature();
    with_main_beside(&world);
    done(&world, "land --target main");
    for line in ["queue show 9", "queue drop 9", "queue retry 9"] {
        let unknown = run(&world, line);
        assert!(
            unknown.code == 2
                && unknown.err.contains("no entry 9 is known")
                && unknown.err.contains("hint: see which there are: mala queue list --all"),
            "`mala {line}`: {unknown:?}"
        );
    }
    let early = run(&world, "queue retry 1");
    assert!(early.code == 1 && early.err.contains("the entry 1 is waiting"), "{early:?}");
    let dropped = done(&world, "queue drop 1").out;
    assert_eq!(dropped, "dropped entry 1; its work is kept in refs/mala/candidates/land/1\n");
    done(&world, "queue drop 1");
    assert_eq!(list(&world)["entries"], json!([]));
    let all = done(&world, "queue list --branch main --all --json").json();
    assert_eq!(
        (&all["entries"][0]["state"], &all["entries"][0]["reason"]),
        (&json!("dropped"), &json!("dropped by a person"))
    );
    assert!(done(&world, "queue --branch main").out.contains("settled"), "the last ones are shown to people");
    assert!(done(&world, "queue retry 1").out.contains("waits again"));
    assert_eq!(list(&world)["entries"][0]["state"], "waiting");
}

#[test]
fn a_paused_queue_says_why_and_lands_nothing() {
    let world = with_feature();
    let beside = with_main_beside(&world);
    done(&world, "land --target main");
    let paused: Answer =
        mala(&world, ["queue", "pause", "the release is cut"]).current_dir(&beside).output().unwrap().into();
    assert_eq!((paused.code, paused.out.lines().count()), (0, 2), "{paused:?}");
    assert_eq!(list(&world)["paused"]["why"], "the release is cut");
    assert!(done(&world, "status").out.contains("paused: the release is cut (mala queue resume)"));
    assert!(done(&world, "land --target main").out.contains("paused: the release is cut"));
    let worked = run(&world, "queue run --branch main --json");
    assert_eq!(worked.code, 1, "{worked:?}");
    let answer = worked.json();
    assert_eq!(
        (&answer["left"][0]["id"], &answer["landed"], &answer["rejected"]),
        (&json!(1), &json!([]), &json!([]))
    );
    let waited = run(&world, "land --target main --wait 5s");
    assert!(waited.code == 1 && waited.out.contains("entry 1 is waiting: the queue is paused"), "{waited:?}");
    assert_eq!(done(&world, "queue resume --target main --json").json()["changed"], true);
    assert_eq!(done(&world, "queue resume --target main --json").json()["changed"], false);
    assert_eq!(list(&world)["paused"], Value::Null);
}

#[test]
fn an_empty_queue_is_worked_off_without_any_client_and_no_run_is_ended_by_it() {
    let world = with_feature();
    done(&world, "issue add first --id bd-1");
    let answer = run(&world, "queue run");
    assert_eq!((answer.code, answer.out.as_str()), (0, "nothing waits for `feature`\n"), "{answer:?}");
    assert_eq!(done(&world, "issue show bd-1 --json").json()["issue"]["status"], "open");
    let resumed = run(&world, "run --resume");
    assert!(resumed.code == 1 && resumed.err.contains("there is no run to go on with"), "{resumed:?}");
}

#[test]
fn agents_do_not_steer_the_queue() {
    let world = with_feature();
    with_main_beside(&world);
    done(&world, "land --target main");
    for line in
        ["land --target main", "queue drop 1", "queue pause", "queue resume", "queue run", "queue retry 1"]
    {
        let answer = run(&world, &format!("exec --agent A -- {MALA} {line}"));
        assert!(answer.code == 1 && answer.err.contains("mala commit -m"), "`mala {line}`: {answer:?}");
    }
    assert_eq!(run(&world, &format!("exec --agent A -- {MALA} queue --branch main")).code, 0);
    assert_eq!(list(&world)["entries"][0]["state"], "waiting");
}

#[test]
fn work_of_a_run_that_is_dropped_is_handed_over_with_the_way_back() {
    let batch = Batch::new("echo work > $id.txt; commit work");
    let world = &batch.world;
    batch.issue("bd-1", &[]);
    done(world, "queue pause");
    let run_once = batch.run(&[]);
    assert_eq!((run_once.code, run_once.issues("queued")), (1, vec!["bd-1"]), "{run_once:?}");
    assert_eq!(
        (batch.read("bd-1.txt").as_str(), batch.dirt().as_str()),
        ("", ""),
        "it is out of the checkout"
    );
    let queue = done(world, "queue --json").json();
    assert_eq!(
        (&queue["entries"][0]["issue"], &queue["entries"][0]["agent"], &queue["base_green"]),
        (&json!("bd-1"), &json!("script-bd-1-1"), &json!(true)),
        "{queue}"
    );
    let shown = done(world, "queue show 1").out;
    assert!(shown.contains("look at it: mala diff bd-1/1\n"), "{shown}");
    assert!(done(world, "diff bd-1").out.contains("+work\n"));
    let dropped = done(world, "queue drop 1").out;
    assert!(dropped.contains("bd-1 is handed over by the next `mala run` or `mala queue run`"), "{dropped}");
    let worked = done(world, "queue run").out;
    assert!(worked.contains("handed over: dropped by a person"), "{worked}");
    assert_eq!(batch.status_of("bd-1"), "open");
    let note = batch.notes("bd-1");
    assert!(note.contains("To get it back: mala restore bd-1/1"), "{note}");
    assert_eq!(done(world, "restore bd-1 --json").json()["files"], json!(["bd-1.txt"]));
    assert_eq!(batch.read("bd-1.txt"), "work\n");
}

/// A checkout of `main` in which `mala commit` offers, and the required command refuses files that say `broken`.
fn with_offers() -> World {
    let world = World::new();
    for (name, value) in [("user.name", "Fay"), ("user.email", "fay@example.invalid")] {
        world.git(&["config", name, value]);
    }
    let slots = world.base().join("slots");
    world.write("check.sh", "! grep -q broken *.txt\n");
    world.write("a.txt", "one\n");
    let settings = format!(
        "[gate]\nland = \"queue\"\n[validate]\ncommands = [\"sh check.sh\"]\n[queue]\ndirectory = \"{}\"\n",
        slots.display()
    );
    world.write("mala.toml", &settings);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    world
}

#[test]
fn where_the_settings_say_so_a_commit_outside_of_a_run_is_offered_and_lands_when_it_has_passed() {
    let world = with_offers();
    let base = world.git(&["rev-parse", "main"]);
    world.write("a.txt", "two\n");
    world.write("new.txt", "new\n");
    done(&world, "lock acquire a.txt new.txt --agent ann");
    let said = done(&world, "commit --agent ann -m bd-1:change").out;
    for part in [
        "offered ",
        "  a.txt\n  new.txt\n",
        "entry 1 of the landing queue",
        "`sh check.sh`",
        "the branch has not moved",
    ] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    assert_eq!(world.git(&["rev-parse", "main"]), base);
    assert!(world.git(&["status", "--porcelain"]).contains("a.txt"));
    let worked = done(&world, "queue run").out;
    assert!(worked.contains("1 landed"), "{worked}");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "bd-1:change");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_does_not_pass_stays_where_it_is_and_the_branch_does_not_move() {
    let world = with_offers();
    let base = world.git(&["rev-parse", "main"]);
    world.write("a.txt", "broken\n");
    done(&world, "lock acquire a.txt --agent ann");
    let answer = done(&world, "commit --agent ann -m bd-1:change --json").json();
    assert_eq!((&answer["entry"], &answer["branch"]), (&json!(1), &Value::Null));
    let worked = run(&world, "queue run");
    assert_eq!(worked.code, 1, "{worked:?}");
    assert_eq!(
        (world.git(&["rev-parse", "main"]), std::fs::read_to_string(world.root().join("a.txt")).unwrap()),
        (base, "broken\n".to_owned())
    );
}

#[test]
fn an_entry_that_has_lost_twice_to_plain_commits_is_let_through_first() {
    let world = with_feature();
    world.git(&["switch", "-q", "main"]);
    done(&world, "land feature");
    let scope = mala_core::Scope::discover(world.root()).unwrap();
    let mut store = mala_store::Store::open(&scope).unwrap();
    let entry = store.entries(&mala_store::EntryFilter::default()).unwrap().remove(0);
    for _ in 0..2 {
        let step = mala_store::EntryChange::default();
        let (waiting, green) = (mala_core::EntryState::Waiting, mala_core::EntryState::Green);
        store.advance_entry(entry.id, waiting, green, &step).unwrap();
        store
            .begin_landing(&mala_store::NewLanding {
                branch: entry.branch.clone(),
                from: entry.base.clone(),
                to: entry.head.clone(),
                directory: None,
                entries: vec![(entry.id, entry.head.clone())],
                changes: Vec::new(),
                freed: Vec::new(),
                owner: mala_store::process::current(),
            })
            .unwrap();
        store.overtake_landing(&entry.branch).unwrap();
    }
    drop(store);
    let hook = "gate pre-commit";
    done(&world, hook);
    // A queue that is worked: this process has the branch's lock.
    done(&world, "queue pause");
    run(&world, "queue run");
    let directory = scope.state_dir().join("landing");
    let lock = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "lock"));
    let file = std::fs::OpenOptions::new().write(true).open(lock.unwrap()).unwrap();
    file.lock().unwrap();
    let refused = run(&world, hook);
    assert_eq!(refused.code, 1, "{refused:?}");
    for part in
        ["entry 1 of the landing queue has lost 2 rounds", "mala land ", "--target main", "--no-verify"]
    {
        assert!(refused.err.contains(part), "`{part}` is missing in: {}", refused.err);
    }
    drop(file);
    done(&world, hook);
}

/// True if a process with this among its arguments runs on this machine.
fn runs(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

#[test]
fn a_killed_queue_leaves_no_validation_behind_and_counts_the_kill_for_what_it_validated() {
    let world = with_offers();
    let go = world.base().join("go");
    let check = format!("test -e {} || exec sleep 7003.25\n", go.display());
    world.write("check.sh", &check);
    world.git(&["commit", "-q", "-am", "a check that takes long"]);
    let offer = |name: &str| {
        world.git(&["switch", "-q", "-c", name]);
        commit(&world, &format!("{name}.txt"), name);
        world.git(&["switch", "-q", "main"]);
        done(&world, &format!("land {name}"));
    };
    offer("one");
    let mut worker = super::start(&world, "queue run");
    eventually("it is validated", || runs("7003.25"));
    eventually("the queue says so", || list(&world)["entries"][0]["state"] == "validating");
    worker.kill().unwrap();
    worker.wait().unwrap();
    eventually("its validation is gone", || !runs("7003.25"));
    offer("two");
    std::fs::write(&go, "").unwrap();
    done(&world, "queue run");
    let kills = |id: u32| done(&world, &format!("queue show {id} --json")).json()["entry"]["kills"].clone();
    assert_eq!([kills(1), kills(2)], [json!(1), json!(0)]);
    assert_eq!(world.git(&["ls-files", "one.txt", "two.txt"]), "one.txt\ntwo.txt");
}
