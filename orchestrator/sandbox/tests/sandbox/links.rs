//! Names of one file that come to need a lock, or no longer do, while a program runs.

use crate::world::{Mode, User, World};

/// Both ways to get a name that needs no lock for a file that does. Before each, a look for links: what was seen
/// then is not true any more.
const WAYS: [(&str, &str); 2] = [
    ("a name that moves in", "ln ignored/a ignored/b; echo look >> ignored/b; mv ignored/a lent.txt"),
    (
        "a name that moves out",
        "ln ignored/a ignored/b; echo look >> ignored/b; echo new > lent.txt; ln lent.txt x; rm ignored/b; mv x ignored/b",
    ),
];

#[test]
fn a_name_that_needs_no_lock_is_no_way_to_a_file_that_does() {
    for (way, moves) in WAYS {
        let world = World::new(User::Myself);
        let script = format!(
            "echo a > ignored/a; {moves}; echo own >> ignored/b; touch ignored/over; echo sneaky >> ignored/b"
        );
        let outcome = world.sh(Mode::Sandboxed, &script);
        let lent = world.read("lent.txt");
        assert!(lent.contains("own") && !lent.contains("sneaky"), "{way}: {lent:?}, {outcome:?}");
        assert_eq!(world.read("ignored/b"), lent, "{way}: both are one file");
    }
}
