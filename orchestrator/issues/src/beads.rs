//! The port for `br` and `bd`, which share a model and speak two dialects of it.
//!
//! Every operation takes the program's turn once and looks before it changes, because both programs accept abbreviated
//! ids and the port does not. What was seen decides only whether there is anything to do; the change itself is made by
//! the program in one step, and one that can be lost to somebody faster says what was seen and is tried again.

use std::path::{Path, PathBuf};

use mala_core::{AgentId, Issue, IssueId, Timestamp};

use crate::bd::Bd;
use crate::br::Br;
use crate::error::{IssueError, Result, Trouble, one_line};
use crate::notes;
use crate::program::{Answer, Call, Limits, Program, Turn};
use crate::source::{ClaimAnswer, IssueSource, Label};
use crate::tracker::Tracker;
use crate::wire::{Item, Seen};

/// What `br` and `bd` do not have in common.
pub(crate) trait Dialect: std::fmt::Debug + Send + Sync {
    fn tracker(&self) -> Tracker;

    /// Lists whatever is ready.
    fn ready(&self) -> Call;

    /// Takes the issue if nobody has it.
    fn claim(&self, id: &IssueId, actor: &AgentId) -> Call;

    /// Gives the issue back if the actor still has it.
    fn give_back(&self, id: &IssueId, actor: &AgentId, seen: &Seen) -> Call;

    /// Adds to the notes, and loses nothing that was added meanwhile.
    fn append(&self, id: &IssueId, block: &str, seen: &Seen) -> Call;

    fn items(&self, stdout: &[u8]) -> serde_json::Result<Vec<Item>>;

    /// What a program that failed has to say.
    fn complaint(&self, answer: &Answer) -> Complaint;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) about: About,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    UnknownIssue,
    /// The folder has no issues of this tracker.
    NoTracker,
    Other(Trouble),
}

impl Complaint {
    /// A failure without words in JSON: whatever was printed has to do.
    pub(crate) fn unexplained(trouble: Trouble, answer: &Answer) -> Self {
        let printed = [&answer.stderr, &answer.stdout].map(|bytes| one_line(&String::from_utf8_lossy(bytes)));
        let words = printed.into_iter().find(|text| !text.is_empty());
        let message = words.unwrap_or_else(|| format!("it ended with {} and said nothing", answer.status));
        Self { about: About::Other(trouble), message, hint: None }
    }
}

/// How many issues are shown by one call.
const SHOWN_AT_ONCE: usize = 100;

/// How often a change is tried that somebody else was faster than.
const TRIES: u32 = 20;

/// `br` or `bd` as a source of issues.
#[derive(Debug)]
pub struct Beads {
    program: Program,
    dialect: &'static dyn Dialect,
}

/// One operation: the turn, and how to speak.
struct Session<'a> {
    turn: Turn<'a>,
    dialect: &'static dyn Dialect,
    root: &'a Path,
}

impl Beads {
    /// `program` is where the tracker's program is; `root` is the folder with `.beads`.
    pub fn new(
        tracker: Tracker,
        program: impl Into<PathBuf>,
        root: impl Into<PathBuf>,
        limits: Limits,
    ) -> Self {
        let dialect: &'static dyn Dialect = match tracker {
            Tracker::Br => &Br,
            Tracker::Bd => &Bd,
        };
        Self { program: Program::new(tracker, program.into(), root.into(), limits), dialect }
    }

    fn session(&self) -> Session<'_> {
        Session { turn: self.program.turn(), dialect: self.dialect, root: self.program.root() }
    }
}

impl Session<'_> {
    fn call(&self, verb: &'static str) -> Call {
        Call::new(self.dialect.tracker(), verb)
    }

    /// Makes a call that concerns `id`, if it concerns one.
    fn run(&self, call: &Call, id: Option<&IssueId>) -> Result<Answer> {
        let answer = self.turn.run(call)?;
        if answer.status.success() {
            return Ok(answer);
        }
        let Complaint { about, message, hint } = self.dialect.complaint(&answer);
        let command = call.to_string();
        Err(match (about, id) {
            (About::NoTracker, _) => {
                let (tracker, root) = (self.dialect.tracker(), self.root.to_path_buf());
                IssueError::NotSetUp { tracker, root, message }
            }
            (About::UnknownIssue, Some(id)) => IssueError::NotFound { id: id.clone() },
            (About::UnknownIssue, None) => {
                IssueError::Failed { command, trouble: Trouble::Issue, message, hint }
            }
            (About::Other(trouble), _) => IssueError::Failed { command, trouble, message, hint },
        })
    }

    fn list(&self, call: &Call, id: Option<&IssueId>) -> Result<Vec<Seen>> {
        let answer = self.run(call, id)?;
        let unreadable =
            |detail: String| IssueError::Unreadable { command: call.to_string(), detail: one_line(&detail) };
        let items = self.dialect.items(&answer.stdout).map_err(|error| unreadable(error.to_string()))?;
        items.into_iter().map(|item| item.read().map_err(unreadable)).collect()
    }

    fn find(&self, id: &IssueId) -> Result<Seen> {
        let shown = self.list(&self.call("show").id(id), Some(id))?;
        let found = shown.into_iter().find(|seen| seen.issue.id == *id);
        found.ok_or_else(|| IssueError::NotFound { id: id.clone() })
    }

    /// Those of the issues that are still there, in any order.
    fn find_all(&self, ids: &[&IssueId]) -> Result<Vec<Seen>> {
        let call = ids.iter().fold(self.call("show"), |call, id| call.id(id));
        match self.list(&call, ids.first().copied()) {
            // One of them was deleted a moment ago: the others are worth a second look.
            Err(IssueError::NotFound { .. }) => {}
            shown => return shown,
        }
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            match self.find(id) {
                Err(IssueError::NotFound { .. }) => {}
                seen => found.push(seen?),
            }
        }
        Ok(found)
    }

    /// Makes a change until it is not lost to somebody faster. `change` says what there is to do about what is seen; a
    /// refusal is no failure if, at a second look, there is nothing to do any more.
    fn insist(&self, id: &IssueId, change: impl Fn(&Seen) -> Option<Call>) -> Result<()> {
        let mut refusal = None;
        for _ in 0..TRIES {
            let Some(call) = change(&self.find(id)?) else { return Ok(()) };
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            match self.run(&call, Some(id)) {
                Err(IssueError::Failed { trouble: Trouble::Stale, .. }) => {}
                Err(error @ IssueError::Failed { .. }) => refusal = Some(error),
                done => return done.map(drop),
            }
        }
        Err(IssueError::Restless { id: id.clone(), tries: TRIES })
    }

    /// What a look at the issue says about a claim: an answer, or nothing if it is free.
    fn standing(&self, id: &IssueId, actor: &AgentId) -> Result<Option<ClaimAnswer>> {
        let Issue { assignee, status, .. } = match self.find(id)?.issue {
            issue if issue.is_closed() => return Err(IssueError::Closed { id: issue.id }),
            issue => issue,
        };
        Ok(match assignee {
            Some(by) if by != actor.as_str() => Some(ClaimAnswer::AlreadyTaken { by }),
            Some(_) if status == "in_progress" => Some(ClaimAnswer::Claimed),
            _ => None,
        })
    }
}

