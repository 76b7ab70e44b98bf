//! What a run would do, without doing it.

use mala_core::{AgentId, Attempt, IssueId, Priority};
use serde::Serialize;

use crate::caution::{cautions, missing_hooks};
use crate::cost::check_prices;
use crate::dispatch::find;
use crate::engine::{Engine, check_checkout, check_issues, check_profiles};
use crate::error::{Result, step};
use crate::event::Held;
use crate::ready::{ReadyIssue, ReadyIssues, collisions};

/// What would be asked of a tracker at most.
const MAX_PLANNED_ISSUES: usize = 10_000;

/// What fails, if the store does.
const LOOK: &str = "look into the journal";

/// The order in which issues would be begun, and what would get in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What a run that was killed has left, which is made good first.
    pub recovers: Vec<Recovers>,
    pub issues: Vec<Planned>,
    /// Pairs that would not run at the same time, because both mean to touch a file.
    pub collisions: Vec<Collision>,
    /// Issues that wait for a person; empty if the run would be for other issues only.
    pub blocked: Vec<IssueId>,
    pub warnings: Vec<String>,
}

/// An attempt whose run is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovers {
    pub issue: IssueId,
    pub agent: AgentId,
    pub attempt: u32,
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
    pub fn plan(&self) -> Result<Plan> {
        let (ops, options) = (&self.ops, &self.ops.options);
        check_profiles(options)?;
        check_prices(options)?;
        check_issues(ops, options)?;
        let recovers = self.recovers()?;
        if recovers.is_empty() {
            check_checkout(ops)?;
        }
        let limit = options.max_issues.unwrap_or(MAX_PLANNED_ISSUES);
        let mut ready = ReadyIssues::new(&options.issues);
        let found = find(ops, &options.issues, limit)?;
        ready.refresh(found.ready);
        let order: Vec<&ReadyIssue> = ready.waiting().take(limit).collect();
        let collisions = collisions(&order).into_iter().map(|(first, second, file)| Collision {
            first: first.clone(),
            second: second.clone(),
            file: file.to_string(),
        });
        let issues = order.iter().map(|next| self.planned(next)).collect::<Result<_, _>>()?;
        let mut warnings = found.problems;
        if recovers.is_empty() {
            warnings.extend(cautions(ops));
        } else {
            // What a killed run left uncommitted is put away before anybody begins, so it is nothing to warn of.
            warnings.extend(missing_hooks(ops));
        }
        let blocked = if options.issues.is_empty() { ops.blocked().map_err(step(LOOK))? } else { Vec::new() };
        Ok(Plan { recovers, issues, collisions: collisions.collect(), blocked, warnings })
    }

    fn recovers(&self) -> Result<Vec<Recovers>> {
        let abandoned = self.ops.abandoned().map_err(step(LOOK))?;
        let recovers = |Attempt { issue, agent, number, .. }| Recovers { issue, agent, attempt: number };
        Ok(abandoned.into_iter().map(recovers).collect())
    }

    fn planned(&self, next: &ReadyIssue) -> Result<Planned> {
        let (ops, options) = (&self.ops, &self.ops.options);
        let issue = &next.issue;
        let (wants, _) = ops.hints(issue);
        Ok(Planned {
            issue: issue.id.clone(),
            title: issue.title.clone(),
            priority: issue.priority,
            profile: options.profiles.choose(issue).map(|(profile, _)| profile.name.clone()),
            attempts: ops.tries(&issue.id).map_err(step(LOOK))?.ended,
            files: issue.files.clone(),
            waits_for: next.waits_for.iter().cloned().collect(),
            held: ops.holders(&wants).map_err(step(LOOK))?,
        })
    }
}
