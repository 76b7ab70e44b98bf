//! The landing queue as its callers see it.

mod changes;
mod freed;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use mala_core::issue::{IN_PROGRESS, OPEN};
use mala_core::ports::{Clock, Liveness};
use mala_core::{AgentId, IssueId, Life, Owner, PersonId, Priority, Run, Who};

use super::*;
use crate::events::{Event, EventFilter};
use crate::{Extent, IssueError, IssueName, JournalError, NewAttempt, NewIssue, Next, StoreError, Tracker};

mod audits;

const MAIN: &str = "refs/heads/main";

#[derive(Debug, Clone, Default)]
struct World {
    millis: Arc<AtomicI64>,
    dead: Arc<Mutex<HashSet<u32>>>,
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::Relaxed))
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed).try_into().unwrap())
    }
}

impl Liveness for World {
    fn of(&self, owner: &Owner) -> Life {
        if self.dead.lock().unwrap().contains(&owner.pid) { Life::Dead } else { Life::Alive }
    }
}

impl World {
    fn pass(&self, span: Duration) {
        self.millis.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::Relaxed);
    }

    fn kill(&self, pid: u32) {
        self.dead.lock().unwrap().insert(pid);
    }

    fn store(&self, dir: &Path, root: &[u8]) -> Store {
        Store::open_in(dir, root).unwrap().with_clock(self.clone()).with_liveness(self.clone())
    }
}

struct Table {
    dir: tempfile::TempDir,
    world: World,
    store: Store,
}

impl Table {
    fn new() -> Self {
        let (dir, world) = (tempfile::tempdir().unwrap(), World::default());
        world.pass(Duration::from_secs(1_000_000));
        let store = world.store(dir.path(), b"/here");
        Self { dir, world, store }
    }

    fn elsewhere(&self) -> Store {
        self.world.store(self.dir.path(), b"/there")
    }

    fn again(&self) -> Store {
        self.world.store(self.dir.path(), b"/here")
    }
}

fn owner(pid: u32) -> Owner {
    Owner { host: "h".into(), boot_id: "b".into(), pid, start_time: 1, node: None }
}

fn oid(digit: char) -> Oid {
    Oid::parse(&digit.to_string().repeat(40)).unwrap()
}

fn issue(text: &str) -> IssueId {
    IssueId::new(text).unwrap()
}

fn eve() -> Who {
    Who::Person(PersonId::new("eve").unwrap())
}

/// What a person offers: one commit, pinned under its own name.
fn offer(head: char) -> NewEntry {
    NewEntry {
        branch: MAIN.into(),
        base: oid('0'),
        head: oid(head),
        pin: format!("refs/mala/candidates/{head}"),
        issue: None,
        agent: None,
        run: None,
        attempt: None,
        priority: NewEntry::default_priority(),
    }
}

fn offer_of(attempt: &Attempt, head: char) -> NewEntry {
    NewEntry { attempt: Some(attempt.id), ..offer(head) }
}

fn add_issue(store: &mut Store, name: &str) {
    let new = NewIssue {
        name: IssueName::Given(issue(name)),
        title: "do it".into(),
        description: String::new(),
        design: String::new(),
        acceptance: String::new(),
        priority: Priority::NORMAL,
        kind: "task".into(),
        labels: Vec::new(),
        needs: Vec::new(),
        files: Vec::new(),
        parent: None,
    };
    store.add_issue(&eve(), &new).unwrap();
}

fn new_attempt(run: &Run, name: &str) -> NewAttempt {
    NewAttempt {
        run: run.id.clone(),
        issue: issue(name),
        tracker: Tracker::BuiltIn,
        agent: AgentId::new(format!("agent-{name}")).unwrap(),
        profile: "claude".into(),
        head: Some(oid('0')),
    }
}

const RUN_PID: u32 = 500;

