//! How `bd` is spoken to.
//!
//! Its JSON comes bare, in `{schema_version, data}` or in `{schema_version, items}`, depending on its version; all three
//! are understood. Errors end it with exit code 1 and an object with `error` on stdout or on stderr, among other lines;
//! they have no codes, so the two that matter are known by their words.

use mala_core::{AgentId, IssueId};
use serde::Deserialize;

use crate::beads::{About, Complaint, Dialect};
use crate::error::{Trouble, one_line};
use crate::program::{Answer, Call};
use crate::tracker::Tracker;
use crate::wire::{Item, Seen};

#[derive(Debug)]
pub(crate) struct Bd;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Shape<T> {
    Data { data: T },
    Items { items: T },
    Bare(T),
}

impl<T> Shape<T> {
    fn into_inner(self) -> T {
        match self {
            Self::Data { data } => data,
            Self::Items { items } => items,
            Self::Bare(bare) => bare,
        }
    }
}

#[derive(Debug, Deserialize)]
struct Error {
    error: String,
    hint: Option<String>,
    #[serde(default)]
    failed: Vec<Failure>,
}

/// Why one of several issues was not changed.
#[derive(Debug, Deserialize)]
struct Failure {
    error: String,
}

fn call(verb: &'static str) -> Call {
    Call::new(Tracker::Bd, verb)
}

impl Dialect for Bd {
    fn tracker(&self) -> Tracker {
        Tracker::Bd
    }

    fn ready(&self) -> Call {
        // Without `-n 0` it stops at a hundred.
        call("ready").flag("--unassigned").flag("-n").flag("0").option("--sort", "priority")
    }

    fn claim(&self, id: &IssueId, actor: &AgentId) -> Call {
        call("update").flag("--claim").option("--actor", actor.as_str()).id(id)
    }

    fn give_back(&self, id: &IssueId, actor: &AgentId, seen: &Seen) -> Call {
        // As the holder: it refuses to take a live claim from anybody else.
        let update = call("update").option("--assignee", "").option("--actor", actor.as_str());
        let update =
            if seen.issue.status == "in_progress" { update.option("--status", "open") } else { update };
        update.id(id)
    }

    fn append(&self, id: &IssueId, block: &str, _seen: &Seen) -> Call {
        // It appends to what it finds within its own transaction.
        call("update").option("--append-notes", block).id(id)
    }

    fn items(&self, stdout: &[u8]) -> serde_json::Result<Vec<Item>> {
        // The list is told from its envelope before the issues are read, so that an error names what is wrong with one.
        let shape: Shape<Vec<serde_json::Value>> = serde_json::from_slice(stdout)?;
        shape.into_inner().into_iter().map(serde_json::from_value).collect()
    }

    fn complaint(&self, answer: &Answer) -> Complaint {
        let Some(error) = error(&answer.stdout).or_else(|| error(&answer.stderr)) else {
            let complaint = Complaint::unexplained(Trouble::Unknown, answer);
            let about = about(&complaint.message).unwrap_or(complaint.about);
            return Complaint { about, ..complaint };
        };
        let reasons = error.failed.iter().map(|failure| failure.error.as_str());
        let message = std::iter::once(error.error.as_str()).chain(reasons).collect::<Vec<_>>().join(": ");
        Complaint {
            about: about(&message).unwrap_or(About::Other(Trouble::Unknown)),
            message: one_line(&message),
            hint: error.hint.as_deref().map(one_line),
        }
    }
}

/// The last error object in an output, which may be spread over lines and have other lines around it.
fn error(output: &[u8]) -> Option<Error> {
    let text = String::from_utf8_lossy(output);
    let starts = text.match_indices('{').filter(|(at, _)| *at == 0 || text[..*at].ends_with('\n'));
    let mut objects = starts.filter_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Shape<Error>>();
        values.next()?.ok()
    });
    objects.next_back().map(Shape::into_inner)
}

fn about(message: &str) -> Option<About> {
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["workspace", "database"]) {
        // It looks upwards from the folder and found none.
        return says(&["no active beads", "no beads", "not initialized", "bd init"])
            .then_some(About::NoTracker);
    }
    says(&["no issues found", "no issue found", "issue not found", "ambiguous"])
        .then_some(About::UnknownIssue)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn complaint(code: i32, stdout: &str, stderr: &str) -> Complaint {
        let status = ExitStatus::from_raw(code << 8);
        Bd.complaint(&Answer { status, stdout: stdout.into(), stderr: stderr.into() })
    }

    #[test]
    fn lists_are_understood_in_all_three_shapes() {
        let item = r#"{"id":"bd-1","title":"t"}"#;
        for text in [
            format!("[{item}]\n"),
            format!(r#"{{"schema_version":1,"data":[{item}]}}"#),
            format!(r#"{{"schema_version":1,"items":[{item}]}}"#),
        ] {
            let items = Bd.items(text.as_bytes()).unwrap();
            assert_eq!(items.len(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_of_issues_is_an_error_that_says_what_is_wrong() {
        let message = |text: &str| Bd.items(text.as_bytes()).unwrap_err().to_string();
        assert!(message(r#"[{"id":"bd-1"}]"#).contains("missing field `title`"));
        assert!(message(r#"{"data":[{"id":1,"title":"t"}]}"#).contains("invalid type: integer"));
        for text in ["", "{}", "no work", r#"{"schema_version":1}"#] {
            assert!(Bd.items(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn errors_are_found_on_either_output_and_among_other_lines() {
        let on_stdout =
            complaint(1, "{\n  \"schema_version\": 1,\n  \"data\": {\"error\": \"boom\"}\n}\n", "");
        assert_eq!((on_stdout.about, on_stdout.message.as_str()), (About::Other(Trouble::Unknown), "boom"));
        let stderr = "Error updating bd-1: x\n{\"error\":\"1 of 1 issues failed to update\",\"failed\":[{\"id\":\"bd-1\",\"error\":\"updating issue: boom\"}]}\n";
        let on_stderr = complaint(1, "", stderr);
        assert_eq!(on_stderr.message, "1 of 1 issues failed to update: updating issue: boom");
        assert_eq!(complaint(1, "", "Error: unknown flag: --x\n").message, "Error: unknown flag: --x");
    }

    #[test]
    fn a_missing_issue_and_a_missing_tracker_are_known_by_their_words() {
        let about = |words: &str| complaint(1, &format!(r#"{{"error":"{words}"}}"#), "").about;
        assert_eq!(about("no issues found matching the provided IDs"), About::UnknownIssue);
        assert_eq!(about("no active beads workspace found"), About::NoTracker);
        assert_eq!(about("no beads database found; run 'bd init'"), About::NoTracker);
        assert_eq!(about("database: table issues not found"), About::Other(Trouble::Unknown));
    }
}
