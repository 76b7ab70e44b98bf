//! How each of the two trackers answers.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use serde_json::{Value, json};

use crate::tracker::Refusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    Br,
    Bd,
}

impl Speech {
    pub(crate) fn of(program: &str) -> Self {
        if Path::new(program).ends_with("br") { Self::Br } else { Self::Bd }
    }

    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Br => "br 0.7.6",
            Self::Bd => "bd version 1.3.0 (fake)",
        }
    }

    pub(crate) fn answer(self, mut list: Vec<Value>, brief: bool) -> ExitCode {
        if self == Self::Br && brief {
            for issue in list.iter_mut().filter_map(Value::as_object_mut) {
                for field in ["description", "design", "acceptance_criteria", "notes", "dependencies"] {
                    issue.remove(field);
                }
            }
        }
        let shape = fs::read_to_string(".beads/shape").unwrap_or_default();
        let list = match (self, shape.trim()) {
            (Self::Br, _) | (Self::Bd, "bare") => json!(list),
            (Self::Bd, "items") => json!({"schema_version": 1, "items": list}),
            (Self::Bd, _) if env::var("BD_JSON_ENVELOPE").as_deref() == Ok("1") => {
                json!({"schema_version": 1, "data": list})
            }
            (Self::Bd, _) => json!(list),
        };
        println!("{list:#}");
        ExitCode::SUCCESS
    }

    pub(crate) fn refuse(self, refusal: &Refusal) -> ExitCode {
        match self {
            Self::Br => refuse_as_br(refusal),
            Self::Bd => refuse_as_bd(refusal),
        }
    }
}

fn refuse_as_br(refusal: &Refusal) -> ExitCode {
    let (exit, code, message) = match refusal {
        Refusal::UnknownOption(option) => {
            eprintln!("error: unexpected argument '{option}' found");
            return ExitCode::from(2);
        }
        Refusal::NotSetUp => (2, "NOT_INITIALIZED", "Beads not initialized".to_owned()),
        Refusal::NotFound(id) => (3, "ISSUE_NOT_FOUND", format!("Issue not found: {id}")),
        Refusal::Ambiguous(id) => (3, "AMBIGUOUS_ID", format!("Ambiguous ID '{id}'")),
        Refusal::Taken(by) => (4, "VALIDATION_FAILED", format!("claim: issue already assigned to {by}")),
        Refusal::Closed => (4, "VALIDATION_FAILED", "claim: cannot claim closed issue".to_owned()),
        Refusal::ReadOnly => (2, "DATABASE_ERROR", "the database is read-only".to_owned()),
        Refusal::Stale => (6, "UPDATE_PRECONDITION_FAILED", "the issue changed".to_owned()),
    };
    let error = json!({"code": code, "message": message, "hint": null, "retryable": false, "context": null});
    println!("{:#}", json!({"error": error}));
    ExitCode::from(exit)
}

fn refuse_as_bd(refusal: &Refusal) -> ExitCode {
    let on_stdout = match refusal {
        Refusal::NotSetUp => "no active beads workspace found",
        Refusal::NotFound(_) | Refusal::Ambiguous(_) => "no issues found matching the provided IDs",
        Refusal::Taken(by) => return refuse_update(&format!("already claimed by {by}")),
        Refusal::Closed => return refuse_update("issue is not claimable: closed"),
        Refusal::Stale => return refuse_update("changed"),
        Refusal::ReadOnly => {
            eprintln!("Error: operation is not allowed in read-only mode");
            return ExitCode::FAILURE;
        }
        Refusal::UnknownOption(option) => {
            eprintln!("Error: unknown flag: {option}");
            return ExitCode::FAILURE;
        }
    };
    println!("{:#}", json!({"schema_version": 1, "data": {"error": on_stdout}}));
    ExitCode::FAILURE
}

/// `bd` prints why an update was refused on stderr, twice.
fn refuse_update(error: &str) -> ExitCode {
    eprintln!("Error: {error}");
    let summary = json!({"error": "1 of 1 issues failed to update", "failed": [{"id": "?", "error": error}]});
    eprintln!("{}", json!({"schema_version": 1, "data": summary}));
    ExitCode::FAILURE
}
