//! Opening: a store is made once, brought up to date completely, and never mistaken for something else.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mala_store::{SCHEMA_VERSION, Store, StoreError};
use mala_tests::{Program, Terse, World};
use rusqlite::Connection;

use crate::programs::OPEN_STORES;

/// Everything about the tables of a store.
fn schema(dir: &Path) -> Vec<String> {
    let sql = Connection::open(dir.join("state.db")).unwrap();
    let mut statement = sql
        .prepare("SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1")
        .unwrap();
    let mut lines: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for pragma in ["user_version", "application_id", "journal_mode"] {
        let value = sql.pragma_query_value(None, pragma, |row| {
            Ok(row.get::<_, i64>(0).map_or_else(|_| row.get::<_, String>(0), |number| Ok(number.to_string())))
        });
        lines.push(format!("{pragma} {}", value.unwrap().unwrap()));
    }
    lines
}

fn fresh_schema() -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    Store::open_in(dir.path(), b"/scope").unwrap();
    schema(dir.path())
}

#[test]
fn opening_twice_changes_nothing() {
    let world = World::new();
    world.store().take("ann", &["a"]);
    let before = schema(&world.state_dir());
    assert_eq!(before, fresh_schema());
    assert_eq!(world.store().held(), ["ann: a"]);
    assert_eq!(schema(&world.state_dir()), before);
}

#[test]
fn a_process_killed_while_it_makes_a_store_leaves_one_that_opens() {
    let expected = fresh_schema();
    for round in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let mut maker = Program::start(std::process::Command::new(OPEN_STORES).arg(dir.path()));
        mala_tests::eventually("it has begun", || dir.path().join("0").exists());
        std::thread::sleep(Duration::from_micros(fastrand::u64(..20_000)));
        maker.kill();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let dir = entry.unwrap().path();
            let mut store = Store::open_in(&dir, b"/scope").unwrap();
            store.check_integrity().unwrap();
            assert_eq!(schema(&dir), expected, "round {round}");
            store.take("ann", &["a"]);
        }
    }
}

/// A folder with `state.db` as `make` leaves it.
fn folder(make: impl FnOnce(&Path)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("state.db"));
    dir
}

fn assert_untouched(dir: &Path, is_right: impl Fn(&StoreError) -> bool) {
    let before = fs::read(dir.join("state.db")).unwrap();
    for _ in 0..2 {
        let error = Store::open_in(dir, b"/scope").unwrap_err();
        assert!(is_right(&error), "{error:?}");
        assert_eq!(fs::read(dir.join("state.db")).unwrap(), before);
    }
}

#[test]
fn a_store_of_a_newer_mala_is_refused_in_words_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    Store::open_in(dir.path(), b"/scope").unwrap();
    let sql = Connection::open(dir.path().join("state.db")).unwrap();
    sql.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(sql);
    assert_untouched(dir.path(), |error| {
        let words =
            format!("made by a newer mala (schema {}, this mala knows {SCHEMA_VERSION})", SCHEMA_VERSION + 1);
        matches!(error, StoreError::Newer { .. }) && error.to_string().contains(&words)
    });
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    for version in [0, SCHEMA_VERSION, SCHEMA_VERSION + 1] {
        for application in [0, 42] {
            let dir = folder(|path| {
                let sql = Connection::open(path).unwrap();
                sql.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
                sql.pragma_update(None, "user_version", version).unwrap();
                sql.pragma_update(None, "application_id", application).unwrap();
            });
            assert_untouched(dir.path(), |error| matches!(error, StoreError::Foreign { .. }));
        }
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    for text in ["hello, this is a text file\n", &"x".repeat(100_000), "SQLite format 3\0 or so it says"] {
        let dir = folder(|path| fs::write(path, text).unwrap());
        assert_untouched(dir.path(), |error| matches!(error, StoreError::Damaged { .. }));
    }
}

#[test]
fn a_store_cut_in_half_is_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    Store::open_in(dir.path(), b"/scope").unwrap();
    let path = dir.path().join("state.db");
    let sql = Connection::open(&path).unwrap();
    sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(sql);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let opened = Store::open_in(dir.path(), b"/scope").and_then(|mut store| store.check_integrity());
    assert!(matches!(opened, Err(StoreError::Damaged { .. })), "{opened:?}");
}

#[test]
fn an_empty_file_becomes_a_store() {
    let dir = folder(|path| fs::write(path, "").unwrap());
    Store::open_in(dir.path(), b"/scope").unwrap().take("ann", &["a"]);
    assert_eq!(schema(dir.path()), fresh_schema());
}
