//! The built-in tracker: issues, what they need, and what is said about them.

mod circles;
mod import;
mod permit;
pub(crate) mod rows;
pub(crate) mod types;

use std::borrow::Cow;

use mala_core::issue::{CLOSED, IN_PROGRESS, OPEN};
use mala_core::{Issue, IssueId, IssueWord, Pattern, Who};
use mala_logs::secrets::mask;
use rusqlite::{OptionalExtension, params};
use serde_json::json;

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::issues::permit::IssueChange;
use crate::issues::rows::CLOSED_WORDS;
use crate::issues::types::{IssueError, IssueFilter, IssueName, IssueNote, NewIssue, Updated};
use crate::landing::OPEN_STATES;
use crate::view::View;

impl Store {
    pub fn add_issue(&mut self, by: &Who, new: &NewIssue) -> Result<Issue> {
        self.write(|change| change.add_issue(by, new))
    }

    pub fn issue(&mut self, id: &IssueId) -> Result<Option<Issue>> {
        self.read(|view| view.issue_by_id(id))
    }

    /// Issues by priority, then age.
    pub fn issues(&mut self, filter: &IssueFilter) -> Result<Vec<Issue>> {
        self.read(|view| view.issues(filter))
    }

    /// Issues that somebody could begin with: open, nothing left that they need, nothing in the landing queue, no epics. By
    /// priority, then age.
    pub fn ready(&mut self, after: Option<&IssueId>, limit: u32) -> Result<Vec<Issue>> {
        self.read(|view| view.ready(after, limit))
    }

    /// Everything said about an issue, oldest first.
    pub fn notes(&mut self, id: &IssueId) -> Result<Vec<IssueNote>> {
        self.read(|view| view.notes_of(id))
    }

    /// Says something about an issue, of this tracker or of another one whose issue was worked on here.
    pub fn note(&mut self, by: &Who, id: &IssueId, text: &str) -> Result<IssueNote> {
        self.write(|change| {
            change.must_know_issue(id)?;
            change.permit(by, IssueChange::Note(id))?;
            change.note(by, id, text, None)
        })
    }

    /// Closing a closed issue changes nothing.
    pub fn close_issue(&mut self, by: &Who, id: &IssueId, reason: Option<&str>) -> Result<Updated> {
        self.write(|change| {
            change.permit(by, IssueChange::Close)?;
            let issue = change.must_find_issue(id)?;
            match issue.is_closed() {
                true => Ok(Updated { issue, is_changed: false }),
                false => change.close(by, &issue, reason),
            }
        })
    }

    /// Makes an issue open again: a closed one, or one that somebody has claimed and will not finish.
    pub fn reopen_issue(&mut self, by: &Who, id: &IssueId) -> Result<Updated> {
        self.write(|change| {
            change.permit(by, IssueChange::Reopen)?;
            let issue = change.must_find_issue(id)?;
            match issue.status.as_str() {
                OPEN if issue.assignee.is_none() => Ok(Updated { issue, is_changed: false }),
                _ => {
                    change.refuse_worked_on(id)?;
                    change.reopen(by, &issue)
                }
            }
        })
    }

    /// Adds and removes labels.
    pub fn label_issue(
        &mut self,
        by: &Who,
        id: &IssueId,
        add: &[String],
        remove: &[String],
    ) -> Result<Updated> {
        self.write(|change| {
            change.permit(by, IssueChange::Label)?;
            change.must_find_issue(id)?;
            let mut is_changed = false;
            for label in add {
                is_changed |= change.add_label(id, &word("label", label)?)?;
            }
            for label in remove {
                is_changed |= change.remove_label(id, label)?;
            }
            if is_changed {
                let detail = json!({ "added": add, "removed": remove });
                change.record_by(EventKind::IssueLabelled, by, Some(id), &detail)?;
            }
            Ok(Updated { issue: change.must_find_issue(id)?, is_changed })
        })
    }

    /// Makes one issue need another, unless that would close a circle.
    pub fn link_issue(&mut self, by: &Who, id: &IssueId, needs: &IssueId) -> Result<Issue> {
        self.write(|change| {
            change.permit(by, IssueChange::Link)?;
            change.must_find_issue(id)?;
            change.must_find_issue(needs)?;
            change.refuse_circle_of_needs(id, needs)?;
            change.add_need(id, needs)?;
            change.record_by(EventKind::IssueLinked, by, Some(id), &json!({ "needs": needs }))?;
            change.must_find_issue(id)
        })
    }

    /// Takes an open issue for oneself. Only one of all who try gets it; whoever has it already has it still.
    pub fn claim_issue(&mut self, by: &Who, id: &IssueId) -> Result<Issue> {
        self.write(|change| {
            let issue = change.must_find_issue(id)?;
            if is_claimed_by(&issue, by) {
                return Ok(issue);
            }
            change.claim_open(issue, by.name())?;
            change.refuse_worked_on(id)?;
            change.record_by(EventKind::IssueClaimed, by, Some(id), &json!({}))?;
            change.must_find_issue(id)
        })
    }

