//! Several validations at a time, on a machine whose cores are idle.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::{EntryId, EntryState};
use mala_landing::queue::{CoreTimes, Cores, Round};
use mala_store::EntryFilter;

use crate::queue::{candidate, enqueue, entry, every_tip_is_green, offer, store, tip, try_work_with};
use crate::world::World;

/// As long as anything in these tests may take before it has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// A machine on which nothing else goes on.
#[derive(Debug, Default)]
struct Idle(AtomicU64);

impl Cores for Idle {
    fn times(&self) -> Option<CoreTimes> {
        let ticks = self.0.fetch_add(100, Ordering::Relaxed);
        Some(CoreTimes { idle: ticks, all: ticks, cores: 8 })
    }
}

fn work(w: &World, most: Option<usize>) -> Vec<Round> {
    let rounds = try_work_with(w, &Idle::default(), most).unwrap();
    assert!(rounds.iter().all(|round| round.failure.is_none()), "{rounds:?}");
    rounds
}

/// A world with this check. `begun` is what a validation says to others that it has begun, `seen` waits for another one to say so.
fn world(check: &str) -> World {
    let w = with_settings(World::new());
    let begun = "begun() { touch \"$HOME/$1\"; }\nseen() { until ls ../../v*/home/$1 2> /dev/null; do sleep 0.05; done; }\n";
    w.write("check.sh", &format!("{begun}{check}\n")).write("base.txt", "base\n");
    w.commit();
    for (name, value) in [("user.name", "t"), ("user.email", "t@example.invalid")] {
        w.git(&["config", name, value]);
    }
    w
}

fn with_settings(w: World) -> World {
    w.with("validate.commands", "sh check.sh").with("queue.timeout", "60s")
}

fn state(w: &World, id: EntryId) -> EntryState {
    entry(w, id).state
}

/// True if a process with this among its arguments runs on this machine.
fn runs(word: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

/// Lets those go on that wait for `../../go`.
fn let_go(w: &World) {
    let slots = fs::read_dir(w.beside("cache/mala")).unwrap().flatten().next().unwrap().path();
    fs::write(slots.join("slots/go"), "").unwrap();
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_green_prefix_lands_while_a_longer_one_hangs_and_what_hangs_is_killed() {
    let w = world("test ! -e b.txt || exec sleep 7001.25");
    let (good, hangs) = (offer(&w, "a.txt", "fine\n"), offer(&w, "b.txt", "fine\n"));
    let rounds = work(&w, Some(1));
    assert_eq!(rounds[0].settled.len(), 1, "{rounds:?}");
    assert_eq!((state(&w, good), state(&w, hangs)), (EntryState::Landed, EntryState::Waiting));
    assert!(!runs("7001.25"));
    every_tip_is_green(&w);
}

#[test]
fn a_longer_green_prefix_cancels_the_shorter_ones_and_nothing_of_them_remains() {
    let w = world(
        "if test -e b.txt; then seen shorter; elif test -e a.txt; then begun shorter; exec sleep 7002.25; fi",
    );
    let (first, second) = (offer(&w, "a.txt", "fine\n"), offer(&w, "b.txt", "fine\n"));
    let rounds = work(&w, None);
    assert_eq!(rounds.len(), 1, "both land at once: {rounds:?}");
    assert_eq!((state(&w, first), state(&w, second)), (EntryState::Landed, EntryState::Landed));
    assert!(!runs("7002.25"));
    let log = fs::read_to_string(w.root.join(".git/mala/evidence/validations.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 1, "what was cancelled has no verdict");
}

#[test]
fn newcomers_are_validated_on_top_of_what_is_under_way_and_land_without_being_run_again() {
    // What came first does not end before the newcomer has begun.
    let w = world("if test -e b.txt; then begun both; elif test -e a.txt; then seen both; fi");
    let base = tip(&w);
    let newcomer = candidate(&w, &base, "b.txt", "fine\n");
    let first = offer(&w, "a.txt", "fine\n");
    let second = thread::scope(|scope| {
        let second = scope.spawn(|| {
            wait_until("the first one is validated", || state(&w, first) == EntryState::Validating);
            enqueue(&w, &base, &newcomer)
        });
        work(&w, None);
        second.join().unwrap()
    });
    if !state(&w, second).is_over() {
        work(&w, None);
    }
    assert_eq!((state(&w, first), state(&w, second)), (EntryState::Landed, EntryState::Landed));
    let log = fs::read_to_string(w.root.join(".git/mala/evidence/validations.jsonl")).unwrap();
    assert!(log.lines().count() <= 2, "{log}");
}

#[test]
fn a_newcomer_that_is_red_is_blamed_and_what_came_first_lands() {
    let w = world("test ! -e b.txt");
    let base = tip(&w);
    let newcomer = candidate(&w, &base, "b.txt", "fine\n");
    let first = offer(&w, "a.txt", "fine\n");
    let second = enqueue(&w, &base, &newcomer);
    work(&w, None);
    assert_eq!((state(&w, first), state(&w, second)), (EntryState::Landed, EntryState::Red));
}

#[test]
fn one_red_entry_among_many_is_found_and_all_others_land() {
    let w = world("! grep -qr broken --include=*.txt .");
    let ids: Vec<EntryId> =
        (0..9).map(|n| offer(&w, &format!("{n}.txt"), if n == 5 { "broken\n" } else { "fine\n" })).collect();
    work(&w, None);
    for (n, id) in ids.iter().enumerate() {
        let expected = if n == 5 { EntryState::Red } else { EntryState::Landed };
        assert_eq!(state(&w, *id), expected, "entry {n}");
    }
    every_tip_is_green(&w);
}

#[test]
fn an_entry_that_is_dropped_while_it_is_validated_does_not_land() {
    let w = world("begun it; until test -e ../../go; do sleep 0.05; done");
    let (dropped, kept) = (offer(&w, "a.txt", "fine\n"), offer(&w, "b.txt", "fine\n"));
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("it is validated", || state(&w, dropped) == EntryState::Validating);
            store(&w).drop_entry(dropped, "on second thoughts").unwrap();
            let_go(&w);
        });
        work(&w, None);
    });
    assert_eq!((state(&w, dropped), state(&w, kept)), (EntryState::Dropped, EntryState::Landed));
    assert!(!w.root.join("a.txt").exists());
}

