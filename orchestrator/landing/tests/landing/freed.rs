//! Entries whose files are free while they wait: the branch moves on below agents of a run, and what they do then is merged.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use mala_core::{
    AgentId, Attempt, AttemptState, EntryId, EntryState, IssueId, Key, Mode, RunId, Target, Want,
};
use mala_gate::bases_of;
use mala_git::salvage::{self, Bases};
use mala_git::{Oid, RepoPath};
use mala_landing::Work;
use mala_store::{FileBase, NewAttempt, Outcome, Party, Progress, Request, Store, Tracker, Which, process};

use crate::queue::{
    enqueue, enqueue_of, entry, every_tip_is_green, offer, round, store, tip, work_off, world,
};
use crate::world::World;

const PATH: &str = "shared.txt";

fn text(first: &str, last: &str) -> String {
    format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n")
}

fn shared() -> World {
    let w = world();
    w.write(PATH, &text("1", "9")).commit();
    w
}

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn key() -> Key {
    Key::from_stored(PATH.as_bytes().to_vec())
}

fn party(name: &str, run: Option<RunId>) -> Party {
    Party { agent: agent(name), owner: process::current(), supervised: true, issue: None, run }
}

/// An attempt of a run at work, which holds the file.
fn at_work(w: &World, name: &str) -> Attempt {
    let mut store = store(w);
    let run = store.current_run().unwrap();
    let run = run.unwrap_or_else(|| store.begin_run(&process::current(), &serde_json::json!({})).unwrap());
    let new = NewAttempt {
        run: run.id.clone(),
        issue: IssueId::new(format!("bd-{name}")).unwrap(),
        tracker: Tracker::Other,
        agent: agent(name),
        profile: "script".into(),
        head: None,
    };
    let attempt = store.claim(&new).unwrap();
    hold(&mut store, &party(name, Some(run.id)));
    store.advance(attempt.id, AttemptState::Claimed, AttemptState::Running, &Progress::default()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "nobody has the file open here")]
fn hold(store: &mut Store, party: &Party) {
    let wants = vec![Want { target: Target::File(key()), aliases: Vec::new(), mode: Mode::Exclusive }];
    let request = Request { party: party.clone(), wants, ttl: Duration::from_secs(600), reason: None };
    assert!(matches!(store.reserve(&request).unwrap(), Outcome::Granted(_)));
}

/// An offer of `ann`, whose files are free.
fn freed(w: &World, base: &Oid, path: &str, text: &str) -> EntryId {
    freed_by(w, base, (path, text), "ann")
}

fn freed_by(w: &World, base: &Oid, (path, text): (&str, &str), name: &str) -> EntryId {
    enqueue_of(w, base, path, text, &party(name, None));
    let mut store = store(w);
    let id = store.entries(&mala_store::EntryFilter::default()).unwrap().iter().map(|entry| entry.id).max();
    let keys = [Key::from_stored(path.as_bytes().to_vec())];
    store.free_entry(id.unwrap(), &keys, &serde_json::json!({ "hold": "offer" })).unwrap().id
}

fn files() -> BTreeSet<RepoPath> {
    BTreeSet::from([RepoPath::from_bytes(PATH)])
}

fn bases(w: &World) -> Bases {
    bases_of(&w.repo(), &mut store(w), &files()).unwrap()
}

/// What the checkout holds, on the tip.
fn as_it_lies(w: &World) -> Oid {
    let files: Vec<RepoPath> = files().into_iter().collect();
    salvage::work_commit(&w.repo(), &tip(w), &files, "as it lies there\n").unwrap()
}

#[test]
fn the_branch_moves_on_below_a_holder_at_work_whose_file_stays_and_is_merged_from_where_it_started() {
    let w = shared();
    let before = w.git(&["rev-parse", &format!("HEAD:{PATH}")]);
    let id = freed(&w, &tip(&w), PATH, &text("one", "9"));
    at_work(&w, "bob");
    w.write(PATH, &text("1", "nine"));
    // What the holder has staged is in its file.
    w.git(&["add", PATH]);
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
    assert_eq!(fs::read_to_string(w.root.join(PATH)).unwrap(), text("1", "nine"), "its file stays");
    assert_eq!(w.git(&["diff", "--cached", "--name-only"]), "", "the index goes along");
    let known = store(&w).file_bases().unwrap();
    let [FileBase { key: named, blob: Some(blob) }] = known.as_slice() else { panic!("{known:?}") };
    assert_eq!((named, blob.oid.as_str()), (&key(), before.as_str()), "what it started from is known");
    let (whole, repo) = (as_it_lies(&w), w.repo());
    assert!(
        w.git(&["show", "--format=", whole.as_str()]).contains("-one"),
        "by itself it takes back what landed"
    );
    let own = bases(&w).rebased(&repo, &whole).unwrap();
    assert_eq!(w.git(&["show", "--format=", "--numstat", own.as_str()]), format!("1\t1\t{PATH}"));
    let base = repo.commit(&own).unwrap().parents.remove(0);
    store(&w).release(&agent("bob"), &Which::All).unwrap();
    assert_eq!(store(&w).locks().unwrap().len(), 1, "it keeps what is not what the branch has");
    let work = Work { base: tip(&w), commit: whole, remark: None }.since(&repo, &bases(&w)).unwrap();
    assert_eq!(w.git(&["show", &format!("{}:{PATH}", work.commit)]), text("one", "nine").trim_end());
    store(&w).forget_file_bases(id, &[key()]).unwrap();
    store(&w).release(&agent("bob"), &Which::All).unwrap();
    w.git(&["checkout", "-q", "HEAD", "--", PATH]);
    enqueue(&w, &base, &own);
    work_off(&w);
    assert_eq!(fs::read_to_string(w.root.join(PATH)).unwrap(), text("one", "nine"));
    assert_eq!(w.git(&["status", "--porcelain"]), "");
    every_tip_is_green(&w);
}

