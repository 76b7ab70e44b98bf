//! A record says what a command really ran on, and cannot be changed unseen.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use mala_core::{Actor, IssueId, LockName, RunId};
use mala_gate::evidence::anchoring;
use mala_gate::evidence::{Ended, Evidence, EvidenceLog, Launch, Of, Place, Recording, Strength, output};
use mala_git::{Content, Oid, Repo};

use crate::world::{Locks, World, agent, path};

pub(crate) fn who(name: &str) -> Actor {
    Actor {
        agent: agent(name),
        issue: Some(IssueId::new("proj-1").unwrap()),
        run: Some(RunId::new("run-1").unwrap()),
    }
}

pub(crate) fn launch(w: &World, line: &str) -> Launch {
    Launch {
        argv: line.split(' ').map(Into::into).collect(),
        cwd: w.root.clone(),
        mutex: Some(LockName::new("test").unwrap()),
        place: Place::Shared,
    }
}

pub(crate) fn ended(exit_code: i32) -> Ended {
    Ended { exit_code: Some(exit_code), signal: None, output_sha256: Some("0".repeat(64)) }
}

/// Records a command during which `meanwhile` happens.
pub(crate) fn record(w: &World, name: &str, locks: &Locks, meanwhile: impl FnOnce()) -> Evidence {
    let recording = Recording::begin(&w.repo(), who(name), launch(w, "pytest -q")).unwrap();
    meanwhile();
    recording.finish(ended(0), locks).unwrap()
}

fn hash(w: &World, name: &str) -> Content {
    Content::Object(Oid::parse(&w.git(&["hash-object", name])).unwrap())
}

fn names(evidence: &[mala_git::RepoPath]) -> Vec<String> {
    evidence.iter().map(ToString::to_string).collect()
}

fn all_records(repo: &Repo, name: &str) -> Vec<Evidence> {
    let mut found = Vec::new();
    let keep = |evidence| {
        found.push(evidence);
        ControlFlow::Continue(())
    };
    let log = EvidenceLog::of(repo.scope());
    log.search(Of::Agent(&agent(name)), keep).unwrap();
    found
}

#[test]
fn a_record_holds_the_commit_and_every_file_that_differs() {
    let w = World::new();
    w.write("a.txt", "changed\n");
    w.remove("b.txt");
    w.write("new\nfile", "new\n");
    let locks = Locks::new(&[("A", "a.txt"), ("A", "b.txt"), ("A", "new\nfile")]);
    let evidence = record(&w, "A", &locks, || {});
    assert_eq!(evidence.head, Some(w.head()));
    assert_eq!(evidence.files.len(), 3);
    assert_eq!(evidence.files[&path("a.txt")], hash(&w, "a.txt"));
    assert_eq!(evidence.files[&path("b.txt")], Content::Absent);
    assert_eq!((evidence.after.len(), evidence.foreign.len()), (0, 0));
    assert_eq!((evidence.strength, evidence.isolated), (Strength::Observed, false));
    assert_eq!(all_records(&w.repo(), "A"), [evidence], "it comes back from the log as it was");
}

#[test]
fn the_log_has_the_documented_fields() {
    let w = World::new();
    w.write("a.txt", "changed\n");
    record(&w, "A", &Locks::new(&[("B", "a.txt")]), || {});
    let text = fs::read_to_string(EvidenceLog::of(&w.scope()).path()).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
    for field in [
        "id",
        "argv",
        "cwd",
        "agent",
        "issue",
        "started_at",
        "ended_at",
        "exit_code",
        "output_sha256",
        "head",
    ] {
        assert!(!line[field].is_null(), "{field}");
    }
    assert_eq!(line["foreign"], serde_json::json!(["a.txt"]));
    assert_eq!(line["holders"], serde_json::json!({"a.txt": "B"}));
    assert_eq!(line["files"]["a.txt"].as_str().unwrap(), w.git(&["hash-object", "a.txt"]));
    assert!(line["started_at"].as_str().unwrap().ends_with('Z'));
    assert!(fs::exists(line["output_log"].as_str().unwrap()).unwrap());
}

