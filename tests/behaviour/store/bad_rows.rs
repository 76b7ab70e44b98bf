//! Rows that make no sense end the operation that meets them.

use mala_store::{Store, StoreError, Which};
use mala_tests::{ONLY_THE_DEAD, Terse, World, agent, ask, party, wants};

/// Changes that no mala would make.
const DAMAGE: &[(&str, &str)] = &[
    ("an agent without a name", "UPDATE lock SET agent = '' WHERE path = x'62'"),
    ("a mode that does not exist", "UPDATE lock SET mode = 7 WHERE path = x'62'"),
    ("an issue on two lines", "UPDATE lock SET issue = 'a' || char(10) || 'b' WHERE path = x'62'"),
    ("a negative lease", "UPDATE lock SET ttl_ms = -1 WHERE path = x'62'"),
    ("a half-written pattern", "UPDATE lock SET kind = 1, path = CAST('[a' AS BLOB) WHERE path = x'62'"),
    ("a pid that is none", "UPDATE process SET pid = -5"),
    ("an owner that is missing", "UPDATE lock SET owner = 999 WHERE path = x'62'"),
];

/// A store where ann holds `a`, `b` and `c`, and `b` is damaged.
fn damaged(damage: &str) -> (World, Store) {
    let world = World::new();
    let mut store = world.store();
    store.register(&party("bob")).unwrap();
    store.take("ann", &["a", "b", "c"]);
    let sql = world.sql();
    sql.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;").unwrap();
    sql.execute_batch(damage).unwrap();
    (world, store)
}

/// Every lock row as it is stored.
fn rows(world: &World) -> Vec<(Vec<u8>, String, i64, i64)> {
    let sql = world.sql();
    let mut statement = sql.prepare("SELECT path, agent, owner, fence FROM lock ORDER BY path").unwrap();
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn assert_bad_row<T: std::fmt::Debug>(result: &Result<T, StoreError>, note: &str) {
    assert!(matches!(result, Err(StoreError::BadRow { .. })), "{note}: {result:?}");
}

#[test]
fn a_bad_row_stops_listing_taking_and_handing_over_and_nothing_moves() {
    for (note, damage) in DAMAGE {
        let (world, mut store) = damaged(damage);
        let before = (rows(&world), world.count("event"));
        assert_bad_row(&store.locks(), note);
        assert_bad_row(&store.status(), note);
        assert_bad_row(&store.reserve(&ask("cleo", &["x", "pattern:**"])), note);
        assert_bad_row(&store.check(&agent("bob"), &wants(&["pattern:**"])), note);
        assert_bad_row(&store.sweep(ONLY_THE_DEAD), note);
        // An agent whose name was lost has one lock fewer, which is no contradiction.
        if !note.contains("without a name") {
            assert_bad_row(&store.transfer(&agent("ann"), &agent("bob"), &Which::All), note);
            assert_bad_row(&store.release(&agent("ann"), &Which::All), note);
            assert_bad_row(&store.renew(&agent("ann"), &Which::All, None), note);
        }
        assert_eq!((rows(&world), world.count("event")), before, "{note}");
    }
}

#[test]
fn a_bad_row_says_what_is_wrong_with_it() {
    let (_world, mut store) = damaged("UPDATE lock SET mode = 7 WHERE path = x'62'");
    let message = store.locks().unwrap_err().to_string();
    assert!(message.contains("makes no sense") && message.contains("`7` is no lock mode"), "{message}");
    let (_world, mut store) = damaged("UPDATE lock SET kind = 9 WHERE path = x'62'");
    let message = store.locks().unwrap_err().to_string();
    assert!(message.contains("`9` is no kind of lock"), "{message}");
}

#[test]
fn a_bad_waiter_stops_whoever_serves_the_queue() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let _waiter = mala_tests::Waiter::queue(&world, "bob", &["a"]);
    let sql = world.sql();
    sql.execute_batch("PRAGMA ignore_check_constraints = ON; UPDATE wanted SET mode = 5").unwrap();
    assert_bad_row(&store.release(&agent("ann"), &Which::All), "release");
    assert_eq!(store.held(), ["ann: a"]);
    sql.execute_batch("UPDATE wanted SET mode = 2").unwrap();
    store.give_back("ann", &["a"]);
}
