//! `open-stores FOLDER` makes new stores in FOLDER/0, FOLDER/1 and so on until it is killed.

use std::path::Path;

use mala_store::Store;

fn main() {
    let folder = std::env::args_os().nth(1).expect("the argument is a folder");
    for number in 0.. {
        let dir = Path::new(&folder).join(number.to_string());
        Store::open_in(&dir, b"/scope").expect("a new store opens");
    }
}
