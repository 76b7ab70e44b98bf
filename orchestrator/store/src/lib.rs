//! The lock store: the one place that decides who may write a file.
//!
//! # Theory of operation
//!
//! The store is a SQLite database in write-ahead mode, shared by every mala process of a repository. There is no
//! daemon. A process that wants to change something takes the write turn (`turn`: the kernel queues writers), opens
//! one IMMEDIATE transaction (`change`), decides on what it reads there, and commits state and events together.
//! Readers (`view`) see a consistent snapshot and never wait.
//!
//! A stored lock is worth something only while its owner lives (`process`), so a dead owner's locks are free
//! the moment it dies, whether or not anybody has noticed. Who notices first writes the one event about it.
//!
//! Asks (`asks`, `asks::take`) are the other way to a held lock: its holder answers, or it is taken under guard. What an agent
//! should hear about them waits for it (`notices`).
//!
//! Candidates wait in the landing queue (`landing`) for a branch to move to them. The store keeps their order and what is under
//! way; it neither judges nor moves anything itself.
//!
//! Waiters (`waiters`, `wait`, `wake`) sleep in the kernel. Each watches the one obstacle nearest to it and is woken
//! by whoever removes it, or by the end of the process behind it.

mod agent_time;
mod agents;
mod asks;
mod chains;
mod change;
mod error;
mod events;
mod foreign_changes;
mod ids;
mod issue_waits;
mod issues;
mod journal;
mod landing;
mod locks;
mod messages;
mod node;
mod notices;
mod past_holds;
pub mod process;
mod queue_order;
mod request;
mod retention;
mod rows;
mod schema;
mod status;
mod steady;
mod sweep;
mod turn;
mod view;
mod wait;
mod waiters;
mod wake;

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mala_core::ports::{Clock, Liveness, SystemClock};
use mala_core::{Scope, Timestamp, sharing};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

pub use agent_time::AgentTime;
pub use agents::{Agent, Session};
pub use asks::take::{Authority, Changes, Guard};
pub use asks::types::{Answered, AskError, AskFilter, AskRequest};
pub use error::{Result, StoreError, show_circle};
pub use events::{Event, EventFilter, EventKind, TargetKind};
pub use foreign_changes::{EndedHold, FileHistory, ForeignChange, ForeignChangeKind};
pub use issue_waits::{IssueEnd, IssueWait};
pub use issues::types::{Imported, IssueError, IssueFilter, IssueName, IssueNote, NewIssue, Updated};
pub use journal::types::{End, Finish, Finished, JournalError, NewAttempt, Next, Progress, Tracker};
pub use landing::audits::Unaudited;
pub use landing::freed::{FileBase, FileBlob, FreedFile, InTheWay};
pub use landing::types::{EntryChange, EntryFilter, LandingError, LandingRow, NewEntry, NewLanding};
pub use locks::{Released, Renewed};
pub use messages::{BroadcastLimit, Draft, MessageError, Page, PageOf, Sent};
pub use notices::{Notice, Refused};
pub use request::{Cause, Outcome, Party, Refusal, Request, Wait, Which};
pub use retention::PastAttempt;
pub use schema::VERSION as SCHEMA_VERSION;
pub use status::{HEALTH_WINDOW, Health, Mutex, SELF_TEST, Status, TRIES, Waiting};
pub use sweep::{Extent, Leftovers};
pub use view::Standing;

use change::Change;
use error::Fault;
use schema::Found;
use steady::Line;
use turn::TurnFile;
use view::View;

/// How long SQLite itself waits for other programs that look into the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of the write-ahead log that make somebody move it into the database. Short, because a process that opens the
/// store alone reads the whole log first.
const CHECKPOINT_PAGES: i64 = 250;
/// What a page takes in that log.
const FRAME: u64 = 4096 + 24;
/// Page cache, in KiB as SQLite wants it: negative.
const CACHE_KIB: i64 = -32 * 1024;
/// A scope that has no row yet. No row refers to it, so everything looks empty.
const NO_SCOPE: i64 = 0;

