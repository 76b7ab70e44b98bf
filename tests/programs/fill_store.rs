//! `fill-store FOLDER` reserves files until the disk that FOLDER lies on is full, then makes room and looks at what is
//! left. It says `error ...` and then `sound N`, with the number of locks that were granted.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use mala_store::{Outcome, Store, StoreError};
use mala_tests::ask;

/// What is kept free to be given back later.
const BALLAST: usize = 128 * 1024;

fn main() {
    let folder = std::env::args_os().nth(1).expect("the argument is a folder");
    let (dir, ballast) = (Path::new(&folder).join("store"), Path::new(&folder).join("ballast"));
    fs::write(&ballast, vec![0; BALLAST]).expect("the disk has room for the ballast");
    let mut store = Store::open_in(&dir, b"/scope").expect("the disk has room for a store");
    let mut granted = BTreeSet::new();
    let error = loop {
        let file = format!("{:050}", granted.len());
        match store.reserve(&ask("ann", &[&file])) {
            Ok(Outcome::Granted(_)) => granted.insert(file),
            Ok(Outcome::Refused(refusal)) => panic!("nobody else is here: {refusal:?}"),
            Err(error) => break error,
        };
    };
    say(&format!("error {error:?}: {error}"));
    assert_eq!(listed(&mut store).expect("a full store can be read"), granted);
    drop(store);
    let again =
        Store::open_in(&dir, b"/scope").and_then(|mut store| store.reserve(&ask("ann", &["one more"])));
    say(&format!("again {:?}", again.expect_err("the disk is still full")));

    fs::remove_file(&ballast).expect("the ballast can be removed");
    let mut store = Store::open_in(&dir, b"/scope").expect("the store opens again");
    store.check_integrity().expect("the store is sound");
    assert_eq!(listed(&mut store).expect("the store can be read"), granted);
    let after = store.reserve(&ask("ann", &["one more"])).expect("there is room again");
    assert!(matches!(after, Outcome::Granted(_)));
    say(&format!("sound {}", granted.len()));
}

fn listed(store: &mut Store) -> Result<BTreeSet<String>, StoreError> {
    Ok(store.locks()?.iter().map(|lock| lock.target.to_string()).collect())
}

fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("the test listens");
}
