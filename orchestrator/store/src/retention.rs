//! What of the work of runs is still referred to, for whoever puts away what is old.

use mala_core::{IssueId, RunId, Timestamp};
use rusqlite::params;

use crate::Store;
use crate::error::Result;
use crate::issues::rows::CLOSED_WORDS;
use crate::landing::OPEN_STATES;
use crate::rows;

/// An attempt, as far as its age and its issue are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastAttempt {
    pub issue: IssueId,
    pub number: u32,
    pub run: RunId,
    /// Since when its issue is closed. Nothing if it is open, or if a tracker has it that has not been told that it is done.
    pub closed_at: Option<Timestamp>,
    /// The last one of its issue.
    pub is_newest: bool,
}

impl Store {
    /// Every attempt of all checkouts that share this store.
    pub fn past_attempts(&mut self) -> Result<Vec<PastAttempt>> {
        let sql = format!(
            "SELECT a.issue, a.number, a.run,
                 CASE WHEN i.id IS NULL THEN (SELECT max(d.ended_at) FROM attempt d WHERE d.issue = a.issue AND d.state = 'done')
                      WHEN i.status IN {CLOSED_WORDS} THEN coalesce(i.closed_at, i.updated_at) END,
                 a.number = (SELECT max(n.number) FROM attempt n WHERE n.issue = a.issue)
             FROM attempt a LEFT JOIN issue i ON i.id = a.issue WHERE a.state <> 'ready' ORDER BY a.issue, a.number"
        );
        self.read(|view| {
            let mut statement = view.sql.prepare_cached(&sql)?;
            let attempts = statement.query_map([], |row| {
                Ok(PastAttempt {
                    issue: rows::name(row, 0, IssueId::new)?,
                    number: row.get(1)?,
                    run: rows::name(row, 2, RunId::new)?,
                    closed_at: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_millis),
                    is_newest: row.get(4)?,
                })
            })?;
            Ok(attempts.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Runs that are under way, as far as anybody knows.
    pub fn unfinished_runs(&mut self) -> Result<Vec<RunId>> {
        self.read(|view| {
            let sql = "SELECT id FROM run WHERE ended_at IS NULL
                 UNION SELECT run FROM attempt WHERE ended_at IS NULL";
            let mut statement = view.sql.prepare_cached(sql)?;
            let runs = statement.query_map([], |row| rows::name(row, 0, RunId::new))?;
            Ok(runs.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Texts that may name files or refs that somebody will look for: notes of issues that are not closed, and what is known of entries
    /// that are open in the landing queue.
    pub fn quoting_texts(&mut self) -> Result<Vec<String>> {
        let notes = format!(
            "SELECT n.text FROM note n LEFT JOIN issue i ON i.id = n.issue
             WHERE coalesce(i.status, 'open') NOT IN {CLOSED_WORDS}"
        );
        let entries =
            format!("SELECT pin || ' ' || coalesce(reason, '') FROM entry WHERE state IN {OPEN_STATES}");
        self.read(|view| {
            let mut texts: Vec<String> = Vec::new();
            for sql in [&notes, &entries] {
                let mut statement = view.sql.prepare_cached(sql)?;
                let found = statement.query_map(params![], |row| row.get(0))?;
                texts.extend(found.collect::<rusqlite::Result<Vec<String>>>()?);
            }
            Ok(texts)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two attempts at an open issue, two at one that was closed at 50, one that a tracker keeps and that is done.
    const WORK: &str = "
        INSERT INTO process (pid, start_time, boot_id, host) VALUES (1, 1, 'b', 'h');
        INSERT INTO run (id, scope, owner, started_at, ended_at, options)
            VALUES ('r1', 1, 1, 1, 9, '{}'), ('r2', 1, 1, 10, 19, '{}'), ('r3', 1, 1, 20, NULL, '{}');
        INSERT INTO issue (id, title, description, design, acceptance, status, priority, kind, files, created_at, updated_at, closed_at)
            VALUES ('open', '', '', '', '', 'open', 2, 'task', '[]', 1, 1, NULL),
                   ('shut', '', '', '', '', 'closed', 2, 'task', '[]', 1, 1, 50);
        INSERT INTO note (issue, seq, at, author_kind, author, text)
            VALUES ('open', 1, 1, 1, 'mala', 'see ev-1.log'), ('shut', 1, 1, 1, 'mala', 'see ev-2.log'),
                   ('theirs', 1, 1, 1, 'mala', 'see ev-3.log');
        INSERT INTO attempt (scope, run, issue, agent, number, state, since, started_at, ended_at, cost_micros, tokens, tracked)
            VALUES (1, 'r1', 'open', 'a', 1, 'handed_over', 1, 1, 2, 0, 0, 0), (1, 'r2', 'open', 'a', 2, 'handed_over', 1, 1, 12, 0, 0, 0),
                   (1, 'r1', 'shut', 'a', 1, 'handed_over', 1, 1, 2, 0, 0, 0), (1, 'r2', 'shut', 'a', 2, 'done', 1, 1, 12, 0, 0, 0),
                   (1, 'r2', 'theirs', 'a', 1, 'done', 1, 1, 13, 0, 0, 1);";

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open_in(dir.path(), b"/here").unwrap();
        store.write(|change| Ok(change.sql.execute_batch(WORK)?)).unwrap();
        (dir, store)
    }

    #[test]
    fn attempts_tell_whether_their_issue_is_over_and_which_is_the_last() {
        let (_dir, mut store) = store();
        let attempts = store.past_attempts().unwrap();
        let told = attempts
            .iter()
            .map(|it| (it.issue.as_str(), it.number, it.closed_at.map(Timestamp::as_millis), it.is_newest));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                ("open", 1, None, false),
                ("open", 2, None, true),
                ("shut", 1, Some(50), false),
                ("shut", 2, Some(50), true),
                ("theirs", 1, Some(13), true)
            ]
        );
        assert_eq!(store.unfinished_runs().unwrap(), [RunId::new("r3").unwrap()]);
    }

    #[test]
    fn what_notes_name_counts_as_long_as_their_issue_may_be_open() {
        let (_dir, mut store) = store();
        assert_eq!(store.quoting_texts().unwrap(), ["see ev-1.log", "see ev-3.log"]);
    }
}
