//! How attempts end.

use super::Batch;

const GOOD: &str = "echo work > $id.txt; tested && commit done";

#[test]
fn an_issue_ends_in_a_commit_that_is_proven() {
    let batch = Batch::new(GOOD);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("done")), (0, vec!["bd-1"]), "{run:?}");
    assert_eq!(batch.status_of("bd-1"), "closed");
    let log = batch.world.git(&["log", "-1", "--format=%B"]);
    assert!(log.starts_with("bd-1: done") && log.contains("Mala-Agent: script-bd-1-1"), "{log}");
    assert_eq!(batch.dirt(), "");
    batch.assert_nothing_left();
}

#[test]
fn an_agent_that_claims_what_it_did_not_do_is_told_and_goes_on() {
    let batch = Batch::new(
        "if is_retry; then printf '%s' \"$prompt\" > $OUT; echo work > $id.txt; commit mended; \
         else echo broken > $id.txt; commit untested; echo all tests pass; fi",
    );
    batch.issue("bd-1", &[]);
    let out = batch.outside("told");
    let run = super::Run::of(
        batch.command(&[]).env("OUT", &out).stdout(std::process::Stdio::piped()).spawn().unwrap(),
    );
    assert_eq!(
        (run.code, run.issues("rejected"), run.issues("done")),
        (0, vec!["bd-1"], vec!["bd-1"]),
        "{run:?}"
    );
    let told = std::fs::read_to_string(out).unwrap();
    assert!(told.contains("sh check.sh") && told.contains("round 1 of 3"), "the exact reason: {told}");
    let rejected = run.only("rejected");
    assert_eq!(rejected["failed"][0]["name"], "command", "{rejected}");
}

#[test]
fn the_gate_sends_an_agent_back_only_so_often() {
    let batch = Batch::with(
        "echo broken; date +%s%N > $id.txt; echo broken >> $id.txt; commit again",
        "[run]\ngate_attempts = 2\nattempts = 1",
    );
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.code, run.issues("started").len()), (1, 3), "{run:?}");
    let reason = run.only("handed_over")["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason, "the gate did not pass after it was told 2 times what is missing");
    assert_eq!(batch.status_of("bd-1"), "blocked");
}

#[test]
fn an_agent_that_changes_nothing_is_not_sent_back_again() {
    let script = "case $id in bd-1) echo half > bd-1.txt;; *) for i in 1 2 3 4 5 6 7 8; do echo $i > bd-2.txt; sleep 0.3; done;; esac";
    let batch = Batch::with(script, "[run]\ngate_attempts = 9\nattempts = 1");
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let run = batch.run(&["--max-agents", "2"]);
    let handed: Vec<_> =
        run.all("handed_over").into_iter().filter(|event| event["issue"] == "bd-1").collect();
    assert_eq!(
        handed[0]["reason"], "nothing has changed since the gate last said what is missing",
        "{run:?}"
    );
    assert_eq!(
        run.issues("rejected").iter().filter(|issue| **issue == "bd-1").count(),
        2,
        "others' files are no progress"
    );
}

#[test]
fn a_failed_attempt_leaves_a_note_its_work_and_a_clean_checkout() {
    let script = r#"
        case $attempt in
        1) echo half > bd-1.txt; echo changed > base.txt; echo "I do not know how"; exit 3;;
        *) printf '%s' "$prompt" > "$OUT"
           work=$(printf '%s' "$prompt" | sed -n 's/.*mala restore \([^ ]*\)$/\1/p')
           "$MALA" restore "$work" && tested && commit finished;;
        esac"#;
    let batch = Batch::new(script);
    // What people set for what they read themselves.
    for (name, value) in [("diff.noprefix", "true"), ("color.ui", "always")] {
        batch.world.git(&["config", name, value]);
    }
    batch.issue("bd-1", &[]);
    let out = batch.outside("second");
    let run = super::Run::of(
        batch.command(&[]).env("OUT", &out).stdout(std::process::Stdio::piped()).spawn().unwrap(),
    );
    assert_eq!(run.code, 0, "{run:?}");
    let handed = run.only("handed_over");
    assert_eq!((&handed["saved_ref"], &handed["is_blocked"]), (&"refs/mala/bd-1/1".into(), &false.into()));
    let note = batch.notes("bd-1");
    for part in [
        "Attempt 1 by `script-bd-1-1`",
        "the agent ended with code 3",
        "base.txt, bd-1.txt",
        "refs/mala/bd-1/1",
        "I do not know how",
        "script-bd-1-1.log",
    ] {
        assert!(note.contains(part), "`{part}` is missing in: {note}");
    }
    let prompt = std::fs::read_to_string(out).unwrap();
    assert!(
        prompt.contains("I do not know how") && prompt.contains("refs/mala/bd-1/1"),
        "the note reaches it: {prompt}"
    );
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:bd-1.txt"]), "half");
    assert_eq!(
        (batch.read("bd-1.txt").as_str(), batch.read("base.txt").as_str()),
        ("half\n", "changed\n"),
        "and its work was of use"
    );
    assert_eq!((batch.dirt().as_str(), batch.status_of("bd-1").as_str()), ("", "closed"));
    batch.assert_nothing_left();
}

