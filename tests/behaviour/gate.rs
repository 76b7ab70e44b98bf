//! The gate, commits and set-up, as a user meets them: nothing is accepted on trust.

mod claims;
mod elsewhere;
mod records;
mod strays;
mod telemetry;
mod transcripts;

use std::fs;
use std::process::Command;
use std::thread;

use mala_tests::{World, eventually, write_script};
use serde_json::{Value, json};

use crate::cli::{Answer, MALA, done, held, mala, pair, run};

/// A checkout whose commits must have passed `check-all`, a program that lies outside of it and fails where `broken` is.
fn world() -> World {
    let world = World::new();
    world.write("mala.toml", "[validate]\ncommands = [\"check-all\"]\n");
    world.write("file.txt", "text\n");
    world.write("other.txt", "text\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    let check = "#!/bin/sh\necho checking; ! grep -rqs broken --include=*.txt .\n";
    write_script(&world.base().join("check-all"), check);
    // What `git commit` says about its author.
    fs::write(world.home().join(".gitconfig"), "[user]\nname = Test\nemail = test@example.invalid\n")
        .unwrap();
    std::os::unix::fs::symlink(MALA, world.base().join("mala")).unwrap();
    world
}

fn with_path(world: &World, command: &mut Command) -> Answer {
    let path = format!("{}:{}", world.base().display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).output().unwrap().into()
}

/// Runs a script as an agent with an issue, under enforcement.
fn agent(world: &World, name: &str, issue: &str, script: &str) -> Answer {
    with_path(world, &mut mala(world, ["exec", "--agent", name, "--issue", issue, "--", "sh", "-c", script]))
}

/// The name and status of every check.
fn checks(answer: &Answer) -> Vec<(String, String)> {
    let verdict = answer.out.lines().last().map(|line| serde_json::from_str::<Value>(line).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let checks = verdict["checks"].as_array().unwrap();
    checks.iter().map(|check| (text(&check["name"]), text(&check["status"]))).collect()
}

fn failed(answer: &Answer) -> Vec<String> {
    checks(answer).into_iter().filter(|(_, status)| status == "fail").map(|(name, _)| name).collect()
}

const QUIET: &str = ">/dev/null 2>&1";

#[test]
fn a_commit_of_what_was_tested_is_accepted_and_says_where_it_comes_from() {
    let world = world();
    let script = format!(
        "echo new >> file.txt; echo more > new.txt; check-all {QUIET}; mala commit -m 'bd-7: change' {QUIET}; \
         mala gate check --json"
    );
    let answer = agent(&world, "ann", "bd-7", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(failed(&answer), Vec::<String>::new());
    let message = world.git(&["log", "-1", "--format=%B"]);
    assert!(message.contains("Mala-Issue: bd-7") && message.contains("Mala-Agent: ann"), "{message}");
    assert_eq!(world.git(&["status", "--short"]), "");
    let (run, record) = (done(&world, "logs list --kind test.ended --json").json(), "evidence");
    assert!(run["events"][0]["detail"][record].as_str().unwrap().starts_with("ev-"));
    assert_eq!(done(&world, "logs verify --json").json()["intact"], true);
}

#[test]
fn what_was_not_tested_as_it_is_is_not_accepted() {
    let world = world();
    let gate = "mala gate check --json";
    let commit = format!("mala commit -m 'bd-1: x' {QUIET}");
    for (script, what) in [
        (format!("echo a >> file.txt; {commit}; {gate}"), "never run"),
        (
            format!("echo b >> file.txt; check-all {QUIET}; echo c >> file.txt; {commit}; {gate}"),
            "edited afterwards",
        ),
        (format!("echo broken >> file.txt; check-all {QUIET}; {commit}; {gate}"), "failed"),
    ] {
        let answer = agent(&world, "ann", "bd-1", &script);
        assert_eq!(failed(&answer), ["command"], "{what}: {answer:?}");
        assert_eq!(answer.code, 1, "{what}");
    }
    // Somebody else's run proves nothing about this agent's commit.
    world.git(&["checkout", "-q", "HEAD~3", "--", "file.txt"]);
    world.git(&["commit", "-q", "-m", "as before"]);
    agent(&world, "bob", "bd-2", &format!("check-all {QUIET}"));
    let answer = agent(&world, "ann", "bd-1", &format!("echo d >> file.txt; {commit}; {gate}"));
    assert_eq!(failed(&answer), ["command"], "{answer:?}");
}

#[test]
fn a_commit_with_another_agents_file_is_not_accepted_whatever_way_it_was_made() {
    let world = world();
    done(&world, "lock acquire other.txt --agent bob");
    world.write("other.txt", "bob's half edit\n");
    world.git(&["add", "other.txt"]);
    let script = "echo x >> file.txt; git add file.txt; git commit -q --no-verify -m 'bd-3: mine and his'; \
                  git commit-tree $(git write-tree) -p HEAD -m x";
    let answer = agent(&world, "ann", "bd-3", script);
    assert!(
        answer.err.contains("--no-verify") && answer.err.contains("git commit-tree"),
        "both are refused: {answer:?}"
    );
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "start");
    // Made where nobody watches, the gate finds it.
    let tree = world.git(&["write-tree"]);
    let id = world.git(&["commit-tree", &tree, "-p", "HEAD", "-m", "bd-3: mine and his"]);
    world.git(&["update-ref", "refs/heads/main", &id]);
    let gate = ["gate", "check", "--commit", "HEAD", "--issue", "bd-3", "--agent", "ann", "--json"];
    let answer: Answer = mala(&world, gate).output().unwrap().into();
    assert!(failed(&answer).contains(&"files-owned".to_owned()), "{answer:?}");
}

#[test]
fn an_issue_is_named_as_a_whole_word() {
    let world = world();
    let commit = |message: &str| {
        world.write("file.txt", message);
        world.git(&["commit", "-q", "-am", message]);
        mala(&world, ["gate", "check", "--commit", "HEAD", "--issue", "proj-1", "--json"])
            .output()
            .unwrap()
            .into()
    };
    for message in ["bd-proj-12: fix", "proj-12: fix", "xproj-1", "about proj-1-b"] {
        let answer: Answer = commit(message);
        assert!(failed(&answer).contains(&"issue-id".to_owned()), "{message}");
    }
    for message in ["bd-proj-1: fix", "fix (proj-1)"] {
        let answer: Answer = commit(message);
        assert!(!failed(&answer).contains(&"issue-id".to_owned()), "{message}");
    }
}

#[test]
fn a_changed_record_is_found_and_proves_nothing_any_more() {
    let world = world();
    agent(&world, "ann", "bd-1", &format!("echo broken > file.txt; check-all {QUIET}"));
    let log = world.state_dir().join("evidence/evidence.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("\"exit_code\":1", "\"exit_code\":0")).unwrap();
    let answer: Answer = mala(&world, ["logs", "verify", "--json"]).output().unwrap().into();
    assert_eq!((answer.code, &answer.json()["line"]), (1, &1.into()), "{answer:?}");
}

#[test]
fn the_doctor_says_whether_the_evidence_is_whole() {
    let world = world();
    let evidence = |doctor: Answer| {
        let checks = doctor.json()["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == "evidence").unwrap()
    };
    let doctor = || evidence(mala(&world, ["doctor", "--json"]).output().unwrap().into());
    assert_eq!((&doctor()["status"], &doctor()["detail"]), (&"ok".into(), &"nothing recorded yet".into()));
    agent(&world, "ann", "bd-1", &format!("check-all {QUIET}; check-all {QUIET}"));
    assert_eq!((&doctor()["status"], &doctor()["detail"]), (&"ok".into(), &"whole: 2 records".into()));
    let inside = agent(&world, "ann", "bd-1", &format!("{MALA} doctor --json"));
    assert_eq!(evidence(inside)["detail"], "whole: 2 records", "agents may read it");
    let log = world.state_dir().join("evidence/evidence.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("\"exit_code\":0", "\"exit_code\":1", 1)).unwrap();
    let broken = doctor();
    let detail = broken["detail"].as_str().unwrap();
    assert_eq!(broken["status"], "fail");
    assert!(detail.starts_with("line 1 of ") && detail.contains("was changed"), "{detail}");
    let fix = broken["fix"].as_str().unwrap();
    let typed = fix.split(": ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    assert!(Command::new("sh").args(["-c", typed]).status().unwrap().success(), "{fix}");
    assert_eq!(doctor()["status"], "fail", "what is put aside is missed");
    assert!(fix.contains("mala logs verify --accept"), "{fix}");
    done(&world, "logs verify --accept");
    assert_eq!(doctor()["status"], "ok", "what is to be typed helps");
}

#[test]
fn the_doctor_says_that_a_saved_output_was_changed_or_is_gone() {
    let world = world();
    agent(&world, "ann", "bd-1", "check-all; check-all");
    let outputs = world.state_dir().join("evidence/output");
    let mut outputs: Vec<_> = fs::read_dir(outputs).unwrap().map(|entry| entry.unwrap().path()).collect();
    let (changed, gone) = (outputs.pop().unwrap(), outputs.pop().unwrap());
    let warned = |words: &str, file: &std::path::Path| {
        let doctor = with_path(&world, &mut mala(&world, ["doctor"])).out;
        let line = doctor.lines().find(|line| line.starts_with("warn  evidence")).unwrap_or(&doctor);
        assert!(line.contains(words) && line.contains(file.to_str().unwrap()), "{doctor}");
        assert!(doctor.contains("mala logs verify"), "{doctor}");
    };
    let before = fs::read(&changed).unwrap();
    fs::write(&changed, "all is well\n").unwrap();
    warned("was changed", &changed);
    fs::write(&changed, before).unwrap();
    fs::remove_file(&gone).unwrap();
    warned("is gone", &gone);
}

#[test]
fn an_agent_cannot_write_its_own_evidence() {
    let world = world();
    agent(&world, "ann", "bd-1", &format!("check-all {QUIET}"));
    let forge = "echo '{}' >> .git/mala/evidence/evidence.jsonl; echo code $?";
    let answer = agent(&world, "ann", "bd-1", forge);
    assert!(!answer.out.contains("code 0"), "{answer:?}");
    assert_eq!(done(&world, "logs verify --json").json()["lines"], 1);
}

#[test]
fn isolated_tests_see_only_ones_own_changes_and_need_no_turn() {
    let world = world();
    // A third agent has broken the build in the shared checkout.
    done(&world, "lock acquire other.txt --agent carl");
    world.write("other.txt", "broken\n");
    let script = |name: &str| {
        format!(
            "echo {name} > {name}.txt; check-all {QUIET}; echo shared $?; mala test --isolated -- check-all {QUIET}; \
             echo isolated $?; mala commit -m 'bd-{name}: x' {QUIET}; mala gate check --json"
        )
    };
    let start = |name: &'static str| {
        let world = &world;
        let script = script(name);
        move || agent(world, name, &format!("bd-{name}"), &script)
    };
    let (ann, bob) = std::thread::scope(|threads| {
        let (ann, bob) = (threads.spawn(start("ann")), threads.spawn(start("bob")));
        (ann.join().unwrap(), bob.join().unwrap())
    });
    for answer in [ann, bob] {
        assert!(answer.out.contains("shared 1") && answer.out.contains("isolated 0"), "{answer:?}");
        assert_eq!(failed(&answer), Vec::<String>::new(), "{answer:?}");
    }
    let left = fs::read_dir(world.scope().work_dir().join("snapshots")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn a_red_test_in_a_slot_names_what_it_did_not_contain_and_a_green_one_does_not() {
    let world = world();
    done(&world, "lock acquire other.txt --agent carl --issue bd-3");
    let red = run(&world, "test --isolated --agent ann -- false");
    assert_eq!(red.code, 1, "{red:?}");
    assert!(red.err.contains("not in this test: other.txt (carl, bd-3, working)"), "{red:?}");
    assert!(red.err.contains("mala wait bd-3"), "the next line to type: {red:?}");
    let red = run(&world, "test --isolated --agent ann --json -- false").json();
    assert_eq!(
        red["not_in_test"],
        json!([{ "path": "other.txt", "agent": "carl", "issue": "bd-3", "state": "working" }])
    );
    assert_eq!((&red["exit_code"], &red["not_in_test_besides"]), (&json!(1), &json!(0)));
    assert_eq!(red["tree"], world.git(&["rev-parse", "HEAD^{tree}"]));
    let green = run(&world, "test --isolated --agent ann --json -- true").json();
    assert_eq!(green["not_in_test"], json!([]), "{green}");
    let all = with_path(&world, &mut mala(&world, ["test", "--agent", "ann", "--json"])).json();
    assert_eq!((&all["passed"], &all["not_in_test"]), (&json!(true), &json!([])), "{all}");
}

#[test]
fn a_rerun_in_a_slot_needs_nobodys_word() {
    let world = world();
    world.write("file.txt", "changed by hand\n");
    world.git(&["commit", "-q", "-am", "bd-5: by hand"]);
    let gate = ["gate", "check", "--commit", "HEAD", "--issue", "bd-5", "--json"];
    assert_eq!(failed(&with_path(&world, &mut mala(&world, gate))), ["command"]);
    let rerun = with_path(&world, mala(&world, gate).arg("--rerun"));
    assert_eq!((rerun.code, failed(&rerun)), (0, Vec::new()), "{rerun:?}");
}

#[test]
fn init_sets_everything_up_doctor_sees_it_fire_and_undo_restores_every_byte() {
    let world = world();
    let hook = world.root().join(".git/hooks/pre-commit");
    write_script(&hook, "#!/bin/sh\necho before >> \"$(git rev-parse --git-dir)/ran\"\n");
    world.write(".claude/settings.json", "{\n\t\"model\": \"x\"\n}");
    let before = fs::read(&hook).unwrap();
    let init = |args: &[&str]| with_path(&world, mala(&world, ["init", "--yes"]).args(args));
    world.write(".gemini/settings.json", "{ }\n");
    let all = ["--client", "claude", "--client", "codex", "--client", "gemini"];
    assert_eq!(init(&all).code, 0);
    let written = [".claude/settings.json", ".mcp.json", ".codex/config.toml", ".gemini/settings.json"]
        .map(|file| (file, fs::read_to_string(world.root().join(file)).unwrap()));
    let settings = fs::read_to_string(world.root().join(".claude/settings.json")).unwrap();
    assert!(settings.contains("\"model\": \"x\"") && settings.contains("hook claude"), "{settings}");
    assert_eq!(init(&all).code, 0, "once more changes nothing");
    for (file, text) in &written {
        assert_eq!(fs::read_to_string(world.root().join(file)).unwrap(), *text, "{file}");
    }
    let doctor = with_path(&world, &mut mala(&world, ["doctor", "--json"]));
    // Codex calls them only when a person has trusted them.
    for (name, status) in [
        ("git hooks", "ok"),
        ("claude hooks", "ok"),
        ("codex hooks", "warn"),
        ("claude tools", "ok"),
        ("codex tools", "ok"),
        ("gemini tools", "ok"),
    ] {
        let checks = doctor.json()["checks"].as_array().unwrap().clone();
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        assert_eq!(check["status"], status, "{check}");
    }
    assert_eq!(init(&["--undo"]).code, 0);
    assert_eq!(fs::read(&hook).unwrap(), before);
    assert_eq!(fs::read(world.root().join(".claude/settings.json")).unwrap(), b"{\n\t\"model\": \"x\"\n}");
    assert!(!world.root().join(".codex").exists() && !world.root().join(".mcp.json").exists());
    assert_eq!(fs::read(world.root().join(".gemini/settings.json")).unwrap(), b"{ }\n");
    assert!(world.root().join("mala.toml").exists(), "that one was the user's own");
}

#[test]
fn git_hooks_refuse_agents_and_leave_people_alone() {
    let world = world();
    assert_eq!(with_path(&world, &mut mala(&world, ["init", "--yes", "--client", "claude"])).code, 0);
    done(&world, "lock acquire other.txt --agent bob");
    world.write("other.txt", "bob's\n");
    let git = |args: &[&str], agent: Option<&str>| {
        let mut command = world.command("git");
        command.args(args).envs(agent.map(|agent| ("MALA_AGENT", agent)));
        with_path(&world, &mut command)
    };
    let foreign = git(&["commit", "-qam", "bd-1: x"], Some("ann"));
    assert_ne!(foreign.code, 0);
    assert!(foreign.err.contains("`other.txt` is held by `bob`"), "{foreign:?}");
    assert!(
        foreign.err.contains("own files, and leave what others have staged: mala commit -m ")
            && !foreign.err.contains("restore"),
        "{foreign:?}"
    );
    let nameless = git(&["commit", "-qam", "no issue"], Some("bob"));
    assert!(nameless.code != 0 && nameless.err.contains("names no issue"), "{nameless:?}");
    assert_eq!(git(&["commit", "-qam", "bd-1: x"], Some("bob")).code, 0);
    world.write("other.txt", "a person's\n");
    assert_eq!(git(&["commit", "-qam", "whatever"], None).code, 0);
    assert_eq!(held(&world), [pair("other.txt", "bob")]);
}

#[test]
fn files_of_a_commit_have_their_exact_names_in_json() {
    let world = world();
    let script = "echo x > \"$(printf 'two\\nlines')\"; mala commit -m 'bd-1: x' --json";
    let made = agent(&world, "ann", "bd-1", script);
    assert_eq!(made.json()["files"], json!(["two\nlines"]), "{made:?}");
}

#[test]
fn what_the_gate_advises_can_be_typed_in_an_agents_tree() {
    let world = world();
    done(&world, "lock acquire other.txt --agent bob");
    world.write("other.txt", "bob's half edit\n");
    world.git(&["add", "other.txt"]);
    let script = "echo x >> file.txt; check-all; git commit -q -m 'mine' -- file.txt; \
                  mala gate check --commit HEAD; mala commit --undo && git status --short && \
                  mala commit -m 'bd-3: mine' && check-all; mala gate check";
    let answer = agent(&world, "ann", "bd-3", script);
    let advice = "take it back and commit it again: mala commit --undo && mala commit -m 'bd-3: mine'";
    assert!(answer.out.contains(advice), "{answer:?}");
    let undone = "1 file is uncommitted as before:\n  file.txt\n M file.txt\n";
    assert!(answer.out.contains(undone), "{answer:?}");
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(world.git(&["log", "--format=%s"]), "bd-3: mine\nstart");
    assert_eq!(world.git(&["diff", "HEAD", "--name-only"]), "other.txt");
}

#[test]
fn nobody_takes_back_a_commit_of_somebody_else() {
    let world = world();
    agent(&world, "ann", "bd-3", "echo x >> file.txt; git commit -q -a -m 'no issue'");
    let (last, reflog) = (world.git(&["rev-parse", "HEAD"]), world.git(&["reflog"]));
    let refused = agent(&world, "bob", "bd-4", "mala commit --undo");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("is not known to be one of `bob`") && refused.err.contains("git revert"),
        "{refused:?}"
    );
    let refused = agent(&world, "ann", "bd-3", "git reset --soft HEAD~1 || git commit --amend -m x");
    assert_eq!(refused.err.matches("mala commit --undo").count(), 2, "{refused:?}");
    assert_eq!((world.git(&["rev-parse", "HEAD"]), world.git(&["reflog"])), (last, reflog));
    world.git(&["commit", "-q", "--allow-empty", "-m", "a person's"]);
    let late = agent(&world, "ann", "bd-3", "mala commit --undo; mala gate check --commit HEAD~1");
    assert!(late.err.contains("is not known to be one of `ann`"), "{late:?}");
    assert!(
        late.out.contains("if others have committed since, leave it to a person (`git revert"),
        "{late:?}"
    );
    world.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(
        agent(&world, "ann", "bd-3", "mala commit --undo && mala commit --undo").code,
        1,
        "no more than its own"
    );
    assert_eq!(world.git(&["log", "--format=%s"]), "start");
}

#[test]
fn a_commit_that_has_not_one_before_it_is_left_to_a_person_who_is_told_what_to_type() {
    let world = World::new();
    let sign = |subject: &str| format!("{subject}\n\nMala-Agent: ann");
    world.git(&["commit", "-q", "--allow-empty", "-m", &sign("first")]);
    let first = run(&world, "commit --undo --agent ann");
    assert_eq!(first.code, 1, "{first:?}");
    assert!(
        first.err.contains("is the first commit") && first.err.contains("`git update-ref -d HEAD`"),
        "{first:?}"
    );
    assert!(first.err.contains("nothing was taken back") && !first.err.contains("committed;"), "{first:?}");
    world.git(&["checkout", "-q", "-b", "side"]);
    world.git(&["commit", "-q", "--allow-empty", "-m", "aside"]);
    world.git(&["checkout", "-q", "main"]);
    world.git(&["merge", "-q", "--no-ff", "side", "-m", &sign("both")]);
    let merge = run(&world, "commit --undo --agent ann");
    let revert = format!("`git revert -m 1 {}`", &world.git(&["rev-parse", "HEAD"])[..10]);
    assert!(merge.code == 1 && merge.err.contains("is a merge"), "{merge:?}");
    assert!(merge.err.contains(&revert) && merge.err.contains("nothing was taken back"), "{merge:?}");
}

#[test]
fn a_commit_is_not_taken_back_once_somebody_else_has_taken_a_file_of_it() {
    let world = world();
    let commit = || {
        done(&world, "lock acquire file.txt --agent ann");
        world.write("file.txt", "ann's\n");
        done(&world, "commit -m change --agent ann");
        done(&world, "lock release file.txt --agent ann");
    };
    commit();
    done(&world, "commit --undo --agent ann");
    commit();
    done(&world, "lock acquire file.txt --agent bob");
    let last = world.git(&["rev-parse", "HEAD"]);
    let refused = run(&world, "commit --undo --agent ann");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("`file.txt` is held by `bob`"), "{refused:?}");
    assert!(refused.err.contains("mala lock ask file.txt --why REASON"), "{refused:?}");
    assert_eq!((world.git(&["rev-parse", "HEAD"]), world.git(&["status", "--short"])), (last, String::new()));
    done(&world, "lock release file.txt --agent bob");
    done(&world, "commit --undo --agent ann");
}

#[test]
fn whoever_commits_without_a_name_is_told_what_to_set() {
    let world = world();
    fs::write(world.home().join(".gitconfig"), "[user]\nuseConfigOnly = true\n").unwrap();
    done(&world, "lock acquire file.txt --agent ann");
    world.write("file.txt", "ann's\n");
    let nobody = run(&world, "commit -m change --agent ann");
    assert_eq!(nobody.code, 2, "{nobody:?}");
    let why = "error: git does not know who commits: `user.name` and `user.email` are not set\n\
               hint: say who it is: git config user.name NAME && git config user.email MAIL\n";
    assert!(nobody.err.starts_with(why) && !nobody.err.contains("commit-tree"), "{nobody:?}");
}

#[test]
fn a_damaged_store_stops_agents_and_warns_people() {
    let world = world();
    assert_eq!(with_path(&world, &mut mala(&world, ["init", "--yes", "--client", "claude"])).code, 0);
    done(&world, "lock acquire other.txt --agent bob");
    for rest in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(world.state_dir().join(rest));
    }
    fs::write(world.state_dir().join("state.db"), [0xA5; 8192]).unwrap();
    // Whoever runs these tests may be an agent: its processes are not above one that was left alone.
    let commit = |variable: Option<&str>| {
        world.write("file.txt", &format!("by {variable:?}\n"));
        let [err, code] = ["err", "code"].map(|name| world.base().join(name));
        let _ = fs::remove_file(&code);
        let script = "git commit -qam 'bd-1: x' 2> ../err; echo $? > ../left; mv ../left ../code";
        let mut command = world.command("setsid");
        command.args(["--fork", "bash", "-c", script]);
        for name in ["MALA_AGENT", "CLAUDECODE", "GEMINI_CLI"] {
            command.env_remove(name);
        }
        with_path(&world, command.envs(variable.map(|name| (name, "ann"))));
        eventually("the commit is over", || code.exists());
        let read = |file| fs::read_to_string(file).unwrap();
        (read(code).trim() == "0", read(err))
    };
    let (is_made, err) = commit(None);
    assert!(is_made, "{err}");
    assert_eq!(err.matches("this commit is not checked").count(), 1, "{err}");
    assert!(err.contains("mv ") && err.contains("state.db.damaged"), "{err}");
    for variable in ["MALA_AGENT", "CLAUDECODE", "GEMINI_CLI"] {
        let (is_made, err) = commit(Some(variable));
        assert!(!is_made && err.contains("is damaged"), "{variable}: {err}");
    }
    // A client's session is an agent, though nobody can say which.
    let claude = world.base().join("claude");
    fs::copy("/bin/bash", &claude).unwrap();
    world.write("file.txt", "by a client\n");
    let below = with_path(&world, world.command(&claude).args(["-c", "git commit -qam 'bd-1: x'; exit $?"]));
    assert_ne!(below.code, 0, "{below:?}");
}

