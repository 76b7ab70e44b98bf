//! Entries and landings as rows.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use mala_core::{
    AgentId, AttemptId, Entry, EntryId, EntryState, IssueId, Key, Life, Oid, RunId, SteadyTime, Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};

use crate::change::Change;
use crate::error::Fault;
use crate::landing::types::{EntryFilter, LandingError, LandingRow, NewLanding};
use crate::rows;
use crate::view::View;

/// The states of an entry that is not over, written as in the indexes.
pub(crate) const OPEN_STATES: &str = "('waiting', 'validating', 'green', 'landing', 'held')";

const ENTRY_COLUMNS: &str =
    "e.id, e.branch, e.base, e.head, e.pin, e.issue, e.agent, e.run, e.attempt, e.priority,
     e.state, e.reason, e.arrived_at, e.since, e.rejections, e.kills, e.landed, e.is_ready, e.overtaken, e.frees_files";

impl View<'_> {
    /// Entries that the condition names, in the order in which they are served.
    pub(super) fn entries_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Entry>, Fault> {
        let sql = format!("SELECT {ENTRY_COLUMNS} FROM entry e WHERE {condition} ORDER BY e.priority, e.id");
        let mut statement = self.sql.prepare_cached(&sql)?;
        Ok(statement.query_map(params, entry)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn entries(&self, filter: &EntryFilter) -> Result<Vec<Entry>, Fault> {
        let open = if filter.open { format!("e.state IN {OPEN_STATES}") } else { "TRUE".to_owned() };
        let condition = format!(
            "{open} AND (?1 IS NULL OR e.branch = ?1) AND (?2 IS NULL OR e.attempt = ?2)
             AND (?3 IS NULL OR e.issue = ?3)"
        );
        let EntryFilter { branch, attempt, issue, open: _ } = filter;
        let params = params![branch, attempt.map(|id| id.0), issue.as_ref().map(IssueId::as_str)];
        self.entries_where(&condition, params)
    }

    pub(super) fn last_verdicts(&self, branch: &str, most: usize) -> Result<Vec<EntryState>, Fault> {
        let sql = "SELECT state FROM entry WHERE branch = ?1 AND state IN ('landed', 'red')
             ORDER BY stepped DESC, id DESC LIMIT ?2";
        let mut statement = self.sql.prepare_cached(sql)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let states = statement.query_map(params![branch, most], |row| state(row, 0))?;
        Ok(states.collect::<Result<_, _>>()?)
    }

    pub(super) fn offer_times(&self, branch: &str, most: usize) -> Result<Vec<Duration>, Fault> {
        let sql = "SELECT min(e.arrived_at) - a.started_at FROM entry e JOIN attempt a ON a.id = e.attempt
             WHERE e.branch = ?1 GROUP BY a.id ORDER BY a.id DESC LIMIT ?2";
        let mut statement = self.sql.prepare_cached(sql)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let times = statement.query_map(params![branch, most], |row| row.get::<_, i64>(0))?;
        let times = times.collect::<Result<Vec<_>, _>>()?.into_iter();
        // A clock may have been set back meanwhile.
        Ok(times.filter_map(|time| u64::try_from(time).ok()).map(Duration::from_millis).collect())
    }

    pub(super) fn entry_by_id(&self, id: EntryId) -> Result<Option<Entry>, Fault> {
        Ok(self.entries_where("e.id = ?1", [id.0])?.pop())
    }

    pub(super) fn must_find_entry(&self, id: EntryId) -> Result<Entry, Fault> {
        self.entry_by_id(id)?.ok_or_else(|| LandingError::UnknownEntry { id }.into())
    }

    /// The entry of this attempt that is not over.
    pub(super) fn open_entry_of(&self, attempt: AttemptId) -> Result<Option<Entry>, Fault> {
        let condition = format!("e.attempt = ?1 AND e.state IN {OPEN_STATES}");
        Ok(self.entries_where(&condition, [attempt.0])?.pop())
    }

    /// An entry for this issue that is not over.
    pub(crate) fn open_entry_for(&self, issue: &IssueId) -> Result<Option<Entry>, Fault> {
        let condition = format!("e.issue = ?1 AND e.state IN {OPEN_STATES}");
        Ok(self.entries_where(&condition, [issue.as_str()])?.pop())
    }

    /// The scope that an entry was offered in.
    pub(super) fn scope_of_entry(&self, id: EntryId) -> Result<i64, Fault> {
        let mut statement = self.sql.prepare_cached("SELECT scope FROM entry WHERE id = ?1")?;
        Ok(statement.query_row([id.0], |row| row.get(0))?)
    }

    /// When the oldest work began that is in the queue.
    pub(crate) fn queued_since(&self) -> Result<Option<Timestamp>, Fault> {
        let sql = format!(
            "SELECT min(at) FROM (
                 SELECT arrived_at AS at FROM entry WHERE state IN {OPEN_STATES}
                 UNION ALL SELECT a.started_at FROM attempt a JOIN entry e ON e.attempt = a.id WHERE e.state IN {OPEN_STATES}
                 UNION ALL SELECT started_at FROM attempt WHERE ended_at IS NULL AND state = 'offered')"
        );
        let oldest = self.sql.prepare_cached(&sql)?.query_row([], |row| row.get::<_, Option<i64>>(0))?;
        Ok(oldest.map(Timestamp::from_millis))
    }

    pub(super) fn landing(&self, branch: &str) -> Result<Option<LandingRow>, Fault> {
        Ok(self.landings_where("l.branch = ?1", [branch])?.pop())
    }

    pub(super) fn landings_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<LandingRow>, Fault> {
        let sql = format!(
            "SELECT l.branch, l.from_commit, l.to_commit, l.directory, s.root, l.started_at,
                 p.host, p.boot_id, p.pid, p.start_time, p.node
             FROM landing l JOIN scope s ON s.id = l.scope LEFT JOIN process p ON p.id = l.owner
             WHERE {condition} ORDER BY l.branch"
        );
        let mut statement = self.sql.prepare_cached(&sql)?;
        let mut landings: Vec<LandingRow> =
            statement.query_map(params, landing)?.collect::<Result<_, _>>()?;
        for landing in &mut landings {
            landing.life = self.life(&landing.owner);
            landing.entries = self.entries_of_landing(&landing.branch)?;
        }
        Ok(landings)
    }

    /// For how long the branch has been on the move.
    pub(super) fn landing_took(&self, branch: &str) -> Result<Duration, Fault> {
        let sql = "SELECT coalesce(started_steady, started_at) FROM landing WHERE branch = ?1";
        let started = self.sql.prepare_cached(sql)?.query_row([branch], |row| row.get(0))?;
        Ok(self.steady.since(SteadyTime::from_millis(started)))
    }

    fn entries_of_landing(&self, branch: &str) -> Result<Vec<(EntryId, Oid)>, Fault> {
        let sql = "SELECT entry, landed_as FROM landing_entry WHERE branch = ?1 ORDER BY position";
        let mut statement = self.sql.prepare_cached(sql)?;
        let entries = statement.query_map([branch], |row| Ok((EntryId(row.get(0)?), oid(row, 1)?)))?;
        Ok(entries.collect::<Result<_, _>>()?)
    }

    pub(super) fn queue_pauses(&self) -> Result<Vec<(String, String, Timestamp)>, Fault> {
        let mut statement =
            self.sql.prepare_cached("SELECT branch, why, since FROM queue_pause ORDER BY branch")?;
        let pauses =
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, rows::timestamp(row, 2)?)))?;
        Ok(pauses.collect::<Result<_, _>>()?)
    }

    pub(super) fn queue_pause(&self, branch: &str) -> Result<Option<(String, Timestamp)>, Fault> {
        let sql = "SELECT why, since FROM queue_pause WHERE branch = ?1";
        let mut statement = self.sql.prepare_cached(sql)?;
        Ok(statement.query_row([branch], |row| Ok((row.get(0)?, rows::timestamp(row, 1)?))).optional()?)
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id: EntryId(row.get(0)?),
        branch: row.get(1)?,
        base: oid(row, 2)?,
        head: oid(row, 3)?,
        pin: row.get(4)?,
        issue: rows::optional_name(row, 5, IssueId::new)?,
        agent: rows::optional_name(row, 6, AgentId::new)?,
        run: rows::optional_name(row, 7, RunId::new)?,
        attempt: row.get::<_, Option<i64>>(8)?.map(AttemptId),
        priority: row.get(9)?,
        state: state(row, 10)?,
        reason: row.get(11)?,
        arrived_at: rows::timestamp(row, 12)?,
        since: rows::timestamp(row, 13)?,
        rejections: row.get(14)?,
        kills: row.get(15)?,
        landed: rows::word(row, 16, Oid::parse)?,
        is_ready: row.get(17)?,
        overtaken: row.get(18)?,
        frees_files: row.get(19)?,
    })
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<EntryState> {
    rows::word(row, column, EntryState::parse)?.map_or_else(|| rows::bad(column, "an entry has no state"), Ok)
}

