//! What a run would do, without doing it.

use mala_core::{IssueId, Priority};
use serde::Serialize;

use crate::dispatch::find;
use crate::engine::{Engine, check_profiles};
use crate::error::EngineError;
use crate::ports::Held;
use crate::queue::{Candidate, Queue, collisions};

/// What would be asked of a tracker at most.
const MOST: usize = 10_000;

/// The order in which issues would be begun, and what would get in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub issues: Vec<Planned>,
    /// Pairs that would not run at the same time, because both mean to touch a file.
    pub collisions: Vec<Collision>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Planned {
    pub issue: IssueId,
    pub title: String,
    pub priority: Priority,
    pub profile: Option<String>,
    /// Attempts so far.
    pub attempts: u32,
    pub files: Vec<String>,
    pub waits_for: Vec<IssueId>,
    /// Files it needs that somebody holds now.
    pub held: Vec<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collision {
    pub first: IssueId,
    pub second: IssueId,
    pub file: String,
}

impl Engine {
    /// What [`Engine::run`] would do now. Changes nothing.
    pub fn plan(&self) -> Result<Plan, EngineError> {
        let (clerk, options) = self.parts();
        check_profiles(options)?;
        let limit = options.max_issues.unwrap_or(MOST);
        let mut queue = Queue::new(&options.issues);
        let found = find(clerk, &options.issues, limit)?;
        queue.refresh(found.candidates);
        let order: Vec<&Candidate> = queue.waiting().take(limit).collect();
        let collisions = collisions(&order).into_iter().map(|(first, second, file)| Collision {
            first: first.clone(),
            second: second.clone(),
            file: file.to_string(),
        });
        let issues = order.iter().map(|candidate| self.planned(candidate)).collect::<Result<_, _>>()?;
        Ok(Plan { issues, collisions: collisions.collect(), warnings: found.problems })
    }

    fn planned(&self, candidate: &Candidate) -> Result<Planned, EngineError> {
        let (clerk, options) = self.parts();
        let issue = &candidate.issue;
        let port = |source| EngineError::Port { what: "look into the ledger", source };
        let (wants, _) = clerk.hints(issue);
        Ok(Planned {
            issue: issue.id.clone(),
            title: issue.title.clone(),
            priority: issue.priority,
            profile: options.profiles.choose(issue).map(|(profile, _)| profile.name.clone()),
            attempts: clerk.ledger.tries(&issue.id).map_err(port)?.ended,
            files: issue.files.clone(),
            waits_for: candidate.waits_for.iter().cloned().collect(),
            held: clerk.ledger.holders(&wants).map_err(port)?,
        })
    }
}
