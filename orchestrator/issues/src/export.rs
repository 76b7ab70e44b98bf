//! Issues as `br` and `bd` export them: one JSON object a line.

use mala_core::issue::{ForeignIssue, OPEN};
use mala_core::{Issue, IssueId, IssueWord, Note, PersonId};
use serde::Deserialize;
use thiserror::Error;

use crate::wire::{Link, Meaning, moment, priority};

/// A line that cannot be read.
#[derive(Debug, Error)]
#[error("line {line} of the import makes no sense: {detail}")]
pub struct ExportError {
    /// The first is 1.
    pub line: usize,
    pub detail: String,
}

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
struct Comment {
    author: Option<String>,
    text: String,
    created_at: Option<String>,
}

/// The issues of an export, or the first line that makes no sense.
pub fn read_export(text: &str) -> Result<Vec<ForeignIssue>, ExportError> {
    let lines = text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty());
    let read = |(place, text): (usize, &str)| {
        let line: Result<Line, _> = serde_json::from_str(text);
        let issue = line.map_err(|error| error.to_string()).and_then(Line::into_issue);
        let issue = issue.map_err(|detail| ExportError { line: place + 1, detail })?;
        Ok(ForeignIssue { issue, source: text.trim().to_owned() })
    };
    lines.map(read).collect()
}

impl Line {
    fn into_issue(self) -> Result<Issue, String> {
        let id = |text: &str| IssueId::given(text).map_err(|error| error.to_string());
        let links = |wanted: Meaning| {
            let links = self.dependencies.iter().flatten().filter(move |link| link.meaning() == wanted);
            links.map(|link| id(link.other().ok_or("a dependency names no issue")?))
        };
        Ok(Issue {
            id: id(&self.id)?,
            status: word(self.status.as_deref().unwrap_or(OPEN))?,
            priority: self.priority.map(priority).transpose()?.unwrap_or_default(),
            kind: word(self.issue_type.as_deref().unwrap_or("task"))?,
            labels: self.labels.iter().flatten().map(|label| word(label)).collect::<Result<_, _>>()?,
            dependencies: links(Meaning::Blocks).collect::<Result<_, _>>()?,
            parent: links(Meaning::Parent).next().transpose()?,
            files: Vec::new(),
            created_at: self.created_at.as_deref().map(moment).transpose()?,
            notes: self.notes()?,
            assignee: self.assignee.filter(|name| !name.trim().is_empty()),
            title: self.title,
            description: self.description.unwrap_or_default(),
            design: self.design.unwrap_or_default(),
            acceptance: self.acceptance_criteria.unwrap_or_default(),
        })
    }

    /// What is noted on the issue, and then what was said about it.
    fn notes(&self) -> Result<Vec<Note>, String> {
        let notes = self.notes.iter().map(|text| (None, text, self.updated_at.as_deref()));
        let comments = self.comments.iter().flatten();
        let comments = comments.map(|it| (it.author.as_deref(), &it.text, it.created_at.as_deref()));
        let all = notes.chain(comments).filter(|(_, text, _)| !text.trim().is_empty());
        let note = |(author, text, at): (Option<&str>, &String, Option<&str>)| {
            let author = author.filter(|name| !name.is_empty()).map(PersonId::new).transpose();
            let author = author.map_err(|error| error.to_string())?.map(|name| name.to_string());
            Ok(Note { at: at.map(moment).transpose()?, author, text: text.clone() })
        };
        all.map(note).collect()
    }
}

/// A status, a kind or a label.
fn word(text: &str) -> Result<String, String> {
    IssueWord::new(text).map(|word| word.as_str().to_owned()).map_err(|error| error.to_string())
}