#[test]
fn an_edit_of_another_agent_during_the_run_is_named() {
    let w = World::new();
    let locks = Locks::new(&[("A", "a.txt"), ("B", "b.txt")]);
    w.write("a.txt", "mine\n");
    let evidence = record(&w, "A", &locks, || w.write("b.txt", "theirs\n"));
    assert_eq!(evidence.after.keys().map(ToString::to_string).collect::<Vec<_>>(), ["b.txt"]);
    assert_eq!(evidence.after[&path("b.txt")], hash(&w, "b.txt"));
    assert_eq!(names(&evidence.foreign), ["b.txt"]);
    assert_eq!(evidence.holders[&path("b.txt")], "B");
}

#[test]
fn a_file_that_was_handed_to_another_agent_is_foreign() {
    struct Handed;
    impl mala_git::Ownership for Handed {
        fn owned(
            &self,
            _: &mala_core::AgentId,
            _: &mala_core::Key,
            _: Option<mala_core::Fence>,
        ) -> Result<Option<mala_core::Fence>, mala_git::OwnershipError> {
            Ok(Some(mala_core::Fence(1)))
        }

        fn holder(
            &self,
            path: &mala_core::Key,
            other_than: Option<&mala_core::AgentId>,
        ) -> Result<Option<mala_git::Holder>, mala_git::OwnershipError> {
            Locks::new(&[("B", "a.txt")]).holder(path, other_than)
        }
    }
    let w = World::new();
    w.write("a.txt", "x\n");
    let recording = Recording::begin(&w.repo(), who("A"), launch(&w, "pytest")).unwrap();
    assert_eq!(names(&recording.finish(ended(0), &Handed).unwrap().foreign), ["a.txt"]);
}

#[test]
fn a_commit_during_the_run_is_no_change_but_new_content_is() {
    let w = World::new();
    w.write("b.txt", "theirs\n");
    let locks = Locks::new(&[("B", "b.txt")]);
    let evidence = record(&w, "A", &locks, || {
        w.git(&["commit", "-qam", "by B"]);
    });
    assert!(evidence.after.is_empty(), "the file held the same all the time: {:?}", evidence.after);
    let evidence = record(&w, "A", &locks, || {
        w.git(&["reset", "-q", "--hard", "HEAD~1"]);
    });
    assert_eq!(evidence.after.keys().map(ToString::to_string).collect::<Vec<_>>(), ["b.txt"]);
}

