//! The tables, as numbered migrations.
//!
//! A migration never changes once released; a new one is added behind it. All that are missing run in one
//! transaction together with the version number, so a store has either its old schema or the new one.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{Result, StoreError};

/// Marks a SQLite file as mala's ("mala" in ASCII).
const APPLICATION_ID: i64 = 0x6d61_6c61;

/// Times are milliseconds since 1970, but for those that are said to be steady. Paths are bytes. Kinds: 0 file, 1 pattern, 2 name. Modes: 1 shared, 2 exclusive.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1_locks.sql"),
    include_str!("migrations/2_facts.sql"),
    include_str!("migrations/3_asks.sql"),
    include_str!("migrations/4_messages.sql"),
    include_str!("migrations/5_issues.sql"),
    include_str!("migrations/6_sessions.sql"),
    include_str!("migrations/7_attempts.sql"),
    include_str!("migrations/8_landing.sql"),
    include_str!("migrations/9_changes.sql"),
    include_str!("migrations/10_audits.sql"),
    include_str!("migrations/11_chains.sql"),
    include_str!("migrations/12_issue_waits.sql"),
    include_str!("migrations/13_steady_time.sql"),
    include_str!("migrations/14_freed_files.sql"),
    include_str!("migrations/15_unpriced.sql"),
];

/// The schema this mala writes.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// What was found where a store should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Current,
    /// Empty, or made by an older mala.
    Older(i64),
}

/// Reads the version, and refuses what this mala must not touch.
pub(crate) fn inspect(conn: &Connection, path: &Path) -> Result<Found> {
    let (version, application, is_empty) = read(conn).map_err(|error| StoreError::from_sql(path, error))?;
    let is_fresh = application == 0 && version == 0 && is_empty;
    if application != APPLICATION_ID && !is_fresh {
        return Err(StoreError::Foreign { path: path.to_path_buf() });
    }
    if version > VERSION {
        return Err(StoreError::Newer { path: path.to_path_buf(), found: version, known: VERSION });
    }
    Ok(if version == VERSION { Found::Current } else { Found::Older(version) })
}

/// Version, application and whether there is anything at all: in one snapshot, because another process may be making
/// the store at this moment. The tables are looked at only where nothing else tells whose file it is.
fn read(conn: &Connection) -> rusqlite::Result<(i64, i64, bool)> {
    let snapshot = conn.unchecked_transaction()?;
    let number = |sql: &str| snapshot.query_row(sql, [], |row| row.get::<_, i64>(0));
    let (version, application) = (number("PRAGMA user_version")?, number("PRAGMA application_id")?);
    let is_unmarked = version == 0 && application == 0;
    let is_empty = is_unmarked && number("SELECT count(*) FROM sqlite_schema")? == 0;
    Ok((version, application, is_empty))
}

/// Brings the store up to date. The caller holds the write turn, so nobody else does the same.
pub(crate) fn migrate(conn: &mut Connection, path: &Path) -> Result<()> {
    // Another process may have been faster while this one waited for its turn.
    let Found::Older(version) = inspect(conn, path)? else { return Ok(()) };
    let run = |conn: &mut Connection| {
        conn.pragma_update(None, "journal_mode", "WAL")?;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for migration in &MIGRATIONS[usize::try_from(version).unwrap_or(0)..] {
            tx.execute_batch(migration)?;
        }
        stamp(&tx)?;
        tx.commit()
    };
    run(conn).map_err(|error| StoreError::from_sql(path, error))
}

