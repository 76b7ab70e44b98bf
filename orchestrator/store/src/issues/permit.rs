//! What an agent of a run may do to issues. The one place that says so: every change of an issue in somebody's name asks here.
//!
//! The run decides what becomes of issues, by what it has proven. So an agent of a run adds issues, a bounded number of
//! them, and writes notes on the issue that it works on. Agents outside of runs and people do what they like.

use mala_core::{AgentId, IssueId, RunId, Who};

use super::types::IssueError;
use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::view::View;

/// Issues that the agents of one run may add.
pub(super) const MAX_ADDED_IN_A_RUN: usize = 50;
/// How far an issue may be from one that the run began with: added by the agent of an issue that was added, and so on.
pub(super) const MAX_ADDED_DEPTH: usize = 3;

/// A change of an issue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IssueChange<'a> {
    Add,
    Note(&'a IssueId),
    Close,
    Reopen,
    Label,
    Link,
    Import,
}

impl IssueChange<'_> {
    fn verb(self) -> &'static str {
        match self {
            Self::Add => "adds",
            Self::Note(_) => "writes notes on other issues than its own",
            Self::Close => "closes issues",
            Self::Reopen => "opens issues again",
            Self::Label => "labels issues",
            Self::Link => "links issues",
            Self::Import => "imports issues",
        }
    }
}

impl Store {
    /// The issues that agents of a run have added, in the order in which they did.
    pub fn issues_added_in(&mut self, run: &RunId) -> Result<Vec<IssueId>> {
        self.read(|view| Ok(view.added_in(run)?.into_iter().map(|added| added.issue).collect()))
    }
}

/// An issue that an agent has added.
struct Added {
    issue: IssueId,
    /// The one that the agent was working on.
    from: Option<IssueId>,
}

impl View<'_> {
    fn added_in(&self, run: &RunId) -> std::result::Result<Vec<Added>, Fault> {
        let sql = "SELECT issue, json_extract(detail, '$.from') FROM event
             WHERE run = ?1 AND kind = ?2 AND issue IS NOT NULL AND seq > coalesce(
                 (SELECT seq FROM event WHERE run = ?1 AND kind = ?3 ORDER BY seq DESC LIMIT 1), 0)
             ORDER BY seq";
        let mut statement = self.sql.prepare_cached(sql)?;
        // Nothing older than the run is looked at.
        let kinds = [EventKind::IssueAdded.as_str(), EventKind::RunStarted.as_str()];
        let added = statement.query_map([run.as_str(), kinds[0], kinds[1]], |row| {
            Ok(Added {
                issue: crate::rows::name(row, 0, IssueId::new)?,
                from: crate::rows::optional_name(row, 1, IssueId::new)?,
            })
        })?;
        Ok(added.collect::<std::result::Result<_, _>>()?)
    }
}

impl Change<'_> {
    /// Refuses what is not up to whoever asks. Gives the issue that an agent of a run works on.
    pub(crate) fn permit(
        &self,
        by: &Who,
        change: IssueChange<'_>,
    ) -> std::result::Result<Option<IssueId>, Fault> {
        let Who::Agent(agent) = by else { return Ok(None) };
        let Some(party) = self.party(agent)? else { return Ok(None) };
        let Some(run) = party.run else { return Ok(None) };
        match change {
            IssueChange::Add => self.refuse_too_many(agent, &run, party.issue.as_ref())?,
            IssueChange::Note(issue) if party.issue.as_ref() == Some(issue) => {}
            _ => return Err(IssueError::NotForAgents { agent: agent.clone(), what: change.verb() }.into()),
        }
        Ok(party.issue)
    }

    fn refuse_too_many(
        &self,
        agent: &AgentId,
        run: &RunId,
        from: Option<&IssueId>,
    ) -> std::result::Result<(), Fault> {
        let added = self.added_in(run)?;
        let (mut depth, mut at) = (1, from);
        while let Some(parent) = added.iter().find(|added| Some(&added.issue) == at) {
            (depth, at) = (depth + 1, parent.from.as_ref());
        }
        if added.len() >= MAX_ADDED_IN_A_RUN || depth > MAX_ADDED_DEPTH {
            return Err(IssueError::TooManyAdded { agent: agent.clone() }.into());
        }
        Ok(())
    }
}
