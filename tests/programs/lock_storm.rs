//! `lock-storm CHECKOUT AGENT` does everything one can do with locks, in random order, until it is killed.

use std::path::Path;
use std::time::Duration;

use mala_core::{Scope, Want};
use mala_store::{Party, Request, Result, Store, StoreError, Which};
use mala_tests::{ONLY_THE_DEAD, agent, ask, party, want};

const TARGETS: &[&str] =
    &["a", "b", "d/x", "d/y", "pattern:d/*", "pattern:**/x", "pattern:[ab]", "name:test", "name:build"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [checkout, name] = args.as_slice() else { panic!("two arguments") };
    let scope = Scope::discover(Path::new(checkout)).expect("it is a checkout");
    let mut store = Store::open(&scope).expect("the store opens");
    let party = Party { supervised: fastrand::bool(), ..party(name) };
    loop {
        match step(&mut store, &party) {
            Ok(()) => {}
            Err(error) if is_answer(&error) => {}
            Err(error) => panic!("the store failed: {error:?}"),
        }
    }
}

/// A name that was never used, a process that was killed, a circle: these are answers.
fn is_answer(error: &StoreError) -> bool {
    use StoreError::{AgentGone, Deadlock, StillHeld, UnknownAgent};
    matches!(error, UnknownAgent { .. } | AgentGone { .. } | StillHeld { .. } | Deadlock { .. })
}

fn step(store: &mut Store, party: &Party) -> Result<()> {
    let some_wants = some_wants();
    let request = Request { party: party.clone(), wants: some_wants.clone(), ttl: lease(), reason: None };
    let which = if fastrand::bool() { Which::All } else { Which::These(some_wants.clone()) };
    let patience = Duration::from_millis(fastrand::u64(1..40));
    match fastrand::u8(..16) {
        0..=5 => drop(store.reserve(&request)?),
        6..=9 => drop(store.reserve_or_wait(&request, patience, |_| ())?),
        10..=11 => drop(store.release(&party.agent, &which)?),
        12 => drop(store.renew(&party.agent, &which, Some(lease()))?),
        13 => drop(store.transfer(&party.agent, &agent(&format!("storm-{}", fastrand::u8(..6))), &which)?),
        14 => drop(store.sweep(ONLY_THE_DEAD)?),
        _ => drop(store.check(&party.agent, &some_wants)?),
    }
    Ok(())
}

fn some_wants() -> Vec<Want> {
    (0..fastrand::usize(1..=3)).map(|_| some_want()).collect()
}

fn some_want() -> Want {
    match fastrand::u8(..6) {
        0 => ask::linked("h1", &["h2", "d/h3"]),
        1 => ask::linked("d/h3", &["h1", "h2"]),
        _ => {
            let target = TARGETS[fastrand::usize(..TARGETS.len())];
            let sharing = if fastrand::bool() { "shared:" } else { "" };
            want(&format!("{sharing}{target}"))
        }
    }
}

fn lease() -> Duration {
    Duration::from_millis(fastrand::u64(1..60))
}
