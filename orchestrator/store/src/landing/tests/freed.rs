//! Files that are free while work on them waits: who keeps them from whom, and what is known of them.

use mala_core::{Key, Mode, Target, Want};

use super::*;
use crate::{FileBase, FileBlob, FreedFile, Outcome, Party, Request, Which};

const RUNNER: u32 = 600;

fn key() -> Key {
    Key::from_stored(b"a".to_vec())
}

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn reserve(store: &mut Store, name: &str, run: Option<&Run>) -> Outcome {
    let party = Party {
        agent: agent(name),
        owner: owner(RUNNER),
        supervised: true,
        issue: None,
        run: run.map(|run| run.id.clone()),
    };
    let wants = vec![Want { target: Target::File(key()), aliases: Vec::new(), mode: Mode::Exclusive }];
    let request = Request { party, wants, ttl: Duration::from_secs(60), reason: None };
    #[expect(clippy::disallowed_methods, reason = "the store's own tests")]
    store.reserve(&request).unwrap()
}

fn is_granted(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Granted(_))
}

/// A green entry of `ann` that has freed its file, and the landing of it.
fn freed(store: &mut Store) -> (Entry, NewLanding) {
    let entry = green(store, &NewEntry { agent: Some(agent("ann")), ..offer('a') });
    let entry = store.free_entry(entry.id, &[key()], &json!({ "hold": "offer" })).unwrap();
    let base = Some(FileBlob { mode: "100644".into(), oid: oid('0') });
    let file = FreedFile { entry: entry.id, key: key(), base };
    let new = NewLanding { freed: vec![file], changes: vec![(entry.id, key())], ..landing(&[&entry]) };
    (entry, new)
}

/// An attempt of a run that holds the file.
fn at_work(store: &mut Store, name: &str) -> (Run, Attempt) {
    add_issue(store, name);
    let run = store.begin_run(&owner(RUN_PID), &json!({})).unwrap();
    let attempt = store.claim(&new_attempt(&run, name)).unwrap();
    let attempt = walk(store, &attempt, &[AttemptState::Running]);
    assert!(is_granted(&reserve(store, attempt.agent.as_str(), Some(&run))));
    (run, attempt)
}

#[test]
fn nobody_gets_a_file_of_a_landing_until_it_is_over() {
    let mut table = Table::new();
    let store = &mut table.store;
    let (_, new) = freed(store);
    assert_eq!(store.begin_landing(&new).unwrap(), Vec::new());
    assert!(!is_granted(&reserve(store, "bob", None)), "it is written now");
    store.undo_landing(MAIN).unwrap();
    assert!(is_granted(&reserve(store, "bob", None)), "it was not written");
    store.release(&agent("bob"), &Which::All).unwrap();
    let waiting = store.entries(&EntryFilter::default()).unwrap().remove(0);
    advance(store, &waiting, &[EntryState::Green]);
    store.begin_landing(&new).unwrap();
    store.finish_landing(MAIN).unwrap();
    assert!(is_granted(&reserve(store, "bob", None)));
    assert_eq!(store.owned(&agent("ann"), &key(), None).unwrap(), None, "a landing is no hold of its agent");
}

#[test]
fn what_a_holder_at_work_started_from_is_known_from_the_first_landing_past_it_until_it_leaves() {
    let mut table = Table::new();
    let store = &mut table.store;
    let (_, attempt) = at_work(store, "bd-1");
    let (_, new) = freed(store);
    let known = vec![FileBase { key: key(), blob: new.freed[0].base.clone() }];
    assert_eq!(store.begin_landing(&new).unwrap(), [key()]);
    assert_eq!(store.file_bases().unwrap(), known);
    assert!(!store.begin_leaving(attempt.id).unwrap(), "the landing goes past its file just now");
    store.finish_landing(MAIN).unwrap();
    store.release(&attempt.agent, &Which::All).unwrap();
    assert_eq!(store.locks().unwrap().len(), 1, "what is not as the branch has it is kept");
    let (_, second) = freed(store);
    let later = Some(FileBlob { mode: "100644".into(), oid: oid('1') });
    let file = FreedFile { base: later, ..second.freed[0].clone() };
    store.begin_landing(&NewLanding { freed: vec![file], ..second }).unwrap();
    assert_eq!(store.file_bases().unwrap(), known, "its holder has not seen the first one either");
    store.finish_landing(MAIN).unwrap();
    assert!(store.begin_leaving(attempt.id).unwrap());
    assert_eq!(store.locks().unwrap().len(), 1, "it is still its own");
    store.release(&attempt.agent, &Which::All).unwrap();
    store.end_leaving(attempt.id).unwrap();
    assert_eq!((store.locks().unwrap(), store.file_bases().unwrap()), (Vec::new(), Vec::new()));
}