fn is_for_an_agent(issue: &Issue) -> bool {
    issue.status == "open" && issue.assignee.is_none() && !issue.is_epic()
}

impl IssueSource for Beads {
    fn name(&self) -> &str {
        self.program.tracker().program()
    }

    fn ready(&self, limit: usize) -> Result<Vec<Issue>> {
        let session = self.session();
        let listed = session.list(&self.dialect.ready(), None)?.into_iter().map(|seen| seen.issue);
        let mut brief: Vec<Issue> = listed.filter(is_for_an_agent).collect();
        brief.sort_by_key(|issue| issue.priority);
        brief.truncate(limit);
        let mut whole = Vec::with_capacity(brief.len());
        for some in brief.chunks(SHOWN_AT_ONCE) {
            let ids: Vec<&IssueId> = some.iter().map(|issue| &issue.id).collect();
            let mut shown: Vec<Issue> = session.find_all(&ids)?.into_iter().map(|seen| seen.issue).collect();
            // Between the two calls somebody may have started on one.
            shown.retain(is_for_an_agent);
            shown.sort_by_key(|issue| ids.iter().position(|id| **id == issue.id));
            whole.extend(shown);
        }
        Ok(whole)
    }

    fn show(&self, id: &IssueId) -> Result<Issue> {
        Ok(self.session().find(id)?.issue)
    }

    fn claim(&self, id: &IssueId, actor: &AgentId) -> Result<ClaimAnswer> {
        let session = self.session();
        if let Some(answer) = session.standing(id, actor)? {
            return Ok(answer);
        }
        match session.run(&self.dialect.claim(id, actor), Some(id)) {
            Ok(_) => Ok(ClaimAnswer::Claimed),
            // Refusals have many words. What counts is who has it now.
            Err(refusal @ IssueError::Failed { .. }) => session.standing(id, actor)?.ok_or(refusal),
            Err(error) => Err(error),
        }
    }

    fn release(&self, id: &IssueId, actor: &AgentId) -> Result<()> {
        self.session().insist(id, |seen| {
            let held = seen.issue.assignee.as_deref() == Some(actor.as_str()) && !seen.issue.is_closed();
            held.then(|| self.dialect.give_back(id, actor, seen))
        })
    }

    fn append_note(&self, id: &IssueId, text: &str) -> Result<()> {
        let text = notes::clean(text)?;
        if text.is_empty() {
            return Err(IssueError::EmptyNote);
        }
        let block = notes::encode(&text, Timestamp::now());
        self.session().insist(id, |seen| {
            let known = seen.issue.notes.iter().any(|note| note.text == text);
            (!known).then(|| self.dialect.append(id, &block, seen))
        })
    }

    fn add_label(&self, id: &IssueId, label: &Label) -> Result<()> {
        let session = self.session();
        let add = || session.call("update").option("--add-label", label.as_str()).id(id);
        session.insist(id, |seen| (!has(&seen.issue, label)).then(add))
    }

    fn remove_label(&self, id: &IssueId, label: &Label) -> Result<()> {
        let session = self.session();
        let remove = || session.call("update").option("--remove-label", label.as_str()).id(id);
        session.insist(id, |seen| has(&seen.issue, label).then(remove))
    }

    fn close(&self, id: &IssueId, reason: &str) -> Result<()> {
        let reason = notes::clean(reason)?;
        let session = self.session();
        let close = || session.call("close").option("--reason", &reason).id(id);
        session.insist(id, |seen| (!seen.issue.is_closed()).then(close))
    }
}

fn has(issue: &Issue, label: &Label) -> bool {
    issue.labels.iter().any(|known| known == label.as_str())
}
