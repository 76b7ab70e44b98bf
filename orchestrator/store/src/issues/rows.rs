//! Issues and notes as rows.

use mala_core::{Issue, IssueId, IssueWord, Note, Priority, Timestamp, Who};
use rusqlite::{OptionalExtension, Row, params};

use crate::change::Change;
use crate::error::Fault;
use crate::issues::types::{IssueError, IssueNote};
use crate::rows::{self, who_number};
use crate::view::View;

const COLUMNS: &str =
    "i.id, i.title, i.description, i.design, i.acceptance, i.status, i.priority, i.kind, i.parent,
     i.assignee, i.files, i.created_at";

/// The statuses of [`Issue::is_closed`], for queries.
pub(crate) const CLOSED_WORDS: &str = "('closed', 'done', 'resolved', 'tombstone')";

impl View<'_> {
    pub(crate) fn issue_by_id(&self, id: &IssueId) -> Result<Option<Issue>, Fault> {
        Ok(self.issues_where("i.id = ?1", params![id.as_str()])?.pop())
    }

    pub(crate) fn must_find_issue(&self, id: &IssueId) -> Result<Issue, Fault> {
        self.issue_by_id(id)?.ok_or_else(|| IssueError::Unknown { id: id.clone() }.into())
    }

    pub(crate) fn issues_where(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Issue>, Fault> {
        let sql = format!("SELECT {COLUMNS} FROM issue i WHERE {condition}");
        let mut statement = self.sql.prepare_cached(&sql)?;
        let mut issues = statement.query_map(params, issue)?.collect::<Result<Vec<_>, _>>()?;
        for issue in &mut issues {
            issue.labels = self.labels_of(&issue.id)?;
            issue.dependencies = self.needs_of(&issue.id)?;
            issue.notes = self.notes_of(&issue.id)?.into_iter().map(Note::from).collect();
        }
        Ok(issues)
    }

    fn labels_of(&self, id: &IssueId) -> Result<Vec<String>, Fault> {
        let sql = "SELECT label FROM issue_label WHERE issue = ?1 ORDER BY label";
        let mut statement = self.sql.prepare_cached(sql)?;
        let labels = statement.query_map([id.as_str()], |row| word(row, 0))?;
        Ok(labels.collect::<Result<_, _>>()?)
    }

    fn needs_of(&self, id: &IssueId) -> Result<Vec<IssueId>, Fault> {
        self.issue_ids("SELECT other FROM dependency WHERE issue = ?1 ORDER BY other", id)
    }

    /// The issues that this one needs and that are not closed, or that nobody knows.
    pub(crate) fn blockers_of(&self, id: &IssueId) -> Result<Vec<IssueId>, Fault> {
        let sql = format!(
            "SELECT d.other FROM dependency d LEFT JOIN issue o ON o.id = d.other
             WHERE d.issue = ?1 AND coalesce(o.status, '') NOT IN {CLOSED_WORDS} ORDER BY d.other"
        );
        self.issue_ids(&sql, id)
    }

    /// The issues that this one needs and that nobody knows.
    pub(crate) fn unknown_needs_of(&self, id: &IssueId) -> Result<Vec<IssueId>, Fault> {
        let sql = "SELECT other FROM dependency WHERE issue = ?1 AND other NOT IN (SELECT id FROM issue)";
        self.issue_ids(sql, id)
    }

    fn issue_ids(&self, sql: &str, of: &IssueId) -> Result<Vec<IssueId>, Fault> {
        let mut statement = self.sql.prepare_cached(sql)?;
        let ids = statement.query_map([of.as_str()], |row| rows::name(row, 0, IssueId::new))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    pub(crate) fn notes_of(&self, id: &IssueId) -> Result<Vec<IssueNote>, Fault> {
        let sql =
            "SELECT seq, at, author_kind, author, text, attempt FROM note WHERE issue = ?1 ORDER BY seq";
        let mut statement = self.sql.prepare_cached(sql)?;
        let notes = statement.query_map([id.as_str()], |row| {
            Ok(IssueNote {
                seq: row.get(0)?,
                at: rows::timestamp(row, 1)?,
                author: rows::who(row, 2)?,
                text: row.get(4)?,
                attempt: row.get(5)?,
            })
        })?;
        Ok(notes.collect::<Result<_, _>>()?)
    }
}

impl From<IssueNote> for Note {
    fn from(note: IssueNote) -> Self {
        Self { at: Some(note.at), author: Some(note.author.to_string()), text: note.text }
    }
}

/// A tracker's own word.
fn word(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    rows::name(row, column, IssueWord::new).map(|word| word.as_str().to_owned())
}

/// An issue without what is in tables of its own.
fn issue(row: &Row<'_>) -> rusqlite::Result<Issue> {
    let files: String = row.get(10)?;
    Ok(Issue {
        id: rows::name(row, 0, IssueId::new)?,
        title: row.get(1)?,
        description: row.get(2)?,
        design: row.get(3)?,
        acceptance: row.get(4)?,
        status: word(row, 5)?,
        priority: Priority::try_from(row.get::<_, u8>(6)?).or_else(|error| rows::bad(6, error))?,
        kind: word(row, 7)?,
        labels: Vec::new(),
        dependencies: Vec::new(),
        files: serde_json::from_str(&files).or_else(|error| rows::bad(10, error))?,
        parent: rows::optional_name(row, 8, IssueId::new)?,
        assignee: row.get(9)?,
        created_at: Some(rows::timestamp(row, 11)?),
        notes: Vec::new(),
    })
}

/// `PREFIX` and `n` of an id that is made of both.
pub(crate) fn numbered(id: &IssueId) -> Option<(&str, i64)> {
    let (prefix, number) = id.as_str().rsplit_once('-')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some((prefix, number))
}

impl Change<'_> {
    /// Stores a new issue without what is in tables of its own.
    pub(crate) fn insert_issue(&mut self, issue: &Issue) -> Result<(), Fault> {
        let (prefix, number) = numbered(&issue.id).unzip();
        let sql = "INSERT INTO issue (id, title, description, design, acceptance, status, priority, kind, parent, assignee,
                 files, created_at, updated_at, closed_at, prefix, number)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        let now = self.now.as_millis();
        self.sql.prepare_cached(sql)?.execute(params![
            issue.id.as_str(),
            issue.title,
            issue.description,
            issue.design,
            issue.acceptance,
            issue.status,
            issue.priority.number(),
            issue.kind,
            issue.parent.as_ref().map(IssueId::as_str),
            issue.assignee,
            serde_json::json!(issue.files).to_string(),
            issue.created_at.map_or(now, Timestamp::as_millis),
            now,
            issue.is_closed().then_some(now),
            prefix,
            number,
        ])?;
        Ok(())
    }

    /// Stores what a known issue says. Its status is another matter.
    pub(crate) fn update_issue(&mut self, issue: &Issue) -> Result<(), Fault> {
        let sql = "UPDATE issue SET title = ?2, description = ?3, design = ?4, acceptance = ?5, priority = ?6, kind = ?7,
                 parent = ?8, updated_at = ?9
             WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![
            issue.id.as_str(),
            issue.title,
            issue.description,
            issue.design,
            issue.acceptance,
            issue.priority.number(),
            issue.kind,
            issue.parent.as_ref().map(IssueId::as_str),
            self.now.as_millis(),
        ])?;
        Ok(())
    }

    pub(crate) fn set_status(
        &mut self,
        id: &IssueId,
        status: &str,
        assignee: Option<&str>,
    ) -> Result<(), Fault> {
        let sql = format!(
            "UPDATE issue SET status = ?2, assignee = ?3, updated_at = ?4,
                 closed_at = CASE WHEN ?2 IN {CLOSED_WORDS} THEN coalesce(closed_at, ?4) END
             WHERE id = ?1"
        );
        let row = params![id.as_str(), status, assignee, self.now.as_millis()];
        self.sql.prepare_cached(&sql)?.execute(row)?;
        Ok(())
    }

    pub(crate) fn add_label(&mut self, id: &IssueId, label: &str) -> Result<bool, Fault> {
        let sql = "INSERT INTO issue_label (issue, label) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        Ok(self.sql.prepare_cached(sql)?.execute([id.as_str(), label])? > 0)
    }

    pub(crate) fn remove_label(&mut self, id: &IssueId, label: &str) -> Result<bool, Fault> {
        let sql = "DELETE FROM issue_label WHERE issue = ?1 AND label = ?2";
        Ok(self.sql.prepare_cached(sql)?.execute([id.as_str(), label])? > 0)
    }

    pub(crate) fn add_need(&mut self, id: &IssueId, other: &IssueId) -> Result<(), Fault> {
        let sql = "INSERT INTO dependency (issue, other) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        self.sql.prepare_cached(sql)?.execute([id.as_str(), other.as_str()])?;
        Ok(())
    }

    pub(crate) fn append_note(
        &mut self,
        id: &IssueId,
        at: Timestamp,
        author: &Who,
        (text, attempt): (&str, Option<u32>),
    ) -> Result<IssueNote, Fault> {
        let sql = "SELECT coalesce(max(seq), 0) + 1 FROM note WHERE issue = ?1";
        let seq: u32 = self.sql.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0))?;
        let sql = "INSERT INTO note (issue, seq, at, author_kind, author, text, attempt)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let row = params![id.as_str(), seq, at.as_millis(), who_number(author), author.name(), text, attempt];
        self.sql.prepare_cached(sql)?.execute(row)?;
        Ok(IssueNote { seq, at, author: author.clone(), text: text.to_owned(), attempt })
    }

    pub(crate) fn next_number(&self, prefix: &str) -> Result<i64, Fault> {
        let sql =
            "SELECT number FROM issue WHERE prefix = ?1 AND number IS NOT NULL ORDER BY number DESC LIMIT 1";
        let last: Option<i64> =
            self.sql.prepare_cached(sql)?.query_row([prefix], |row| row.get(0)).optional()?;
        Ok(last.unwrap_or(0) + 1)
    }
}
