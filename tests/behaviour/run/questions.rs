//! Agents that ask instead of finishing.

use std::process::Stdio;

use mala_tests::eventually;

use super::{Batch, Run};
use crate::cli::done;

/// Asks until it gets an answer, then does what it says.
const ASKS: &str = r#"
    answer=$(printf '%s' "$prompt" | sed -n 's/^The answer: //p')
    if [ -z "$answer" ]; then printf 'Both would do.\n\nShould it be red, or blue?\n'; exit; fi
    echo "$answer" > colour.txt; tested && commit coloured"#;

fn asking(settings: &str) -> Batch {
    let batch = Batch::with(ASKS, settings);
    batch.issue("bd-1", &[]);
    batch
}

#[test]
fn a_question_is_a_state_of_its_own_and_a_note_on_the_issue_is_the_answer() {
    let batch = asking("[run]\ngate_attempts = 0");
    let run = batch.start(&[]);
    let status = || done(&batch.world, "status --json").json();
    eventually("the question is seen", || status()["runs"][0]["attempts"][0]["state"] == "needs_input");
    assert_eq!(status()["agents"][0]["state"], "needs_input");
    let shown = done(&batch.world, "status").out;
    assert!(shown.contains("needs input"), "{shown}");
    // The tracker is looked at right after the question; only then is a note an answer.
    std::thread::sleep(std::time::Duration::from_millis(500));
    done(&batch.world, "issue note bd-1 blue");
    let run = Run::of(run);
    assert_eq!(run.only("needs_input")["question"], "Should it be red, or blue?", "{run:?}");
    assert_eq!((run.code, &run.only("answered")["answer"]), (0, &"blue".into()), "{run:?}");
    assert!(run.only("answered")["by"].is_string(), "{run:?}");
    assert_eq!((batch.read("colour.txt").as_str(), run.issues("claimed").len()), ("blue\n", 1));
}

#[test]
fn who_gets_no_answer_has_to_decide_and_who_asks_again_is_left_to_a_person() {
    let batch = asking("[run]\nanswer_wait = \"1s\"");
    let run = batch.run(&[]);
    assert_eq!((run.issues("needs_input").len(), run.issues("started").len()), (1, 2), "{run:?}");
    assert_eq!(run.only("answered")["answer"], serde_json::Value::Null);
    let handed = run.only("handed_over");
    assert_eq!(handed["reason"], "it needs an answer: Should it be red, or blue?");
    assert_eq!((&handed["is_blocked"], batch.status_of("bd-1").as_str()), (&true.into(), "blocked"));
    assert!(batch.notes("bd-1").contains("Should it be red, or blue?"), "{}", batch.notes("bd-1"));
}

#[test]
fn a_run_that_is_stopped_does_not_wait_for_answers() {
    let batch = asking("");
    let run = batch.command(&[]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the question is seen", || {
        done(&batch.world, "status --json").json()["runs"][0]["attempts"][0]["state"] == "needs_input"
    });
    super::stopping::interrupt(&run);
    let run = Run::of(run);
    assert_eq!(run.only("handed_over")["reason"], "the run was stopped", "{run:?}");
    assert_eq!((run.code, batch.status_of("bd-1").as_str()), (1, "open"));
}

#[test]
fn what_is_to_be_typed_about_an_issue_is_one_word_whatever_its_id_is() {
    let batch = Batch::with(ASKS, "[run]\nanswer_wait = \"3s\"");
    batch.issue("my issue", &[]);
    let (note, show) = ("mala issue note 'my issue' 'TEXT'", "mala issue show 'my issue'");
    let told = std::thread::scope(|scope| {
        let run = scope.spawn(|| batch.text(&[]));
        eventually("the question is seen", || {
            let status = done(&batch.world, "status").out;
            assert!(!status.contains("asks") || status.contains(note), "{status}");
            status.contains(note)
        });
        run.join().unwrap().out
    });
    for hint in [note, show, "mala run --issue 'my issue'"] {
        assert!(told.contains(hint), "{told}");
    }
}

#[test]
fn the_hook_at_the_end_of_a_turn_lets_a_question_through_and_nothing_else() {
    let stop = |message: &str| {
        format!(
            r#"printf '{{"hook_event_name":"Stop","session_id":"s-1","cwd":"%s","stop_hook_active":false,"last_assistant_message":"{message}"}}' "$PWD" | "$MALA" hook claude --injected"#
        )
    };
    let script = format!("{} > $OUT.asked; {} > $OUT.done; exit 1", stop("Which port?"), stop("All done."));
    let batch = Batch::claude(&script, "", "[run]\nattempts = 1");
    batch.issue("bd-1", &[]);
    let out = batch.outside("hook");
    let run = Run::of(batch.command(&[]).env("OUT", &out).stdout(Stdio::piped()).spawn().unwrap());
    let answer = |name: &str| std::fs::read_to_string(out.with_extension(name)).unwrap();
    assert!(!answer("asked").contains("not accepted yet"), "{} {run:?}", answer("asked"));
    assert!(answer("done").contains("not accepted yet"), "{} {run:?}", answer("done"));
}