/// A run in this checkout with an attempt at a new issue that is about to be offered.
fn gating(store: &mut Store, name: &str) -> (Run, Attempt) {
    add_issue(store, name);
    let run = match store.current_run().unwrap() {
        Some(run) => run,
        None => store.begin_run(&owner(RUN_PID), &json!({})).unwrap(),
    };
    let attempt = store.claim(&new_attempt(&run, name)).unwrap();
    let attempt = walk(store, &attempt, &[AttemptState::Running, AttemptState::Gating]);
    (run, attempt)
}

fn walk(store: &mut Store, attempt: &Attempt, states: &[AttemptState]) -> Attempt {
    let mut attempt = attempt.clone();
    for state in states {
        attempt = store.advance(attempt.id, attempt.state, *state, &Progress::default()).unwrap();
    }
    attempt
}

fn state(store: &mut Store, attempt: &Attempt) -> AttemptState {
    store.attempt(attempt.id).unwrap().state
}

fn advance(store: &mut Store, entry: &Entry, states: &[EntryState]) -> Entry {
    let mut entry = store.entry(entry.id).unwrap().unwrap();
    for state in states {
        entry = store.advance_entry(entry.id, entry.state, *state, &EntryChange::default()).unwrap();
    }
    entry
}

fn green(store: &mut Store, new: &NewEntry) -> Entry {
    let entry = store.enqueue(new).unwrap();
    advance(store, &entry, &[EntryState::Validating, EntryState::Green])
}

fn landing(entries: &[&Entry]) -> NewLanding {
    NewLanding {
        branch: MAIN.into(),
        from: oid('0'),
        to: oid('f'),
        directory: Some(PathBuf::from("/here")),
        entries: entries.iter().map(|entry| (entry.id, oid('f'))).collect(),
        changes: Vec::new(),
        freed: Vec::new(),
        owner: owner(700),
    }
}

fn handed_over(reason: &str) -> Finish {
    let end = End::HandedOver { reason: reason.into(), next: Next::TryAgain };
    Finish { end, note: None, progress: Progress::default() }
}

fn done() -> Finish {
    Finish { end: End::Done { commit: None }, note: None, progress: Progress::default() }
}

fn open_ids(store: &mut Store) -> Vec<i64> {
    let filter = EntryFilter { open: true, ..EntryFilter::default() };
    store.entries(&filter).unwrap().into_iter().map(|entry| entry.id.0).collect()
}

fn events(store: &mut Store, kind: EventKind) -> Vec<Event> {
    let filter = EventFilter { kind: Some(kind.as_str().into()), ..EventFilter::default() };
    store.events(&filter).unwrap()
}

