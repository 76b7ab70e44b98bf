//! Git commands that are wrong in a run, where mala alone moves the branch.
//!
//! They are refused before they start: a git that is stopped half-way, when it comes to write the branch, has changed files,
//! the index or other refs by then. Names that these rules do not see through are the kernel tier's.

use std::path::Path;

use mala_core::shell::commit_line;

use super::call::Call;
use super::rules::{asks_for_help, commit_flags, names_files};
use crate::objection::Objection;

/// Why git is refused the branch.
const LANDING: &str = "the branch moves only by landing";
/// What only mala writes, and everything below.
const REFS_OF_MALA: [&str; 2] = ["refs/mala", "refs/mala-runs"];

/// An agent of a run. It offers its work, and mala lands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAgent {
    /// The branch that the checkout is on, as in `main`. None if it is on none, or if that is not known.
    pub branch: Option<String>,
    /// How a message names the agent's issue.
    pub mark: Option<String>,
}

impl RunAgent {
    /// Why the branch cannot be written, and what to type.
    pub fn refusal(&self) -> String {
        format!("{LANDING}; {}", self.offer())
    }

    /// What to type.
    pub fn offer(&self) -> String {
        self.offer_as(None)
    }

    /// The same, with the message that was typed.
    fn offer_as(&self, subject: Option<&str>) -> String {
        format!("offer your work: {}", commit_line(Some(self.mark.as_deref().unwrap_or("ISSUE")), subject))
    }

    fn is_branch(&self, name: &str) -> bool {
        self.branch.as_deref().is_some_and(|branch| {
            let short = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("heads/"));
            short.unwrap_or(name) == branch
        })
    }

    /// True if the right side of a refspec covers the branch.
    fn is_among(&self, target: &str) -> bool {
        let Some((before, behind)) = target.split_once('*') else { return self.is_branch(target) };
        let full = self.branch.as_ref().map(|branch| format!("refs/heads/{branch}"));
        full.is_some_and(|full| full.starts_with(before) && full.ends_with(behind))
    }
}

pub(super) fn judge(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool, run: &RunAgent) -> Option<Objection> {
    if asks_for_help(call) {
        return None;
    }
    let refuse = |why, instead: String| Some(Objection::new(call.typed(), why, instead).in_run());
    if call.verb == "commit" && !commit_flags(call.rest).contains(&"--dry-run") {
        return refuse(LANDING, run.offer_as(message_of(call.rest)));
    }
    if moves_branch(call, exists, run) {
        return refuse(LANDING, run.offer());
    }
    if writes_refs_of_mala(call) {
        return refuse("these refs are mala's own", "leave them alone".to_owned());
    }
    if leaves_branch(call, exists) {
        return refuse("everybody in the run works on this branch", "stay on it".to_owned());
    }
    if packs_refs(call) {
        let why = "it rewrites every ref, the branch among them";
        return refuse(why, "leave it to the person in charge".to_owned());
    }
    None
}

/// The first line of the message that `git commit` is given.
fn message_of<'a>(rest: &[&'a str]) -> Option<&'a str> {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let given = match word.strip_prefix("--message") {
            Some("") => words.next().copied(),
            Some(value) => value.strip_prefix('='),
            None if word.starts_with("--") || !word.starts_with('-') => None,
            None => match word.split_once('m') {
                Some((_, "")) => words.next().copied(),
                Some((_, value)) => Some(value),
                None => None,
            },
        };
        if given.is_some() {
            return given.and_then(|text| text.lines().next());
        }
    }
    None
}

fn moves_branch(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool, run: &RunAgent) -> bool {
    let is_undone = call.has(&["--abort", "--quit"]);
    match call.verb {
        "merge" | "pull" | "rebase" | "am" => !is_undone,
        "cherry-pick" | "revert" => !is_undone && !call.has(&["-n", "--no-commit"]),
        "filter-branch" | "filter-repo" => true,
        "reset" if call.behind_dashes().is_none() => {
            let is_commit = |word: &&str| !matches!(*word, "HEAD" | "@") && !exists(Path::new(word));
            call.operands().iter().any(is_commit)
        }
        "update-ref" => {
            call.has(&["--stdin"])
                || updated_ref(call).is_some_and(|name| name == "HEAD" || run.is_branch(name))
        }
        "branch" => changes_branch(call, run),
        // Only its own repository is this one; what others allow is their affair.
        "push" if call.begins(&[".", "./"]) => targets(call).any(|target| run.is_among(target)),
        "fetch" => targets(call).any(|target| run.is_among(target)),
        "worktree" => {
            call.begins(&["add"])
                && call.has(&["-B"])
                && call.operands().iter().any(|name| run.is_branch(name))
        }
        _ => false,
    }
}

/// `git branch` with the branch as what is renamed, deleted or set anew.
fn changes_branch(call: &Call<'_>, run: &RunAgent) -> bool {
    let names = call.operands();
    let is_branch = |name: Option<&&str>| name.is_some_and(|name| run.branch.as_deref() == Some(*name));
    let is_any = || names.iter().any(|name| is_branch(Some(name)));
    if call.has(&["-m", "-M", "--move"]) {
        return names.len() < 2 || is_any();
    }
    if call.has(&["-d", "-D", "--delete"]) {
        return is_any();
    }
    if call.has(&["-c", "-C", "--copy"]) {
        return is_branch(names.last());
    }
    call.has(&["-f", "--force"]) && is_branch(names.first())
}

/// What `git update-ref` sets: its first operand, once the reason that it is given is left out.
fn updated_ref<'a>(call: &Call<'a>) -> Option<&'a str> {
    let mut words = call.rest.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "-m" => drop(words.next()),
            _ if word.starts_with('-') => {}
            _ => return Some(word),
        }
    }
    None
}

/// Where the refspecs behind the name of a repository lead: of `a:b` that is `b`, of a name alone the same name.
fn targets<'a>(call: &Call<'a>) -> impl Iterator<Item = &'a str> {
    let is_push = call.verb == "push";
    call.operands().into_iter().skip(1).filter_map(move |refspec| match refspec.rsplit_once(':') {
        Some((_, target)) => Some(target),
        // A name alone is fetched into nothing.
        None => is_push.then(|| refspec.trim_start_matches('+')),
    })
}

fn writes_refs_of_mala(call: &Call<'_>) -> bool {
    let is_malas = |name: &str| {
        REFS_OF_MALA
            .iter()
            .any(|own| name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    match call.verb {
        "update-ref" => updated_ref(call).is_some_and(is_malas),
        "fetch" => targets(call).any(is_malas),
        "push" if call.begins(&[".", "./"]) => targets(call).any(is_malas),
        _ => false,
    }
}

/// True if the checkout would be on another branch, or on none.
fn leaves_branch(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool) -> bool {
    match call.verb {
        "switch" => true,
        "checkout" => !names_files(call, exists),
        "symbolic-ref" => call.operands().len() > 1 || call.has(&["-d", "--delete"]),
        "bisect" => !call.begins(&["log", "view", "visualize", "terms"]),
        _ => false,
    }
}

fn packs_refs(call: &Call<'_>) -> bool {
    match call.verb {
        "gc" | "pack-refs" => true,
        "maintenance" => call.begins(&["run", "start"]),
        "refs" => call.begins(&["migrate", "optimize"]),
        _ => false,
    }
}