#[test]
fn a_landing_goes_past_nobody_who_does_not_offer_or_gives_its_files_back() {
    type Hold = fn(&mut Store);
    let holds: [(&str, Hold); 3] = [
        ("no agent of a run", |store| assert!(is_granted(&reserve(store, "eve", None)))),
        ("one that leaves", |store| {
            let (_, attempt) = at_work(store, "bd-1");
            assert!(store.begin_leaving(attempt.id).unwrap());
        }),
        ("one that has offered", |store| {
            let (_, attempt) = at_work(store, "bd-1");
            let attempt = walk(store, &attempt, &[AttemptState::Gating]);
            store.enqueue(&offer_of(&attempt, 'd')).unwrap();
        }),
    ];
    for (who, hold) in holds {
        let mut table = Table::new();
        let store = &mut table.store;
        hold(store);
        let (entry, new) = freed(store);
        let refused = store.begin_landing(&new).unwrap_err();
        assert!(
            matches!(&refused, StoreError::Landing(LandingError::FilesHeld { conflicts }) if conflicts.len() == 1),
            "{who}: {refused:?}"
        );
        assert_eq!(store.entry(entry.id).unwrap().unwrap().state, EntryState::Green, "{who}");
        assert_eq!((store.landing(MAIN).unwrap(), store.file_bases().unwrap()), (None, Vec::new()), "{who}");
        assert_eq!(store.in_the_way(&entry, &[key()]).unwrap().blocking.len(), 1, "{who}");
    }
}

#[test]
fn a_base_goes_with_its_file_to_whom_the_lock_is_handed() {
    let mut table = Table::new();
    let store = &mut table.store;
    let (run, attempt) = at_work(store, "bd-1");
    let (_, new) = freed(store);
    store.begin_landing(&new).unwrap();
    store.finish_landing(MAIN).unwrap();
    add_issue(store, "bd-2");
    let heir = store.claim(&new_attempt(&run, "bd-2")).unwrap();
    let other = Key::from_stored(b"b".to_vec());
    let party = Party {
        agent: heir.agent.clone(),
        owner: owner(RUNNER),
        supervised: true,
        issue: None,
        run: Some(run.id),
    };
    let wants = vec![Want { target: Target::File(other), aliases: Vec::new(), mode: Mode::Exclusive }];
    let request = Request { party, wants, ttl: Duration::from_secs(60), reason: None };
    #[expect(clippy::disallowed_methods, reason = "the store's own tests")]
    store.reserve(&request).unwrap();
    store.transfer(&attempt.agent, &heir.agent, &Which::All).unwrap();
    assert_eq!(store.file_bases().unwrap().len(), 1);
    assert!(store.begin_leaving(heir.id).unwrap());
    store.release(&heir.agent, &Which::All).unwrap();
    assert_eq!(store.file_bases().unwrap(), Vec::new());
}

#[test]
fn what_waits_on_a_free_file_is_known_by_the_file_and_so_is_how_long_attempts_take() {
    let mut table = Table::new();
    let (_, attempt) = gating(&mut table.store, "bd-1");
    table.world.pass(Duration::from_secs(7));
    let store = &mut table.store;
    let entry = store.enqueue(&offer_of(&attempt, 'a')).unwrap();
    assert!(!store.is_freed(MAIN, &agent("bob"), &[key()]).unwrap());
    store.free_entry(entry.id, &[key()], &json!({})).unwrap();
    assert!(store.is_freed(MAIN, &agent("bob"), &[key()]).unwrap());
    assert!(!store.is_freed(MAIN, &attempt.agent, &[key()]).unwrap(), "it is its own");
    assert!(!store.is_freed("refs/heads/other", &agent("bob"), &[key()]).unwrap());
    table.world.pass(Duration::from_secs(5));
    let store = &mut table.store;
    store.drop_entry(entry.id, "not wanted").unwrap();
    assert!(!store.is_freed(MAIN, &agent("bob"), &[key()]).unwrap(), "it is over");
    assert_eq!(store.offer_times(MAIN, 20).unwrap(), [Duration::from_secs(7)]);
}