fn count(store: &mut Store) -> usize {
    store.events(&EventFilter::default()).unwrap().len()
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> LandingError {
    match result {
        Err(StoreError::Landing(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn the_states_in_the_indexes_are_those_that_are_not_over() {
    for state in EntryState::ALL {
        assert_eq!(OPEN_STATES.contains(&format!("'{state}'")), !state.is_over(), "{state}");
    }
}

#[test]
fn entries_are_served_by_priority_then_arrival_in_all_checkouts() {
    let mut table = Table::new();
    let mut ids = Vec::new();
    for (head, priority) in [('a', 2), ('b', 1), ('c', 2), ('d', 0), ('e', 1)] {
        // A clock that is stepped back does not change the order.
        table.world.millis.fetch_sub(1_000, Ordering::Relaxed);
        ids.push(table.store.enqueue(&NewEntry { priority, ..offer(head) }).unwrap().id.0);
    }
    let other = NewEntry { branch: "refs/heads/other".into(), priority: 0, ..offer('1') };
    let other = table.elsewhere().enqueue(&other).unwrap();
    let [a, b, c, d, e] = ids[..] else { panic!("{ids:?}") };
    assert_eq!(open_ids(&mut table.store), [d, other.id.0, b, e, a, c]);
    let of = |branch: &str| EntryFilter { branch: Some(branch.into()), open: true, ..EntryFilter::default() };
    assert_eq!(table.elsewhere().entries(&of(MAIN)).unwrap().len(), 5);
    assert_eq!(table.store.entries(&of("refs/heads/other")).unwrap(), [other]);
}

#[test]
fn an_entry_is_kept_as_it_was_offered() {
    let mut table = Table::new();
    let (run, attempt) = gating(&mut table.store, "i");
    let entry = table.store.enqueue(&NewEntry { priority: 1, ..offer_of(&attempt, 'a') }).unwrap();
    assert_eq!(table.store.entry(entry.id).unwrap(), Some(entry.clone()));
    assert_eq!((entry.issue.clone(), entry.agent.clone()), (Some(issue("i")), Some(attempt.agent.clone())));
    assert_eq!((entry.run.clone(), entry.attempt), (Some(run.id.clone()), Some(attempt.id)));
    assert_eq!(
        (entry.base.clone(), entry.head.clone(), entry.state),
        (oid('0'), oid('a'), EntryState::Waiting)
    );
    assert_eq!(
        (entry.arrived_at, entry.since, entry.landed.clone()),
        (table.store.now(), table.store.now(), None)
    );
    assert_eq!(state(&mut table.store, &attempt), AttemptState::Offered);
    let event = events(&mut table.store, EventKind::EntryQueued).pop().unwrap();
    assert_eq!((event.issue.as_deref(), event.run.as_deref()), (Some("i"), Some(run.id.as_str())));
    assert_eq!((&event.detail["entry"], &event.detail["head"]), (&json!(entry.id), &json!(entry.head)));
    let advanced = events(&mut table.store, EventKind::AttemptAdvanced).pop().unwrap();
    assert_eq!(advanced.detail["to"], "offered");
    let shown = serde_json::to_value(&entry).unwrap();
    for field in
        ["id", "issue", "agent", "priority", "state", "since", "base", "head", "rejections", "reason"]
    {
        assert!(shown.get(field).is_some(), "{field}");
    }
}

#[test]
fn offering_the_same_commit_again_changes_nothing() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    for new in [offer('b'), offer_of(&attempt, 'a')] {
        let first = table.store.enqueue(&new).unwrap();
        let before = count(&mut table.store);
        assert_eq!(table.store.enqueue(&new).unwrap(), first);
        let validating = advance(&mut table.store, &first, &[EntryState::Validating]);
        assert_eq!(table.store.enqueue(&new).unwrap(), validating, "wherever it stands");
        assert_eq!(count(&mut table.store), before + 1);
    }
    assert_eq!(open_ids(&mut table.store).len(), 2);
}

#[test]
fn only_an_attempt_that_is_gating_offers() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    let attempt = walk(&mut table.store, &attempt, &[AttemptState::Retrying]);
    let refused = table.store.enqueue(&offer_of(&attempt, 'a'));
    assert!(matches!(refused, Err(StoreError::Journal(JournalError::NotInState { .. }))), "{refused:?}");
    let attempt = walk(&mut table.store, &attempt, &[AttemptState::Running, AttemptState::Gating]);
    table.store.enqueue(&offer_of(&attempt, 'a')).unwrap();
    let refused = table.store.enqueue(&offer_of(&attempt, 'b'));
    assert!(matches!(refused, Err(StoreError::Journal(JournalError::NotInState { .. }))), "{refused:?}");
    assert_eq!(open_ids(&mut table.store).len(), 1, "the refused offer has replaced nothing");
    let unknown = NewEntry { attempt: Some(AttemptId(99)), ..offer('c') };
    assert!(table.store.enqueue(&unknown).is_err());
}

#[test]
fn a_later_offer_replaces_the_earlier_one() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    let first = table.store.enqueue(&offer_of(&attempt, 'a')).unwrap();
    let offered = table.store.attempt(attempt.id).unwrap();
    let again = [AttemptState::Retrying, AttemptState::Running, AttemptState::Gating];
    walk(&mut table.store, &offered, &again);
    let second = table.store.enqueue(&offer_of(&attempt, 'b')).unwrap();
    let first = table.store.entry(first.id).unwrap().unwrap();
    assert_eq!(
        (first.state, first.reason.as_deref()),
        (EntryState::Dropped, Some("replaced by a later offer"))
    );
    assert_eq!(open_ids(&mut table.store), [second.id.0]);
    assert!(matches!(refusal(table.store.retry_entry(first.id)), LandingError::Replaced { .. }));
    // A pin keeps one commit only.
    let old = table.store.enqueue(&offer('c')).unwrap();
    let new = table.store.enqueue(&NewEntry { pin: old.pin.clone(), ..offer('d') }).unwrap();
    assert_eq!(open_ids(&mut table.store), [second.id.0, new.id.0]);
}

#[test]
fn what_is_landing_is_neither_replaced_nor_dropped() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    let entry = green(&mut table.store, &offer_of(&attempt, 'a'));
    table.store.begin_landing(&landing(&[&entry])).unwrap();
    let late = NewEntry { pin: entry.pin.clone(), ..offer('b') };
    assert!(matches!(refusal(table.store.enqueue(&late)), LandingError::EntryLanding { .. }));
    let dropped = refusal(table.store.drop_entry(entry.id, "no"));
    assert_eq!(dropped.to_string(), format!("the entry {} is landing on `{MAIN}` at this moment", entry.id));
    assert!(matches!(
        refusal(table.store.finish(attempt.id, &handed_over("no"))),
        LandingError::EntryLanding { .. }
    ));
    assert_eq!(state(&mut table.store, &attempt), AttemptState::Offered);
}

#[test]
fn a_step_from_where_an_entry_is_not_is_refused() {
    use EntryState::{Dropped, Green, Landed, Landing, Validating, Waiting};
    let mut table = Table::new();
    let entry = table.store.enqueue(&offer('a')).unwrap();
    let before = count(&mut table.store);
    let mut step = |from, to| refusal(table.store.advance_entry(entry.id, from, to, &EntryChange::default()));
    assert_eq!(
        step(Validating, Green).to_string(),
        format!("the entry {} is waiting, not validating", entry.id)
    );
    for to in [Landing, Landed, EntryState::Red] {
        assert!(matches!(step(Waiting, to), LandingError::NoSuchStep { .. }), "{to}");
    }
    let unknown = table.store.advance_entry(EntryId(9), Waiting, Validating, &EntryChange::default());
    assert!(matches!(refusal(unknown), LandingError::UnknownEntry { .. }));
    assert!(matches!(refusal(table.store.retry_entry(entry.id)), LandingError::NoSuchStep { .. }));
    assert_eq!(count(&mut table.store), before);
    advance(&mut table.store, &entry, &[Green]);
    let skipped = table.store.advance_entry(entry.id, Green, Landing, &EntryChange::default());
    assert!(matches!(refusal(skipped), LandingError::NoSuchStep { .. }), "only by a landing");
    advance(&mut table.store, &entry, &[Dropped]);
    let back = table.store.advance_entry(entry.id, Dropped, Waiting, &EntryChange::default());
    assert!(matches!(refusal(back), LandingError::NoSuchStep { .. }), "only by a retry");
}

#[test]
fn a_step_keeps_its_reason_and_counts() {
    let mut table = Table::new();
    let entry = table.store.enqueue(&offer('a')).unwrap();
    table.world.pass(Duration::from_secs(5));
    let why = |text: &str| EntryChange { reason: Some(text.into()), ..EntryChange::default() };
    let mut wait = |change: &EntryChange| {
        table.store.advance_entry(entry.id, EntryState::Waiting, EntryState::Waiting, change).unwrap()
    };
    let waiting = wait(&why("waiting for `a` of ann"));
    assert_eq!((waiting.reason.as_deref(), waiting.since), (Some("waiting for `a` of ann"), entry.since));
    wait(&why("waiting for `a` of ann"));
    assert_eq!(events(&mut table.store, EventKind::EntryAdvanced).len(), 1, "the same again is no news");
    let validating = advance(&mut table.store, &entry, &[EntryState::Validating]);
    assert_eq!((validating.reason, validating.since), (None, table.store.now()));
    let killed = EntryChange { reason: Some("killed".into()), kills_add: 1 };
    let (from, to) = (EntryState::Validating, EntryState::Failed);
    let failed = table.store.advance_entry(entry.id, from, to, &killed).unwrap();
    assert_eq!((failed.kills, failed.rejections, failed.reason.as_deref()), (1, 0, Some("killed")));
    let retried = table.store.retry_entry(entry.id).unwrap();
    assert_eq!((retried.state, retried.kills, retried.reason), (EntryState::Waiting, 1, None));
}

#[test]
fn rejections_are_counted_over_all_offers_of_an_attempt() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    let verdicts: [(char, &[EntryState]); 2] =
        [('a', &[EntryState::Validating, EntryState::Red]), ('b', &[EntryState::Conflict])];
    for (number, (head, states)) in (1..).zip(verdicts) {
        let entry = table.store.enqueue(&offer_of(&attempt, head)).unwrap();
        assert_eq!(advance(&mut table.store, &entry, states).rejections, number);
        let offered = table.store.attempt(attempt.id).unwrap();
        walk(
            &mut table.store,
            &offered,
            &[AttemptState::Retrying, AttemptState::Running, AttemptState::Gating],
        );
    }
    assert_eq!(table.store.enqueue(&offer_of(&attempt, 'c')).unwrap().rejections, 2);
}

