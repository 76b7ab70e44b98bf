//! Rounds of the landing queue: real git, real slots, a real store.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use mala_core::{Entry, EntryId, EntryState, Scope};
use mala_git::Oid;
use mala_landing::Requirements;
use mala_landing::queue::{CoreTimes, Cores, Outcome, Queue, QueueError, Round};
use mala_store::{EntryFilter, NewEntry, Party, Store, process};

use crate::world::World;

pub(crate) const BRANCH: &str = "refs/heads/main";

/// A world whose required command refuses files that say `broken`.
pub(crate) fn world() -> World {
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "! grep -qr broken --include=*.txt .\n").write("base.txt", "base\n");
    w.commit();
    for (name, value) in [("user.name", "t"), ("user.email", "t@example.invalid")] {
        w.git(&["config", name, value]);
    }
    w
}

pub(crate) fn store(w: &World) -> Store {
    Store::open(&Scope::discover(&w.root).unwrap()).unwrap()
}

pub(crate) fn tip(w: &World) -> Oid {
    Oid::parse(&w.git(&["rev-parse", "main"])).unwrap()
}

/// A commit on `base` that writes `text` to `path`, on no branch.
pub(crate) fn candidate(w: &World, base: &Oid, path: &str, text: &str) -> Oid {
    let index = w.beside("candidate-index");
    let git = |args: &[&str], input: &str| {
        let mut child = std::process::Command::new("git")
            .current_dir(&w.root)
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
            .args(args)
            .env("GIT_INDEX_FILE", &index)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{args:?}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    git(&["read-tree", base.as_str()], "");
    let blob = git(&["hash-object", "-w", "--stdin"], text);
    git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")], "");
    let tree = git(&["write-tree"], "");
    Oid::parse(&git(&["commit-tree", &tree, "-p", base.as_str(), "-m", &format!("change {path}")], ""))
        .unwrap()
}

pub(crate) fn enqueue(w: &World, base: &Oid, head: &Oid) -> EntryId {
    let pin = format!("refs/mala/candidates/t/{}", head.short());
    w.git(&["update-ref", &pin, head.as_str()]);
    store(w).enqueue(&NewEntry { pin, ..new_entry(base, head) }).unwrap().id
}

/// The same for an agent of a run.
pub(crate) fn enqueue_of(w: &World, base: &Oid, path: &str, text: &str, party: &Party) {
    let head = candidate(w, base, path, text);
    let (agent, issue) = (Some(party.agent.clone()), party.issue.clone());
    let pin = format!("refs/mala/candidates/t/{}", head.short());
    store(w).enqueue(&NewEntry { pin, agent, issue, ..new_entry(base, &head) }).unwrap();
}

fn new_entry(base: &Oid, head: &Oid) -> NewEntry {
    NewEntry {
        branch: BRANCH.to_owned(),
        base: base.clone(),
        head: head.clone(),
        pin: String::new(),
        issue: None,
        agent: None,
        run: None,
        attempt: None,
        priority: 2,
    }
}

pub(crate) fn offer(w: &World, path: &str, text: &str) -> EntryId {
    let base = tip(w);
    let head = candidate(w, &base, path, text);
    enqueue(w, &base, &head)
}

/// The first round that comes to something.
pub(crate) fn round(w: &World) -> Round {
    let round = try_round(w).unwrap();
    assert!(round.failure.is_none(), "{round:?}");
    round
}

pub(crate) fn try_round(w: &World) -> Result<Round, QueueError> {
    Ok(try_work(w, Some(1))?.pop().unwrap_or_default())
}

/// Works until nothing moves any more, or so many rounds were told.
pub(crate) fn try_work(w: &World, most: Option<usize>) -> Result<Vec<Round>, QueueError> {
    try_work_with(w, &Busy, most)
}

/// No core is idle: one validation runs at a time.
#[derive(Debug)]
pub(crate) struct Busy;

impl Cores for Busy {
    fn times(&self) -> Option<CoreTimes> {
        None
    }
}

pub(crate) fn try_work_with(
    w: &World,
    cores: &dyn Cores,
    most: Option<usize>,
) -> Result<Vec<Round>, QueueError> {
    let mut rounds = Vec::new();
    with_queue(w, |queue, store| {
        let queue = Queue { cores, ..*queue };
        queue.work(store, &mut |round| {
            rounds.push(round);
            if Some(rounds.len()) == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    })?;
    Ok(rounds)
}

pub(crate) fn with_queue<T>(
    w: &World,
    work: impl FnOnce(&Queue<'_>, &mut Store) -> Result<T, QueueError>,
) -> Result<T, QueueError> {
    let repo = w.repo().without_hooks();
    let (slots, requirements, owner) = (w.slots(), Requirements::of(&w.settings()), process::current());
    let queue = Queue {
        repo: &repo,
        slots: &slots,
        requirements: &requirements,
        branch: BRANCH,
        owner: &owner,
        window: 16,
        cores: &Busy,
        hangup: None,
    };
    work(&queue, &mut store(w))
}

/// All rounds until nothing moves any more.
pub(crate) fn work_off(w: &World) -> Vec<Round> {
    let rounds = try_work(w, None).unwrap();
    assert!(rounds.iter().all(|round| round.failure.is_none()), "{rounds:?}");
    rounds
}

pub(crate) fn states(w: &World) -> Vec<EntryState> {
    let mut entries = store(w).entries(&EntryFilter::default()).unwrap();
    entries.sort_unstable_by_key(|entry| entry.id);
    entries.into_iter().map(|entry| entry.state).collect()
}

pub(crate) fn entry(w: &World, id: EntryId) -> Entry {
    store(w).entry(id).unwrap().unwrap()
}

/// A fresh clone walks every commit that the branch has ever been at and runs the commands there.
pub(crate) fn every_tip_is_green(w: &World) {
    let clone = w.beside("oracle");
    let _ = fs::remove_dir_all(&clone);
    w.git(&["clone", "-q", w.root.to_str().unwrap(), clone.to_str().unwrap()]);
    for tip in w.git(&["log", "-g", "--format=%H", "main"]).lines() {
        let run = |program: &str, args: &[&str]| {
            std::process::Command::new(program).current_dir(&clone).args(args).status().unwrap().success()
        };
        assert!(run("git", &["checkout", "-q", tip]) && run("sh", &["check.sh"]), "{tip} is red");
    }
}

fn is_clean(w: &World) -> bool {
    w.git(&["status", "--porcelain"]).is_empty() && !w.root.join(".git/index.lock").exists()
}

#[test]
fn green_entries_land_together_with_one_validation() {
    let w = world();
    let ids: Vec<EntryId> = (0..5).map(|n| offer(&w, &format!("{n}.txt"), "fine\n")).collect();
    let done = round(&w);
    assert_eq!(done.settled.len(), 5, "{done:?}");
    assert_eq!(states(&w), [EntryState::Landed; 5]);
    let log = w.git(&["log", "--format=%s %(trailers:key=Mala-Landing,valueonly,separator=%x20)", "main"]);
    let tree = w.git(&["rev-parse", "main^{tree}"]);
    let lines: Vec<String> = log.lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(lines[0], "change 4.txt", "the tip itself is proven");
    assert_eq!(lines[1..5], [3, 2, 1, 0].map(|n| format!("change {n}.txt {tree}")));
    for (number, id) in ids.iter().enumerate() {
        let landed = entry(&w, *id).landed.unwrap();
        assert_eq!(w.git(&["show", "--format=", "--name-only", landed.as_str()]), format!("{number}.txt"));
        assert!(w.root.join(format!("{number}.txt")).exists());
    }
    let log = fs::read_to_string(w.root.join(".git/mala/evidence/validations.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 1);
    assert!(is_clean(&w));
    every_tip_is_green(&w);
}

#[test]
fn entries_that_change_lock_files_come_last_in_their_round() {
    let w = world();
    let paths = ["Cargo.lock", "a.txt", "sub/package-lock.json", "b.txt"];
    paths.iter().for_each(|path| _ = offer(&w, path, "fine\n"));
    assert_eq!(round(&w).settled.len(), 4);
    assert_eq!(
        w.git(&["log", "--reverse", "--format=%s", "-4", "main"]),
        "change a.txt\nchange b.txt\nchange Cargo.lock\nchange sub/package-lock.json"
    );
    every_tip_is_green(&w);
}

#[test]
fn whoever_changes_the_files_of_an_entry_with_a_lock_file_stays_above_it() {
    let w = world();
    let base = tip(&w);
    let mut head = base.clone();
    for path in ["Cargo.lock", "a.txt"] {
        head = candidate(&w, &head, path, "fine\n");
    }
    let first = enqueue(&w, &base, &head);
    let later = enqueue(&w, &base, &candidate(&w, &base, "a.txt", "also fine\n"));
    let other = offer(&w, "b.txt", "fine\n");
    work_off(&w);
    use EntryState::{Conflict, Landed};
    assert_eq!([first, later, other].map(|id| entry(&w, id).state), [Landed, Conflict, Landed]);
}

#[test]
fn an_entry_with_a_lock_file_waits_for_no_later_round() {
    let w = world();
    let ids = ["Cargo.lock", "a.txt", "b.txt"].map(|path| offer(&w, path, "fine\n"));
    with_queue(&w, |queue, store| Queue { window: 2, ..*queue }.work(store, &mut |_| ControlFlow::Break(())))
        .unwrap();
    use EntryState::{Landed, Waiting};
    assert_eq!(ids.map(|id| entry(&w, id).state), [Landed, Landed, Waiting]);
}

#[test]
fn a_red_entry_never_touches_the_branch_and_the_others_land() {
    let w = world();
    for (n, text) in ["fine\n", "fine\n", "broken\n", "fine\n", "fine\n"].iter().enumerate() {
        offer(&w, &format!("{n}.txt"), text);
    }
    work_off(&w);
    use EntryState::{Landed, Red};
    assert_eq!(states(&w), [Landed, Landed, Red, Landed, Landed]);
    assert!(!w.root.join("2.txt").exists());
    assert!(is_clean(&w));
    every_tip_is_green(&w);
}

#[test]
fn two_entries_that_are_red_only_together_do_not_both_land() {
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "test ! -e a.txt || test ! -e b.txt\n");
    w.commit();
    let (a, b) = (offer(&w, "a.txt", "a\n"), offer(&w, "b.txt", "b\n"));
    let rounds = work_off(&w);
    assert_eq!((entry(&w, a).state, entry(&w, b).state), (EntryState::Landed, EntryState::Red));
    let red = rounds.iter().flat_map(|round| &round.settled).find(|settled| settled.entry.id == b).unwrap();
    assert!(matches!(&red.outcome, Outcome::Red(rejection) if !rejection.validation.has_passed()));
    every_tip_is_green(&w);
}

#[test]
fn a_red_branch_blames_nobody_and_lands_what_mends_it() {
    let w = world();
    w.write("bad.txt", "broken\n").commit();
    let innocent = offer(&w, "a.txt", "fine\n");
    let rounds = work_off(&w);
    assert!(rounds[0].red_base.as_deref().is_some_and(|why| why.contains("`sh check.sh` failed")));
    assert_eq!(entry(&w, innocent).state, EntryState::Waiting);
    assert!(entry(&w, innocent).reason.unwrap().contains("the branch itself is red"));
    let mend = offer(&w, "bad.txt", "mended\n");
    work_off(&w);
    assert_eq!((entry(&w, innocent).state, entry(&w, mend).state), (EntryState::Landed, EntryState::Landed));
}

#[test]
fn what_conflicts_with_the_branch_goes_back_and_what_merges_lands() {
    let w = world();
    w.write("shared.txt", "1\n2\n3\n4\n5\n6\n7\n8\n").commit();
    let base = tip(&w);
    let merges = candidate(&w, &base, "shared.txt", "1\n2\n3\n4\n5\n6\n7\neight\n");
    let conflicts = candidate(&w, &base, "shared.txt", "uno\n2\n3\n4\n5\n6\n7\n8\n");
    w.write("shared.txt", "one\n2\n3\n4\n5\n6\n7\n8\n").commit();
    let (merges, conflicts) = (enqueue(&w, &base, &merges), enqueue(&w, &base, &conflicts));
    work_off(&w);
    assert_eq!(entry(&w, merges).state, EntryState::Landed);
    assert_eq!(fs::read_to_string(w.root.join("shared.txt")).unwrap(), "one\n2\n3\n4\n5\n6\n7\neight\n");
    let conflicts = entry(&w, conflicts);
    assert_eq!((conflicts.state, conflicts.rejections), (EntryState::Conflict, 1));
    assert!(conflicts.reason.unwrap().contains("shared.txt"));
}

#[test]
fn a_person_in_the_way_holds_one_entry_and_no_other() {
    let w = world();
    let (held, free) = (offer(&w, "base.txt", "agent\n"), offer(&w, "new.txt", "fine\n"));
    w.write("base.txt", "person\n");
    let rounds = work_off(&w);
    assert_eq!((entry(&w, held).state, entry(&w, free).state), (EntryState::Held, EntryState::Landed));
    assert!(rounds.iter().flat_map(|round| &round.waiting).any(|(_, why)| why.contains("`base.txt`")));
    assert_eq!(fs::read_to_string(w.root.join("base.txt")).unwrap(), "person\n");
    w.git(&["checkout", "-q", "--", "base.txt"]);
    work_off(&w);
    assert_eq!(entry(&w, held).state, EntryState::Landed);
    assert_eq!(fs::read_to_string(w.root.join("base.txt")).unwrap(), "agent\n");
    assert!(is_clean(&w));
}

#[test]
fn a_command_that_fails_once_is_flaky_and_its_entry_lands() {
    let w = World::requiring("sh check.sh");
    // What an earlier tree has left in the slot makes it fail.
    w.write("check.sh", "test ! -e new.txt || test ! -e \"$HOME/seen\" && touch \"$HOME/seen\"\n");
    assert!(w.has_passed(&w.commit()));
    let id = offer(&w, "new.txt", "fine\n");
    let rounds = work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
    assert_eq!(rounds[0].flaky, ["sh check.sh"]);
}

#[test]
fn what_the_branch_has_already_counts_as_landed() {
    let w = world();
    let base = tip(&w);
    let head = candidate(&w, &base, "same.txt", "same\n");
    w.write("same.txt", "same\n").commit();
    let id = enqueue(&w, &base, &head);
    work_off(&w);
    assert_eq!((entry(&w, id).state, entry(&w, id).landed), (EntryState::Landed, Some(tip(&w))));
}

#[test]
fn what_only_a_red_neighbour_would_bring_does_not_count_as_landed() {
    let w = world();
    let base = tip(&w);
    let head = candidate(&w, &base, "same.txt", "broken\n");
    let (first, second) = (enqueue(&w, &base, &head), {
        let again = candidate(&w, &base, "same.txt", "broken\n");
        w.git(&["update-ref", "refs/mala/candidates/t/second", again.as_str()]);
        let new = NewEntry { pin: "refs/mala/candidates/t/second".to_owned(), ..new_entry(&base, &again) };
        store(&w).enqueue(&new).unwrap().id
    });
    work_off(&w);
    assert_eq!((entry(&w, first).state, entry(&w, second).state), (EntryState::Red, EntryState::Red));
    assert_eq!(tip(&w), base);
}

#[test]
fn what_cannot_land_now_is_not_validated() {
    let w = world();
    offer(&w, "base.txt", "agent\n");
    w.write("base.txt", "person\n");
    work_off(&w);
    assert_eq!(states(&w), [EntryState::Held]);
    assert!(!w.root.join(".git/mala/evidence/validations.jsonl").exists());
}

#[test]
fn of_several_that_people_are_in_the_way_of_each_is_tried() {
    let w = world();
    w.write("other.txt", "base\n").commit();
    let (held, free) = (offer(&w, "base.txt", "agent\n"), offer(&w, "other.txt", "agent\n"));
    w.write("base.txt", "person\n").write("other.txt", "person\n");
    work_off(&w);
    assert_eq!(states(&w), [EntryState::Held, EntryState::Held]);
    w.git(&["checkout", "-q", "--", "other.txt"]);
    work_off(&w);
    assert_eq!((entry(&w, held).state, entry(&w, free).state), (EntryState::Held, EntryState::Landed));
}

#[test]
fn a_red_branch_is_mended_by_whatever_entry_mends_it() {
    let w = world();
    w.write("bad.txt", "broken\n").commit();
    let innocent = offer(&w, "a.txt", "fine\n");
    let mend = offer(&w, "bad.txt", "mended\n");
    let guilty = offer(&w, "b.txt", "broken\n");
    work_off(&w);
    let state = |id| entry(&w, id).state;
    assert_eq!(
        (state(innocent), state(mend), state(guilty)),
        (EntryState::Landed, EntryState::Landed, EntryState::Red)
    );
}

#[test]
fn one_process_at_a_time_works_a_branch() {
    let w = world();
    offer(&w, "a.txt", "fine\n");
    let directory = w.root.join(".git/mala/landing");
    round(&w);
    let lock = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some());
    let file = fs::OpenOptions::new().write(true).open(lock.unwrap()).unwrap();
    file.lock().unwrap();
    assert!(try_work(&w, None).unwrap_err().is_busy());
}

#[test]
fn a_paused_queue_moves_nothing() {
    let w = world();
    let id = offer(&w, "a.txt", "fine\n");
    store(&w).pause_queue(BRANCH, "a release").unwrap();
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Waiting);
    store(&w).resume_queue(BRANCH).unwrap();
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
}

#[test]
fn an_entry_whose_validation_kills_mala_twice_is_given_up() {
    let w = world();
    let (bad, good) = (offer(&w, "a.txt", "fine\n"), offer(&w, "b.txt", "fine\n"));
    for _ in 0..2 {
        let mut store = store(&w);
        store.advance_entry(bad, EntryState::Waiting, EntryState::Validating, &Default::default()).unwrap();
        if entry(&w, bad).kills == 0 {
            // As the next round finds it, without letting it work.
            let change = mala_store::EntryChange { kills_add: 1, ..Default::default() };
            store.advance_entry(bad, EntryState::Validating, EntryState::Waiting, &change).unwrap();
        }
    }
    work_off(&w);
    assert_eq!((entry(&w, bad).state, entry(&w, good).state), (EntryState::Failed, EntryState::Landed));
    assert!(entry(&w, bad).reason.unwrap().contains("mala queue retry"));
}

#[test]
fn a_file_that_an_agent_holds_is_waited_for() {
    use mala_core::{AgentId, Mode, Target, Want};
    let w = world();
    let id = offer(&w, "base.txt", "new\n");
    let mut held = store(&w);
    let key = w.repo().scope().key(Path::new(&w.root), Path::new("base.txt")).unwrap();
    let request = mala_store::Request {
        party: mala_store::Party {
            agent: AgentId::new("ann").unwrap(),
            owner: process::current(),
            supervised: true,
            issue: None,
            run: None,
        },
        wants: vec![Want { target: Target::File(key), aliases: Vec::new(), mode: Mode::Exclusive }],
        ttl: std::time::Duration::from_secs(60),
        reason: None,
    };
    #[expect(clippy::disallowed_methods, reason = "nobody has the file open here")]
    held.reserve(&request).unwrap();
    let waiting = round(&w).waiting;
    assert_eq!(waiting[0].1, "it waits for `base.txt` of `ann`");
    held.release(&AgentId::new("ann").unwrap(), &mala_store::Which::All).unwrap();
    work_off(&w);
    assert_eq!(entry(&w, id).state, EntryState::Landed);
}

#[test]
fn what_the_branch_had_already_is_noted_on_the_entry() {
    let w = world();
    w.write("shared.txt", "1\n2\n3\n4\n5\n6\n7\n8\n").commit();
    let base = tip(&w);
    let both = candidate(&w, &base, "shared.txt", "one\n2\n3\n4\n5\n6\n7\neight\n");
    w.write("shared.txt", "one\n2\n3\n4\n5\n6\n7\n8\n").commit();
    let (some, none) = (enqueue(&w, &base, &both), offer(&w, "new.txt", "fine\n"));
    work_off(&w);
    let note = entry(&w, some).reason;
    assert_eq!(note.as_deref(), Some("the branch had part of it already: `shared.txt`"));
    assert_eq!((entry(&w, some).state, entry(&w, none).reason), (EntryState::Landed, None));
}
