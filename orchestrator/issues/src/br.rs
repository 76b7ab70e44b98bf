//! How `br` is spoken to.
//!
//! It answers in JSON on stdout, errors included, and its exit code says what kind of trouble it has. Notes are
//! appended by reading and writing back, so every such change says what it looked at and is refused if that has
//! changed.

use mala_core::{AgentId, IssueId};
use serde::Deserialize;
use serde_json::{Deserializer, Value};

use crate::beads::{About, Complaint, Dialect};
use crate::error::{Trouble, one_line};
use crate::program::{Answer, Call};
use crate::tracker::Tracker;
use crate::wire::{Item, Seen};

#[derive(Debug)]
pub(crate) struct Br;

#[derive(Debug, Deserialize)]
struct Envelope {
    error: Error,
}

#[derive(Debug, Deserialize)]
struct Error {
    code: String,
    message: String,
    hint: Option<String>,
}

fn call(verb: &'static str) -> Call {
    Call::new(Tracker::Br, verb)
}

/// Holds an update to the version of the issue that was looked at.
fn if_unchanged(call: Call, seen: &Seen) -> Call {
    match &seen.updated_at {
        Some(updated_at) => call.option("--if-unchanged", updated_at),
        None => call,
    }
}

impl Dialect for Br {
    fn tracker(&self) -> Tracker {
        Tracker::Br
    }

    fn ready(&self) -> Call {
        // The long texts come with the few issues that are shown in full.
        call("ready").flag("--unassigned").flag("--brief").option("--limit", "0").option("--sort", "priority")
    }

    fn claim(&self, id: &IssueId, actor: &AgentId) -> Call {
        call("update").flag("--claim").option("--actor", actor.as_str()).id(id)
    }

    fn give_back(&self, id: &IssueId, actor: &AgentId, seen: &Seen) -> Call {
        let update = call("update").option("--assignee", "").option("--actor", actor.as_str());
        let update =
            if seen.issue.status == "in_progress" { update.option("--status", "open") } else { update };
        if_unchanged(update, seen).id(id)
    }

    fn append(&self, id: &IssueId, block: &str, seen: &Seen) -> Call {
        if_unchanged(call("update").option("--append-notes", block), seen).id(id)
    }

    fn items(&self, stdout: &[u8]) -> serde_json::Result<Vec<Item>> {
        serde_json::from_slice(stdout)
    }

    fn complaint(&self, answer: &Answer) -> Complaint {
        let by_code = trouble(answer.status.code());
        // A command may print its results before it gives up: the last word is the error.
        let words = Deserializer::from_slice(&answer.stdout).into_iter::<Value>().map_while(Result::ok);
        match words.filter_map(|word| serde_json::from_value::<Envelope>(word).ok()).last() {
            Some(Envelope { error }) => Complaint {
                about: about(&error.code).unwrap_or(About::Other(by_code)),
                message: one_line(&error.message),
                hint: error.hint.as_deref().map(one_line),
            },
            // It ends with the same code when its database is broken and when it does not know an option.
            None if by_code == Trouble::Database => Complaint::unexplained(Trouble::Unknown, answer),
            None => Complaint::unexplained(by_code, answer),
        }
    }
}

fn trouble(exit: Option<i32>) -> Trouble {
    match exit {
        Some(2) => Trouble::Database,
        Some(3) => Trouble::Issue,
        Some(4) => Trouble::Validation,
        Some(5) => Trouble::Dependencies,
        Some(6) => Trouble::Sync,
        Some(7) => Trouble::Config,
        Some(8) => Trouble::Io,
        _ => Trouble::Unknown,
    }
}

/// Those codes that say more than the group they are in.
fn about(code: &str) -> Option<About> {
    match code {
        // An abbreviation that fits several issues is the whole id of none.
        "ISSUE_NOT_FOUND" | "AMBIGUOUS_ID" | "INVALID_ID" => Some(About::UnknownIssue),
        "NOT_INITIALIZED" | "DATABASE_NOT_FOUND" => Some(About::NoTracker),
        "DATABASE_LOCKED" => Some(About::Other(Trouble::Busy)),
        "UPDATE_PRECONDITION_FAILED" => Some(About::Other(Trouble::Stale)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn complaint(exit: i32, stdout: &str, stderr: &str) -> Complaint {
        let status = ExitStatus::from_raw(exit << 8);
        Br.complaint(&Answer { status, stdout: stdout.into(), stderr: stderr.into() })
    }

    fn error(code: &str) -> String {
        format!(
            r#"{{"error":{{"code":"{code}","message":"a\n\u001b[31mb","hint":null,"retryable":true,"context":{{}}}}}}"#
        )
    }

    #[test]
    fn the_exit_code_says_what_kind_of_trouble_it_is() {
        use Trouble::*;
        let kinds =
            [(2, Database), (3, Issue), (4, Validation), (5, Dependencies), (6, Sync), (7, Config), (8, Io)];
        for (exit, trouble) in kinds.into_iter().chain([(1, Unknown), (130, Unknown)]) {
            let complaint = complaint(exit, &error("SOME_CODE"), "");
            assert_eq!((complaint.about, complaint.message.as_str()), (About::Other(trouble), "a [31mb"));
        }
    }

    #[test]
    fn some_codes_say_more_than_the_exit_code() {
        let about = |exit, code| complaint(exit, &error(code), "").about;
        assert_eq!(about(3, "ISSUE_NOT_FOUND"), About::UnknownIssue);
        assert_eq!(about(3, "AMBIGUOUS_ID"), About::UnknownIssue);
        assert_eq!(about(2, "NOT_INITIALIZED"), About::NoTracker);
        assert_eq!(about(2, "DATABASE_LOCKED"), About::Other(Trouble::Busy));
        assert_eq!(about(6, "UPDATE_PRECONDITION_FAILED"), About::Other(Trouble::Stale));
        assert_eq!(about(6, "SYNC_CONFLICT"), About::Other(Trouble::Sync));
    }

    #[test]
    fn the_error_is_the_last_thing_it_prints() {
        let stdout = format!("{{\n  \"closed\": [],\n  \"skipped\": []\n}}\n{}\n", error("NOTHING_TO_DO"));
        assert_eq!(complaint(3, &stdout, "a warning").message, "a [31mb");
    }

    #[test]
    fn an_unknown_option_is_not_taken_for_a_broken_database() {
        let complaint =
            complaint(2, "", "error: unexpected argument '--if-unchanged' found\n\nUsage: br update\n");
        assert_eq!(complaint.about, About::Other(Trouble::Unknown));
        assert_eq!(complaint.message, "error: unexpected argument '--if-unchanged' found Usage: br update");
    }
}