#[test]
fn after_so_many_attempts_an_issue_is_left_to_a_person() {
    let batch = Batch::with("echo half > $id.txt; exit 1", "[run]\nattempts = 2");
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    let handed: Vec<_> = run.all("handed_over").iter().map(|event| event["is_blocked"].clone()).collect();
    assert_eq!(handed, [false, true], "{run:?}");
    assert_eq!(batch.status_of("bd-1"), "blocked");
    assert_eq!((batch.dirt().as_str(), batch.run(&[]).code), ("", 0), "it is not begun again");
    assert_eq!(
        batch.world.git(&["for-each-ref", "--format=%(refname)", "refs/mala"]),
        "refs/mala/bd-1/1\nrefs/mala/bd-1/2"
    );
    let asked_for = batch.run(&["--issue", "bd-1"]);
    assert_eq!(asked_for.issues("claimed"), ["bd-1"], "unless somebody asks for it: {asked_for:?}");
}

#[test]
fn an_outcome_without_code_is_accepted_when_it_is_true() {
    let batch = Batch::with(
        "case $id in bd-1) ;; *) echo left > left.txt;; esac; echo 'MALA-OUTCOME: no-change: it works already'",
        "[run]\nattempts = 1\ngate_attempts = 0\nno_change = \"close\"",
    );
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let run = batch.run(&["--sequential"]);
    assert_eq!((run.issues("done"), run.issues("handed_over")), (vec!["bd-1"], vec!["bd-2"]), "{run:?}");
    assert!(run.only("done")["outcome"].as_str().unwrap().contains("it works already"));
    assert_eq!(batch.dirt(), "");
}

#[test]
fn an_issue_is_not_closed_on_its_agents_word() {
    let batch = Batch::new("echo 'MALA-OUTCOME: obsolete: nobody needs it'");
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    let reason = run.only("handed_over")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("`obsolete: nobody needs it`"), "{reason}");
    assert_eq!(batch.status_of("bd-1"), "blocked");
}

#[test]
fn what_a_person_had_not_committed_is_still_there_afterwards() {
    let batch = Batch::with("echo agent >> base.txt; echo agent > person.txt; exit 1", "[run]\nattempts = 1");
    batch.issue("bd-1", &[]);
    batch.world.write("base.txt", "the person's\n");
    batch.world.write("person.txt", "the person's\n");
    let run = batch.run(&[]);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert_eq!(
        (batch.read("base.txt").as_str(), batch.read("person.txt").as_str()),
        ("the person's\n", "the person's\n")
    );
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:base.txt"]), "the person's\nagent");
    assert_eq!(batch.world.git(&["for-each-ref", "refs/mala-runs"]), "");
}

#[test]
fn what_an_agent_leaves_over_does_not_trouble_the_next() {
    let script = "echo work > $id.txt; echo scratch > scratch.txt; tested && \"$MALA\" commit -m \"$id: done\" $id.txt";
    let batch = Batch::new(script);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.code, batch.dirt().as_str()), (0, ""), "{run:?}");
    assert_eq!(run.only("rejected")["failed"][0]["name"], "clean-status", "it is told once: {run:?}");
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-1/1:scratch.txt"]), "scratch");
    assert_eq!(batch.world.git(&["show", "--format=", "--name-only"]), "bd-1.txt");
    assert!(batch.notes("bd-1").contains("left uncommitted files"), "{}", batch.notes("bd-1"));
}

#[test]
fn a_neighbours_file_is_out_of_reach() {
    let script = r#"
        case $id in
        bd-1) echo mine > shared.txt; while ! [ -e "$OUT" ]; do sleep 0.02; done; tested && commit mine;;
        *) while ! [ -e shared.txt ]; do sleep 0.02; done
           if sed -i s/mine/stolen/ shared.txt; then echo stolen > "$OUT"; else echo refused > "$OUT"; fi
           echo x > bd-2.txt; tested && commit other;;
        esac"#;
    let batch = Batch::new(script);
    batch.issue("bd-1", &[]);
    batch.issue("bd-2", &[]);
    let out = batch.outside("tried");
    let run = super::Run::of(
        batch.command(&[]).env("OUT", &out).stdout(std::process::Stdio::piped()).spawn().unwrap(),
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(std::fs::read_to_string(out).unwrap(), "refused\n");
    assert_eq!(batch.read("shared.txt"), "mine\n");
}

