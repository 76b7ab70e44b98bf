//! Reserves and releases one file over and over, and proves each time that nobody else has it.
//!
//! `reserve-loop CHECKOUT AGENT FILE ROUNDS PROOF` starts when told to and says how often it won. While it holds the
//! lock it keeps the file PROOF, which it must be the first to create.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use mala_core::Scope;
use mala_store::{Outcome, Store, Which};
use mala_tests::{agent, ask};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [checkout, name, file, rounds, proof] = args.as_slice() else { panic!("five arguments") };
    let scope = Scope::discover(Path::new(checkout)).expect("it is a checkout");
    let mut store = Store::open(&scope).expect("the store opens");
    io::stdin().read_line(&mut String::new()).expect("the test says when to start");
    let rounds: u32 = rounds.parse().expect("rounds are a number");
    let wins = (0..rounds).filter(|_| reserve_once(&mut store, name, file, Path::new(proof))).count();
    writeln!(io::stdout(), "{wins}").expect("the test listens");
}

fn reserve_once(store: &mut Store, name: &str, file: &str, proof: &Path) -> bool {
    match store.reserve(&ask(name, &[file])).expect("a reserve never fails") {
        Outcome::Refused(_) => false,
        Outcome::Granted(_) => {
            File::create_new(proof).expect("nobody else holds the lock");
            fs::remove_file(proof).expect("nobody else removes the proof");
            store.release(&agent(name), &Which::All).expect("a release never fails");
            true
        }
    }
}
