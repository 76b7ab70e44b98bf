//! The note that a failed attempt leaves on its issue: everything the next one needs, in words.

use std::fmt::{self, Write as _};

use mala_core::Attempt;
use mala_core::shell::word;
use mala_core::text::is_unprintable;
use mala_git::RepoPath;
use mala_git::salvage::{LeftOut, SavedRef};
use mala_logs::secrets::mask;

use crate::validator::FailedCheck;

/// The longest output of a failing command that goes into a note.
const LAST_LINES: usize = 30;
const LONGEST_LINE: usize = 300;
/// Files that are named one by one.
const NAMED_FILES: usize = 50;

/// What is known about a failed attempt.
#[derive(Debug, Clone)]
pub(crate) struct Handoff<'a> {
    pub(crate) attempt: &'a Attempt,
    /// Why it ended, as the end of a sentence.
    pub(crate) reason: &'a str,
    pub(crate) failed: &'a [FailedCheck],
    pub(crate) left: &'a Leftovers,
    pub(crate) commits: &'a [String],
    pub(crate) last_message: Option<&'a str>,
    pub(crate) log: Option<&'a str>,
    /// What has become of a person's files that git does not hold.
    pub(crate) notices: &'a [String],
}

/// What became of the work that an agent had not committed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leftovers {
    /// What the agent had changed.
    pub(crate) files: Vec<RepoPath>,
    /// More than one if somebody wrote to the files between two tries.
    pub(crate) saved: Vec<SavedRef>,
    /// What was staged, as far as it is not in `saved`.
    pub(crate) staged: Vec<SavedRef>,
    pub(crate) trouble: Option<Trouble>,
    /// What was offered and has not landed.
    pub(crate) offer: Option<SavedRef>,
    /// What cannot be read, and is still in the checkout.
    pub(crate) left_out: Vec<LeftOut>,
}

/// What has failed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The work is still in the checkout.
    NotSaved(String),
    /// It is saved, and some of it is still in the checkout.
    NotRestored(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotSaved(why) | Self::NotRestored(why)) = self;
        f.write_str(why)
    }
}

/// What is said of the files that an agent has left although it is done, if there are any.
pub(crate) fn left_over(attempt: &Attempt, left: &Leftovers) -> Option<String> {
    let mut note = String::new();
    // Writing to a string cannot fail.
    let _ = write_left(&mut note, attempt, left);
    (!note.is_empty()).then(|| format!(" It left uncommitted files.\n{note}"))
}

/// The text of the note. What it quotes of programs and agents may have secrets in it: they are masked.
pub(crate) fn text(handoff: &Handoff<'_>) -> String {
    let mut note = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut note, handoff);
    mask(&note).into_owned()
}

fn write(note: &mut String, handoff: &Handoff<'_>) -> std::fmt::Result {
    let Attempt { number, agent, run, .. } = handoff.attempt;
    let end = if handoff.reason.ends_with(['?', '!', '.']) { "" } else { "." };
    writeln!(note, "Attempt {number} by `{agent}` (run {run}) failed: {}{end}", handoff.reason)?;
    if !handoff.failed.is_empty() {
        writeln!(note, "\nMissing:")?;
        handoff.failed.iter().try_for_each(|check| write_check(note, check))?;
    }
    if !handoff.commits.is_empty() {
        writeln!(note, "\nCommitted, but not accepted: {}", handoff.commits.join(", "))?;
    }
    write_left(note, handoff.attempt, handoff.left)?;
    for notice in handoff.notices {
        writeln!(note, "\n{notice}.")?;
    }
    if let Some(message) = handoff.last_message.map(str::trim).filter(|message| !message.is_empty()) {
        writeln!(note, "\nLast message of the agent:")?;
        write_last_lines(note, message, "> ")?;
    }
    if let Some(log) = handoff.log {
        writeln!(note, "\nLog: {log}")?;
    }
    Ok(())
}

