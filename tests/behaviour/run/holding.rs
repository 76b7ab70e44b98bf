//! `run.hold`: files that are free from the offer on. Others take them before the work has landed, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::parking::batch;
use super::{Batch, Run};
use crate::cli::done;

const OFFER: &str = "[run]\nhold = \"offer\"\nattempts = 3\n";

/// `one` offers a change of a file. `two` takes the file as soon as it is free, and does what `$TWO` says.
const IN_TURN: &str = r#"
first() { sed -i "1s/.*/$1/" f.txt; }
last() { sed -i "\$s/.*/$1/" f.txt; }
take() { until "$MALA" lock acquire f.txt > /dev/null 2>&1; do sleep 0.05; done; }
until_landed() { until git log --format=%s | grep -q "^$1:"; do sleep 0.02; done; }
until_red() { until "$MALA" queue --all --json | grep -q '"state":"red"'; do sleep 0.05; done; }
"#;

fn text(first: &str, last: &str) -> String {
    format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n")
}

/// Two agents and one file. What has `word` in it is validated only when there is a sign that `two` has written.
fn two_agents(script: &str, word: &str) -> (Batch, PathBuf) {
    let (batch, out) = batch(&format!("{IN_TURN}\n{script}"), OFFER);
    let check = format!(
        "if grep -q {word} f.txt; then while ! [ -e '{}' ]; do sleep 0.02; done; fi\n! grep -q broken *.txt\n",
        out.join("two").display()
    );
    batch.world.write("check.sh", &check);
    batch.world.write("f.txt", &text("1", "9"));
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "a file"]);
    batch.issue("one", &["--priority", "1"]);
    batch.issue("two", &[]);
    (batch, out)
}

fn run(batch: &Batch, out: &Path) -> Run {
    Run::of(batch.command(&[]).env("OUT", out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn an_agent_takes_a_file_that_waits_to_land_and_what_lands_meanwhile_is_merged_with_its_work() {
    let script = r#"
case $id in
one) first one; commit done; touch "$OUT/one" ;;
two)
    until_there one; take; last two; touch "$OUT/two"; until_landed one
    git diff --quiet HEAD -- f.txt || touch "$OUT/differs"
    head -n 1 f.txt > "$OUT/first-line"
    "$MALA" test -- grep -c '^one$' f.txt > "$OUT/tested" 2>&1
    commit done > "$OUT/said" ;;
esac
"#;
    let (batch, out) = two_agents(script, "one");
    let run = run(&batch, &out);
    assert_eq!((run.code, run.issues("done")), (0, vec!["one", "two"]), "{run:?}");
    assert_eq!(run.all("rejected").len(), 0, "{run:?}");
    assert!(run.all("queued").iter().all(|queued| queued["frees_files"] == true), "{run:?}");
    assert_eq!(
        fs::read_to_string(out.join("first-line")).unwrap(),
        "1\n",
        "the holder's file stayed as it was"
    );
    let said = fs::read_to_string(out.join("said")).unwrap();
    assert!(said.contains("`f.txt` has landed in another version since you took it"), "{said}");
    assert_eq!(batch.read("f.txt"), text("one", "two"));
    let changed = batch.world.git(&["show", "--format=", "--numstat", "refs/mala/candidates/two/1"]);
    assert_eq!(changed, "1\t1\tf.txt", "its candidate has its own change and no other");
    assert_eq!(batch.dirt(), "");
    batch.assert_nothing_left();
}

#[test]
fn work_on_a_file_of_an_entry_is_stacked_above_it() {
    let script = r#"
case $id in
one) first one; commit done; touch "$OUT/one" ;;
two) until_there one; take; last two; commit done; touch "$OUT/two" ;;
esac
"#;
    let (batch, out) = two_agents(script, "one");
    let run = run(&batch, &out);
    assert_eq!((run.code, run.issues("done").len(), run.all("rejected").len()), (0, 2, 0), "{run:?}");
    assert_eq!((batch.read("f.txt"), batch.dirt().as_str()), (text("one", "two"), ""));
    batch.assert_nothing_left();
}