/// An open store, seen from one scope.
#[derive(Debug)]
pub struct Store {
    conn: Connection,
    turn: TurnFile,
    has_written: bool,
    path: PathBuf,
    wake_dir: PathBuf,
    scope_root: Vec<u8>,
    clock: Box<dyn Clock + Send>,
    line: Line,
    liveness: Box<dyn Liveness + Send>,
}

impl Store {
    /// Opens the store of this scope, and creates or migrates it if need be. Whoever may only read it gets one in which every
    /// change fails.
    pub fn open(scope: &Scope) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        Self::open_in(&scope.state_dir(), scope.root().as_os_str().as_bytes())
    }

    /// Opens the store in the folder `dir`, for the scope with this root.
    pub fn open_in(dir: &Path, scope_root: &[u8]) -> Result<Self> {
        dir.parent().map_or(Ok(()), sharing::check_user)?;
        fs::create_dir_all(dir).map_err(|error| StoreError::from_io(dir, error))?;
        let path = dir.join("state.db");
        let turn = TurnFile::at(dir.join("turn"));
        let mut conn = connect(&path).map_err(|error| StoreError::from_sql(&path, error))?;
        if schema::inspect(&conn, &path)? != Found::Current {
            let _turn = turn.take()?;
            schema::migrate(&mut conn, &path)?;
            // So that nobody is kept out from the first moment on; what cannot be settled now is at the end of the command.
            let _ = dir.parent().map(sharing::settle);
        }
        Ok(Self {
            conn,
            turn,
            has_written: false,
            path,
            wake_dir: dir.join("wake"),
            scope_root: scope_root.to_vec(),
            clock: Box::new(SystemClock),
            line: Line::default(),
            liveness: Box::new(process::ProcessTable),
        })
    }

    /// The same store with another idea of time.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + Send + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    /// The same store with another idea of who is alive.
    #[must_use]
    pub fn with_liveness(self, liveness: impl Liveness + Send + 'static) -> Self {
        Self { liveness: Box::new(liveness), ..self }
    }

    /// The same store with another idea of how long to wait for its turn to write.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.turn.patience = patience;
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the wall clock shows.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn wake_dir(&self) -> &Path {
        &self.wake_dir
    }

    /// True if this process may not change it.
    pub fn is_read_only(&self) -> bool {
        self.conn.is_readonly("main").unwrap_or(false)
    }

    /// Asks SQLite whether the file is sound.
    pub fn check_integrity(&mut self) -> Result<()> {
        let verdict = self
            .conn
            .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
            .map_err(|error| StoreError::from_sql(&self.path, error))?;
        match verdict.as_str() {
            "ok" => Ok(()),
            _ => Err(StoreError::Damaged { path: self.path.clone(), detail: verdict }),
        }
    }

    /// A number that changes whenever another connection has changed the store.
    pub fn data_version(&mut self) -> Result<i64> {
        // Asked before every write of an agent, so it is prepared once.
        self.conn
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut query| query.query_row([], |row| row.get(0)))
            .map_err(|error| StoreError::from_sql(&self.path, error))
    }

    /// Runs `work` on one consistent snapshot.
    pub(crate) fn read<T>(
        &mut self,
        work: impl FnOnce(&View<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.read_in(None, work)
    }

    /// The same, seen from another scope if one is given.
    pub(crate) fn read_in<T>(
        &mut self,
        scope: Option<i64>,
        work: impl FnOnce(&View<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        let run = || {
            let sql = self.conn.transaction_with_behavior(TransactionBehavior::Deferred)?;
            let scope = match scope {
                Some(scope) => scope,
                None => scope_row(&sql, &self.scope_root)?.unwrap_or(NO_SCOPE),
            };
            let now = self.line.look(&sql, &*self.clock)?;
            work(&View::new(sql, &self.path, scope, now, &*self.liveness))
        };
        run().map_err(|fault: Fault| fault.at(&self.path))
    }

    /// Runs `work` in one write transaction. An error undoes everything it did.
    pub(crate) fn write<T>(
        &mut self,
        work: impl FnOnce(&mut Change<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.try_write(work).map_err(|fault| fault.at(&self.path))
    }

    /// Like [`Store::write`], for callers that treat some faults as answers.
    pub(crate) fn try_write<T>(
        &mut self,
        work: impl FnOnce(&mut Change<'_>) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        let turn = self.turn.take()?;
        if !mem::replace(&mut self.has_written, true) {
            shorten_log(&self.conn, &self.path)?;
        }
        let sql = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let scope = match scope_row(&sql, &self.scope_root)? {
            Some(scope) => scope,
            None => {
                sql.execute("INSERT INTO scope (root) VALUES (?1)", [&self.scope_root])?;
                sql.last_insert_rowid()
            }
        };
        // The time is read with the turn in hand, so events lie in the order of their steady times.
        let now = self.line.now(&sql, &*self.clock)?;
        let view = View::new(sql, &self.path, scope, now, &*self.liveness);
        let mut change = Change::new(view, &self.wake_dir, turn);
        let value = work(&mut change)?;
        change.commit()?;
        Ok(value)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // In write-ahead mode this survives the death of any process; a power cut may undo the last commits, but
    // never damages the file.
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    // Otherwise the last process to leave would have to wait for the disk each time.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Room for the whole lock table of a large run; unused room costs nothing.
    conn.pragma_update(None, "cache_size", CACHE_KIB)?;
    // Plans do not depend on bound values here, and looking at them would plan each statement anew each time.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Empties a log that has become long. SQLite moves it into the database by itself, but only the next change begins it anew: where
/// every process makes one change and leaves, none does, and each would read and move a longer log than the last. Only with
/// the turn to write in hand.
fn shorten_log(conn: &Connection, path: &Path) -> rusqlite::Result<()> {
    let log = path.with_extension("db-wal");
    if !fs::metadata(log).is_ok_and(|log| log.len() > CHECKPOINT_PAGES.unsigned_abs() * FRAME) {
        return Ok(());
    }
    conn.busy_timeout(Duration::ZERO)?;
    // It stays for the next one if somebody reads it just now, or if the disk is full.
    let _stays = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_outcome| Ok(()));
    conn.busy_timeout(BUSY_TIMEOUT)
}

fn scope_row(sql: &Connection, root: &[u8]) -> rusqlite::Result<Option<i64>> {
    sql.prepare_cached("SELECT id FROM scope WHERE root = ?1")?.query_row([root], |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store for a scope of its own, which the first write makes known.
    fn comes(dir: &Path, number: u32) -> Store {
        let mut store = Store::open_in(dir, &number.to_be_bytes()).unwrap();
        store.write(|_| Ok(())).unwrap();
        store
    }

    fn log_pages(dir: &Path) -> u64 {
        fs::metadata(dir.join("state.db-wal")).unwrap().len() / FRAME
    }

    fn scopes(store: &Store) -> u32 {
        store.conn.query_row("SELECT count(*) FROM scope", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_log_stays_short_however_many_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..500 {
            drop(comes(dir.path(), number));
            assert!(log_pages(dir.path()) < 300, "after {number}");
        }
        assert_eq!(scopes(&comes(dir.path(), 500)), 501);
    }

    #[test]
    fn a_reader_keeps_the_log_and_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let reader = comes(dir.path(), 0);
        reader.conn.execute_batch("BEGIN").unwrap();
        assert_eq!(scopes(&reader), 1);
        for number in 1..300 {
            drop(comes(dir.path(), number));
        }
        assert!(log_pages(dir.path()) > 300, "it is still read");
        assert_eq!(scopes(&reader), 1);
        reader.conn.execute_batch("COMMIT").unwrap();
        assert_eq!(scopes(&reader), 300);
        drop(comes(dir.path(), 300));
        assert!(log_pages(dir.path()) < 300);
    }
}