#[test]
fn a_branch_is_moved_by_one_landing_at_a_time() {
    let mut table = Table::new();
    let (one, two) = (green(&mut table.store, &offer('a')), green(&mut table.store, &offer('b')));
    table.store.begin_landing(&landing(&[&one])).unwrap();
    let late = refusal(table.store.begin_landing(&landing(&[&two])));
    assert_eq!(late.to_string(), format!("`{MAIN}` is being moved already (pid 700 on h)"));
    let row = table.elsewhere().landing(MAIN).unwrap().unwrap();
    assert_eq!((row.life, row.owner.pid, row.scope.as_path()), (Life::Alive, 700, Path::new("/here")));
    assert_eq!(
        (row.entries.clone(), row.directory.clone()),
        (vec![(one.id, oid('f'))], Some("/here".into()))
    );
    table.world.kill(700);
    assert_eq!(table.store.landings().unwrap(), [LandingRow { life: Life::Dead, ..row }]);
    assert_eq!(table.store.entry(two.id).unwrap().unwrap().state, EntryState::Green);
    let other = NewEntry { branch: "refs/heads/other".into(), ..offer('c') };
    let other = green(&mut table.store, &other);
    let wrong = NewLanding { branch: "refs/heads/third".into(), ..landing(&[&other]) };
    assert!(matches!(refusal(table.store.begin_landing(&wrong)), LandingError::OtherBranch { .. }));
    table.store.begin_landing(&NewLanding { branch: other.branch.clone(), ..landing(&[&other]) }).unwrap();
    assert_eq!(table.store.landings().unwrap().len(), 2);
}