    /// Gives an issue back that one has claimed. True if it was one's own; otherwise nothing is changed.
    pub fn release_issue(&mut self, by: &Who, id: &IssueId) -> Result<bool> {
        self.write(|change| {
            let issue = change.must_find_issue(id)?;
            if !is_claimed_by(&issue, by) {
                return Ok(false);
            }
            change.refuse_worked_on(id)?;
            change.reopen(by, &issue)?;
            Ok(true)
        })
    }
}

impl View<'_> {
    fn issues(&self, filter: &IssueFilter) -> std::result::Result<Vec<Issue>, Fault> {
        let (priority, created_at, id) = self.place_of(filter.after.as_ref())?;
        let condition = format!(
            "(i.priority, i.created_at, i.id) > (?1, ?2, ?3)
             AND (i.status = ?4 OR (?4 IS NULL AND (?5 OR i.status NOT IN {CLOSED_WORDS})))
             AND (?6 IS NULL OR EXISTS (SELECT 1 FROM issue_label l WHERE l.issue = i.id AND l.label = ?6))
             AND (?7 IS NULL OR i.kind = ?7) AND (?8 IS NULL OR i.parent = ?8) AND (?9 IS NULL OR i.assignee = ?9)
             ORDER BY i.priority, i.created_at, i.id LIMIT ?10"
        );
        let params = params![
            priority,
            created_at,
            id,
            filter.status,
            filter.all,
            filter.label,
            filter.kind,
            filter.parent.as_ref().map(IssueId::as_str),
            filter.assignee,
            filter.limit.map_or(-1, i64::from),
        ];
        self.issues_where(&condition, params)
    }

    fn ready(&self, after: Option<&IssueId>, limit: u32) -> std::result::Result<Vec<Issue>, Fault> {
        let (priority, created_at, id) = self.place_of(after)?;
        // The status and the kind are written out, so that the index on what is open serves.
        let condition = format!(
            "i.status = 'open' AND i.kind <> 'epic' AND (i.priority, i.created_at, i.id) > (?1, ?2, ?3)
             AND i.assignee IS NULL AND NOT EXISTS (
                 SELECT 1 FROM dependency d LEFT JOIN issue o ON o.id = d.other
                 WHERE d.issue = i.id AND coalesce(o.status, '') NOT IN {CLOSED_WORDS})
             AND NOT EXISTS (SELECT 1 FROM entry e WHERE e.issue = i.id AND e.state IN {OPEN_STATES})
             ORDER BY i.priority, i.created_at, i.id LIMIT ?4"
        );
        self.issues_where(&condition, params![priority, created_at, id, limit])
    }

    /// Where a page starts.
    fn place_of(&self, after: Option<&IssueId>) -> std::result::Result<(i64, i64, String), Fault> {
        let Some(after) = after else { return Ok((-1, i64::MIN, String::new())) };
        let sql = "SELECT priority, created_at FROM issue WHERE id = ?1";
        let row =
            self.sql.prepare_cached(sql)?.query_row([after.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
        let (priority, created_at) =
            row.optional()?.ok_or_else(|| IssueError::Unknown { id: after.clone() })?;
        Ok((priority, created_at, after.as_str().to_owned()))
    }
}

impl Change<'_> {
    fn add_issue(&mut self, by: &Who, new: &NewIssue) -> std::result::Result<Issue, Fault> {
        let from = self.permit(by, IssueChange::Add)?;
        if new.title.trim().is_empty() {
            return Err(IssueError::NoTitle.into());
        }
        for text in &new.files {
            let parsed = Pattern::parse(text.as_bytes());
            parsed.map_err(|source| IssueError::BadFile { text: text.clone(), source })?;
        }
        let id = match &new.name {
            IssueName::Given(id) if self.issue_by_id(id)?.is_some() => {
                return Err(IssueError::Exists { id: id.clone() }.into());
            }
            IssueName::Given(id) => id.clone(),
            IssueName::Numbered { prefix } => {
                let number = self.next_number(prefix)?;
                IssueId::new(format!("{prefix}-{number}")).map_err(IssueError::Name)?
            }
        };
        for other in new.needs.iter().chain(&new.parent) {
            self.must_find_issue(other)?;
        }
        let issue = self.new_issue(id, new)?;
        self.insert_issue(&issue)?;
        for label in &new.labels {
            self.add_label(&issue.id, &word("label", label)?)?;
        }
        for other in &new.needs {
            self.add_need(&issue.id, other)?;
        }
        let mut detail = json!({ "title": issue.title, "priority": issue.priority, "kind": issue.kind });
        if let Some(from) = from {
            detail["from"] = json!(from);
        }
        self.record_by(EventKind::IssueAdded, by, Some(&issue.id), &detail)?;
        self.must_find_issue(&issue.id)
    }

    /// Whoever keeps the issue: one that was worked on is known.
    fn must_know_issue(&self, id: &IssueId) -> std::result::Result<(), Fault> {
        match self.exists("SELECT 1 FROM attempt WHERE issue = ?1", [id.as_str()])? {
            true => Ok(()),
            false => self.must_find_issue(id).map(drop),
        }
    }

    fn refuse_circle_of_needs(&self, id: &IssueId, other: &IssueId) -> std::result::Result<(), Fault> {
        let sql = "WITH RECURSIVE needed (id) AS (
                 SELECT ?2 UNION SELECT d.other FROM dependency d JOIN needed n ON d.issue = n.id )
             SELECT 1 FROM needed WHERE id = ?1";
        match self.exists(sql, [id.as_str(), other.as_str()])? {
            true => Err(IssueError::Circle { id: id.clone(), other: other.clone() }.into()),
            false => Ok(()),
        }
    }

    fn new_issue(&self, id: IssueId, new: &NewIssue) -> std::result::Result<Issue, Fault> {
        Ok(Issue {
            id,
            title: new.title.clone(),
            description: new.description.clone(),
            design: new.design.clone(),
            acceptance: new.acceptance.clone(),
            status: OPEN.to_owned(),
            priority: new.priority,
            kind: word("kind", &new.kind)?,
            labels: Vec::new(),
            dependencies: Vec::new(),
            files: new.files.clone(),
            parent: new.parent.clone(),
            assignee: None,
            created_at: Some(self.now),
            notes: Vec::new(),
        })
    }

    /// Appends a note to an issue, whether it is one of this tracker or not.
    pub(crate) fn note(
        &mut self,
        by: &Who,
        id: &IssueId,
        text: &str,
        attempt: Option<u32>,
    ) -> std::result::Result<IssueNote, Fault> {
        if text.trim().is_empty() {
            return Err(IssueError::EmptyNote.into());
        }
        // What agents paste, and what mala quotes of them, may have secrets in it; what a person writes is meant so.
        let is_quoted = attempt.is_some() || by.agent().is_some();
        let text = if is_quoted { mask(text) } else { Cow::Borrowed(text) };
        let note = self.append_note(id, self.now, by, (&text, attempt))?;
        let detail = json!({ "note": note.seq, "attempt": attempt });
        self.record_by(EventKind::IssueNoted, by, Some(id), &detail)?;
        Ok(note)
    }

    pub(crate) fn close(
        &mut self,
        by: &Who,
        issue: &Issue,
        reason: Option<&str>,
    ) -> std::result::Result<Updated, Fault> {
        self.set_status(&issue.id, CLOSED, issue.assignee.as_deref())?;
        self.record_by(EventKind::IssueClosed, by, Some(&issue.id), &json!({ "reason": reason }))?;
        Ok(Updated { issue: self.must_find_issue(&issue.id)?, is_changed: true })
    }

    pub(crate) fn reopen(&mut self, by: &Who, issue: &Issue) -> std::result::Result<Updated, Fault> {
        self.set_status(&issue.id, OPEN, None)?;
        self.record_by(EventKind::IssueReopened, by, Some(&issue.id), &json!({ "was": issue.status }))?;
        Ok(Updated { issue: self.must_find_issue(&issue.id)?, is_changed: true })
    }

    /// Gives an issue to somebody if it is ready.
    pub(crate) fn claim_open(&mut self, issue: Issue, assignee: &str) -> std::result::Result<(), Fault> {
        let is_free = issue.assignee.is_none() || issue.assignee.as_deref() == Some(assignee);
        if issue.status != OPEN || !is_free {
            let Issue { id, status, assignee, .. } = issue;
            return Err(IssueError::NotOpen { id, status, assignee }.into());
        }
        if issue.is_epic() {
            return Err(IssueError::Epic { id: issue.id }.into());
        }
        let by = self.blockers_of(&issue.id)?;
        if !by.is_empty() {
            return Err(IssueError::Blocked { id: issue.id, by }.into());
        }
        self.set_status(&issue.id, IN_PROGRESS, Some(assignee))
    }
}

fn is_claimed_by(issue: &Issue, who: &Who) -> bool {
    issue.status == IN_PROGRESS && issue.assignee.as_deref() == Some(who.name())
}

/// A kind or a label, if it is a word.
fn word(what: &'static str, text: &str) -> std::result::Result<String, Fault> {
    let word = IssueWord::new(text).map_err(|source| IssueError::Word { what, source })?;
    Ok(word.as_str().to_owned())
}