#[test]
fn entries_on_one_file_are_stacked_by_their_order_and_a_conflict_is_the_later_ones() {
    let w = shared();
    let base = tip(&w);
    let first = freed(&w, &base, PATH, &text("one", "9"));
    let beside = freed_by(&w, &base, (PATH, &text("1", "nine")), "bob");
    let against = freed_by(&w, &base, (PATH, &text("two", "9")), "cid");
    work_off(&w);
    assert_eq!([first, beside].map(|id| entry(&w, id).state), [EntryState::Landed; 2]);
    assert_eq!(entry(&w, against).state, EntryState::Conflict);
    assert_eq!(fs::read_to_string(w.root.join(PATH)).unwrap(), text("one", "nine"));
    assert_eq!(store(&w).locks().unwrap(), Vec::new(), "what the landing held is free again");
    every_tip_is_green(&w);
}

#[test]
fn who_does_not_offer_what_it_does_is_waited_for() {
    let w = shared();
    let id = freed(&w, &tip(&w), PATH, &text("one", "9"));
    hold(&mut store(&w), &party("person", None));
    assert_eq!(round(&w).waiting[0].1, format!("it waits for `{PATH}` of `person`"));
    store(&w).release(&agent("person"), &Which::All).unwrap();
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
    assert_eq!(fs::read_to_string(w.root.join(PATH)).unwrap(), text("one", "9"));
}

#[test]
fn an_entry_that_holds_its_files_is_not_landed_below_anybody() {
    let w = shared();
    let id = offer(&w, PATH, &text("one", "9"));
    at_work(&w, "bob");
    assert_eq!(round(&w).waiting[0].1, format!("it waits for `{PATH}` of `bob`"));
    assert_eq!(entry(&w, id).state, EntryState::Waiting);
}

#[test]
fn a_holder_that_gives_its_files_back_is_waited_for() {
    let w = shared();
    let id = freed(&w, &tip(&w), PATH, &text("one", "9"));
    let attempt = at_work(&w, "bob");
    assert!(store(&w).begin_leaving(attempt.id).unwrap());
    assert_eq!(round(&w).waiting[0].1, format!("it waits for `{PATH}` of `bob`"));
    store(&w).release(&agent("bob"), &Which::All).unwrap();
    store(&w).end_leaving(attempt.id).unwrap();
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
    assert_eq!(store(&w).file_bases().unwrap(), Vec::new());
}

#[test]
fn a_file_that_nobody_has_touched_since_is_known_to_lack_only_what_landed() {
    let w = shared();
    freed(&w, &tip(&w), PATH, &text("one", "9"));
    at_work(&w, "bob");
    work_off(&w);
    let repo = w.repo();
    assert_eq!(bases(&w).unchanged(&repo).unwrap(), files());
    let own = bases(&w).rebased(&repo, &as_it_lies(&w)).unwrap();
    assert_eq!(
        w.git(&["show", "--format=", "--numstat", own.as_str()]),
        "",
        "there is nothing of its own in it"
    );
    w.write(PATH, &text("1", "nine"));
    assert_eq!(bases(&w).unchanged(&repo).unwrap(), BTreeSet::new());
}

#[test]
fn a_file_that_has_landed_as_new_below_one_that_is_new_too_was_none_when_it_was_taken() {
    let w = world();
    let id = freed(&w, &tip(&w), PATH, &text("one", "9"));
    at_work(&w, "bob");
    w.write(PATH, &text("other", "9"));
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
    assert_eq!(store(&w).file_bases().unwrap(), [FileBase { key: key(), blob: None }]);
    let own = bases(&w).rebased(&w.repo(), &as_it_lies(&w)).unwrap();
    let base = w.repo().commit(&own).unwrap().parents.remove(0);
    store(&w).forget_file_bases(id, &[key()]).unwrap();
    store(&w).release(&agent("bob"), &Which::All).unwrap();
    w.git(&["checkout", "-q", "HEAD", "--", PATH]);
    let second = enqueue(&w, &base, &own);
    work_off(&w);
    assert_eq!(entry(&w, second).state, EntryState::Conflict, "no side disappears");
}
