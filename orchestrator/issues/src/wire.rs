//! An issue as `br` and `bd` write it in JSON, and what it is to us.
//!
//! Fields that are missing or null are empty: both programs leave out what is not set. A value that is there and
//! makes no sense is an error, never a default.

use jiff::Timestamp as Moment;
use mala_core::{Issue, IssueId, Priority, Timestamp};
use serde::Deserialize;

use crate::hints;
use crate::notes;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Item {
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
    labels: Option<Vec<String>>,
    dependencies: Option<Vec<Link>>,
    parent: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

/// A dependency, which is written in two ways: as the other issue with the kind of link, or as the link itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Link {
    id: Option<String>,
    depends_on_id: Option<String>,
    dependency_type: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// What a link means for the order of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Blocks,
    Parent,
    Nothing,
}

impl Link {
    pub(crate) fn other(&self) -> Option<&str> {
        self.depends_on_id.as_deref().or(self.id.as_deref())
    }

    pub(crate) fn meaning(&self) -> Meaning {
        match self.dependency_type.as_deref().or(self.kind.as_deref()) {
            None | Some("" | "blocks" | "conditional-blocks" | "waits-for") => Meaning::Blocks,
            Some("parent-child") => Meaning::Parent,
            Some(_) => Meaning::Nothing,
        }
    }
}

/// An issue as it was at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) issue: Issue,
    /// The version that was seen, as it was written: `br` takes it back to refuse a change of anything newer.
    pub(crate) updated_at: Option<String>,
}

impl Item {
    /// The issue it describes, or what about it makes no sense.
    pub(crate) fn read(self) -> Result<Seen, String> {
        let id = self.id.clone();
        let updated_at = self.updated_at.clone();
        let issue = self.into_issue().map_err(|detail| format!("issue `{id}`: {detail}"))?;
        Ok(Seen { issue, updated_at })
    }

    fn into_issue(self) -> Result<Issue, String> {
        let name = |text: &str| IssueId::new(text).map_err(|error| error.to_string());
        let links = |meaning| {
            let links = self.dependencies.iter().flatten().filter(move |link| link.meaning() == meaning);
            links.filter_map(Link::other)
        };
        let parent = self.parent.as_deref().or_else(|| links(Meaning::Parent).next());
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (description, design, notes) = (text(&self.description), text(&self.design), text(&self.notes));
        let assignee = self.assignee.as_deref().map(str::trim).filter(|name| !name.is_empty());
        Ok(Issue {
            id: name(&self.id)?,
            priority: self.priority.map(priority).transpose()?.unwrap_or_default(),
            dependencies: links(Meaning::Blocks).map(name).collect::<Result<_, _>>()?,
            parent: parent.filter(|id| !id.is_empty()).map(name).transpose()?,
            assignee: assignee.map(str::to_owned),
            created_at: self.created_at.as_deref().map(moment).transpose()?,
            files: hints::files([description.as_str(), &design, &notes]),
            notes: notes::decode(&notes),
            description,
            design,
            title: self.title,
            acceptance: self.acceptance_criteria.unwrap_or_default(),
            status: self.status.unwrap_or_else(|| "open".to_owned()),
            kind: self.issue_type.unwrap_or_else(|| "task".to_owned()),
            labels: self.labels.unwrap_or_default(),
        })
    }
}

pub(crate) fn priority(number: i64) -> Result<Priority, String> {
    let small = u8::try_from(number).map_err(|_| format!("priority {number} is not from 0 to 4"))?;
    Priority::try_from(small).map_err(|error| error.to_string())
}

pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    let moment: Moment = text.parse().map_err(|error| format!("`{text}` is not a time: {error}"))?;
    Ok(Timestamp::from_millis(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issue(json: &str) -> Result<Issue, String> {
        let item: Item = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Ok(item.read()?.issue)
    }

    #[test]
    fn what_is_left_out_is_empty() {
        let issue = issue(r#"{"id":"a-1","title":"t","labels":null,"assignee":" "}"#).unwrap();
        assert_eq!(
            (issue.status.as_str(), issue.kind.as_str(), issue.priority.number()),
            ("open", "task", 2)
        );
        assert_eq!((issue.assignee, issue.created_at), (None, None));
        assert!(issue.labels.is_empty() && issue.notes.is_empty() && issue.files.is_empty());
    }

    #[test]
    fn both_ways_to_write_a_dependency_mean_the_same() {
        let as_links = r#"[{"issue_id":"a-1","depends_on_id":"a-2","type":"blocks"},
            {"issue_id":"a-1","depends_on_id":"a-3","type":"parent-child"},
            {"issue_id":"a-1","depends_on_id":"a-4","type":"related"}]"#;
        let as_issues = r#"[{"id":"a-2","title":"x","dependency_type":"blocks"},
            {"id":"a-3","title":"x","dependency_type":"parent-child"},
            {"id":"a-4","title":"x","dependency_type":"related"}]"#;
        for links in [as_links, as_issues] {
            let issue = issue(&format!(r#"{{"id":"a-1","title":"t","dependencies":{links}}}"#)).unwrap();
            assert_eq!(issue.dependencies, [IssueId::new("a-2").unwrap()]);
            assert_eq!(issue.parent, Some(IssueId::new("a-3").unwrap()));
        }
    }

    #[test]
    fn a_value_that_makes_no_sense_is_an_error_and_not_a_default() {
        let wrong = |fields: &str| issue(&format!(r#"{{"title":"t",{fields}}}"#)).unwrap_err();
        assert!(wrong(r#""id":"a","priority":7"#).contains("priority 7"));
        assert!(wrong(r#""id":"a","priority":-1"#).contains("priority -1"));
        assert!(wrong(r#""id":"a\nb""#).contains("control character"));
        assert!(wrong(r#""id":"a","created_at":"yesterday""#).contains("`yesterday` is not a time"));
        assert!(wrong(r#""id":"a","labels":"x""#).contains("expected a sequence"));
    }

    #[test]
    fn times_with_an_offset_are_understood() {
        let issue =
            issue(r#"{"id":"a","title":"t","created_at":"2026-11-16T03:03:49.007123+01:00"}"#).unwrap();
        assert_eq!(issue.created_at.unwrap().to_string(), "2026-11-16T02:03:49.007Z");
    }
}
