//! The tables, as numbered migrations.
//!
//! A migration never changes once released; a new one is added behind it. All that are missing run in one
//! transaction together with the version number, so a store has either its old schema or the new one.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{Result, StoreError};

/// Marks a SQLite file as mala's ("mala" in ASCII).
const APPLICATION_ID: i64 = 0x6d61_6c61;

/// Times are milliseconds since 1970. Paths are bytes. Kinds: 0 file, 1 pattern, 2 name. Modes: 1 shared, 2 exclusive.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE scope (
        id   INTEGER PRIMARY KEY,
        root BLOB NOT NULL UNIQUE
    ) STRICT;

    CREATE TABLE process (
        id         INTEGER PRIMARY KEY,
        pid        INTEGER NOT NULL,
        start_time INTEGER NOT NULL,
        boot_id    TEXT NOT NULL,
        host       TEXT NOT NULL,
        UNIQUE (pid, start_time, boot_id, host)
    ) STRICT;

    CREATE TABLE agent (
        scope      INTEGER NOT NULL REFERENCES scope,
        name       TEXT NOT NULL,
        root       INTEGER NOT NULL REFERENCES process,
        profile    TEXT,
        issue      TEXT,
        run        TEXT,
        supervised INTEGER NOT NULL,
        since      INTEGER NOT NULL,
        PRIMARY KEY (scope, name)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE lock (
        scope       INTEGER NOT NULL REFERENCES scope,
        kind        INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
        path        BLOB NOT NULL,
        agent       TEXT NOT NULL,
        id          TEXT NOT NULL UNIQUE,
        mode        INTEGER NOT NULL CHECK (mode IN (1, 2)),
        issue       TEXT,
        run         TEXT,
        owner       INTEGER NOT NULL REFERENCES process,
        supervised  INTEGER NOT NULL,
        fence       INTEGER NOT NULL,
        acquired_at INTEGER NOT NULL,
        ttl_ms      INTEGER NOT NULL CHECK (ttl_ms > 0),
        expires_at  INTEGER NOT NULL,
        reason      TEXT,
        PRIMARY KEY (scope, kind, path, agent)
    ) STRICT, WITHOUT ROWID;

    -- Other names of hard-linked files that are held.
    CREATE TABLE alias (
        scope INTEGER NOT NULL,
        path  BLOB NOT NULL,
        lock  TEXT NOT NULL,
        PRIMARY KEY (scope, path, lock)
    ) STRICT, WITHOUT ROWID;

    -- The queue: `seq` is the order of arrival. A granted waiter stays until it has learned of its luck.
    CREATE TABLE waiter (
        seq        INTEGER PRIMARY KEY,
        id         TEXT NOT NULL UNIQUE,
        scope      INTEGER NOT NULL REFERENCES scope,
        agent      TEXT NOT NULL,
        issue      TEXT,
        run        TEXT,
        owner      INTEGER NOT NULL REFERENCES process,
        supervised INTEGER NOT NULL,
        waiting    INTEGER NOT NULL REFERENCES process,
        since      INTEGER NOT NULL,
        deadline   INTEGER NOT NULL,
        ttl_ms     INTEGER NOT NULL CHECK (ttl_ms > 0),
        reason     TEXT,
        watches    TEXT,
        granted_at INTEGER
    ) STRICT;

    CREATE TABLE wanted (
        waiter   INTEGER NOT NULL REFERENCES waiter,
        kind     INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
        path     BLOB NOT NULL,
        mode     INTEGER NOT NULL CHECK (mode IN (1, 2)),
        alias_of BLOB,
        PRIMARY KEY (waiter, kind, path)
    ) STRICT, WITHOUT ROWID;

    -- The newest row is never deleted, so `seq` only grows; a lock's fence is the `seq` of its event.
    CREATE TABLE event (
        seq    INTEGER PRIMARY KEY,
        at     INTEGER NOT NULL,
        scope  INTEGER NOT NULL REFERENCES scope,
        kind   TEXT NOT NULL,
        agent  TEXT,
        issue  TEXT,
        run    TEXT,
        lock   TEXT,
        path   BLOB,
        detail TEXT NOT NULL
    ) STRICT;
"];

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
/// the store at this moment.
fn read(conn: &Connection) -> rusqlite::Result<(i64, i64, bool)> {
    let snapshot = conn.unchecked_transaction()?;
    let number = |sql: &str| snapshot.query_row(sql, [], |row| row.get::<_, i64>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    Ok((number("PRAGMA user_version")?, number("PRAGMA application_id")?, tables == 0))
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