/// A landing without its entries, by an owner that nobody has judged yet.
fn landing(row: &Row<'_>) -> rusqlite::Result<LandingRow> {
    let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
    Ok(LandingRow {
        branch: row.get(0)?,
        from: oid(row, 1)?,
        to: oid(row, 2)?,
        directory: row.get::<_, Option<Vec<u8>>>(3)?.map(path),
        scope: path(row.get(4)?),
        started_at: rows::timestamp(row, 5)?,
        owner: rows::owner(row, 6)?,
        life: Life::Unknown,
        entries: Vec::new(),
    })
}

pub(super) fn oid(row: &Row<'_>, column: usize) -> rusqlite::Result<Oid> {
    rows::word(row, column, Oid::parse)?.map_or_else(|| rows::bad(column, "an object has no name"), Ok)
}

impl Change<'_> {
    /// Stores an entry that has just arrived. Returns its number.
    pub(super) fn insert_entry(&mut self, entry: &Entry) -> Result<EntryId, Fault> {
        let sql = "INSERT INTO entry (scope, branch, base, head, pin, issue, agent, run, attempt, priority,
                 state, arrived_at, since, rejections, kills, is_ready)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        self.sql.prepare_cached(sql)?.execute(params![
            self.scope,
            entry.branch,
            entry.base.as_str(),
            entry.head.as_str(),
            entry.pin,
            entry.issue.as_ref().map(IssueId::as_str),
            entry.agent.as_ref().map(AgentId::as_str),
            entry.run.as_ref().map(RunId::as_str),
            entry.attempt.map(|id| id.0),
            entry.priority,
            entry.state.as_str(),
            entry.arrived_at.as_millis(),
            entry.since.as_millis(),
            entry.rejections,
            entry.kills,
            entry.is_ready,
        ])?;
        Ok(EntryId(self.sql.last_insert_rowid()))
    }

    /// Stores what may change about an entry.
    pub(super) fn update_entry(&mut self, entry: &Entry) -> Result<(), Fault> {
        let sql =
            "UPDATE entry SET state = ?2, reason = ?3, since = ?4, rejections = ?5, kills = ?6, landed = ?7,
                 is_ready = ?8, overtaken = ?9, frees_files = ?10
             WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![
            entry.id.0,
            entry.state.as_str(),
            entry.reason,
            entry.since.as_millis(),
            entry.rejections,
            entry.kills,
            entry.landed.as_ref().map(Oid::as_str),
            entry.is_ready,
            entry.overtaken,
            entry.frees_files,
        ])?;
        Ok(())
    }

    pub(super) fn insert_landing(&mut self, new: &NewLanding) -> Result<(), Fault> {
        let process = self.process_row(&new.owner)?;
        let sql = "INSERT INTO landing (branch, from_commit, to_commit, directory, scope, owner, started_at,
                 started_steady)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        self.sql.execute(
            sql,
            params![
                new.branch,
                new.from.as_str(),
                new.to.as_str(),
                new.directory.as_ref().map(|path| path.as_os_str().as_bytes()),
                self.scope,
                process,
                self.now.as_millis(),
                self.steady.as_millis(),
            ],
        )?;
        let sql = "INSERT INTO landing_entry (branch, position, entry, landed_as) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.sql.prepare_cached(sql)?;
        for (position, (entry, commit)) in (0_i64..).zip(&new.entries) {
            statement.execute(params![new.branch, position, entry.0, commit.as_str()])?;
        }
        drop(statement);
        self.insert_changes(new)
    }

    /// Stores which files are about to change. An earlier landing of the same entries may have been undone.
    fn insert_changes(&mut self, new: &NewLanding) -> Result<(), Fault> {
        for (entry, _) in &new.entries {
            self.sql.prepare_cached("DELETE FROM entry_path WHERE entry = ?1")?.execute([entry.0])?;
        }
        new.changes.iter().try_for_each(|(entry, key)| self.insert_change(*entry, key))
    }

    pub(super) fn insert_change(&mut self, entry: EntryId, key: &Key) -> Result<(), Fault> {
        let sql = "INSERT OR IGNORE INTO entry_path (path, entry) VALUES (?1, ?2)";
        self.sql.prepare_cached(sql)?.execute(params![key.as_bytes(), entry.0])?;
        Ok(())
    }

    /// Notes by which event an entry has landed.
    pub(super) fn note_landed(&mut self, entry: EntryId, event: i64) -> Result<(), Fault> {
        let sql = "UPDATE entry SET landed_event = ?2 WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![entry.0, event])?;
        Ok(())
    }

    pub(super) fn delete_landing(&mut self, branch: &str) -> Result<(), Fault> {
        self.sql.execute("DELETE FROM landing_entry WHERE branch = ?1", [branch])?;
        self.sql.execute("DELETE FROM landing WHERE branch = ?1", [branch])?;
        Ok(())
    }
}