#[test]
fn what_a_failed_agent_staged_is_taken_back_and_nothing_that_others_did() {
    let script = r#"
        echo new > new.txt; git add new.txt; echo later > later.txt; git add -N later.txt
        git rm -q --cached base.txt; git add mine.txt
        echo first > two.txt; git add two.txt; echo second > two.txt
        : > "$OUT.ready"; while ! [ -e "$OUT" ]; do sleep 0.02; done
        git rm -q --cached check.sh; exit 1"#;
    let batch = Batch::with(script, "[run]\nattempts = 1");
    for name in ["staged.txt", "gone.txt", "mine.txt", "two.txt"] {
        batch.world.write(name, "committed\n");
    }
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    batch.world.write("staged.txt", "staged\n");
    batch.world.write("mine.txt", "staged\n");
    batch.world.git(&["add", "staged.txt", "mine.txt"]);
    batch.world.write("mine.txt", "edited\n");
    batch.issue("bd-1", &[]);
    let out = batch.outside("person");
    let child = batch.command(&[]).env("OUT", &out).stdout(std::process::Stdio::piped()).spawn().unwrap();
    mala_tests::eventually("the agent has staged", || out.with_extension("ready").exists());
    batch.world.write("person.txt", "a person's\n");
    batch.world.git(&["add", "person.txt"]);
    batch.world.git(&["rm", "-q", "--cached", "gone.txt"]);
    std::fs::write(&out, "").unwrap();
    let run = super::Run::of(child);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    let files = &run.only("handed_over")["files"];
    assert_eq!(*files, serde_json::json!(["later.txt", "new.txt", "two.txt"]), "what the way back brings");
    assert_eq!(batch.dirt(), "D  gone.txt\nMM mine.txt\nA  person.txt\nM  staged.txt\n?? gone.txt");
    assert_eq!(batch.world.git(&["show", ":mine.txt"]), "staged", "as the person had staged it");
    let saved = |name: &str| batch.world.git(&["show", &format!("refs/mala/bd-1/{name}")]);
    assert_eq!((saved("1:two.txt").as_str(), saved("1.staged:two.txt").as_str()), ("second", "first"));
    assert_eq!(saved("1:later.txt"), "later");
    assert_eq!(
        batch.world.git(&["diff", "--name-status", "HEAD", "refs/mala/bd-1/1.staged"]),
        "D\tbase.txt\nD\tcheck.sh\nM\tmine.txt\nM\ttwo.txt"
    );
    assert!(batch.notes("bd-1").contains("refs/mala/bd-1/1.staged"), "{}", batch.notes("bd-1"));
    batch.assert_nothing_left();
}

#[test]
fn what_a_person_edits_during_a_run_is_put_back_if_a_later_agent_takes_it_over_and_fails() {
    let script = r#"
        case $id in
        bd-1) echo half > bd-1.txt; : > "$OUT.ready"; while ! [ -e "$OUT" ]; do sleep 0.02; done; exit 1;;
        *) echo agent >> base.txt; echo agent > person.txt; exit 1;;
        esac"#;
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.issue("bd-1", &["--priority", "0"]);
    batch.issue("bd-2", &[]);
    let out = batch.outside("person");
    let mut command = batch.command(&["--sequential"]);
    let child = command.env("OUT", &out).stdout(std::process::Stdio::piped()).spawn().unwrap();
    mala_tests::eventually("the first agent works", || out.with_extension("ready").exists());
    batch.world.write("base.txt", "the person's\n");
    batch.world.write("person.txt", "the person's\n");
    std::fs::write(&out, "").unwrap();
    let run = super::Run::of(child);
    assert_eq!(run.issues("handed_over"), ["bd-1", "bd-2"], "{run:?}");
    let files = ["base.txt", "person.txt", "bd-1.txt"].map(|name| batch.read(name));
    assert_eq!(files, ["the person's\n", "the person's\n", ""]);
    assert_eq!(batch.world.git(&["show", "refs/mala/bd-2/1:base.txt"]), "the person's\nagent");
    batch.assert_nothing_left();
}

#[test]
fn what_a_person_had_is_put_back_if_an_agent_deletes_or_moves_it_and_fails() {
    let script = "rm mine.txt folder/x; rmdir folder; mv other.txt elsewhere.txt; exit 1";
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.issue("bd-1", &[]);
    let files = ["mine.txt", "folder/x", "other.txt"];
    files.iter().for_each(|name| batch.world.write(name, name));
    let run = batch.run(&[]);
    assert_eq!(run.issues("handed_over"), ["bd-1"], "{run:?}");
    assert_eq!(files.map(|name| batch.read(name)), files.map(str::to_owned), "{run:?}");
    assert_eq!(batch.read("elsewhere.txt"), "", "it was the agent's");
    batch.assert_nothing_left();
}
