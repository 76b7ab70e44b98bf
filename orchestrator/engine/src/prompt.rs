//! What an agent is told.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mala_agents::start::prompt::{Template, Which, section};
use mala_core::file::{SETTINGS, read_small_text};
use mala_core::shell::word;
use mala_core::{Attempt, Issue, Note, Scope};
use mala_logs::secrets::mask;

use crate::blocking::{Answer, Continuation};
use crate::error::{EngineError, Result};
use crate::note::write_check;
use crate::options::{Options, Prompts};
use crate::validator::Judgement;

/// The most that notes may take up; of longer ones, the newest.
const LONGEST_NOTES: usize = 48 * 1024;

/// Begins an attempt: the issue, what earlier attempts left, and the rules.
pub(crate) fn task(options: &Options, root: &Path, issue: &Issue, attempt: &Attempt) -> String {
    let required = match options.required.as_slice() {
        [] => String::new(),
        commands => {
            let list: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
            format!(" Required before a commit counts: {}.", list.join(", "))
        }
    };
    let files = match issue.files.as_slice() {
        [] => String::new(),
        files => format!("{}\n\nThese are reserved for you.", files.join("\n")),
    };
    options.prompts.task.fill(&[
        ("id", issue.id.as_str()),
        ("title", &issue.title),
        ("description", issue.description.trim()),
        ("design", &section("Design", &issue.design)),
        ("acceptance", &section("Acceptance", &issue.acceptance)),
        ("files", &section("Files", &files)),
        ("notes", &section("Notes, oldest first", &notes(&issue.notes))),
        ("agent", attempt.agent.as_str()),
        ("root", &root.display().to_string()),
        ("mark", &options.mark.token(&issue.id)),
        ("required", &required),
        ("mala", &options.mala),
    ])
}

/// Tells a session what the gate found missing.
pub(crate) fn retry(options: &Options, issue: &Issue, judgement: &Judgement, round: u32) -> String {
    let mut checks = String::new();
    for check in &judgement.failed {
        // Writing to a string cannot fail.
        let _ = write_check(&mut checks, check);
    }
    options.prompts.retry.fill(&[
        ("id", issue.id.as_str()),
        ("checks", &checks),
        ("mark", &options.mark.token(&issue.id)),
        ("round", &round.to_string()),
        ("rounds", &options.gate_attempts.to_string()),
    ])
}

/// Goes on after a pause.
pub(crate) fn resume(options: &Options, issue: &Issue, why: &str) -> String {
    options.prompts.resume.fill(&[("id", issue.id.as_str()), ("why", why)])
}

/// Goes on where an attempt was cut off.
pub(crate) fn take_up(options: &Options, issue: &Issue, left: &Continuation) -> String {
    let mut text = resume(options, issue, "the run was stopped or killed");
    match &left.saved {
        Some(saved) if left.is_in_place => {
            let _ = write!(text, "\nWhat was not committed is back in its place (it was saved to {saved}).");
        }
        Some(saved) => {
            let work = word(format!("{}/{}", issue.id, left.number));
            let _ = write!(
                text,
                "\nBut what was not committed could not be put back, because its files have changed since. It is saved \
                 to {saved}; to look at it: mala diff {work}; to get its files: mala restore {work} --to DIRECTORY"
            );
        }
        None => {}
    }
    text
}

/// Answers a question, or says that nobody does.
pub(crate) fn answer(question: &str, answer: Option<&Answer>) -> String {
    match answer {
        Some(Answer { text, by }) => {
            format!("You asked: {question}\n\nThe answer: {text}\n\n(by `{by}`) Go on with that.")
        }
        None => format!(
            "You asked: {question}\n\nNobody is there to answer. Decide what is most sensible, say in the commit \
             message what you assumed, and finish the work."
        ),
    }
}

/// The newest notes that fit, in their order.
fn notes(notes: &[Note]) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut length = 0;
    for note in notes.iter().rev() {
        let mut text = String::new();
        if let Some(at) = note.at {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{at}{}:",
                note.author.as_ref().map(|by| format!(", {by}")).unwrap_or_default()
            );
        }
        // A tracker's notes are anybody's, and older ones were not masked when they were written.
        let masked = mask(&note.text);
        let from = masked.ceil_char_boundary(masked.len().saturating_sub(LONGEST_NOTES));
        text.push_str(masked[from..].trim());
        length += text.len();
        if length > LONGEST_NOTES && !shown.is_empty() {
            shown.push(format!("({} older notes are left out)", notes.len() - shown.len()));
            break;
        }
        shown.push(text);
    }
    shown.reverse();
    shown.join("\n\n---\n\n")
}

/// Where a repository keeps prompts of its own.
const REPOSITORY_PROMPTS: &str = ".mala/prompts";

impl Prompts {
    /// The prompts in use: `.mala/prompts/NAME.md` of the repository, then `prompts/NAME.md` beside the user's settings.
    pub fn load(scope: &Scope, user_file: Option<&Path>) -> Result<Self> {
        let user = user_file.and_then(Path::parent).map(|directory| directory.join("prompts"));
        let directories: Vec<PathBuf> =
            std::iter::once(scope.root().join(REPOSITORY_PROMPTS)).chain(user).collect();
        let one = |which: Which| -> Result<Template> {
            for directory in &directories {
                let path = directory.join(which.file());
                let shown = || path.display().to_string();
                match read_small_text(&path, SETTINGS) {
                    Ok(text) => {
                        return Template::parse(which, &text)
                            .map_err(|why| EngineError::BadPrompt { path: shown(), why });
                    }
                    Err(why) if why.kind() == ErrorKind::NotFound => {}
                    Err(why) => return Err(EngineError::UnreadablePrompt { path: shown(), why }),
                }
            }
            Ok(Template::built_in(which))
        };
        Ok(Self { task: one(Which::Task)?, retry: one(Which::Retry)?, resume: one(Which::Continue)? })
    }
}

#[cfg(test)]
mod tests {
    use mala_core::Timestamp;

    use super::*;

    fn note(text: &str) -> Note {
        Note { at: Some(Timestamp::from_millis(0)), author: Some("mala".to_owned()), text: text.to_owned() }
    }

    #[test]
    fn all_notes_reach_the_next_attempt_in_their_order() {
        let text = notes(&[note("first\n"), note("second")]);
        assert_eq!(
            text,
            "1970-01-01T00:00:00.000Z, mala:\nfirst\n\n---\n\n1970-01-01T00:00:00.000Z, mala:\nsecond"
        );
    }

    #[test]
    fn of_too_many_notes_the_newest_are_kept() {
        let long = "x".repeat(30 * 1024);
        let text = notes(&[note("oldest"), note(&long), note(&long), note("newest")]);
        assert!(text.starts_with("(2 older notes are left out)"), "{}", &text[..80]);
        assert!(text.ends_with("newest") && text.len() < 2 * LONGEST_NOTES);
        let one = notes(&[note(&"é".repeat(60 * 1024))]);
        assert!(one.len() < LONGEST_NOTES + 100, "a single endless note is cut");
    }

    #[test]
    fn secrets_in_notes_do_not_reach_the_next_attempt() {
        assert!(
            notes(&[note("it printed PGPASSWORD=hunter2 and failed")])
                .ends_with("it printed PGPASSWORD=*** and failed")
        );
    }
}
