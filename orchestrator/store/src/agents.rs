//! Agents: the sessions that ask for locks.

use mala_core::{AgentId, IssueId, Life, RunId, Timestamp};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::json;

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result, StoreError};
use crate::events::EventKind;
use crate::request::Party;
use crate::rows;
use crate::view::View;

/// One session, running or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub party: Party,
    pub profile: Option<String>,
    pub since: Timestamp,
    pub life: Life,
}

impl Store {
    /// Makes an agent known without locking anything.
    pub fn register(&mut self, party: &Party) -> Result<()> {
        self.write(|change| change.enroll(party))
    }
}

impl View<'_> {
    pub(crate) fn agents(&self) -> std::result::Result<Vec<Agent>, Fault> {
        let sql = "SELECT a.name, a.supervised, a.issue, a.run, p.host, p.boot_id, p.pid, p.start_time, a.profile, a.since
             FROM agent a LEFT JOIN process p ON p.id = a.root WHERE a.scope = ?1 ORDER BY a.since, a.name";
        let mut statement = self.sql.prepare_cached(sql)?;
        let agents = statement.query_map([self.scope], |row| {
            let party = party(row)?;
            let life = self.life(&party.owner);
            Ok(Agent { party, profile: row.get(8)?, since: rows::timestamp(row, 9)?, life })
        })?;
        Ok(agents.collect::<std::result::Result<_, _>>()?)
    }

    /// Who is behind the name, running or not.
    pub(crate) fn party(&self, name: &AgentId) -> std::result::Result<Option<Party>, Fault> {
        let sql = "SELECT a.name, a.supervised, a.issue, a.run, p.host, p.boot_id, p.pid, p.start_time
             FROM agent a LEFT JOIN process p ON p.id = a.root WHERE a.scope = ?1 AND a.name = ?2";
        let mut statement = self.sql.prepare_cached(sql)?;
        Ok(statement.query_row(params![self.scope, name.as_str()], party).optional()?)
    }

    pub(crate) fn must_know(&self, agent: &AgentId) -> std::result::Result<Party, Fault> {
        self.party(agent)?.ok_or_else(|| StoreError::UnknownAgent { agent: agent.clone() }.into())
    }
}

fn party(row: &Row<'_>) -> rusqlite::Result<Party> {
    Ok(Party {
        agent: rows::name(row, 0, AgentId::new)?,
        supervised: row.get(1)?,
        issue: rows::optional_name(row, 2, IssueId::new)?,
        run: rows::optional_name(row, 3, RunId::new)?,
        owner: rows::owner(row, 4)?,
    })
}

impl Change<'_> {
    /// Notes who is there. A name belongs to the process that used it first, for as long as that lives.
    pub(crate) fn enroll(&mut self, party: &Party) -> std::result::Result<(), Fault> {
        let known = self.party(&party.agent)?;
        let issue = party.issue.as_ref().map(IssueId::as_str);
        let run = party.run.as_ref().map(RunId::as_str);
        match known {
            Some(known) if known == *party => return Ok(()),
            Some(known) if self.life(&known.owner) != Life::Dead => {
                let sql = "UPDATE agent SET issue = coalesce(?3, issue), run = coalesce(?4, run)
                     WHERE scope = ?1 AND name = ?2 AND (issue IS NOT coalesce(?3, issue) OR run IS NOT coalesce(?4, run))";
                let row = params![self.scope, party.agent.as_str(), issue, run];
                self.sql.prepare_cached(sql)?.execute(row)?;
                return Ok(());
            }
            Some(_) => {
                let sql = "DELETE FROM agent WHERE scope = ?1 AND name = ?2";
                self.sql.prepare_cached(sql)?.execute(params![self.scope, party.agent.as_str()])?;
            }
            None => {}
        }
        let process = self.process_row(&party.owner)?;
        let sql = "INSERT INTO agent (scope, name, root, issue, run, supervised, since)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let since = self.now.as_millis();
        let row = params![self.scope, party.agent.as_str(), process, issue, run, party.supervised, since];
        self.sql.prepare_cached(sql)?.execute(row)?;
        self.record(
            EventKind::AgentJoined,
            party,
            None,
            &json!({ "pid": party.owner.pid, "host": party.owner.host }),
        )?;
        Ok(())
    }
}
