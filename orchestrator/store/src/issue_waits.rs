//! Waiting for issues: until their work has landed, or they are given up.
//!
//! An agent of a run says so and ends its turn; its row is the mark by which the run parks it. While it is parked, it waits for the
//! agents that work on the issue, so such waits take part in circles. A circle of nothing but waits for issues is refused.

use std::collections::HashSet;

use mala_core::issue::BLOCKED;
use mala_core::{AgentId, Attempt, AttemptState, EntryState, Fence, IssueId, Life, Oid};
use rusqlite::params;

use crate::Store;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::landing::types::EntryFilter;
use crate::rows;
use crate::view::View;

/// An issue that an agent waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueWait {
    pub issue: IssueId,
    /// The newest event when it began.
    pub since: Fence,
}

/// Where an issue stands, for whoever waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueEnd {
    /// Its work is on the branch, as this commit if it is known, or it was closed without any.
    Landed(Option<Oid>),
    /// It is not, and nobody is about to change that: why, as the end of a sentence.
    NotLanded(String),
}

impl Store {
    /// Notes that an agent waits for an issue. Waiting twice is waiting once.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::Deadlock`] if whoever works on the issue waits for one of this agent's in the same way.
    pub fn wait_for_issue(&mut self, agent: &AgentId, issue: &IssueId) -> Result<()> {
        self.write(|change| {
            if let Some(circle) = change.circle_of_issues(agent, issue)? {
                return Err(Fault::Circle(circle));
            }
            let sql =
                "INSERT INTO issue_wait (scope, agent, issue, since, is_parked, event) VALUES (?1, ?2, ?3, ?4, 0, ?5)
                 ON CONFLICT (scope, agent, issue) DO NOTHING";
            let (now, newest) = (change.now.as_millis(), change.newest_event()?.0);
            let row = params![change.scope, agent.as_str(), issue.as_str(), now, newest];
            change.sql.execute(sql, row)?;
            Ok(())
        })
    }

    /// What an agent waits for.
    pub fn issue_waits(&mut self, agent: &AgentId) -> Result<Vec<IssueWait>> {
        self.read(|view| {
            let sql = "SELECT issue, event FROM issue_wait WHERE scope = ?1 AND agent = ?2 ORDER BY issue";
            let mut statement = view.sql.prepare_cached(sql)?;
            let waits = statement.query_map(params![view.scope, agent.as_str()], |row| {
                Ok(IssueWait { issue: rows::name(row, 0, IssueId::new)?, since: Fence(row.get(1)?) })
            })?;
            Ok(waits.collect::<std::result::Result<_, _>>()?)
        })
    }

    /// The agent has no process from here on until it has stopped waiting.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::Deadlock`] if that closes a circle of waits. Then it is not parked.
    pub fn park_for_issues(&mut self, agent: &AgentId) -> Result<()> {
        self.write(|change| {
            let sql = "UPDATE issue_wait SET is_parked = 1 WHERE scope = ?1 AND agent = ?2";
            change.sql.execute(sql, params![change.scope, agent.as_str()])?;
            change.refuse_circle(agent)
        })
    }

    /// The agent waits for this issue no more.
    pub fn stop_waiting_for_issue(&mut self, agent: &AgentId, issue: &IssueId) -> Result<()> {
        self.write(|change| {
            let sql = "DELETE FROM issue_wait WHERE scope = ?1 AND agent = ?2 AND issue = ?3";
            change.sql.execute(sql, params![change.scope, agent.as_str(), issue.as_str()])?;
            Ok(())
        })
    }

    /// How it has ended with an issue, for whoever has waited since that event; nothing while it may still land.
    pub fn issue_end(&mut self, issue: &IssueId, since: Fence) -> Result<Option<IssueEnd>> {
        self.read(|view| view.issue_end(issue, since))
    }
}