#[test]
fn nothing_lands_unless_all_of_it_is_green() {
    let mut table = Table::new();
    let one = green(&mut table.store, &offer('a'));
    let two = table.store.enqueue(&offer('b')).unwrap();
    let before = count(&mut table.store);
    for entries in [vec![&one, &two], vec![&one, &one]] {
        assert!(matches!(
            refusal(table.store.begin_landing(&landing(&entries))),
            LandingError::NotInState { expected: EntryState::Green, .. }
        ));
    }
    assert_eq!(table.store.entry(one.id).unwrap(), Some(one), "all or nothing");
    assert_eq!((table.store.landing(MAIN).unwrap(), count(&mut table.store)), (None, before));
}

#[test]
fn finishing_a_landing_twice_is_finishing_it_once() {
    let mut table = Table::new();
    let (one, two) = (green(&mut table.store, &offer('a')), green(&mut table.store, &offer('b')));
    let entries = vec![(two.id, oid('e')), (one.id, oid('f'))];
    table.store.begin_landing(&NewLanding { entries, ..landing(&[]) }).unwrap();
    let landed = table.store.finish_landing(MAIN).unwrap();
    let told: Vec<_> = landed.iter().map(|entry| (entry.id, entry.state, entry.landed.clone())).collect();
    let expected = [(two.id, 'e'), (one.id, 'f')].map(|(id, c)| (id, EntryState::Landed, Some(oid(c))));
    assert_eq!(told, expected, "in the order of the stack");
    let before = count(&mut table.store);
    assert_eq!(table.store.finish_landing(MAIN).unwrap(), []);
    assert_eq!(table.store.undo_landing(MAIN).unwrap(), [], "it is too late for that");
    assert_eq!((table.store.landings().unwrap(), count(&mut table.store)), (Vec::new(), before));
    assert_eq!(table.store.entry(one.id).unwrap().unwrap().landed, Some(oid('f')));
    assert!(matches!(refusal(table.store.retry_entry(one.id)), LandingError::NoSuchStep { .. }));
    let done = events(&mut table.store, EventKind::LandingDone).pop().unwrap();
    assert_eq!(done.detail["entries"][0], json!({ "entry": two.id, "commit": oid('e') }));
}