#[test]
fn undo_in_a_linked_worktree_leaves_the_hooks_that_others_use() {
    let world = world();
    let init = |folder: &std::path::Path, args: &[&str]| {
        let mut command = mala(&world, ["init", "--yes", "--client", "claude"]);
        with_path(&world, command.args(args).current_dir(folder))
    };
    let linked = world.base().join("linked");
    assert_eq!(init(world.root(), &[]).code, 0);
    world.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    assert_eq!(init(&linked, &[]).code, 0);
    let undone = init(&linked, &["--undo"]);
    let hook = world.root().join(".git/hooks/pre-commit");
    assert!(undone.code == 0 && hook.exists(), "{undone:?}");
    assert!(undone.out.contains("in use") && undone.err.contains("mala -C"), "{undone:?}");
    assert_eq!(init(world.root(), &["--undo"]).code, 0);
    assert!(!hook.exists());
    // Where nobody else is set up, what was added goes.
    fs::remove_file(world.root().join("mala.toml")).unwrap();
    assert_eq!(init(&linked, &[]).code, 0);
    assert!(hook.exists());
    assert_eq!(init(&linked, &["--undo"]).code, 0);
    assert!(!hook.exists());
}

#[test]
fn a_test_without_a_usable_log_says_where_to_look() {
    let world = world();
    agent(&world, "ann", "bd-1", &format!("check-all {QUIET}"));
    let log = world.state_dir().join("evidence/evidence.jsonl");
    fs::write(&log, "no record\n").unwrap();
    let answer = with_path(&world, &mut mala(&world, ["test", "--agent", "ann", "--", "check-all"]));
    assert!(answer.err.contains("mala logs verify"), "{answer:?}");
}

