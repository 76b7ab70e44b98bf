//! Issues from another tracker's export: one JSON object a line, as `br` and `bd` write them.
//!
//! Importing the same lines again changes nothing, whatever has become of the issues here since. A line that has
//! changed brings its new content; the status only if it has changed where the line comes from.

use mala_core::issue::{OPEN, parse_moment};
use mala_core::{Issue, IssueId, IssueWord, PersonId, Priority, Timestamp, Who};
use rusqlite::{OptionalExtension, params};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;
use crate::issue_types::{Imported, IssueError};

/// Who wrote what an export does not sign.
const NOBODY: &str = "import";

/// One line of an export. Fields that mala has no use for are left out.
#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    title: String,
    description: Option<String>,
    design: Option<String>,
    acceptance_criteria: Option<String>,
    notes: Option<String>,
    status: Option<String>,
    priority: Option<i64>,
    issue_type: Option<String>,
    assignee: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
    labels: Option<Vec<String>>,
    dependencies: Option<Vec<Link>>,
    comments: Option<Vec<Comment>>,
}

#[derive(Debug, Deserialize)]
struct Link {
    depends_on_id: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Comment {
    author: Option<String>,
    text: String,
    created_at: Option<String>,
}

/// What an issue looked like where it came from: its line, hashed, and its status. Neither, if it was made here.
type Source = (Option<Vec<u8>>, Option<String>);

/// What a link means for the order of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Needs,
    Parent,
    Nothing,
}

impl Link {
    fn meaning(&self) -> Meaning {
        match self.kind.as_deref() {
            None | Some("" | "blocks" | "conditional-blocks" | "waits-for") => Meaning::Needs,
            Some("parent-child") => Meaning::Parent,
            Some(_) => Meaning::Nothing,
        }
    }
}

impl Store {
    /// Takes over the issues of an export, all lines or none.
    pub fn import_issues(&mut self, by: &Who, text: &str) -> Result<Imported> {
        self.write(|change| change.import(by, text))
    }
}