#[test]
fn undoing_a_landing_twice_is_undoing_it_once() {
    let mut table = Table::new();
    let one = green(&mut table.store, &offer('a'));
    table.store.begin_landing(&landing(&[&one])).unwrap();
    let waiting = table.store.undo_landing(MAIN).unwrap();
    assert_eq!((waiting[0].id, waiting[0].state, &waiting[0].landed), (one.id, EntryState::Waiting, &None));
    let before = count(&mut table.store);
    assert_eq!(table.store.undo_landing(MAIN).unwrap(), []);
    assert_eq!(table.store.finish_landing(MAIN).unwrap(), []);
    assert_eq!(count(&mut table.store), before);
    assert_eq!(events(&mut table.store, EventKind::LandingUndone).len(), 1);
    advance(&mut table.store, &one, &[EntryState::Green]);
    table.store.begin_landing(&landing(&[&one])).unwrap();
}

#[test]
fn of_all_who_move_a_branch_one_does() {
    let mut table = Table::new();
    for round in 0..10 {
        let entry = green(&mut table.store, &offer(char::from_digit(round, 16).unwrap()));
        let start = Barrier::new(2);
        let won: usize = thread::scope(|scope| {
            let racers = [table.again(), table.elsewhere()].map(|mut store| {
                let (start, new) = (&start, landing(&[&entry]));
                scope.spawn(move || {
                    start.wait();
                    store.begin_landing(&new).is_ok()
                })
            });
            racers.into_iter().map(|racer| usize::from(racer.join().unwrap())).sum()
        });
        assert_eq!(won, 1);
        table.store.finish_landing(MAIN).unwrap();
    }
}

#[test]
fn attempts_end_with_the_landing_in_whichever_checkout() {
    let mut table = Table::new();
    let mut there = table.elsewhere();
    let (_, attempt) = gating(&mut there, "i");
    let entry = green(&mut there, &offer_of(&attempt, 'a'));
    table.store.begin_landing(&landing(&[&entry])).unwrap();
    let ends = [(attempt.id, done())];
    assert_eq!(table.store.finish_landing_with(MAIN, &ends).unwrap().len(), 1);
    assert_eq!(state(&mut there, &attempt), AttemptState::Done);
    assert!(there.issue(&issue("i")).unwrap().unwrap().is_closed());
    assert_eq!(table.store.finish_landing_with(MAIN, &ends).unwrap(), []);
    assert_eq!(events(&mut there, EventKind::AttemptFinished).len(), 1);
    assert_eq!(events(&mut there, EventKind::EntryAdvanced).len(), 4, "where it was offered");
    assert_eq!(events(&mut table.store, EventKind::LandingDone).len(), 1, "where the branch was moved");
}

