//! Agents that need each other's files: nobody has to help them, and a kill loses nothing.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use super::parking::{HOOK, batch};
use super::{Batch, Run};
use crate::cli::done;

/// Each of two agents writes the first line of a file, and then needs the last line of the other one's.
const CROSSING: &str = r#"
case $id in one) mine=a.txt theirs=b.txt other=two ;; two) mine=b.txt theirs=a.txt other=one ;; esac
if [ -e "$OUT/idle" ]; then exit 0; fi
if goes_on 'is yours now'; then
    sed -i "\$s/.*/$id/" $theirs; tested && commit done
else
    sed -i "1s/.*/$id/" $mine; touch "$OUT/$id"; until_there $other; hook codex $theirs > /dev/null
fi
"#;

fn lines(first: &str, last: &str) -> String {
    format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n")
}

fn crossing() -> (Batch, std::path::PathBuf) {
    let (batch, out) = batch(CROSSING, "[run]\nattempts = 3\ngate_attempts = 0");
    for file in ["a.txt", "b.txt"] {
        batch.world.write(file, &lines("1", "9"));
    }
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "two files"]);
    batch.issue("one", &[]);
    batch.issue("two", &[]);
    (batch, out)
}

fn run(batch: &Batch, out: &Path, args: &[&str]) -> Run {
    let mut command = batch.command(args);
    Run::of(command.env("OUT", out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn two_agents_that_need_each_others_files_both_land_without_a_person() {
    let (batch, out) = crossing();
    let run = run(&batch, &out, &[]);
    assert_eq!((run.code, run.issues("done").len()), (0, 2), "{run:?}");
    assert_eq!((run.issues("yielded").len(), run.all("rejected").len()), (1, 0), "{run:?}");
    assert!(run.all("claimed").iter().all(|claimed| claimed["attempt"] == 1), "{run:?}");
    assert_eq!(batch.read("a.txt"), lines("one", "two"));
    assert_eq!(batch.read("b.txt"), lines("two", "one"));
    assert_eq!(
        batch.world.git(&["for-each-ref", "refs/mala/one", "refs/mala/two"]),
        "",
        "nothing is left aside"
    );
    batch.assert_nothing_left();
}

#[test]
fn wherever_a_yield_is_killed_no_work_is_lost() {
    for point in ["yield:saved", "yield:out", "yield:free", "yield:back"] {
        let (batch, out) = crossing();
        let mut command = batch.command(&[]);
        command.env("OUT", &out).env("MALA_CRASH_AT", point).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(!command.status().unwrap().success(), "it was not killed at {point}");
        batch.assert_nothing_goes_on();
        fs::write(out.join("idle"), "").unwrap();
        let next = run(&batch, &out, &["--max-issues", "1"]);
        assert_eq!(batch.dirt(), "", "{point}: {next:?}");
        for (id, file) in [("one", "a.txt"), ("two", "b.txt")] {
            if batch.status_of(id) == "closed" {
                assert!(batch.read(file).starts_with(&format!("{id}\n")), "{point}: {id} has landed");
            } else {
                let patch = done(&batch.world, &format!("diff {id}/1")).out;
                assert!(patch.contains(&format!("+{id}\n")), "{point}: the work of {id} is kept: {patch}");
            }
        }
    }
}

#[test]
fn work_that_is_put_aside_when_the_run_is_stopped_is_named_in_the_note() {
    let (batch, out) = crossing();
    let go_on = CROSSING.replace(
        "if goes_on 'is yours now'; then",
        "if goes_on 'is yours now'; then touch \"$OUT/on\"; sleep 60;",
    );
    batch.agent(&format!("{HOOK}{go_on}"));
    let run =
        batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    mala_tests::eventually("the other one goes on", || out.join("on").exists());
    super::stopping::interrupt(&run);
    let run = Run::of(run);
    let yielded = run.only("yielded")["issue"].as_str().unwrap().to_owned();
    let saved = format!("refs/mala/{yielded}/1.aside");
    assert!(batch.notes(&yielded).contains(&saved), "{run:?}");
    assert_eq!(batch.dirt(), "", "{run:?}");
    assert!(done(&batch.world, &format!("diff {yielded}")).out.contains(&format!("+{yielded}\n")));
}

#[test]
fn four_agents_on_one_hot_file_all_land() {
    let script = r#"
if goes_on 'is yours now' || ! hook codex hot.txt | grep -q deny; then
    sed -i "/^$id\$/s/.*/done by $id/" hot.txt; tested && commit done
fi
"#;
    let (batch, out) = batch(script, "");
    let names = ["i1", "i2", "i3", "i4"];
    batch.world.write("hot.txt", &names.map(|name| format!("{name}\n-\n-\n-\n")).concat());
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "a hot file"]);
    for name in names {
        batch.issue(name, &["--file", "hot.txt"]);
    }
    let run = run(&batch, &out, &["--max-agents", "4"]);
    assert_eq!((run.code, run.issues("done").len()), (0, 4), "{run:?}");
    assert_eq!(batch.read("hot.txt"), names.map(|name| format!("done by {name}\n-\n-\n-\n")).concat());
    batch.assert_nothing_left();
}

#[test]
fn an_agent_that_waits_for_an_issue_is_parked_until_that_has_landed() {
    let script = r#"
case $id in
first) until_there waiting; echo first > first.txt; tested && commit done ;;
second)
    if goes_on 'which has landed as'; then
        test -e first.txt && echo second > second.txt && commit done
    else
        "$MALA" wait first > "$OUT/said" && touch "$OUT/waiting"
    fi ;;