#[test]
fn what_a_neighbour_stages_after_the_hook_has_judged_is_not_committed() {
    let world = world();
    assert_eq!(with_path(&world, &mut mala(&world, ["init", "--yes"])).code, 0);
    let sign = |name: &str| world.base().join(name).display().to_string();
    let (judged, staged) = (sign("judged"), sign("staged"));
    // A hook that goes on for a while after mala has judged.
    let hook = world.root().join(".git/hooks/pre-commit");
    let text = fs::read_to_string(&hook).unwrap();
    let wait = format!("touch {judged}; until test -e {staged}; do sleep 0.01; done");
    let slow = text
        .replace("exec mala", "mala")
        .replace("</dev/null\n", &format!("</dev/null && {{ {wait}; exit 0; }}; exit 1\n"));
    write_script(&hook, &slow);
    let neighbour = format!(
        "until test -e {judged}; do sleep 0.01; done; echo theirs > other.txt; git add other.txt; touch {staged}"
    );
    let commit = "echo mine > file.txt; git add file.txt; git commit -qm 'bd-1: mine'; echo $?
        git commit -qm 'bd-1: mine'; echo $?; git commit -qm 'bd-1: mine' -- file.txt; echo $?";
    let (mine, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| agent(&world, "their", "bd-2", &neighbour));
        (agent(&world, "my", "bd-1", commit), theirs.join().unwrap())
    });
    assert_eq!((mine.out.as_str(), theirs.code), ("128\n1\n0\n", 0), "{mine:?} {theirs:?}");
    assert!(mine.err.contains("this git has read it before: run it again"), "{mine:?}");
    assert!(
        mine.err.contains("refused: ") && mine.err.contains("other.txt"),
        "the next one sees it: {mine:?}"
    );
    let log = world.git(&["log", "--name-only", "--format=%s"]);
    assert!(log.starts_with("bd-1: mine\n\nfile.txt\nstart"), "{log}");
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "other.txt", "theirs is still staged");
}