#[test]
fn a_file_hidden_from_git_status_is_recorded_if_it_differs() {
    let w = World::new();
    for name in ["a.txt", "b.txt"] {
        w.git(&["update-index", "--assume-unchanged", name]);
    }
    w.write("a.txt", "hidden\n");
    let evidence = record(&w, "A", &Locks::default(), || {});
    assert_eq!(evidence.files.keys().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
}

#[test]
fn a_sparse_checkout_does_not_count_as_deleting_everything_else() {
    let w = World::new();
    w.git(&["sparse-checkout", "set", "--no-cone", "/a.txt"]);
    assert!(!w.root.join("b.txt").exists());
    assert!(record(&w, "A", &Locks::default(), || {}).files.is_empty());
    let w = World::new();
    w.git(&["update-index", "--skip-worktree", "b.txt"]);
    w.remove("b.txt");
    assert_eq!(record(&w, "A", &Locks::default(), || {}).files[&path("b.txt")], Content::Absent);
}

#[test]
fn before_the_first_commit_every_file_differs() {
    let w = World::empty();
    w.write("a.txt", "a\n");
    let evidence = record(&w, "A", &Locks::default(), || {
        w.git(&["add", "."]);
        w.git(&["commit", "-qm", "first"]);
    });
    assert_eq!((evidence.head, evidence.files.len(), evidence.after.len()), (None, 1, 0));
}

#[test]
fn secrets_on_the_command_line_never_reach_the_log() {
    let w = World::new();
    let recording = Recording::begin(&w.repo(), who("A"), launch(&w, "pytest --token=hunter2")).unwrap();
    recording.finish(ended(0), &Locks::default()).unwrap();
    let text = fs::read_to_string(EvidenceLog::of(&w.scope()).path()).unwrap();
    assert!(text.contains("--token=***") && !text.contains("hunter2"));
}

#[test]
fn records_are_found_by_agent_the_newest_first() {
    let w = World::new();
    let ids: Vec<_> = ["A", "B", "A"].map(|name| record(&w, name, &Locks::default(), || {}).id).into();
    let found: Vec<_> = all_records(&w.repo(), "A").into_iter().map(|evidence| evidence.id).collect();
    assert_eq!(found, [ids[2].clone(), ids[0].clone()]);
}

#[test]
fn of_many_outputs_the_newest_are_looked_at() {
    let w = World::new();
    let made: Vec<Evidence> = (0..3).map(|_| record(&w, "A", &Locks::default(), || {})).collect();
    // Nothing was printed, and every record says otherwise.
    let looked = |most| output::look(&w.scope(), most).unwrap();
    let some = looked(100_000);
    assert_eq!((some.records, some.damaged.len(), some.is_cut_short), (2, 2, true));
    assert!(some.damaged[1].to_string().contains(made[2].id.as_str()), "{some:?}");
    let all = looked(u64::MAX);
    assert_eq!((all.records, all.damaged.len(), all.is_cut_short), (3, 3, false));
}

#[test]
fn an_agent_cannot_pass_for_another_by_what_it_runs() {
    let w = World::new();
    let recording = Recording::begin(&w.repo(), who("B"), launch(&w, r#"pytest "agent":"A""#)).unwrap();
    recording.finish(ended(0), &Locks::default()).unwrap();
    assert_eq!(all_records(&w.repo(), "A").len(), 0);
    assert_eq!(all_records(&w.repo(), "B").len(), 1);
}

#[test]
fn a_changed_byte_or_a_missing_line_breaks_the_log() {
    let w = World::new();
    for _ in 0..3 {
        record(&w, "A", &Locks::default(), || {});
    }
    let log = EvidenceLog::of(&w.scope());
    assert_eq!(log.verify().unwrap().lines, 3);
    let text = fs::read_to_string(log.path()).unwrap();
    fs::write(log.path(), text.replacen("\"exit_code\":0", "\"exit_code\":1", 1)).unwrap();
    assert!(log.verify().unwrap_err().to_string().starts_with("line 1 of"));
    let shorter: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    fs::write(log.path(), shorter).unwrap();
    assert!(log.verify().is_err());
}

#[test]
fn records_that_are_gone_are_missed_however_well_the_rest_fits_and_however_much_follows() {
    let w = World::new();
    for _ in 0..3 {
        record(&w, "A", &Locks::default(), || {});
    }
    let log = EvidenceLog::of(&w.scope());
    let folder = log.path().parent().unwrap().to_owned();
    let kept: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    record(&w, "A", &Locks::default(), || {});
    assert_eq!(log.verify().unwrap().lines, 4);
    // As it was before the last one: every hash fits, and the head too.
    for (path, bytes) in kept {
        fs::write(path, bytes).unwrap();
    }
    assert!(log.verify().unwrap_err().to_string().contains("ended with number 4, now it ends with number 3"));
    for _ in 0..2 {
        record(&w, "A", &Locks::default(), || {});
    }
    assert!(
        log.verify().unwrap_err().to_string().contains("as number 4"),
        "what follows does not make it good"
    );
    fs::remove_dir_all(&folder).unwrap();
    assert!(log.verify().unwrap_err().to_string().ends_with("is gone, with its 4 records"));
    // A person knows what happened.
    let mut store = mala_store::Store::open(&w.scope()).unwrap();
    anchoring::accept(&mut store, &w.scope(), log.path(), "the test").unwrap();
    assert_eq!(log.verify().unwrap().lines, 0);
}
