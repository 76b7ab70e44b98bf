//! What is said when a run cannot begin.

use super::Batch;

#[test]
fn a_missing_client_is_named_with_the_way_to_get_it() {
    let batch = Batch::new("");
    batch.issue("bd-1", &[]);
    let answer: crate::cli::Answer =
        batch.command(&["--profile", "codex"]).env("PATH", "/usr/bin:/bin").output().unwrap().into();
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(
        answer.err.contains("`codex`") && answer.err.contains("npm install -g @openai/codex"),
        "{}",
        answer.err
    );
    let unknown: crate::cli::Answer = batch.command(&["--profile", "nobody"]).output().unwrap().into();
    assert!(unknown.code == 2 && unknown.err.contains("there is no profile `nobody`"), "{unknown:?}");
    assert!(unknown.err.contains("hint: give one of these") && unknown.err.contains("script"), "{unknown:?}");
}

#[test]
fn a_profile_without_a_command_is_told_what_to_add() {
    let batch = Batch::with("", "[agents.mine]\nkind = \"command\"");
    let answer: crate::cli::Answer = batch.command(&["--profile", "mine"]).output().unwrap().into();
    assert_eq!(answer.code, 2, "{answer:?}");
    for part in ["the profile `mine`", "`command` is missing", "below [agents.mine]: command = [\"my-agent\""]
    {
        assert!(answer.err.contains(part), "`{part}` is missing: {answer:?}");
    }
}

#[test]
fn a_missing_tracker_is_no_empty_queue() {
    let batch = Batch::new("");
    let answer: crate::cli::Answer = batch
        .command(&[])
        .env("MALA_ISSUES_SOURCE", "br")
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap()
        .into();
    assert!(answer.code == 2 && answer.err.contains("install beads_rust"), "{answer:?}");
}

#[test]
fn an_issue_that_does_not_exist_is_named() {
    let batch = Batch::new("");
    let answer: crate::cli::Answer = batch.command(&["--issue", "nope"]).output().unwrap().into();
    assert!(answer.code == 2 && answer.err.contains("there is no issue `nope`"), "{answer:?}");
}

#[test]
fn issues_that_cannot_be_worked_on_are_refused_before_a_run_begins() {
    let batch = Batch::new("");
    batch.issue("bd-1", &[]);
    batch.issue("epic-1", &["--kind", "epic"]);
    batch.issue("bd-2", &[]);
    crate::cli::done(&batch.world, "issue close bd-2");
    for (id, why) in [("nope", "there is no issue"), ("epic-1", "is an epic"), ("bd-2", "is closed")] {
        for more in [&[][..], &["--dry-run"]] {
            let answer = batch.text(&[&["--issue", "bd-1", "--issue", id], more].concat());
            assert!(answer.code == 2 && answer.err.contains(why), "{id}: {answer:?}");
            assert!(answer.err.contains("mala issue list") && answer.out.is_empty(), "{id}: {answer:?}");
        }
    }
    assert_eq!((batch.world.count("run"), batch.status_of("bd-1").as_str()), (0, "open"));
}

#[test]
fn nothing_to_do_is_done_at_once() {
    let batch = Batch::new("");
    let run = batch.run(&[]);
    assert_eq!((run.code, run.summary()["attempts"].as_array().unwrap().len()), (0, 0), "{run:?}");
}

#[test]
fn prompts_of_the_repository_replace_the_built_in_ones() {
    let batch = Batch::new("printf '%s' \"$prompt\" > $OUT; exit 1");
    batch.world.write(".mala/prompts/task.md", "Just {{title}}, please.\n");
    batch.issue("bd-1", &[]);
    let out = batch.outside("prompt");
    batch.command(&["--max-issues", "1"]).env("OUT", &out).output().unwrap();
    assert_eq!(std::fs::read_to_string(out).unwrap(), "Just Do bd-1, please.");
    batch.world.write(".mala/prompts/task.md", "{{nonsense}}");
    let answer: crate::cli::Answer = batch.command(&[]).output().unwrap().into();
    assert!(answer.code == 2 && answer.err.contains("`{{nonsense}}`"), "{answer:?}");
}