impl Change<'_> {
    fn import(&mut self, by: &Who, text: &str) -> std::result::Result<Imported, Fault> {
        let mut imported = Imported::default();
        for (place, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let bad = |detail: String| IssueError::BadLine { line: place + 1, detail };
            let line: Line = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
            self.import_line(text, &line, &mut imported, &bad)?;
        }
        for id in imported.added.iter().chain(&imported.changed) {
            for other in self.unknown_needs_of(id)? {
                imported.dangling.push((id.clone(), other));
            }
        }
        if !imported.added.is_empty() || !imported.changed.is_empty() {
            let detail = json!({ "added": imported.added.len(), "changed": imported.changed.len() });
            self.record_by(EventKind::IssuesImported, by, None, &detail)?;
        }
        Ok(imported)
    }

    fn import_line(
        &mut self,
        text: &str,
        line: &Line,
        imported: &mut Imported,
        bad: &dyn Fn(String) -> IssueError,
    ) -> std::result::Result<(), Fault> {
        let hash = Sha256::digest(text.trim().as_bytes()).to_vec();
        let issue = self.issue_of(line).map_err(bad)?;
        match self.source_of(&issue.id)? {
            Some((Some(source), _)) if source == hash => {
                imported.unchanged += 1;
                return Ok(());
            }
            Some((_, source_status)) => {
                self.update_issue(&issue)?;
                if source_status.as_deref() != Some(issue.status.as_str()) {
                    self.set_status(&issue.id, &issue.status, issue.assignee.as_deref())?;
                }
                imported.changed.push(issue.id.clone());
            }
            None => {
                self.insert_issue(&issue)?;
                imported.added.push(issue.id.clone());
            }
        }
        let sql = "UPDATE issue SET source = ?2, source_status = ?3 WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![issue.id.as_str(), hash, issue.status])?;
        self.replace_links(&issue)?;
        self.import_notes(&issue.id, line, bad)
    }

    fn source_of(&self, id: &IssueId) -> std::result::Result<Option<Source>, Fault> {
        let mut statement =
            self.sql.prepare_cached("SELECT source, source_status FROM issue WHERE id = ?1")?;
        Ok(statement.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }

    fn issue_of(&self, line: &Line) -> std::result::Result<Issue, String> {
        let id = |text: &String| IssueId::given(text).map_err(|error| error.to_string());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let links = |wanted: Meaning| {
            let links = line.dependencies.iter().flatten().filter(move |link| link.meaning() == wanted);
            links.map(|link| id(&link.depends_on_id))
        };
        let priority = match line.priority {
            None => Priority::default(),
            Some(number) => u8::try_from(number)
                .ok()
                .and_then(|number| Priority::try_from(number).ok())
                .ok_or_else(|| format!("priority {number} is not from 0, the most urgent, to 4"))?,
        };
        Ok(Issue {
            id: id(&line.id)?,
            title: line.title.clone(),
            description: text(&line.description),
            design: text(&line.design),
            acceptance: text(&line.acceptance_criteria),
            status: word(line.status.as_deref().unwrap_or(OPEN))?,
            priority,
            kind: word(line.issue_type.as_deref().unwrap_or("task"))?,
            labels: line
                .labels
                .iter()
                .flatten()
                .map(|label| word(label))
                .collect::<std::result::Result<_, _>>()?,
            dependencies: links(Meaning::Needs).collect::<std::result::Result<_, _>>()?,
            files: Vec::new(),
            parent: links(Meaning::Parent).next().transpose()?,
            assignee: line.assignee.clone().filter(|name| !name.trim().is_empty()),
            created_at: Some(moment(line.created_at.as_deref(), self.now)?),
            notes: Vec::new(),
        })
    }

    fn replace_links(&mut self, issue: &Issue) -> std::result::Result<(), Fault> {
        let id = issue.id.as_str();
        self.sql.prepare_cached("DELETE FROM issue_label WHERE issue = ?1")?.execute([id])?;
        self.sql.prepare_cached("DELETE FROM dependency WHERE issue = ?1")?.execute([id])?;
        for label in &issue.labels {
            self.add_label(&issue.id, label)?;
        }
        for other in &issue.dependencies {
            self.add_need(&issue.id, other)?;
        }
        Ok(())
    }

    /// Appends what was said there and is not known here yet.
    fn import_notes(
        &mut self,
        id: &IssueId,
        line: &Line,
        bad: &dyn Fn(String) -> IssueError,
    ) -> std::result::Result<(), Fault> {
        let known = self.notes_of(id)?;
        let notes = line.notes.iter().map(|text| (None, text, line.updated_at.as_deref()));
        let comments = line.comments.iter().flatten();
        let comments = comments.map(|c| (c.author.as_deref(), &c.text, c.created_at.as_deref()));
        for (author, text, at) in notes.chain(comments).filter(|(_, text, _)| !text.trim().is_empty()) {
            let author = author.filter(|name| !name.is_empty()).unwrap_or(NOBODY);
            let author = Who::Person(PersonId::new(author).map_err(|error| bad(error.to_string()))?);
            if !known.iter().any(|note| note.author == author && note.text == *text) {
                let at = moment(at, self.now).map_err(bad)?;
                self.append_note(id, at, &author, (text, None))?;
            }
        }
        Ok(())
    }
}

/// A status, a kind or a label.
fn word(text: &str) -> std::result::Result<String, String> {
    IssueWord::new(text).map(|word| word.as_str().to_owned()).map_err(|error| error.to_string())
}

/// When something happened; now, if that was not written down.
fn moment(text: Option<&str>, now: Timestamp) -> std::result::Result<Timestamp, String> {
    let parse = |text: &str| parse_moment(text).ok_or_else(|| format!("`{text}` is not a time"));
    text.map_or(Ok(now), parse)
}