#[test]
fn an_attempt_that_gives_up_leaves_nothing_in_the_queue() {
    let given_back = Finish { end: End::GivenBack, ..done() };
    for (finish, reason) in [
        (handed_over("tests fail"), "tests fail"),
        (given_back, "its attempt was given back"),
        (done(), "its attempt was done without it"),
    ] {
        let mut table = Table::new();
        let (_, attempt) = gating(&mut table.store, "i");
        let entry = green(&mut table.store, &offer_of(&attempt, 'a'));
        for _ in 0..2 {
            table.store.finish(attempt.id, &finish).unwrap();
            let entry = table.store.entry(entry.id).unwrap().unwrap();
            assert_eq!((entry.state, entry.reason.as_deref()), (EntryState::Dropped, Some(reason)));
        }
        assert_eq!(
            table.store.retry_entry(entry.id).unwrap().state,
            EntryState::Waiting,
            "it is still pinned"
        );
    }
}

#[test]
fn an_attempt_that_is_done_leaves_its_landed_entry_alone() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    let entry = green(&mut table.store, &offer_of(&attempt, 'a'));
    table.store.begin_landing(&landing(&[&entry])).unwrap();
    table.store.finish(attempt.id, &done()).unwrap();
    assert_eq!(table.store.finish_landing(MAIN).unwrap()[0].state, EntryState::Landed);
}

#[test]
fn an_offered_issue_is_nobody_elses_although_its_run_is_dead() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    table.store.enqueue(&offer_of(&attempt, 'a')).unwrap();
    table.world.kill(RUN_PID);
    let run = table.store.begin_run(&owner(501), &json!({})).unwrap();
    let next = NewAttempt { agent: AgentId::new("bob").unwrap(), ..new_attempt(&run, "i") };
    for tracker in [Tracker::BuiltIn, Tracker::Other] {
        let refused = table.store.claim(&NewAttempt { tracker, ..next.clone() });
        assert!(matches!(refused, Err(StoreError::Journal(JournalError::Attempted { .. }))), "{refused:?}");
    }
    let refused = table.store.claim_issue(&eve(), &issue("i"));
    assert!(matches!(refused, Err(StoreError::Issue(IssueError::NotOpen { .. }))), "{refused:?}");
    assert!(table.store.reopen_issue(&eve(), &issue("i")).is_err());
    table.store.finish(attempt.id, &handed_over("its run was killed")).unwrap();
    assert!(table.store.claim(&next).is_ok());
}

#[test]
fn an_issue_in_the_queue_without_an_attempt_is_not_ready() {
    let mut table = Table::new();
    add_issue(&mut table.store, "i");
    let ready = |store: &mut Store| store.ready(None, 10).unwrap().len();
    assert_eq!(ready(&mut table.store), 1);
    let entry = table.store.enqueue(&NewEntry { issue: Some(issue("i")), ..offer('a') }).unwrap();
    assert_eq!(ready(&mut table.store), 0);
    let run = table.store.begin_run(&owner(RUN_PID), &json!({})).unwrap();
    for refused in [
        table.store.claim(&new_attempt(&run, "i")).map(drop),
        table.store.claim_issue(&eve(), &issue("i")).map(drop),
    ] {
        let error = refused.unwrap_err().to_string();
        assert_eq!(error, format!("`i` waits in the landing queue, as entry {}", entry.id));
    }
    assert_eq!(table.store.issue(&issue("i")).unwrap().unwrap().status, OPEN);
    table.store.drop_entry(entry.id, "no").unwrap();
    assert_eq!(ready(&mut table.store), 1);
    assert!(table.store.claim(&new_attempt(&run, "i")).is_ok());
    assert_eq!(table.store.issue(&issue("i")).unwrap().unwrap().status, IN_PROGRESS);
}

#[test]
fn dropping_twice_is_dropping_once() {
    let mut table = Table::new();
    let entry = table.store.enqueue(&offer('a')).unwrap();
    let dropped = table.store.drop_entry(entry.id, "not needed").unwrap();
    assert_eq!((dropped.state, dropped.reason.as_deref()), (EntryState::Dropped, Some("not needed")));
    assert_eq!(table.store.drop_entry(entry.id, "really not").unwrap(), dropped);
    assert_eq!(events(&mut table.store, EventKind::EntryAdvanced).len(), 1);
}

