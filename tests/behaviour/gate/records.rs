//! Records of test runs: what they hold, how one reads them, and what is never in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mala_logs::chain::ChainWriter;
use mala_tests::write_script;
use serde_json::{Value, json};

use super::{QUIET, agent, failed, with_path, world};
use crate::cli::{Answer, done, mala};

fn records(world: &mala_tests::World) -> Vec<Value> {
    let list = done(world, "logs list evidence --json").json();
    list["evidence"].as_array().unwrap().clone()
}

fn verify(world: &mala_tests::World) -> Answer {
    mala(world, ["logs", "verify", "--json"]).output().unwrap().into()
}

fn sum(bytes: &[u8]) -> String {
    <sha2::Sha256 as sha2::Digest>::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_record_has_the_fields_of_the_contract() {
    let world = world();
    done(&world, "lock acquire file.txt --agent ann --issue bd-7");
    done(&world, "lock acquire other.txt --agent bob");
    world.write("file.txt", "mine\n");
    world.write("other.txt", "his\n");
    let test = ["test", "--agent", "ann", "--json", "--", "check-all", "--all"];
    let record = with_path(&world, &mut mala(&world, test)).json();
    assert_eq!(record["argv"], json!(["check-all", "--all"]));
    assert_eq!(record["cwd"], json!(world.root()));
    assert_eq!((&record["agent"], &record["issue"]), (&"ann".into(), &"bd-7".into()));
    assert_eq!(record["exit_code"], 0);
    assert_eq!(record["head"], json!(world.git(&["rev-parse", "HEAD"])));
    let blob = |path| json!(world.git(&["hash-object", path]));
    assert_eq!(record["files"], json!({"file.txt": blob("file.txt"), "other.txt": blob("other.txt")}));
    assert_eq!(
        (&record["foreign"], &record["holders"]),
        (&json!(["other.txt"]), &json!({"other.txt": "bob"}))
    );
    for time in ["started_at", "ended_at"] {
        let text = record[time].as_str().unwrap();
        assert!(text.len() == 24 && text.ends_with('Z'), "{text} has milliseconds and is UTC");
    }
    let output = fs::read(record["output_log"].as_str().unwrap()).unwrap();
    assert_eq!(output, b"checking\n");
    assert_eq!(record["output_sha256"], json!(sum(&output)));
    assert_eq!(records(&world).len(), 1);
}

#[test]
fn evidence_is_listed_and_shown_with_its_output() {
    let world = world();
    agent(&world, "ann", "bd-1", &format!("echo more > file.txt; check-all {QUIET}; check-all -v {QUIET}"));
    agent(&world, "bob", "bd-2", "echo broken > other.txt; check-all");
    let all = records(&world);
    let agents: Vec<_> = all.iter().map(|record| record["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, ["ann", "ann", "bob"], "oldest first");
    let only = done(&world, "logs list evidence --agent ann -n 1 --json").json();
    assert_eq!(only["evidence"], json!([all[1]]), "the newest of one agent");
    let quiet = all[0]["id"].as_str().unwrap();
    let unsaved: Answer = mala(&world, ["logs", "show", quiet, "--output"]).output().unwrap().into();
    assert!(unsaved.code == 1 && unsaved.err.contains("was not saved"), "{unsaved:?}");
    let list = done(&world, "logs list evidence").out;
    assert!(list.contains("exit 0    check-all -v") && list.contains("exit 1    check-all"), "{list}");
    let id = all[2]["id"].as_str().unwrap();
    assert_eq!(done(&world, &format!("logs show {id} --json")).json()["evidence"], all[2]);
    let shown = done(&world, &format!("logs show {id}")).out;
    assert!(
        shown.contains("with changed: file.txt (not its own)") && shown.contains("issue: bd-2"),
        "{shown}"
    );
    assert_eq!(done(&world, &format!("logs show {id} --output")).out, "checking\n");
    let kind: Answer =
        mala(&world, ["logs", "list", "evidence", "--kind", "test.ended"]).output().unwrap().into();
    assert_eq!(kind.code, 2, "kinds are of events: {kind:?}");
}

#[test]
fn a_commit_names_what_was_run_on_exactly_its_content() {
    let world = world();
    let script = format!(
        "echo half > file.txt; check-all {QUIET}; echo whole > file.txt; echo new > new.txt; check-all -v {QUIET}; \
         check-all {QUIET}; mala commit -m 'bd-7: x' --json; git log -1 --format=%B"
    );
    let answer = agent(&world, "ann", "bd-7", &script);
    let made: Value = serde_json::from_str(answer.out.lines().next().unwrap()).unwrap();
    let all = records(&world);
    assert_eq!(made["evidence"], json!([all[1]["id"], all[2]["id"]]), "{answer:?}");
    for id in made["evidence"].as_array().unwrap() {
        assert!(answer.out.contains(&format!("Mala-Evidence: {}", id.as_str().unwrap())), "{answer:?}");
    }
    let fences: Vec<String> = made["fences"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert!(answer.out.contains(&format!("Mala-Fence: {}", fences.join(", "))), "{answer:?}");
    assert!(answer.out.contains("Mala-Issue: bd-7") && answer.out.contains("Mala-Agent: ann"));
}

#[test]
fn whoever_asks_after_a_test_finds_its_record_however_long_it_takes_to_write() {
    let world = world();
    // The second look that the supervisor takes at the checkout, after the test, needs its time.
    let (slow, looks) = (world.base().join("slow"), world.base().join("looks"));
    let git = "#!/bin/sh\nPATH=${PATH#*:}\ncase \"$*\" in *status*)\n  echo >> \"$LOOKS\"\n  \
               [ \"$(wc -l < \"$LOOKS\")\" -eq 2 ] && sleep 1;;\nesac\nexec git \"$@\"\n";
    write_script(&slow.join("git"), git);
    let path = format!("{}:{}:{}", slow.display(), world.base().display(), std::env::var("PATH").unwrap());
    let ask = |script: &str| -> Answer {
        let script = format!("PATH=${{PATH#*:}}; {script}");
        let mut command =
            mala(&world, ["exec", "--agent", "ann", "--issue", "bd-1", "--", "sh", "-c", &script]);
        command.env("PATH", &path).env("LOOKS", &looks).output().unwrap().into()
    };
    let answer = ask("echo more > file.txt; check-all; mala commit -m 'bd-1: x' --json");
    let made: Value = serde_json::from_str(answer.out.lines().last().unwrap()).unwrap();
    assert_eq!(made["evidence"], json!([records(&world)[0]["id"]]), "{answer:?}");
    // The very last thing an agent does is recorded, too.
    fs::remove_file(&looks).unwrap();
    ask("exec check-all");
    assert_eq!(records(&world).len(), 2);
}

/// What is made of the log's text.
type Attack<'a> = &'a dyn Fn(&str) -> String;

#[test]
fn every_way_to_damage_the_log_is_found_at_its_first_line_and_proves_nothing() {
    let log = |world: &mala_tests::World| world.state_dir().join("evidence/evidence.jsonl");
    let cut = |text: &str, lines: usize| -> String { text.split_inclusive('\n').take(lines).collect() };
    let attacks: [(&str, u64, Attack<'_>); 4] = [
        ("the last record is removed", 3, &|text| cut(text, 2)),
        ("the last record is cut in half", 3, &|text| text[..text.len() - 40].to_owned()),
        ("a record in the middle is changed", 2, &|text| {
            let line = text.lines().nth(1).unwrap();
            text.replace(line, &line.replace("\"exit_code\":1", "\"exit_code\":0"))
        }),
        ("a forged record is appended", 4, &|text| {
            let last = text.lines().last().unwrap();
            format!("{text}{}\n", last.replace("\"exit_code\":1", "\"exit_code\":0"))
        }),
    ];
    for (what, line, attack) in attacks {
        let world = world();
        agent(
            &world,
            "ann",
            "bd-1",
            &format!("echo broken > file.txt; for i in 1 2 3; do check-all {QUIET}; done"),
        );
        let text = fs::read_to_string(log(&world)).unwrap();
        fs::write(log(&world), attack(&text)).unwrap();
        let answer = verify(&world);
        assert_eq!((answer.code, &answer.json()["line"]), (1, &line.into()), "{what}: {answer:?}");
        assert!(answer.err.contains("mv '") && answer.err.contains("evidence.broken'"), "{what}: {answer:?}");
        let script = "mala commit -m 'bd-1: x' > /dev/null; mala gate check --json";
        let answer = agent(&world, "ann", "bd-1", script);
        assert!(failed(&answer).contains(&"evidence-log".to_owned()), "{what}: {answer:?}");
        // As it says: put aside, everything goes on.
        let folder = world.state_dir().join("evidence");
        fs::rename(&folder, folder.with_extension("broken")).unwrap();
        assert_eq!(
            verify(&world).code,
            1,
            "{what}: records that are put aside are missed until a person says so"
        );
        let accepted = mala(&world, ["logs", "verify", "--accept"]).output().unwrap();
        assert!(accepted.status.success(), "{what}: {accepted:?}");
        agent(&world, "ann", "bd-1", &format!("check-all {QUIET}"));
        assert_eq!((verify(&world).code, records(&world).len()), (0, 1), "{what}");
    }
}

#[test]
fn an_output_that_was_changed_or_removed_is_found_and_not_shown() {
    let world = world();
    let test = ["test", "--agent", "ann", "--json", "--", "check-all"];
    let record = with_path(&world, &mut mala(&world, test)).json();
    agent(&world, "bob", "bd-1", "check-all -v");
    let (id, output) = (record["id"].as_str().unwrap(), record["output_log"].as_str().unwrap());
    assert_eq!(verify(&world).json()["intact"], true);
    fs::write(output, "3 passed\n").unwrap();
    let found = |words: &str| {
        let verified = verify(&world);
        let body = verified.json();
        assert_eq!((verified.code, &body["intact"], &body["file"]), (1, &json!(false), &json!(output)));
        let shown: Answer = mala(&world, ["logs", "show", id, "--output"]).output().unwrap().into();
        assert_eq!((shown.code, shown.out.as_str()), (1, ""), "{shown:?}");
        for text in [body["why"].as_str().unwrap(), &verified.err, &shown.err] {
            assert!(text.contains(id) && text.contains(words), "{text}");
        }
    };
    found("is not what the command printed");
    fs::remove_file(output).unwrap();
    found("is gone, and `mala clean` has not removed it");
}

#[test]
fn secrets_in_arguments_and_environment_are_in_no_log() {
    let world = world();
    let script = format!(
        "export API_TOKEN=hidden-value; check-all --password hidden-value TOKEN=hidden-value {QUIET}; \
         mala test -- check-all --api-key=hidden-value {QUIET}; git push --force https://me:hidden-value@example.invalid"
    );
    agent(&world, "ann", "bd-1", &script);
    let mut direct = mala(&world, ["test", "--agent", "bob", "--", "check-all", "--secret", "hidden-value"]);
    assert_eq!(with_path(&world, direct.env("GITHUB_TOKEN", "hidden-value")).code, 0);
    assert_eq!(records(&world).len(), 3);
    for list in ["logs list -n 1000 --json", "logs list evidence --json"] {
        let text = done(&world, list).out;
        assert!(text.contains("***"), "something was masked: {text}");
        assert!(!text.contains("hidden-value"), "{text}");
    }
    for entry in walkdir::WalkDir::new(world.state_dir()).into_iter().flatten() {
        let bytes = fs::read(entry.path()).unwrap_or_default();
        let is_there = bytes.windows(12).any(|window| window == b"hidden-value");
        assert!(!is_there, "{}", entry.path().display());
    }
}

#[test]
fn a_run_in_a_slot_counts_for_the_directory_it_stands_for_also_in_a_linked_worktree() {
    let world = world();
    let linked = world.base().join("linked");
    world.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "-b", "side"]);
    let script = format!(
        "mkdir sub; echo x > sub/new.txt; cd sub; mala test --isolated -- check-all {QUIET}; \
         mala commit -m 'bd-1: x' {QUIET}; mala gate check --json"
    );
    let mut command = mala(&world, ["exec", "--agent", "ann", "--issue", "bd-1", "--", "sh", "-c", &script]);
    let command = command.current_dir(&linked).env("MALA_VALIDATE_DIRECTORY", "sub");
    let answer = with_path(&world, command);
    assert_eq!((answer.code, failed(&answer)), (0, Vec::new()), "{answer:?}");
    let record = &records(&world)[0];
    assert_eq!(record["isolated"], true);
    assert_eq!(record["cwd"], json!(linked.canonicalize().unwrap().join("sub")));
}

#[test]
fn an_isolated_test_in_a_directory_that_the_slot_does_not_have_is_refused() {
    let world = world();
    let fresh = world.root().join("fresh");
    fs::create_dir(&fresh).unwrap();
    let mut direct = mala(&world, ["test", "--agent", "ann", "--isolated", "--", "check-all"]);
    let inside = agent(&world, "bob", "bd-1", "cd fresh && mala test --isolated -- check-all");
    for answer in [with_path(&world, direct.current_dir(&fresh)), inside] {
        assert!(answer.code == 2 && answer.err.contains("`fresh` is not in the slot"), "{answer:?}");
        assert!(answer.err.contains(&format!("cd {}", world.root().display())), "{answer:?}");
    }
    assert!(records(&world).is_empty());
}

#[test]
fn a_killed_isolated_test_ends_with_all_it_started_and_the_next_one_has_its_slot() {
    let world = world();
    let script = "setsid sh -c 'echo $$ >\"$HOME/pid\"; exec sleep 600' & sleep 600";
    let mut killed =
        mala(&world, ["test", "--agent", "ann", "--isolated", "--", "sh", "-c", script]).spawn().unwrap();
    let slots = || {
        let cache = fs::read_dir(world.home().join(".cache/mala")).into_iter().flatten().flatten().next();
        cache.map(|repository| repository.path().join("slots"))
    };
    let pid = || fs::read_to_string(slots()?.join("t1/home/pid")).ok().filter(|pid| pid.ends_with('\n'));
    mala_tests::eventually("it is at work", || pid().is_some());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let pid = pid().unwrap();
    mala_tests::eventually("nothing of it is left", || !fs::exists(format!("/proc/{}", pid.trim())).unwrap());
    let next =
        with_path(&world, &mut mala(&world, ["test", "--agent", "bob", "--isolated", "--", "check-all"]));
    assert_eq!(next.code, 0, "{next:?}");
    assert!(!slots().unwrap().join("t2").exists(), "one slot was enough");
}

#[test]
fn runs_are_listed_and_shown_and_their_logs_are_chained_too() {
    let batch = crate::run::Batch::new("echo work > \"$id.txt\"; tested; commit work");
    batch.issue("proj-1", &[]);
    assert_eq!(batch.command(&[]).output().unwrap().status.code(), Some(0));
    let world = &batch.world;
    let runs = done(world, "logs list runs --json").json()["runs"].clone();
    let (run, attempt) = (&runs[0], &runs[0]["attempts"][0]);
    assert_eq!((runs.as_array().unwrap().len(), &run["state"]), (1, &"ended".into()));
    assert_eq!((&attempt["issue"], &attempt["state"]), (&"proj-1".into(), &"done".into()), "{run}");
    let id = run["id"].as_str().unwrap();
    assert!(done(world, "logs list runs").out.contains(&format!("{id}  ended     proj-1")));
    let shown = done(world, &format!("logs show {id} --json")).json();
    let names: Vec<_> =
        shown["events"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect();
    assert_eq!((names.first(), names.last()), (Some(&json!("run_started")), Some(&json!("run_ended"))));
    assert_eq!(verify(world).json()["logs"], 3, "evidence, validations and the run");
    let log = run["log"].as_str().unwrap();
    let text = fs::read_to_string(log).unwrap();
    fs::write(log, text.replacen("\"max_agents\":", "\"max_agents\" :", 1)).unwrap();
    let answer = verify(world);
    assert_eq!((answer.code, &answer.json()["file"], &answer.json()["line"]), (1, &json!(log), &json!(1)));
    fs::remove_file(log).unwrap();
    assert_eq!(verify(world).code, 1, "a log that is gone is missed");
    fs::remove_file(log.replace(".jsonl", ".head")).unwrap();
    fs::remove_dir_all(world.state_dir().join("evidence")).unwrap();
    let broken = verify(world).json()["broken"].to_string();
    for name in ["evidence/validations.jsonl", &format!("logs/{id}.jsonl")] {
        assert!(broken.contains(name), "{name}, with all that belongs to it: {broken}");
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A record in a full file of the log, whose file and output nobody has touched for a hundred days, and a later one.
fn old_and_new(world: &mala_tests::World) -> [PathBuf; 2] {
    let test = ["test", "--agent", "ann", "--json", "--", "check-all"];
    let mut record = with_path(world, &mut mala(world, test)).json();
    let output = PathBuf::from(record["output_log"].as_str().unwrap());
    record["id"] = json!("ev-new");
    record["started_at"] = json!("2020-01-01T00:00:00.000Z");
    let log = world.root().join(".git/mala/evidence/evidence.jsonl");
    ChainWriter::open_with(&log, 1).unwrap().append(&record).unwrap();
    let old = [log.with_file_name("evidence.0001.jsonl"), output];
    for path in &old {
        rewrite(path, &fs::read_to_string(path).unwrap());
    }
    old
}

/// Writes a file that nobody seems to have touched for a hundred days.
fn rewrite(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - 100 * DAY).unwrap();
}

#[test]
fn clean_removes_old_evidence_and_what_is_left_can_be_verified() {
    let world = world();
    let old = old_and_new(&world);
    let are_there = || old.iter().map(|path| path.exists()).collect::<Vec<_>>();
    assert_eq!(done(&world, "clean --dry-run --json").json()["evidence"], json!(old));
    assert_eq!(are_there(), [true, true]);
    let text = fs::read_to_string(&old[0]).unwrap();
    rewrite(&old[0], &text.replace("check-all", "check-any"));
    let refused: Answer = mala(&world, ["clean"]).output().unwrap().into();
    assert!(refused.code == 1 && refused.err.contains("line 1 of"), "nobody could see it then: {refused:?}");
    rewrite(&old[0], &text);
    assert_eq!(are_there(), [true, true]);
    assert_eq!(done(&world, "clean --json").json()["evidence"], json!(old));
    assert_eq!(are_there(), [false, false]);
    assert_eq!(verify(&world).json()["intact"], true);
    let ids: Vec<Value> = records(&world).iter().map(|record| record["id"].clone()).collect();
    assert_eq!(ids, ["ev-new"]);
    let output: Answer = mala(&world, ["logs", "show", "ev-new", "--output"]).output().unwrap().into();
    assert!(output.code == 1 && output.err.contains("is not kept any more"), "{output:?}");
    let log = world.root().join(".git/mala/evidence/evidence.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("check-all", "check-any")).unwrap();
    let broken = verify(&world);
    assert!(broken.code == 1 && broken.out.contains("line 1 of"), "{broken:?}");
}

#[test]
fn clean_keeps_evidence_from_the_time_since_a_living_agent_began() {
    let world = world();
    let old = old_and_new(&world);
    let since = |days: u64| {
        let ago = i64::try_from((days * DAY.as_secs()) * 1000).unwrap();
        world
            .sql()
            .execute("UPDATE agent SET since = unixepoch() * 1000 - ?1 WHERE name = 'ann'", [ago])
            .unwrap();
    };
    since(101);
    assert_eq!(done(&world, "clean --json").json()["evidence"], json!([]));
    assert!(old.iter().all(|path| path.exists()));
    since(99);
    assert_eq!(done(&world, "clean --json").json()["evidence"], json!(old));
}

/// How much of an output is kept, with room for the line that says so.
const MOST: u64 = (16 << 20) + 1000;

#[test]
fn of_a_huge_output_the_beginning_and_the_end_are_kept() {
    let world = world();
    let flood = "#!/bin/sh\necho begin; head -c 30000000 /dev/zero; echo end\n";
    write_script(&world.base().join("check-all"), flood);
    let piped = agent(&world, "ann", "bd-7", "check-all | cat > /dev/null");
    assert_eq!(piped.code, 0, "{piped:?}");
    let outside = with_path(&world, &mut mala(&world, ["test", "--agent", "bob", "--", "check-all"]));
    assert_eq!(outside.code, 0);
    assert_eq!(outside.out.len(), 30_000_010, "whoever reads it gets it all");
    let hole = format!(
        "#!/bin/sh\necho begin; truncate -s 300000000 {0}; echo end >> {0}\n",
        world.base().join("out").display()
    );
    write_script(&world.base().join("check-all"), &hole);
    let sparse =
        agent(&world, "ann", "bd-7", &format!("check-all >> {}", world.base().join("out").display()));
    assert_eq!(sparse.code, 0, "{sparse:?}");
    let records = records(&world);
    assert_eq!(records.len(), 3);
    for record in records {
        let output = fs::read(record["output_log"].as_str().unwrap()).unwrap();
        assert!(output.len() as u64 <= MOST, "{} bytes are kept", output.len());
        assert!(output.starts_with(b"begin\n") && output.ends_with(b"\0end\n"));
        let text = String::from_utf8_lossy(&output);
        assert!(text.contains(" bytes were left out here\n"), "and it says so");
        assert_eq!(record["output_sha256"], json!(sum(&output)), "of what is kept");
    }
}
