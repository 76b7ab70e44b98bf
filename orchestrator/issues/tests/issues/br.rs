//! `br`: the real one, and a program that behaves like it.

use std::path::Path;

use mala_core::{AgentId, IssueId};
use mala_issues::{Beads, IssueError, IssueSource, Limits, Tracker, Trouble};
use serde_json::Value;
use tempfile::TempDir;

use crate::contract::{self, NewIssue, Seed};
use crate::real_br::real_br;
use crate::stand_in::{self, StandIn};

/// A checkout with issues of `br`.
struct RealTracker {
    program: &'static Path,
    root: TempDir,
}

impl RealTracker {
    fn new() -> Option<Self> {
        let tracker = Self { program: real_br()?, root: TempDir::new().unwrap() };
        tracker.run(&["init", "--prefix", "t"]);
        Some(tracker)
    }

    /// Types a command as a person would.
    fn run(&self, args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        stand_in::run(self.program, self.root.path(), &args)
    }

    fn source(&self) -> Beads {
        Beads::new(Tracker::Br, self.program, self.root.path(), Limits::default())
    }

    fn stored(&self, id: &IssueId, field: &str) -> Value {
        let shown: Value = serde_json::from_str(&self.run(&["show", "--json", id.as_str()])).unwrap();
        shown[0][field].clone()
    }
}

impl Seed for RealTracker {
    fn add(&self, issue: &NewIssue<'_>) -> IssueId {
        let create = stand_in::create(issue, |id| format!("blocks:{id}"));
        let created = stand_in::run(self.program, self.root.path(), &create);
        let created: Value = serde_json::from_str(&created).unwrap();
        IssueId::new(created["id"].as_str().unwrap()).unwrap()
    }

    fn rival(&self) -> Box<dyn IssueSource> {
        Box::new(self.source())
    }
}

fn actor(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

#[test]
fn a_program_like_br_keeps_the_contract() {
    let tracker = StandIn::new(Tracker::Br);
    contract::check(&tracker.source(Limits::default()), &tracker);
}

#[test]
fn br_keeps_the_contract() {
    let Some(tracker) = RealTracker::new() else { return };
    contract::check(&tracker.source(), &tracker);
}

#[test]
fn what_people_wrote_in_the_notes_stays_and_comes_first() {
    let Some(tracker) = RealTracker::new() else { return };
    let id = tracker.add(&NewIssue::task("noted by hand"));
    tracker.run(&["update", id.as_str(), "--notes", "by hand\n\n  as is"]);
    let source = tracker.source();
    source.append_note(&id, "by mala").unwrap();
    let notes = source.show(&id).unwrap().notes;
    assert_eq!(
        notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(),
        ["by hand\n\n  as is", "by mala"]
    );
    assert_eq!(notes.iter().map(|note| note.author.as_deref()).collect::<Vec<_>>(), [None, Some("mala")]);
    assert!(tracker.stored(&id, "notes").as_str().unwrap().starts_with("by hand\n\n  as is\n"));
}

#[test]
fn hints_in_the_design_are_known_before_an_issue_is_given_out() {
    let Some(tracker) = RealTracker::new() else { return };
    let id = tracker.add(&NewIssue::task("designed"));
    tracker.run(&["update", id.as_str(), "--design", "## Files\n- src/a.rs"]);
    let ready = tracker.source().ready(1).unwrap();
    assert_eq!(ready[0].files, ["src/a.rs"]);
}

#[test]
fn the_first_reason_for_closing_is_kept() {
    let Some(tracker) = RealTracker::new() else { return };
    let id = tracker.add(&NewIssue::task("closed"));
    let source = tracker.source();
    source.close(&id, "--first reason").unwrap();
    source.close(&id, "second").unwrap();
    assert_eq!(tracker.stored(&id, "close_reason"), "--first reason");
}

#[test]
fn a_claim_that_br_has_a_rule_against_is_told_in_its_words() {
    let Some(tracker) = RealTracker::new() else { return };
    let first = tracker.add(&NewIssue::task("first"));
    let second = tracker.add(&NewIssue { needs: std::slice::from_ref(&first), ..NewIssue::task("second") });
    match tracker.source().claim(&second, &actor("a")) {
        Err(IssueError::Failed { trouble: Trouble::Validation, message, command, .. }) => {
            assert!(message.contains("blocked"), "{message}");
            assert_eq!(command, format!("br update {second}"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_folder_without_issues_is_an_error_and_not_an_empty_queue() {
    let Some(program) = real_br() else { return };
    let root = TempDir::new().unwrap();
    let source = Beads::new(Tracker::Br, program, root.path(), Limits::default());
    match source.ready(10) {
        Err(IssueError::NotSetUp { tracker: Tracker::Br, root: named, .. }) => assert_eq!(named, root.path()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_database_is_an_error_and_not_an_empty_queue() {
    let Some(tracker) = RealTracker::new() else { return };
    tracker.add(&NewIssue::task("lost"));
    let folder = tracker.root.path().join(".beads");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::write(&path, "damaged").unwrap();
        }
    }
    let error = tracker.source().ready(10).unwrap_err();
    assert!(matches!(error, IssueError::Failed { .. }), "{error:?}");
}

#[test]
fn br_is_found_with_its_version() {
    let Some(program) = real_br() else { return };
    let path = program.parent().unwrap().as_os_str();
    let found = mala_issues::find(Tracker::Br, path).unwrap();
    assert_eq!(found.program, program);
    assert!(found.version >= Tracker::Br.oldest(), "{found:?}");
}
