//! `wait-loop CHECKOUT AGENT` waits for some locks without a time limit, says `round`, gives them back, and so on until
//! it is killed.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use mala_core::Scope;
use mala_store::{Outcome, Store, Which};
use mala_tests::{agent, ask};

/// All of them meet at `a`, so whoever dies with it stops everybody.
const WANTS: &[&[&str]] = &[
    &["a"],
    &["shared:a"],
    &["a", "b"],
    &["b", "shared:a", "shared:c"],
    &["shared:pattern:[ab]"],
    &["pattern:*"],
    &["name:test", "a"],
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [checkout, name] = args.as_slice() else { panic!("two arguments") };
    let scope = Scope::discover(Path::new(checkout)).expect("it is a checkout");
    let mut store = Store::open(&scope).expect("the store opens");
    loop {
        let request = ask(name, WANTS[fastrand::usize(..WANTS.len())]);
        match store.reserve_or_wait(&request, Duration::MAX, |_| ()).expect("the store works") {
            Outcome::Granted(locks) => assert_eq!(locks.len(), request.wants.len()),
            Outcome::Refused(refusal) => panic!("nothing forbids to wait: {refusal:?}"),
        }
        writeln!(io::stdout(), "round").expect("the test listens");
        store.release(&agent(name), &Which::These(request.wants)).expect("the store works");
    }
}