fn write_left(note: &mut String, attempt: &Attempt, left: &Leftovers) -> std::fmt::Result {
    if !left.files.is_empty() {
        write_files(note, &left.files)?;
    }
    let gone = if left.trouble.is_none() { " and taken out of the checkout" } else { "" };
    for saved in &left.saved {
        writeln!(note, "\nThe uncommitted work was saved to {saved}{gone}.")?;
    }
    if let Some(offer) = &left.offer {
        writeln!(note, "\nWhat was offered last is kept in {offer}; the branch never had it.")?;
    }
    if !left.saved.is_empty() || left.offer.is_some() {
        let work = word(format!("{}/{}", attempt.issue, attempt.number));
        writeln!(note, "To look at it: mala diff {work}\nTo get it back: mala restore {work}")?;
    }
    for staged in &left.staged {
        writeln!(
            note,
            "\nWhat was staged besides was saved to {staged}; to look at it: git show {}",
            staged.name
        )?;
    }
    match &left.trouble {
        Some(Trouble::NotSaved(why)) => {
            writeln!(note, "\nThe uncommitted work could not be saved and is still in the checkout: {why}")?;
        }
        Some(Trouble::NotRestored(why)) => {
            writeln!(note, "\nSome files could not be restored (`git status` shows them): {why}")?;
        }
        None => {}
    }
    if !left.left_out.is_empty() {
        note.push_str(&left_out(&left.left_out));
    }
    Ok(())
}

/// The files that could not be saved, each with the reason.
fn left_out(files: &[LeftOut]) -> String {
    let named: Vec<String> = files.iter().take(NAMED_FILES).map(ToString::to_string).collect();
    let more = files.len() - named.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("\nNot saved and still in the checkout: {}{rest}\n", named.join(", "))
}

/// One missing thing, as an agent and a person read it.
pub(crate) fn write_check(note: &mut String, check: &FailedCheck) -> std::fmt::Result {
    writeln!(note, "- {}: {}", check.name, check.detail)?;
    if !check.evidence.is_empty() {
        writeln!(note, "  evidence: {}", check.evidence.join(", "))?;
    }
    match &check.output {
        Some(output) => write_last_lines(note, output, "  | "),
        None => Ok(()),
    }
}

fn write_files(note: &mut String, files: &[RepoPath]) -> std::fmt::Result {
    let named: Vec<String> = files.iter().take(NAMED_FILES).map(RepoPath::to_text).collect();
    let more = files.len() - named.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    writeln!(note, "\nFiles changed and not committed: {}{rest}", named.join(", "))
}