fn stamp(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything about the tables, with the version.
    fn dump(conn: &Connection) -> Vec<String> {
        let sql = "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema
             UNION ALL SELECT 'version ' || user_version FROM pragma_user_version
             UNION ALL SELECT 'application ' || application_id FROM pragma_application_id ORDER BY 1";
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(|line| line.unwrap()).collect()
    }

    /// A store as a mala that knew so many migrations has left it.
    fn at_version(path: &Path, version: usize) -> Connection {
        let conn = Connection::open(path).unwrap();
        for migration in &MIGRATIONS[..version] {
            conn.execute_batch(migration).unwrap();
            conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        }
        conn.pragma_update(None, "user_version", i64::try_from(version).unwrap()).unwrap();
        conn
    }

    fn current() -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let mut conn = Connection::open(dir.path().join("new")).unwrap();
        migrate(&mut conn, dir.path()).unwrap();
        dump(&conn)
    }

    #[test]
    fn every_old_version_migrated_twice_is_like_a_new_store() {
        for version in 0..=MIGRATIONS.len() {
            let dir = tempfile::tempdir().unwrap();
            let mut conn = at_version(&dir.path().join("old"), version);
            for _ in 0..2 {
                migrate(&mut conn, dir.path()).unwrap();
                assert_eq!(dump(&conn), current(), "from version {version}");
                assert_eq!(inspect(&conn, dir.path()).unwrap(), Found::Current);
            }
        }
    }

    #[test]
    fn events_of_locks_that_are_held_learn_what_their_path_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut conn = at_version(&dir.path().join("old"), 1);
        let fill = "INSERT INTO scope VALUES (1, x'2f');
             INSERT INTO process VALUES (1, 1, 1, 'b', 'h');
             INSERT INTO lock VALUES (1, 1, CAST('src/**' AS BLOB), 'ann', 'held', 2, NULL, NULL, 1, 0, 1, 0, 1, 1, NULL);
             INSERT INTO event VALUES (1, 0, 1, 'lock.acquired', 'ann', NULL, NULL, 'held', CAST('src/**' AS BLOB), '{}'),
                 (2, 0, 1, 'lock.released', 'ann', NULL, NULL, 'gone', CAST('a' AS BLOB), '{}')";
        conn.execute_batch(fill).unwrap();
        migrate(&mut conn, dir.path()).unwrap();
        let mut statement = conn.prepare("SELECT target FROM event ORDER BY seq").unwrap();
        let targets: Vec<Option<i64>> =
            statement.query_map([], |row| row.get(0)).unwrap().map(|target| target.unwrap()).collect();
        assert_eq!(targets, [Some(1), None]);
    }

    /// What migration 7 makes of an attempt of the agent `claude-opus-bd-1-1`, as `state|question|interruption|verdict`.
    fn migrated_attempt(state: u8, verdict: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let mut conn = at_version(&dir.path().join("old"), 6);
        let fill = "INSERT INTO scope VALUES (1, x'2f');
             INSERT INTO process VALUES (1, 1, 1, 'b', 'h');
             INSERT INTO run VALUES ('r', 1, 1, 0, NULL, '{}')";
        conn.execute_batch(fill).unwrap();
        let sql = "INSERT INTO attempt VALUES (1, 1, 'r', 'bd-1', 'claude-opus-bd-1-1', 1, ?1, 0, 0, 0, 's', NULL, NULL, ?2, 0, 0, 1)";
        conn.execute(sql, rusqlite::params![state, verdict]).unwrap();
        migrate(&mut conn, dir.path()).unwrap();
        let sql = "SELECT concat_ws('|', state, coalesce(question, '-'), coalesce(interruption, '-'), coalesce(verdict, '-'))
             FROM attempt WHERE profile = 'claude-opus' AND session = 's' AND tracked = 1";
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn what_was_in_the_verdict_of_an_attempt_becomes_columns() {
        let states = ["ready", "claimed", "running", "gating", "retrying", "done", "handed_over"];
        for (number, state) in (0..).zip(states) {
            assert_eq!(migrated_attempt(number, "damaged"), format!("{state}|-|-|damaged"));
        }
        for (number, verdict, expected) in [
            (4, r#"{"question":"red?"}"#, "needs_input|red?|-|-"),
            (4, r#"{"question":null}"#, "retrying|-|-|-"),
            (2, r#"{"question":"red?"}"#, "running|-|-|-"),
            (2, r#"{"interrupted":"stopped"}"#, "running|-|stopped|-"),
            (6, r#"{"accepted":false,"interrupted":"killed"}"#, r#"handed_over|-|killed|{"accepted":false}"#),
            (6, r#"{"interrupted":"otherwise"}"#, "handed_over|-|killed|-"),
        ] {
            assert_eq!(migrated_attempt(number, verdict), expected);
        }
    }

    #[test]
    fn a_migration_cut_off_anywhere_leaves_the_old_version() {
        for version in 0..MIGRATIONS.len() {
            let statements: Vec<&str> =
                MIGRATIONS[version..].iter().flat_map(|m| m.split_inclusive(';')).collect();
            for done in 1..statements.len() {
                let dir = tempfile::tempdir().unwrap();
                let mut conn = at_version(&dir.path().join("old"), version);
                let before = dump(&conn);
                let tx = conn.transaction().unwrap();
                tx.execute_batch(&statements[..done].concat()).unwrap();
                drop(tx);
                assert_eq!(dump(&conn), before, "from version {version}, after {done} statements");
                migrate(&mut conn, dir.path()).unwrap();
                assert_eq!(dump(&conn), current());
            }
        }
    }
}