#[test]
fn only_what_is_under_way_is_said_to_be_validated() {
    let w = world("test ! -e b.txt || { begun it; until test -e ../../go; do sleep 0.05; done; }");
    let w = w.with("queue.slots", "1");
    let (first, second) = (offer(&w, "a.txt", "fine\n"), offer(&w, "b.txt", "fine\n"));
    let base = tip(&w);
    let late = candidate(&w, &base, "c.txt", "fine\n");
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("both are validated", || state(&w, second) == EntryState::Validating);
            let third = enqueue(&w, &base, &late);
            assert_eq!(state(&w, first), EntryState::Validating);
            assert_eq!(state(&w, third), EntryState::Waiting, "there is no slot for it");
            let_go(&w);
        });
        work(&w, None);
    });
    let open = store(&w).entries(&EntryFilter { open: true, ..EntryFilter::default() }).unwrap();
    assert!(open.is_empty(), "{open:?}");
}

const KILLED_WORLD: &str = "MALA_TEST_WORLD";

/// The process that is killed. It does nothing unless the test below starts it.
#[test]
#[ignore = "started by another test"]
fn worker_that_is_killed() {
    let Some(base) = std::env::var_os(KILLED_WORLD) else { return };
    work(&with_settings(World::at(Path::new(&base))), None);
}

#[test]
fn a_kill_with_two_validations_under_way_leaves_neither_and_counts_for_what_they_were_about() {
    let w =
        world("test -e ../../go || if test -e b.txt; then exec sleep 7004.25; else exec sleep 7005.25; fi");
    let ids = [offer(&w, "a.txt", "fine\n"), offer(&w, "b.txt", "fine\n")];
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "several::worker_that_is_killed", "--ignored", "--test-threads=1"])
        .env(KILLED_WORLD, w.beside(""))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("both prefixes are validated", || runs("7004.25") && runs("7005.25"));
    wait_until("the store says so", || ids.iter().all(|id| state(&w, *id) == EntryState::Validating));
    worker.kill().unwrap();
    worker.wait().unwrap();
    wait_until("both validations are gone", || !runs("7004.25") && !runs("7005.25"));
    let_go(&w);
    work(&w, None);
    assert_eq!(ids.map(|id| (state(&w, id), entry(&w, id).kills)), [(EntryState::Landed, 1); 2]);
}
