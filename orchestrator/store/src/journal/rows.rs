//! Runs and attempts as rows.

use mala_core::{
    AgentId, Attempt, AttemptId, AttemptState, Interruption, IssueId, Oid, Run, RunId, Spend, Timestamp,
};
use rusqlite::{OptionalExtension, Row, params};

use crate::change::Change;
use crate::error::Fault;
use crate::journal::types::JournalError;
use crate::rows;
use crate::view::View;

const RUN_COLUMNS: &str =
    "r.id, r.started_at, r.ended_at, r.options, p.host, p.boot_id, p.pid, p.start_time, p.node";
const ATTEMPT_COLUMNS: &str =
    "a.id, a.run, a.issue, a.agent, a.number, a.state, a.since, a.started_at, a.ended_at,
     a.session, a.head, a.saved_ref, a.verdict, a.cost_micros, a.tokens, a.profile, a.question, a.interruption,
     a.unpriced, a.supervisor, p.host, p.boot_id, p.pid, p.start_time, p.node";

impl View<'_> {
    pub(crate) fn runs_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Run>, Fault> {
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM run r LEFT JOIN process p ON p.id = r.owner WHERE {condition}"
        );
        let mut statement = self.sql.prepare_cached(&sql)?;
        Ok(statement.query_map(params, run)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn attempts_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Attempt>, Fault> {
        let sql = format!(
            "SELECT {ATTEMPT_COLUMNS} FROM attempt a LEFT JOIN process p ON p.id = a.supervisor WHERE {condition}"
        );
        let mut statement = self.sql.prepare_cached(&sql)?;
        Ok(statement.query_map(params, attempt)?.collect::<Result<_, _>>()?)
    }

    pub(crate) fn must_find_attempt(&self, id: AttemptId) -> Result<Attempt, Fault> {
        let mut found = self.attempts_where("a.id = ?1 AND a.scope = ?2", params![id.0, self.scope])?;
        found.pop().ok_or_else(|| JournalError::UnknownAttempt { id }.into())
    }

    /// The checkout of an attempt.
    pub(crate) fn scope_of_attempt(&self, id: AttemptId) -> Result<i64, Fault> {
        let mut statement = self.sql.prepare_cached("SELECT scope FROM attempt WHERE id = ?1")?;
        let scope = statement.query_row([id.0], |row| row.get(0)).optional()?;
        scope.ok_or_else(|| JournalError::UnknownAttempt { id }.into())
    }

    /// The attempt at this issue that has not ended, in whichever checkout and whether or not its run still lives.
    pub(crate) fn live_attempt_at(&self, issue: &IssueId) -> Result<Option<Attempt>, Fault> {
        Ok(self.attempts_where("a.issue = ?1 AND a.ended_at IS NULL", params![issue.as_str()])?.pop())
    }
}

fn run(row: &Row<'_>) -> rusqlite::Result<Run> {
    let options: String = row.get(3)?;
    Ok(Run {
        id: rows::name(row, 0, RunId::new)?,
        started_at: rows::timestamp(row, 1)?,
        ended_at: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis),
        options: serde_json::from_str(&options).or_else(|error| rows::bad(3, error))?,
        owner: rows::owner(row, 4)?,
    })
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    let verdict: Option<String> = row.get(12)?;
    let unpriced: String = row.get(18)?;
    let amount = |column| -> rusqlite::Result<u64> {
        u64::try_from(row.get::<_, i64>(column)?).or_else(|error| rows::bad(column, error))
    };
    Ok(Attempt {
        id: AttemptId(row.get(0)?),
        run: rows::name(row, 1, RunId::new)?,
        issue: rows::name(row, 2, IssueId::new)?,
        agent: rows::name(row, 3, AgentId::new)?,
        number: row.get(4)?,
        state: rows::word(row, 5, AttemptState::parse)?
            .map_or_else(|| rows::bad(5, "an attempt has no state"), Ok)?,
        since: rows::timestamp(row, 6)?,
        started_at: rows::timestamp(row, 7)?,
        ended_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::from_millis),
        session: row.get(9)?,
        head: rows::word(row, 10, Oid::parse)?,
        saved_ref: row.get(11)?,
        verdict: verdict
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .or_else(|error| rows::bad(12, error))?,
        spend: Spend {
            cost_micros: amount(13)?,
            tokens: amount(14)?,
            unpriced: serde_json::from_str(&unpriced).or_else(|error| rows::bad(18, error))?,
        },
        profile: row.get(15)?,
        question: row.get(16)?,
        interruption: rows::word(row, 17, Interruption::parse)?,
        supervisor: row.get::<_, Option<i64>>(19)?.map(|_| rows::owner(row, 20)).transpose()?,
    })
}

impl Change<'_> {
    /// Stores an attempt that has just begun. Returns its number over all issues.
    pub(crate) fn insert_attempt(&mut self, attempt: &Attempt, is_tracked: bool) -> Result<AttemptId, Fault> {
        let sql =
            "INSERT INTO attempt (scope, run, issue, agent, number, state, since, started_at, head, profile,
                 tracked, cost_micros, tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, 0)";
        self.sql.prepare_cached(sql)?.execute(params![
            self.scope,
            attempt.run.as_str(),
            attempt.issue.as_str(),
            attempt.agent.as_str(),
            attempt.number,
            attempt.state.as_str(),
            attempt.since.as_millis(),
            attempt.started_at.as_millis(),
            attempt.head.as_ref().map(Oid::as_str),
            attempt.profile,
            is_tracked,
        ])?;
        Ok(AttemptId(self.sql.last_insert_rowid()))
    }

    /// Stores what may change about an attempt.
    pub(crate) fn update_attempt(&mut self, attempt: &Attempt) -> Result<(), Fault> {
        let sql = "UPDATE attempt SET state = ?2, since = ?3, ended_at = ?4, session = ?5, saved_ref = ?6, verdict = ?7,
                 cost_micros = ?8, tokens = ?9, question = ?10, interruption = ?11, unpriced = ?12,
                 supervisor = CASE WHEN ?4 IS NULL THEN supervisor END
             WHERE id = ?1";
        let amount = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.sql.prepare_cached(sql)?.execute(params![
            attempt.id.0,
            attempt.state.as_str(),
            attempt.since.as_millis(),
            attempt.ended_at.map(Timestamp::as_millis),
            attempt.session,
            attempt.saved_ref,
            attempt.verdict.as_ref().map(ToString::to_string),
            amount(attempt.spend.cost_micros),
            amount(attempt.spend.tokens),
            attempt.question,
            attempt.interruption.map(Interruption::as_str),
            serde_json::json!(attempt.spend.unpriced).to_string(),
        ])?;
        Ok(())
    }
}
