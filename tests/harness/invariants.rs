//! What must be true of a store at any moment, whoever was killed when.

use std::collections::BTreeMap;

use mala_store::Store;
use rusqlite::{Connection, Transaction};
use serde_json::Value;

use crate::{ONLY_THE_DEAD, World};

/// Checks everything that holds even while others write.
pub fn assert_sound(world: &World) {
    assert_nobody_excludes_another(&mut world.store());
    assert_consistent(world);
}

/// Checks that all tables tell the same story.
pub fn assert_consistent(world: &World) {
    let mut sql = world.sql();
    sql.busy_timeout(crate::DEADLINE).expect("a connection has a timeout");
    let snapshot = sql.transaction().expect("a snapshot can be read");
    let verdict: String =
        snapshot.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("integrity can be checked");
    assert_eq!(verdict, "ok");
    assert_eq!(replay(&snapshot), stored(&snapshot), "the events tell another story than the lock table");
    for (orphans, sql) in [
        ("aliases without a lock", "SELECT count(*) FROM alias WHERE lock NOT IN (SELECT id FROM lock)"),
        (
            "wants without a waiter",
            "SELECT count(*) FROM wanted WHERE waiter NOT IN (SELECT seq FROM waiter)",
        ),
        ("waiters without wants", "SELECT count(*) FROM waiter WHERE seq NOT IN (SELECT waiter FROM wanted)"),
        ("rows without their parent", "SELECT count(*) FROM pragma_foreign_key_check"),
    ] {
        let count: i64 = snapshot.query_row(sql, [], |row| row.get(0)).expect("rows can be counted");
        assert_eq!(count, 0, "{orphans}");
    }
}

/// The one rule that all of mala rests on.
pub fn assert_nobody_excludes_another(store: &mut Store) {
    let locks = store.locks().expect("locks can be listed");
    for (place, one) in locks.iter().enumerate() {
        for other in &locks[place + 1..] {
            assert!(!one.claim().excludes(&other.claim()), "both are held:\n{one:?}\n{other:?}");
        }
    }
}

/// Sweeps after everybody was killed; nothing may be left.
pub fn assert_one_sweep_leaves_nothing(world: &World) {
    world.store().sweep(ONLY_THE_DEAD).expect("a sweep works");
    assert_sound(world);
    for table in ["lock", "alias", "waiter", "wanted"] {
        assert_eq!(world.count(table), 0, "rows are left in `{table}`");
    }
    assert_eq!(world.wake_files(), Vec::<std::path::PathBuf>::new());
}

/// One lock as the table has it, or as the events tell it.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    scope: i64,
    path: Vec<u8>,
    agent: String,
    mode: &'static str,
    fence: i64,
}

fn stored(sql: &Transaction<'_>) -> BTreeMap<String, Row> {
    let mut statement = prepare(sql, "SELECT id, scope, path, agent, mode, fence FROM lock");
    let rows = statement.query_map([], |row| {
        let mode = if row.get::<_, i64>(4)? == 1 { "shared" } else { "exclusive" };
        let lock =
            Row { scope: row.get(1)?, path: row.get(2)?, agent: row.get(3)?, mode, fence: row.get(5)? };
        Ok((row.get(0)?, lock))
    });
    rows.expect("locks can be read").collect::<Result<_, _>>().expect("locks can be decoded")
}

/// The locks that the event log says are there.
fn replay(sql: &Transaction<'_>) -> BTreeMap<String, Row> {
    let mut locks = BTreeMap::new();
    let mut statement = prepare(
        sql,
        "SELECT seq, scope, kind, agent, lock, path, detail FROM event WHERE lock IS NOT NULL ORDER BY seq",
    );
    let mut rows = statement.query([]).expect("events can be read");
    while let Some(row) = rows.next().expect("events can be read") {
        let (fence, kind, id): (i64, String, String) = (get(row, 0), get(row, 2), get(row, 4));
        let detail: Value = serde_json::from_str(&get::<String>(row, 6)).expect("details are JSON");
        let agent: String = get(row, 3);
        match kind.as_str() {
            "lock.acquired" => {
                let mode = if detail["mode"] == "shared" { "shared" } else { "exclusive" };
                let lock = Row { scope: get(row, 1), path: get(row, 5), agent, mode, fence };
                assert!(locks.insert(id.clone(), lock).is_none(), "`{id}` was acquired twice");
            }
            "lock.renewed" => assert!(locks.contains_key(&id), "`{id}` was renewed but not held"),
            "lock.upgraded" => {
                let lock = locks.get_mut(&id).expect("an upgraded lock is held");
                (lock.mode, lock.fence) = ("exclusive", fence);
            }
            "lock.transferred" => {
                let lock = locks.get_mut(&id).expect("a transferred lock is held");
                assert_eq!(detail["from"], lock.agent, "`{id}` was handed over by somebody else");
                (lock.agent, lock.fence) = (agent, fence);
            }
            ask if ask.starts_with("ask.") => {}
            "lock.released" | "lock.expired" | "lock.orphaned" | "lock.taken" => {
                assert!(locks.remove(&id).is_some(), "`{id}` ended twice: {kind} is event {fence}");
            }
            other => panic!("an event about a lock that this replay does not know: {other}"),
        }
    }
    locks
}

fn prepare<'a>(sql: &'a Connection, text: &str) -> rusqlite::Statement<'a> {
    sql.prepare(text).expect("the tables are there")
}

fn get<T: rusqlite::types::FromSql>(row: &rusqlite::Row<'_>, column: usize) -> T {
    row.get(column).expect("the column has this type")
}