fn write_last_lines(note: &mut String, text: &str, prefix: &str) -> std::fmt::Result {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(LAST_LINES);
    if skipped > 0 {
        writeln!(note, "{prefix}({skipped} lines before)")?;
    }
    for line in &lines[skipped..] {
        let line: String =
            line.chars().filter(|c| *c == '\t' || !is_unprintable(*c)).take(LONGEST_LINE).collect();
        writeln!(note, "{prefix}{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mala_core::{AgentId, AttemptId, AttemptState, CheckName, IssueId, RunId, Spend, Timestamp};
    use mala_git::Oid;

    use super::*;

    fn attempt() -> Attempt {
        Attempt {
            id: AttemptId(1),
            run: RunId::new("r7").unwrap(),
            issue: IssueId::new("bd-12").unwrap(),
            agent: AgentId::new("claude-bd-12-2").unwrap(),
            profile: Some("claude".to_owned()),
            number: 2,
            state: AttemptState::Running,
            since: Timestamp::from_millis(0),
            started_at: Timestamp::from_millis(0),
            ended_at: None,
            supervisor: None,
            session: None,
            head: None,
            question: None,
            interruption: None,
            saved_ref: None,
            verdict: None,
            spend: Spend::default(),
        }
    }

    fn bare<'a>(attempt: &'a Attempt, left: &'a Leftovers) -> Handoff<'a> {
        Handoff {
            attempt,
            reason: "the agent was silent for 10m",
            failed: &[],
            left,
            commits: &[],
            last_message: None,
            log: None,
            notices: &[],
        }
    }

    #[test]
    fn a_note_tells_the_next_attempt_everything_it_needs() {
        let output: String = (1..=40).map(|n| format!("line {n}\u{1b}[0m\n")).collect();
        let failed = [FailedCheck {
            name: CheckName::Command,
            detail: "`cargo test` failed; fix it and run: mala test -- cargo test".to_owned(),
            evidence: vec!["e1".to_owned()],
            output: Some(output),
        }];
        let files = [RepoPath::from_bytes("src/a.rs"), RepoPath::from_bytes(b"\xff".to_vec())];
        let commit = Oid::parse(&"ab".repeat(20)).unwrap();
        let saved = SavedRef { name: "refs/mala/bd-12/2".to_owned(), commit };
        let left = Leftovers { files: files.into(), saved: vec![saved], ..Leftovers::default() };
        let attempt = attempt();
        let note = text(&Handoff {
            reason: "the gate did not pass in 3 rounds",
            failed: &failed,
            commits: &["abc".to_owned()],
            last_message: Some("I give up\n"),
            log: Some("/logs/r7/x.log"),
            ..bare(&attempt, &left)
        });
        let cut: Vec<&str> =
            note.lines().filter(|line| !line.contains("| line") || line.contains("line 11[")).collect();
        insta::assert_snapshot!(cut.join("\n"), @r#"
        Attempt 2 by `claude-bd-12-2` (run r7) failed: the gate did not pass in 3 rounds.

        Missing:
        - command: `cargo test` failed; fix it and run: mala test -- cargo test
          evidence: e1
          | (10 lines before)
          | line 11[0m

        Committed, but not accepted: abc

        Files changed and not committed: src/a.rs, "\377"

        The uncommitted work was saved to refs/mala/bd-12/2 (ababababab) and taken out of the checkout.
        To look at it: mala diff bd-12/2
        To get it back: mala restore bd-12/2

        Last message of the agent:
        > I give up

        Log: /logs/r7/x.log
        "#);
        assert_eq!(note.matches("| line").count(), LAST_LINES);
    }

    #[test]
    fn a_question_is_the_end_of_its_sentence() {
        let attempt = attempt();
        let none = Leftovers::default();
        let note = text(&Handoff { reason: "it needs an answer: What shall I do?", ..bare(&attempt, &none) });
        assert!(note.ends_with("failed: it needs an answer: What shall I do?\n"), "{note}");
    }

    #[test]
    fn a_note_says_no_more_than_is_known() {
        let attempt = attempt();
        let note = text(&bare(&attempt, &Leftovers::default()));
        assert_eq!(note, "Attempt 2 by `claude-bd-12-2` (run r7) failed: the agent was silent for 10m.\n");
    }

    #[test]
    fn secrets_in_what_a_note_quotes_are_masked() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let failed = [FailedCheck {
            name: CheckName::Command,
            detail: format!("`deploy --token {token}` failed"),
            evidence: Vec::new(),
            output: Some(format!(
                "GET https://me:hunter2@host\nAuthorization: Bearer {token}\nPassword: hunter2\n"
            )),
        }];
        let message = format!("I used {token}\n-----BEGIN RSA PRIVATE KEY-----\n{}\n", "MIIE".repeat(16));
        let (attempt, left) = (attempt(), Leftovers::default());
        let note = text(&Handoff {
            reason: &format!("the agent ended and said TOKEN={token}"),
            failed: &failed,
            last_message: Some(&message),
            ..bare(&attempt, &left)
        });
        for secret in [token.as_str(), "hunter2", "MIIE", "a1B2a1B2"] {
            assert!(!note.contains(secret), "{secret} is in the note:\n{note}");
        }
        assert!(note.contains("me:***@host"), "{note}");
    }
}