#[test]
fn a_queue_is_paused_until_it_is_resumed() {
    let mut table = Table::new();
    let since = table.store.now();
    assert_eq!(table.store.queue_pause(MAIN).unwrap(), None);
    for why in ["red", "red", "red since noon"] {
        table.store.pause_queue(MAIN, why).unwrap();
        assert_eq!(table.elsewhere().queue_pause(MAIN).unwrap(), Some((why.to_owned(), since)));
        table.world.pass(Duration::from_secs(1));
    }
    assert_eq!(table.store.queue_pause("refs/heads/other").unwrap(), None);
    let all = table.store.queue_pauses().unwrap();
    assert_eq!(all, [(MAIN.to_owned(), "red since noon".to_owned(), since)]);
    assert_eq!(events(&mut table.store, EventKind::QueuePaused).len(), 2);
    for was_paused in [true, false] {
        assert_eq!(table.store.resume_queue(MAIN).unwrap(), was_paused);
    }
    assert_eq!(table.store.queue_pause(MAIN).unwrap(), None);
    assert_eq!(events(&mut table.store, EventKind::QueueResumed).len(), 1);
}

#[test]
fn a_sweep_forgets_nothing_of_what_is_in_the_queue() {
    let mut table = Table::new();
    let started = table.store.now();
    let (_, attempt) = gating(&mut table.store, "i");
    let entry = green(&mut table.store, &offer_of(&attempt, 'a'));
    table.store.begin_landing(&landing(&[&entry])).unwrap();
    let before = count(&mut table.store);
    for pid in [RUN_PID, 700] {
        table.world.kill(pid);
    }
    table.world.pass(Duration::from_secs(1_000_000));
    let extent = Extent { keep_events_since: table.store.now(), foreign_locks: false };
    assert_eq!(table.store.working_since().unwrap(), Some(started));
    // The issue was added in the same moment as the attempt began.
    assert!(table.store.leftovers(extent).unwrap().is_empty());
    table.store.sweep(extent).unwrap();
    assert_eq!(count(&mut table.store), before);
    assert_eq!(state(&mut table.store, &attempt), AttemptState::Offered);
    let row = table.store.landing(MAIN).unwrap().unwrap();
    assert_eq!((row.owner, row.life), (owner(700), Life::Dead));
    table.store.finish_landing_with(MAIN, &[(attempt.id, done())]).unwrap();
    assert!(table.store.sweep(extent).unwrap().old_events > 0);
    assert_eq!(table.store.entry(entry.id).unwrap().unwrap().state, EntryState::Landed);
}

#[test]
fn a_state_without_its_event_is_not_there() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "i");
    let entry = green(&mut table.store, &offer('a'));
    let trigger =
        "CREATE TEMP TRIGGER broken BEFORE INSERT ON event WHEN new.kind IN ('entry.queued', 'landing.begun')
         BEGIN SELECT RAISE(ABORT, 'not today'); END";
    table.store.conn.execute_batch(trigger).unwrap();
    assert!(table.store.enqueue(&offer_of(&attempt, 'b')).is_err());
    assert!(table.store.begin_landing(&landing(&[&entry])).is_err());
    assert_eq!(state(&mut table.store, &attempt), AttemptState::Gating);
    assert_eq!(table.store.entry(entry.id).unwrap(), Some(entry));
    assert_eq!((open_ids(&mut table.store).len(), table.store.landings().unwrap().len()), (1, 0));
}

#[test]
fn rows_that_make_no_sense_stop_whoever_reads_them() {
    for damage in ["state = 'x'", "base = ''", "landed = 'x'", "issue = ''", "rejections = -1"] {
        let mut table = Table::new();
        let entry = table.store.enqueue(&offer('a')).unwrap();
        table.store.conn.execute_batch(&format!("UPDATE entry SET {damage}")).unwrap();
        let results =
            [table.store.entry(entry.id).map(drop), table.store.drop_entry(entry.id, "no").map(drop)];
        for result in results {
            assert!(matches!(result, Err(StoreError::BadRow { .. })), "{damage}: {result:?}");
        }
    }
}
