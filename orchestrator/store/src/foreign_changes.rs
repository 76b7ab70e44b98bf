//! What others have done to a file since some event, and whether an agent held it meanwhile.
//!
//! Two things change a file that is not an agent's: another agent that holds it, and a landing. Both are in the store, by event
//! numbers. What a person does is not: who asks compares contents.

use mala_core::{AgentId, EntryId, Fence, IssueId, Key, RunId, Timestamp};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::rows;
use crate::view::View;

/// What is known about a file since some event, from one agent's point of view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileHistory {
    /// Since when the agent holds the file alone, if it does now.
    pub held_since: Option<Fence>,
    /// How the agent's last hold ended, if it ended since.
    pub last_hold: Option<EndedHold>,
    /// The last time that somebody else had it.
    pub foreign: Option<ForeignChange>,
}

/// The end of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndedHold {
    pub event: Fence,
    /// For people.
    pub at: Timestamp,
}

/// Somebody else had a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignChange {
    pub event: Fence,
    pub at: Timestamp,
    pub kind: ForeignChangeKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignChangeKind {
    /// A change of it landed on the branch.
    Landed { entry: EntryId, issue: Option<IssueId>, agent: Option<AgentId> },
    /// Another agent held it until then.
    Held { agent: AgentId },
}

impl Store {
    /// What has become of a file since the event `since`. `branch` is what the checkout is on, as the full name of a ref: what
    /// lands elsewhere does not change it.
    pub fn file_history(
        &mut self,
        agent: &AgentId,
        key: &Key,
        (since, branch): (Fence, Option<&str>),
    ) -> Result<FileHistory> {
        self.read(|view| {
            let landed = branch.map(|branch| view.landed(agent, key, (since, branch))).transpose()?.flatten();
            // What has landed was held before: the landing says more.
            let foreign = match landed {
                Some(landed) => Some(landed),
                None => view.held_by_others(agent, key, since)?,
            };
            let held_since = view.current_hold(agent, key)?;
            let last_hold = view.past_hold(agent, key, since)?.map(|hold| hold.end);
            Ok(FileHistory { held_since, last_hold, foreign })
        })
    }

    /// The event with which an agent's work began: when it took its issue on in a run, else when it became known.
    pub fn began(&mut self, agent: &AgentId, run: Option<&RunId>) -> Result<Option<Fence>> {
        self.read(|view| {
            let (scope, name) = (view.scope, agent.as_str());
            let claimed = "SELECT min(seq) FROM event
                 WHERE scope = ?1 AND agent = ?2 AND lock IS NULL AND kind = ?3 AND run = ?4";
            let row = params![scope, name, EventKind::IssueClaimed.as_str(), run.map(RunId::as_str)];
            let claimed: Option<i64> = view.sql.prepare_cached(claimed)?.query_row(row, |row| row.get(0))?;
            if claimed.is_some() {
                return Ok(claimed.map(Fence));
            }
            let joined = "SELECT joined FROM agent WHERE scope = ?1 AND name = ?2";
            let joined = view.sql.prepare_cached(joined)?.query_row(params![scope, name], |row| row.get(0));
            Ok(joined.optional()?.map(Fence))
        })
    }
}

impl View<'_> {
    fn landed(
        &self,
        agent: &AgentId,
        key: &Key,
        (since, branch): (Fence, &str),
    ) -> std::result::Result<Option<ForeignChange>, Fault> {
        let sql = "SELECT e.landed_event, e.since, e.id, e.issue, e.agent
             FROM entry_path p JOIN entry e ON e.id = p.entry
             WHERE p.path = ?1 AND e.branch = ?2 AND e.landed_event > ?3 AND e.agent IS NOT ?4
             ORDER BY e.landed_event DESC LIMIT 1";
        let row = params![key.as_bytes(), branch, since.0, agent.as_str()];
        let landed = |row: &rusqlite::Row<'_>| {
            Ok(ForeignChange {
                event: Fence(row.get(0)?),
                at: rows::timestamp(row, 1)?,
                kind: ForeignChangeKind::Landed {
                    entry: EntryId(row.get(2)?),
                    issue: rows::optional_name(row, 3, IssueId::new)?,
                    agent: rows::optional_name(row, 4, AgentId::new)?,
                },
            })
        };
        Ok(self.sql.prepare_cached(sql)?.query_row(row, landed).optional()?)
    }

    /// The last other agent that has given up this very file since. Who held a pattern need not have touched it.
    fn held_by_others(
        &self,
        agent: &AgentId,
        key: &Key,
        since: Fence,
    ) -> std::result::Result<Option<ForeignChange>, Fault> {
        let sql = "SELECT ended, until, agent FROM tenure
             WHERE scope = ?1 AND path = ?2 AND kind = 0 AND ended > ?3 AND agent <> ?4 ORDER BY ended DESC LIMIT 1";
        let row = params![self.scope, key.as_bytes(), since.0, agent.as_str()];
        let held = |row: &rusqlite::Row<'_>| {
            Ok(ForeignChange {
                event: Fence(row.get(0)?),
                at: rows::timestamp(row, 1)?,
                kind: ForeignChangeKind::Held { agent: rows::name(row, 2, AgentId::new)? },
            })
        };
        Ok(self.sql.prepare_cached(sql)?.query_row(row, held).optional()?)
    }
}
