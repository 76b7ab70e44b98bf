//! What `mala clean` drops of outputs and runs, and what it never does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mala_core::{IssueId, PersonId, Priority, Who};
use mala_gate::evidence::anchoring;
use mala_gate::evidence::retention::{Cause, Limits, carry_out, plan};
use mala_logs::chain::ChainWriter;
use mala_store::{IssueName, NewIssue, Store};
use serde_json::json;

use crate::world::World;

const DAY: Duration = Duration::from_hours(24);

struct Kept {
    w: World,
    store: Store,
}

impl Kept {
    fn new() -> Self {
        let w = World::new();
        let store = Store::open(&w.scope()).unwrap();
        Self { w, store }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.w.scope().state_dir().join(name)
    }

    /// A file that was last written to so many days ago.
    fn file(&self, name: &str, days: u32, bytes: usize) -> PathBuf {
        let path = self.place(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![b'x'; bytes]).unwrap();
        age(&path, days);
        path
    }

    /// A run with a log and what an agent printed.
    fn run(&mut self, run: &str, days: u32) -> PathBuf {
        let log = self.place(&format!("logs/{run}.jsonl"));
        let link = ChainWriter::open(&log).unwrap().append(&json!({ "event": "run_started" })).unwrap();
        anchoring::anchor(&mut self.store, &self.w.scope(), &log, &link).unwrap();
        self.file(&format!("logs/{run}/a.log"), days, 100);
        for name in ["jsonl", "head", "lock"] {
            age(&log.with_extension(name), days);
        }
        age(&self.place(&format!("logs/{run}")), days);
        log
    }

    fn limits(&self, bytes: u64) -> Limits {
        let now = self.store.now();
        Limits { since: now.minus(30 * DAY), needed_since: now, bytes }
    }

    /// What goes, and why.
    fn clean(&mut self, limits: Limits) -> Vec<(String, Cause)> {
        let scope = self.w.scope();
        let plan = plan(&mut self.store, &scope, limits).unwrap();
        let names = plan.outputs.iter().chain(&plan.runs);
        let gone = names
            .map(|old| (old.path.file_name().unwrap().to_string_lossy().into_owned(), old.cause))
            .collect();
        carry_out(&mut self.store, &scope, &plan, limits).unwrap();
        gone
    }
}

fn new_issue() -> NewIssue {
    NewIssue {
        name: IssueName::Given(IssueId::new("bd-1").unwrap()),
        title: "x".to_owned(),
        description: String::new(),
        design: String::new(),
        acceptance: String::new(),
        priority: Priority::default(),
        kind: "task".to_owned(),
        labels: Vec::new(),
        needs: Vec::new(),
        files: Vec::new(),
        parent: None,
    }
}

fn age(path: &Path, days: u32) {
    let file = fs::File::open(path).unwrap();
    file.set_modified(SystemTime::now() - days * DAY).unwrap();
}

fn of(names: &[&str], cause: Cause) -> Vec<(String, Cause)> {
    names.iter().map(|name| ((*name).to_owned(), cause)).collect()
}

#[test]
fn what_is_old_goes_with_all_that_belongs_to_it_and_is_not_missed() {
    let mut kept = Kept::new();
    let (old, new) = (kept.run("r1", 40), kept.run("r12", 20));
    let [output, later] = [("ev-1", 40), ("ev-2", 20)]
        .map(|(id, days)| kept.file(&format!("evidence/output/{id}.log"), days, 10));
    let limits = kept.limits(u64::MAX);
    assert_eq!(kept.clean(limits), [of(&["ev-1.log"], Cause::Age), of(&["r1.jsonl"], Cause::Age)].concat());
    assert!(!output.exists() && later.exists() && new.exists());
    let left: Vec<_> =
        fs::read_dir(kept.place("logs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with("r12")), "{left:?}");
    assert_eq!(kept.store.anchor(&anchoring::name_of(&kept.w.scope(), &old)).unwrap(), None);
    assert!(anchoring::verify(&mut kept.store, &kept.w.scope(), &new).is_ok());
    assert_eq!(kept.clean(limits), [], "doing it again does nothing");
}

#[test]
fn of_too_much_the_oldest_goes_until_it_is_little_enough() {
    let mut kept = Kept::new();
    for (id, days) in [("ev-1", 5), ("ev-2", 4), ("ev-3", 3), ("ev-4", 2)] {
        kept.file(&format!("evidence/output/{id}.log"), days, 1000);
    }
    let limits = kept.limits(2500);
    assert_eq!(kept.clean(limits), of(&["ev-1.log", "ev-2.log"], Cause::Size));
    assert_eq!(kept.clean(limits), []);
}

#[test]
fn what_a_note_on_an_open_issue_names_and_what_unfinished_work_needs_stays() {
    let mut kept = Kept::new();
    for id in ["ev-1", "ev-2"] {
        kept.file(&format!("evidence/output/{id}.log"), 40, 1000);
    }
    let person = Who::Person(PersonId::new("me").unwrap());
    let issue = kept.store.add_issue(&person, &new_issue()).unwrap();
    kept.store.note(&person, &issue.id, "it failed: see evidence ev-1").unwrap();
    let limits = kept.limits(1);
    let since_then = Limits { needed_since: kept.store.now().minus(50 * DAY), ..limits };
    assert_eq!(kept.clean(since_then), [], "written since the oldest work that is not over began");
    assert_eq!(kept.clean(limits), of(&["ev-2.log"], Cause::Age));
    kept.store.close_issue(&person, &issue.id, None).unwrap();
    assert_eq!(kept.clean(limits), of(&["ev-1.log"], Cause::Age));
}
