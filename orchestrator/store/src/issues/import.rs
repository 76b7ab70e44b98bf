//! Issues that another tracker has kept until now.
//!
//! Importing the same issues again changes nothing, whatever has become of them here since. One that has changed brings its
//! new content; the status only if it has changed where the issue comes from.

use mala_core::issue::ForeignIssue;
use mala_core::{Issue, IssueId, PersonId, Who};
use rusqlite::{OptionalExtension, params};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::permit::IssueChange;
use super::types::{Imported, IssueError};
use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::EventKind;

/// Who wrote what is not signed.
const UNSIGNED_AUTHOR: &str = "import";

/// What an issue looked like where it came from, hashed, and its status. Neither, if it was made here.
type Source = (Option<Vec<u8>>, Option<String>);

impl Store {
    /// Takes over issues, all or none.
    pub fn import_issues(&mut self, by: &Who, issues: &[ForeignIssue]) -> Result<Imported> {
        self.write(|change| {
            change.permit(by, IssueChange::Import)?;
            change.import(by, issues)
        })
    }
}

impl Change<'_> {
    fn import(&mut self, by: &Who, issues: &[ForeignIssue]) -> std::result::Result<Imported, Fault> {
        let mut imported = Imported::default();
        for issue in issues {
            self.import_one(issue, &mut imported)?;
        }
        for id in imported.added.iter().chain(&imported.changed) {
            for other in self.unknown_needs_of(id)? {
                imported.dangling.push((id.clone(), other));
            }
        }
        let is_touched = |id: &IssueId| imported.added.contains(id) || imported.changed.contains(id);
        let circle = self.circles_of_needs()?.into_iter().find(|circle| circle.iter().any(is_touched));
        if let Some(issues) = circle {
            return Err(IssueError::ImportedCircle { issues }.into());
        }
        if !imported.added.is_empty() || !imported.changed.is_empty() {
            let detail = json!({ "added": imported.added.len(), "changed": imported.changed.len() });
            self.record_by(EventKind::IssuesImported, by, None, &detail)?;
        }
        Ok(imported)
    }

    fn import_one(
        &mut self,
        ForeignIssue { issue, source }: &ForeignIssue,
        imported: &mut Imported,
    ) -> std::result::Result<(), Fault> {
        let hash = Sha256::digest(source.as_bytes()).to_vec();
        match self.source_of(&issue.id)? {
            Some((Some(source), _)) if source == hash => {
                imported.unchanged += 1;
                return Ok(());
            }
            Some((_, source_status)) => {
                self.update_issue(issue)?;
                if source_status.as_deref() != Some(issue.status.as_str()) {
                    self.set_status(&issue.id, &issue.status, issue.assignee.as_deref())?;
                }
                imported.changed.push(issue.id.clone());
            }
            None => {
                self.insert_issue(issue)?;
                imported.added.push(issue.id.clone());
            }
        }
        let sql = "UPDATE issue SET source = ?2, source_status = ?3 WHERE id = ?1";
        self.sql.prepare_cached(sql)?.execute(params![issue.id.as_str(), hash, issue.status])?;
        self.replace_links(issue)?;
        self.import_notes(issue)
    }

    fn source_of(&self, id: &IssueId) -> std::result::Result<Option<Source>, Fault> {
        let mut statement =
            self.sql.prepare_cached("SELECT source, source_status FROM issue WHERE id = ?1")?;
        Ok(statement.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
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
    fn import_notes(&mut self, issue: &Issue) -> std::result::Result<(), Fault> {
        let known = self.notes_of(&issue.id)?;
        for note in &issue.notes {
            let author = note.author.as_deref().unwrap_or(UNSIGNED_AUTHOR);
            let author = Who::Person(PersonId::new(author).map_err(IssueError::from)?);
            if !known.iter().any(|known| known.author == author && known.text == note.text) {
                self.append_note(&issue.id, note.at.unwrap_or(self.now), &author, (&note.text, None))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mala_core::{Priority, Timestamp};

    use super::*;
    use crate::StoreError;

    fn foreign(id: &str, needs: &[&str]) -> ForeignIssue {
        let issue = Issue {
            id: IssueId::new(id).unwrap(),
            title: "x".to_owned(),
            description: String::new(),
            design: String::new(),
            acceptance: String::new(),
            status: "open".to_owned(),
            priority: Priority::NORMAL,
            kind: "task".to_owned(),
            labels: Vec::new(),
            dependencies: needs.iter().map(|need| IssueId::new(*need).unwrap()).collect(),
            files: Vec::new(),
            parent: None,
            assignee: None,
            created_at: Some(Timestamp::from_millis(1)),
            notes: Vec::new(),
        };
        ForeignIssue { issue, source: format!("{id} {needs:?}") }
    }

    #[test]
    fn issues_that_need_each_other_are_not_imported() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open_in(dir.path(), b"/here").unwrap();
        let me = Who::Person(PersonId::new("me").unwrap());
        let fine = [foreign("a", &["b"]), foreign("b", &["c"]), foreign("d", &[])];
        assert_eq!(store.import_issues(&me, &fine).unwrap().added.len(), 3);
        let error = store.import_issues(&me, &[foreign("c", &["a"])]).unwrap_err();
        assert!(matches!(error, StoreError::Issue(IssueError::ImportedCircle { .. })), "{error:?}");
        assert!(error.to_string().ends_with("`a` needs `b` needs `c` needs `a`"), "{error}");
        assert_eq!(store.issue(&IssueId::new("c").unwrap()).unwrap(), None, "nothing of it is there");
        assert_eq!(store.circles_of_needs().unwrap(), Vec::<Vec<IssueId>>::new());
    }
}