#[test]
fn a_conflict_goes_back_to_the_later_one_which_recovers() {
    let script = r#"
case $id in
one) first one; commit done; touch "$OUT/one" ;;
two)
    if is_retry; then
        take; printf '%s\n' "$prompt" > "$OUT/prompt"; head -n 1 f.txt > "$OUT/first-line"
        first "one two"; commit both
    else
        until_there one; take; first two; touch "$OUT/two"; until_landed one; commit done 2> "$OUT/said"
    fi ;;
esac
"#;
    let (batch, out) = two_agents(script, "one");
    let run = run(&batch, &out);
    assert_eq!((run.code, run.issues("done")), (0, vec!["one", "two"]), "{run:?}");
    assert_eq!(run.issues("rejected"), ["two"], "{run:?}");
    let said = fs::read_to_string(out.join("said")).unwrap();
    assert!(said.contains("does not merge"), "{said}");
    let prompt = fs::read_to_string(out.join("prompt")).unwrap();
    for side in ["landed with `one`", "git show HEAD:FILE", "refs/mala/candidates/two/1:FILE"] {
        assert!(prompt.contains(side), "`{side}` is missing: {prompt}");
    }
    assert_eq!(fs::read_to_string(out.join("first-line")).unwrap(), "one\n", "it starts from the branch");
    assert_eq!((batch.read("f.txt"), batch.dirt().as_str()), (text("one two", "9"), ""));
    batch.assert_nothing_left();
}

/// The later one holds the file until the earlier one has been rejected and waits for it.
const REJECTED_WHILE_HELD: &str = r#"
case $id in
one)
    if is_retry; then
        take; grep -q broken f.txt || touch "$OUT/lost"
        first one; commit mended
    else
        first broken; commit done; touch "$OUT/one"
    fi ;;
two)
    if [ -e "$OUT/two" ]; then take; else until_there one; take; fi
    last two; touch "$OUT/two"; until_red; until_parked; commit done ;;
esac
"#;

#[test]
fn rejected_work_waits_for_its_file_while_another_one_holds_it() {
    let (batch, out) = two_agents(REJECTED_WHILE_HELD, "broken");
    let run = run(&batch, &out);
    assert_eq!((run.code, run.issues("done").len()), (0, 2), "{run:?}");
    assert_eq!((run.issues("rejected"), run.issues("parked")), (vec!["one"], vec!["one"]), "{run:?}");
    assert_eq!(run.only("parked")["awaits"][0]["file"], "f.txt", "{run:?}");
    assert_eq!(run.only("rejected")["round"], 1, "waiting is no round");
    assert!(!out.join("lost").exists(), "its work was back before it went on");
    assert!(run.all("claimed").iter().all(|claimed| claimed["attempt"] == 1), "{run:?}");
    assert_eq!((batch.read("f.txt"), batch.dirt().as_str()), (text("one", "two"), ""));
    batch.assert_nothing_left();
}

fn killed_at(batch: &Batch, out: &Path, point: &str) {
    let mut command = batch.command(&[]);
    let status = command
        .env("OUT", out)
        .env("MALA_CRASH_AT", point)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(!status.unwrap().success(), "it was not killed at {point}");
}

#[test]
fn wherever_freeing_files_is_killed_the_next_start_finishes_it() {
    for point in
        ["offer:out", "offer:freed", "offer:free", "queue:begun", "landing:ref-moved", "queue:landed"]
    {
        let batch = Batch::with("echo $id >> base.txt; echo work > $id.txt; commit done", OFFER);
        batch.issue("bd-1", &[]);
        killed_at(&batch, &batch.outside(""), point);
        batch.assert_nothing_goes_on();
        let next = batch.run(&[]);
        assert_eq!((next.code, batch.status_of("bd-1").as_str()), (0, "closed"), "{point}: {next:?}");
        assert_eq!(next.issues("claimed"), Vec::<&str>::new(), "{point}: it is not done again");
        assert_eq!((batch.dirt().as_str(), batch.read("base.txt").as_str()), ("", "base\nbd-1\n"), "{point}");
        batch.assert_nothing_left();
    }
}