#[test]
fn many_files_are_committed_at_once() {
    let world = world();
    // More than the supervisor is asked about at once.
    let script =
        "mkdir many; for i in $(seq 1100); do echo $i > many/$i; done; mala commit -m 'bd-1: many' --json";
    let answer = agent(&world, "ann", "bd-1", script);
    assert_eq!((answer.code, answer.json()["files"].as_array().unwrap().len()), (0, 1100), "{}", answer.err);
    let message = world.git(&["log", "-1", "--format=%B"]);
    let fences = message.lines().find(|line| line.starts_with("Mala-Fence: ")).unwrap();
    assert!(fences.len() < 100 && fences.contains('-'), "{fences}");
}

#[test]
fn an_agent_does_not_conclude_what_a_person_has_begun() {
    let world = world();
    assert_eq!(with_path(&world, &mut mala(&world, ["init", "--yes"])).code, 0);
    world.git(&["checkout", "-q", "-b", "side"]);
    world.write("file.txt", "side\n");
    world.git(&["commit", "-q", "-am", "side"]);
    world.git(&["checkout", "-q", "main"]);
    world.write("file.txt", "main\n");
    world.git(&["commit", "-q", "-am", "main"]);
    // Resolved so that nothing of it is staged.
    assert!(!world.command("git").args(["merge", "-q", "side"]).output().unwrap().status.success());
    world.write("file.txt", "main\n");
    world.git(&["add", "file.txt"]);
    let commit = "echo mine > mine.txt; git add mine.txt; git commit -qm 'bd-1: mine'";
    let answer = agent(&world, "ann", "bd-1", commit);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.err.contains("a merge is not finished") && answer.err.contains("lock acquire ."),
        "{answer:?}"
    );
    assert!(world.root().join(".git/MERGE_HEAD").exists(), "it goes on");
    let answer = agent(&world, "ann", "bd-1", &format!("mala lock acquire . && {commit}"));
    assert_eq!((answer.code, world.root().join(".git/MERGE_HEAD").exists()), (0, false), "{answer:?}");
}