impl View<'_> {
    /// Agents of this checkout that work on the issues for which `agent` is parked.
    pub(crate) fn awaited_workers(&self, agent: &AgentId) -> std::result::Result<Vec<AgentId>, Fault> {
        let sql = "SELECT DISTINCT a.agent FROM issue_wait w JOIN attempt a ON a.issue = w.issue AND a.scope = w.scope
             WHERE w.scope = ?1 AND w.agent = ?2 AND w.is_parked = 1 AND a.ended_at IS NULL AND a.agent <> ?2";
        let mut statement = self.sql.prepare_cached(sql)?;
        let workers = statement
            .query_map(params![self.scope, agent.as_str()], |row| rows::name(row, 0, AgentId::new))?;
        Ok(workers.collect::<std::result::Result<_, _>>()?)
    }

    /// The circle that would close by nothing but waits for issues, if `agent` waited for `issue`.
    fn circle_of_issues(
        &self,
        agent: &AgentId,
        issue: &IssueId,
    ) -> std::result::Result<Option<Vec<AgentId>>, Fault> {
        let sql = "SELECT w.issue FROM issue_wait w WHERE w.scope = ?1 AND w.agent = ?2";
        let mut statement = self.sql.prepare_cached(sql)?;
        let (mut paths, mut seen) = (vec![(vec![agent.clone()], issue.clone())], HashSet::new());
        while let Some((path, awaited)) = paths.pop() {
            let condition = "a.issue = ?1 AND a.scope = ?2 AND a.ended_at IS NULL";
            let workers = self.attempts_where(condition, params![awaited.as_str(), self.scope])?;
            for Attempt { agent: worker, .. } in workers {
                if worker == *agent {
                    return Ok(Some(path));
                }
                if !seen.insert(worker.clone()) {
                    continue;
                }
                let next = statement.query_map(params![self.scope, worker.as_str()], |row| {
                    rows::name(row, 0, IssueId::new)
                })?;
                let path: Vec<AgentId> = path.iter().cloned().chain([worker]).collect();
                for issue in next {
                    paths.push((path.clone(), issue?));
                }
            }
        }
        Ok(None)
    }

    fn issue_end(&self, issue: &IssueId, since: Fence) -> std::result::Result<Option<IssueEnd>, Fault> {
        let filter = EntryFilter { issue: Some(issue.clone()), ..EntryFilter::default() };
        let entries = self.entries(&filter)?;
        if entries.iter().any(|entry| !entry.state.is_over()) {
            return Ok(None);
        }
        let landed = entries.iter().filter(|entry| entry.state == EntryState::Landed);
        let landed = landed.max_by_key(|entry| entry.id).and_then(|entry| entry.landed.clone());
        let known = self.issue_by_id(issue)?;
        if known.as_ref().is_some_and(mala_core::Issue::is_closed) {
            return Ok(Some(IssueEnd::Landed(landed)));
        }
        let mut attempts = self.attempts_where("a.issue = ?1 ORDER BY a.id", params![issue.as_str()])?;
        let not_landed = |why: String| Ok(Some(IssueEnd::NotLanded(why)));
        match attempts.pop() {
            Some(attempt) if !attempt.state.is_over() => match self.is_run_live(&attempt)? {
                true => Ok(None),
                false => not_landed("its run was killed or stopped".to_owned()),
            },
            // Of another tracker, which keeps the status itself.
            Some(attempt) if known.is_none() && attempt.state == AttemptState::Done => {
                Ok(Some(IssueEnd::Landed(landed)))
            }
            _ if known.as_ref().is_some_and(|issue| issue.status == BLOCKED) => {
                not_landed("it is blocked, for a person to look at".to_owned())
            }
            Some(attempt) if attempt.state == AttemptState::HandedOver => {
                let sql = "SELECT 1 FROM event WHERE seq > ?1 AND kind = ?2 AND issue = ?3";
                let kind = EventKind::AttemptFinished.as_str();
                let is_new = self.exists(sql, params![since.0, kind, issue.as_str()])?;
                match is_new || !self.has_live_run()? {
                    true => not_landed(format!("attempt {} was handed over", attempt.number)),
                    false => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn is_run_live(&self, attempt: &Attempt) -> std::result::Result<bool, Fault> {
        let runs = self.runs_where("r.id = ?1 AND r.ended_at IS NULL", params![attempt.run.as_str()])?;
        Ok(runs.iter().any(|run| self.life(&run.owner) != Life::Dead))
    }

    fn has_live_run(&self) -> std::result::Result<bool, Fault> {
        let runs = self.runs_where("r.ended_at IS NULL", [])?;
        Ok(runs.iter().any(|run| self.life(&run.owner) != Life::Dead))
    }
}