#[test]
fn a_landing_that_is_killed_while_it_goes_past_a_holder_loses_nothing() {
    let script = r#"
case $id in
one) first one; commit done; touch "$OUT/one" ;;
two) until_there one; take; last two; touch "$OUT/two"; until_landed one; commit done ;;
esac
"#;
    for point in
        ["queue:begun", "landing:ref-moved", "landing:files-done", "landing:unlocked", "queue:landed"]
    {
        let (batch, out) = two_agents(script, "one");
        killed_at(&batch, &out, point);
        batch.assert_nothing_goes_on();
        let next = run(&batch, &out);
        assert_eq!(next.code, 0, "{point}: {next:?}");
        assert_eq!(["one", "two"].map(|id| batch.status_of(id)), ["closed", "closed"], "{point}: {next:?}");
        assert_eq!((batch.read("f.txt"), batch.dirt().as_str()), (text("one", "two"), ""), "{point}");
        let saved = batch.world.git(&["for-each-ref", "--format=%(refname)", "refs/mala/two"]);
        for name in saved.lines() {
            let changed = batch.world.git(&["show", "--format=", "--unified=0", name]);
            assert!(!changed.contains("-one"), "{point}: what was saved takes nothing back: {changed}");
        }
        batch.assert_nothing_left();
    }
}

#[test]
fn a_run_that_is_killed_while_rejected_work_comes_back_loses_nothing() {
    let (batch, out) = two_agents(REJECTED_WHILE_HELD, "broken");
    killed_at(&batch, &out, "back:taken");
    batch.assert_nothing_goes_on();
    // What is read before the file is one's own may have landed by the time it is.
    let again = format!("{IN_TURN}\ntake; case $id in one) first one ;; two) last two ;; esac; commit again");
    batch.agent(&again);
    let next = run(&batch, &out);
    assert_eq!(next.code, 0, "{next:?}");
    assert_eq!(["one", "two"].map(|id| batch.status_of(id)), ["closed", "closed"], "{next:?}");
    assert_eq!((batch.read("f.txt"), batch.dirt().as_str()), (text("one", "two"), ""), "{next:?}");
    assert!(
        batch.world.git(&["show", "refs/mala/candidates/one/1:f.txt"]).starts_with("broken"),
        "it is kept"
    );
    batch.assert_nothing_left();
}

#[test]
fn by_default_files_are_free_at_the_offer_only_if_validating_takes_long() {
    for (check, script, frees) in [
        ("sleep 6", "echo work > $id.txt; commit done", true),
        ("true", "sleep 6; echo work > $id.txt; commit done", false),
    ] {
        let batch = Batch::new(script);
        batch.world.write("check.sh", &format!("{check}\n"));
        batch.world.git(&["commit", "-q", "-a", "-m", "how long it takes"]);
        batch.issue("bd-1", &[]);
        let run = batch.run(&[]);
        assert_eq!((run.code, &run.only("queued")["frees_files"]), (0, &frees.into()), "{check}: {run:?}");
        let freed = mala_store::EventFilter { kind: Some("entry.freed".to_owned()), ..Default::default() };
        let freed = batch.world.store().events(&freed).unwrap();
        assert_eq!(freed.len(), usize::from(frees), "{check}: {freed:?}");
        let why = freed.first().map(|event| event.detail["why"]["hold"].clone());
        assert_eq!(why, frees.then(|| "auto".into()), "{check}: {freed:?}");
        let shown = done(&batch.world, "queue show 1 --json").json();
        assert_eq!(shown["entry"]["frees_files"], frees, "{shown}");
    }
}
