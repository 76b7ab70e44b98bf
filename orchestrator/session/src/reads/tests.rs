use std::fs;
use std::process::Command;

use mala_core::{EntryState, IssueId, Mode, Oid, Target, Want};
use mala_store::{EntryChange, NewEntry, NewLanding, Outcome, Party, Request, Store, Which, process};

use super::stale::UnseenChange;
use super::*;
use crate::acquire::acquire;

/// A checkout in which agents read and write one file.
struct Bench {
    _dir: tempfile::TempDir,
    scope: Scope,
    store: Store,
}

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn key() -> Key {
    Key::from_stored(b"a".to_vec())
}

fn reader(name: &str) -> Conversation {
    Conversation(short_id(name))
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert!(Command::new("git").arg("init").arg("-q").arg(&root).status().unwrap().success());
        let scope = Scope::discover(&root).unwrap();
        let store = Store::open(&scope).unwrap();
        let bench = Self { _dir: dir, scope, store };
        bench.write("one\n");
        bench
    }

    fn write(&self, text: &str) {
        fs::write(self.scope.root().join("a"), text).unwrap();
    }

    fn reads(&self, name: &str) -> Reads {
        Reads::of(&self.scope, &agent(name))
    }

    fn read(&mut self, name: &str) {
        let as_of = self.store.newest_event().unwrap();
        self.reads(name).note(&reader(name), &key(), as_of);
    }

    /// The agent takes the file, and what it knows of it is confirmed as hooks and the kernel tier do it.
    fn take(&mut self, name: &str) {
        let before = self.store.newest_event().unwrap();
        let party = Party {
            agent: agent(name),
            owner: process::current(),
            supervised: false,
            issue: None,
            run: None,
        };
        let wants = vec![Want { target: Target::File(key()), aliases: Vec::new(), mode: Mode::Exclusive }];
        let ttl = std::time::Duration::from_secs(60);
        let request = Request { party, wants, ttl, reason: None };
        let Outcome::Granted(locks) = acquire(&self.scope, &mut self.store, &request).unwrap() else {
            panic!("nobody holds it")
        };
        let as_of = self.store.newest_event().unwrap();
        if locks[0].fence > before {
            self.reads(name).confirm(&key(), as_of);
        }
    }

    fn give_back(&mut self, name: &str) {
        self.store.release(&agent(name), &Which::All).unwrap();
    }

    /// The agent takes the file, if it is not its own yet, and is about to write it.
    fn freshness(&mut self, name: &str) -> Freshness {
        let call_began = self.store.newest_event().unwrap();
        self.take(name);
        let (agent, reads) = (agent(name), self.reads(name));
        let mut look = Look { scope: &self.scope, store: &mut self.store, agent: &agent, call_began };
        look.freshness(&reads, &reader(name), &key()).unwrap()
    }

    fn stale_by(&mut self, name: &str) -> String {
        match self.freshness(name) {
            Freshness::Stale(stale) => stale.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_nobody_has_changed_is_fresh_and_what_was_never_read_is_unseen() {
    let mut bench = Bench::new();
    assert_eq!(bench.freshness("ann"), Freshness::Unseen);
    bench.read("ann");
    assert_eq!(bench.freshness("ann"), Freshness::Fresh);
    bench.read("bob");
    let ann = (bench.reads("ann"), reader("ann"));
    assert_eq!(
        ann.0.last(&reader("of a sub-agent"), &key()),
        None,
        "what one has read another need not know"
    );
    assert!(ann.0.last(&ann.1, &key()).is_some());
}

#[test]
fn a_file_that_another_agent_has_changed_since_is_stale() {
    let mut bench = Bench::new();
    bench.read("ann");
    bench.take("bob");
    bench.write("two\n");
    bench.give_back("bob");
    let said = bench.stale_by("ann");
    assert!(said.starts_with("`a` has changed since you read it, by `bob`, which held it until "), "{said}");
    bench.read("ann");
    assert_eq!(bench.freshness("ann"), Freshness::Fresh, "it has read it again");
}

#[test]
fn an_agent_that_has_had_the_file_all_the_time_has_changed_it_itself() {
    let mut bench = Bench::new();
    bench.take("ann");
    bench.read("ann");
    bench.write("formatted\n");
    assert_eq!(bench.freshness("ann"), Freshness::Fresh);
}

#[test]
fn what_an_agent_changed_while_it_had_the_file_for_a_time_is_its_own() {
    let mut bench = Bench::new();
    bench.read("ann");
    bench.take("bob");
    bench.give_back("bob");
    bench.take("ann");
    bench.write("formatted\n");
    assert_eq!(bench.freshness("ann"), Freshness::Fresh, "the other one had left it as it was");
    bench.give_back("ann");
    assert_eq!(bench.freshness("ann"), Freshness::Fresh, "also when it was given back meanwhile");
}

#[test]
fn getting_the_file_does_not_make_known_what_others_did_before() {
    let mut bench = Bench::new();
    bench.read("ann");
    bench.take("bob");
    bench.write("two\n");
    bench.give_back("bob");
    // By a command of its shell, for example.
    bench.take("ann");
    bench.write("three\n");
    let said = bench.stale_by("ann");
    assert!(said.contains("by `bob`"), "{said}");
}

#[test]
fn a_file_that_a_person_has_changed_since_is_stale() {
    let mut bench = Bench::new();
    bench.read("ann");
    bench.write("two\n");
    let said = bench.stale_by("ann");
    assert_eq!(said, "`a` has changed since you read it, by a person or a program outside of mala");
    let mut bench = Bench::new();
    bench.read("ann");
    fs::remove_file(bench.scope.root().join("a")).unwrap();
    assert!(bench.stale_by("ann").starts_with("`a` was deleted since you read it, "));
}

#[test]
fn what_git_ignores_is_nobodys_and_never_stale() {
    let mut bench = Bench::new();
    fs::write(bench.scope.root().join(".gitignore"), "a\n").unwrap();
    bench.read("ann");
    bench.write("built\n");
    assert_eq!(bench.freshness("ann"), Freshness::Fresh);
}

#[test]
fn a_difference_is_short_masked_and_only_shown_of_texts() {
    let stale = |before: &[u8], now: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        let content = |bytes: &[u8]| {
            fs::write(dir.path().join("f"), bytes).unwrap();
            FileContent::of(&dir.path().join("f")).unwrap()
        };
        Stale { key: key(), by: None, before: content(before), now: content(now) }
    };
    let text: String = (0..20).map(|number| format!("line {number}\n")).collect();
    let changed = text.replace("line 10\n", "API_KEY=hunter2\n");
    let shown = difference(&stale(text.as_bytes(), changed.as_bytes()), 2_000).unwrap();
    assert_eq!(
        shown,
        "--- as you read it\n+++ as it is now\n@@ -9,5 +9,5 @@\n line 8\n line 9\n-line 10\n+API_KEY=***\n line 11\n line 12\n"
    );
    let short = difference(&stale(b"", text.as_bytes()), 100).unwrap();
    assert!(short.len() < 130 && short.ends_with("more lines]\n"), "{short}");
    assert_eq!(difference(&stale(&[0xFF, 0xFE], b"text"), 100), None);
}

#[test]
fn only_so_many_files_are_remembered_and_those_of_ended_agents_are_not() {
    let mut bench = Bench::new();
    let reads = bench.reads("ann");
    for number in 0..MAX_FILES_PER_AGENT + 10 {
        let key = Key::from_stored(format!("f{number}").into_bytes());
        reads.note(&reader("ann"), &key, Fence(0));
    }
    let remembered = fs::read_dir(&reads.directory).unwrap().count();
    assert_eq!(remembered, MAX_FILES_PER_AGENT);
    bench.read("bob");
    forget_others(&bench.scope, [agent("bob")].iter());
    assert!(!reads.directory.exists());
    assert!(bench.reads("bob").last(&reader("bob"), &key()).is_some());
}

#[test]
fn what_cannot_be_said_now_is_said_once_later() {
    let bench = Bench::new();
    let reads = bench.reads("ann");
    reads.keep_untold(&reader("ann"), "one");
    reads.keep_untold(&reader("ann"), "two");
    assert_eq!(reads.take_untold(&reader("sub-agent")), None);
    assert_eq!(reads.take_untold(&reader("ann")).as_deref(), Some("one\ntwo"));
    assert_eq!(reads.take_untold(&reader("ann")), None);
}

/// Another agent's change of the file lands on the branch that is checked out.
fn land(bench: &mut Bench, issue: &str) {
    let branch = crate::reserved_refs::branch_of(&bench.scope).unwrap();
    let oid = |digit: &str| Oid::parse(&digit.repeat(40)).unwrap();
    let store = &mut bench.store;
    let new = NewEntry {
        branch: branch.clone(),
        base: oid("0"),
        head: oid("a"),
        pin: format!("refs/mala/{issue}"),
        issue: IssueId::new(issue).ok(),
        agent: AgentId::new("bob").ok(),
        run: None,
        attempt: None,
        priority: NewEntry::default_priority(),
    };
    let entry = store.enqueue(&new).unwrap();
    let change = EntryChange::default();
    store.advance_entry(entry.id, EntryState::Waiting, EntryState::Green, &change).unwrap();
    let landing = NewLanding {
        branch: branch.clone(),
        from: oid("0"),
        to: oid("a"),
        directory: None,
        entries: vec![(entry.id, oid("a"))],
        changes: vec![(entry.id, key())],
        freed: Vec::new(),
        owner: process::current(),
    };
    store.begin_landing(&landing).unwrap();
    store.finish_landing(&branch).unwrap();
}

/// What an agent is told that nobody saw look at the file, when it gets it.
fn unseen(bench: &mut Bench, name: &str) -> Option<UnseenChange> {
    let call_began = bench.store.newest_event().unwrap();
    bench.take(name);
    let agent = agent(name);
    let mut look = Look { scope: &bench.scope, store: &mut bench.store, agent: &agent, call_began };
    look.landed_unseen(&key(), None).unwrap()
}

#[test]
fn what_landed_in_a_file_that_was_read_says_whose_it_is() {
    let mut bench = Bench::new();
    bench.read("ann");
    bench.write("two\n");
    land(&mut bench, "bd-3");
    let said = bench.stale_by("ann");
    assert!(said.starts_with("`a` has changed since you read it, by bd-3 (landed "), "{said}");
}

#[test]
fn of_a_file_that_nobody_saw_an_agent_read_what_landed_since_it_began_is_named() {
    let mut bench = Bench::new();
    land(&mut bench, "bd-1");
    bench.take("ann");
    bench.give_back("ann");
    assert_eq!(unseen(&mut bench, "ann"), None, "it was there before the agent was");
    bench.give_back("ann");
    land(&mut bench, "bd-3");
    let told = unseen(&mut bench, "ann").unwrap();
    assert_eq!(told.since, "since you last wrote it");
    assert!(told.by.starts_with("by bd-3 (landed "), "{told:?}");
    assert_eq!(unseen(&mut bench, "ann"), None, "it has the file now, and was told");
    let party =
        Party { agent: agent("cid"), owner: process::current(), supervised: false, issue: None, run: None };
    bench.give_back("ann");
    bench.store.register(&party).unwrap();
    land(&mut bench, "bd-4");
    assert_eq!(unseen(&mut bench, "cid").unwrap().since, "since you began");
}