esac
"#;
    let (batch, out) = batch(script, "");
    batch.issue("first", &[]);
    batch.issue("second", &[]);
    let run = run(&batch, &out, &[]);
    assert_eq!((run.code, run.issues("done")), (0, vec!["first", "second"]), "{run:?}");
    let parked = run.only("parked");
    assert_eq!((&parked["issue"], &parked["issues"][0]), (&"second".into(), &"first".into()));
    assert!(run.all("rejected").is_empty(), "it costs no round: {run:?}");
    assert!(fs::read_to_string(out.join("said")).unwrap().contains("end your turn now"));
    batch.assert_nothing_left();
    assert_eq!(batch.world.count("issue_wait"), 0);
}

#[test]
fn agents_that_wait_for_each_others_issues_are_refused_and_named() {
    let script = r#"
case $id in one) other=two ;; two) other=one ;; esac
if goes_on 'which has landed as'; then echo $id > $id.txt; commit done
else
    touch "$OUT/$id"; until_there $other
    # One after the other.
    if [ $id = two ]; then until_there waits; fi
    if "$MALA" wait $other 2> "$OUT/$id.said"; then touch "$OUT/waits"
    else echo $id > $id.txt; commit done; fi
fi
"#;
    let (batch, out) = batch(script, "");
    batch.issue("one", &[]);
    batch.issue("two", &[]);
    let run = run(&batch, &out, &[]);
    assert_eq!((run.code, run.issues("done")), (0, vec!["two", "one"]), "{run:?}");
    let said = fs::read_to_string(out.join("two.said")).unwrap();
    assert!(said.contains("wait for each other") && said.contains("script-one-1"), "{said}");
}

#[test]
fn a_holder_that_waits_for_the_issue_of_an_agent_that_waits_for_its_file_does_not_wait_for_ever() {
    let script = r#"
case $id in
holder)
    if goes_on 'landed as' || goes_on 'go on without it'; then
        sed -i '2s/.*/by holder/' a.txt; tested && commit done
    else
        sed -i "1s/.*/holder/" a.txt; touch "$OUT/held"; until_parked; "$MALA" wait asker > /dev/null
    fi ;;
asker)
    if goes_on 'is yours now'; then
        sed -i '$s/.*/asker/' a.txt; tested && commit done
    else
        until_there held; hook codex a.txt > /dev/null
    fi ;;
esac
"#;
    let (batch, out) = batch(script, "");
    batch.world.write("a.txt", &lines("1", "9"));
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "a file"]);
    batch.issue("holder", &[]);
    batch.issue("asker", &[]);
    let run = run(&batch, &out, &["--timeout", "90s"]);
    assert_eq!((run.code, run.issues("done").len(), run.issues("yielded").len()), (0, 2, 1), "{run:?}");
    assert_eq!(batch.read("a.txt"), lines("holder", "asker").replace("\n2\n", "\nby holder\n"));
    batch.assert_nothing_left();
}
