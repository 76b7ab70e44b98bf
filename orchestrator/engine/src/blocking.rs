//! The work behind each step that may take long: claiming, judging, ending. Everything here blocks, and everything may be
//! repeated after a kill: the order of the steps is what keeps promises, not their being uninterrupted.

mod ending;
mod freeing;
mod journal;
mod leftovers;
mod offers;
mod parking;
mod recover;
mod unversioned;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use mala_agents::start::Profile;
use mala_config::TakeAdded;
use mala_core::claim::Reading;
use mala_core::ports::Clock;
use mala_core::{AgentId, Attempt, CheckName, Issue, IssueId, Key, Mode, PersonId, RunId, Target, Want, Who};
use mala_git::salvage::{self, SavedRef, Uncommitted};
use mala_git::{Content, Repo, RepoPath};
use mala_issues::{ClaimAnswer, IssueSource};
use mala_store::{IssueNote, NewAttempt, Store, Tracker};

use crate::error::{EngineError, Result};
use crate::landing_queue::LandingQueue;
use crate::options::{Keeping, Options};
use crate::session::Sessions;
use crate::validator::{Judgement, Validator};

pub(crate) use ending::{AttemptEnd, Cause, EndKind, EndResult};
use journal::StoreClaim;
pub use journal::unfinished_run;
pub(crate) use offers::{CheckoutState, Fate, PutBack, Queued};
pub(crate) use parking::{Awaited, Away, WaitOutcome};

/// Does the blocking work of a run. The store is used by one thread at a time.
#[derive(Clone)]
pub(crate) struct BlockingOps {
    pub(crate) store: Arc<Mutex<Store>>,
    pub(crate) source: Arc<dyn IssueSource>,
    pub(crate) sessions: Arc<dyn Sessions>,
    pub(crate) validator: Arc<dyn Validator>,
    pub(crate) queue: Arc<dyn LandingQueue>,
    pub(crate) repo: Repo,
    pub(crate) options: Arc<Options>,
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
}

/// What a person has said about an issue.
#[derive(Debug, Clone)]
pub(crate) struct PersonNote {
    pub(crate) author: PersonId,
    pub(crate) text: String,
}

/// What people have answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Who has written it.
    pub(crate) by: String,
}

impl Answer {
    pub(crate) fn of(notes: &[PersonNote]) -> Option<Self> {
        let text: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        let mut by: Vec<&str> = notes.iter().map(|note| note.author.as_str()).collect();
        by.dedup();
        (!notes.is_empty()).then(|| Self { text: text.join("\n\n"), by: by.join(", ") })
    }
}

/// What a claim came to.
#[derive(Debug)]
pub(crate) enum Claim {
    Granted(Box<ClaimedIssue>),
    /// Somebody else has it, or it is closed.
    Gone(String),
    /// It was tried often enough.
    TooOften(u32),
}

/// An issue that is ours.
#[derive(Debug)]
pub(crate) struct ClaimedIssue {
    pub(crate) attempt: Attempt,
    /// As it is now.
    pub(crate) issue: Issue,
    pub(crate) left: Option<Continuation>,
}

/// What an attempt left that was cut off, for the next one to go on with.
#[derive(Debug, Clone)]
pub(crate) struct Continuation {
    /// Which attempt it was.
    pub(crate) number: u32,
    profile: Option<String>,
    session: Option<String>,
    pub(crate) saved: Option<SavedRef>,
    /// The saved work is back in the checkout.
    pub(crate) is_in_place: bool,
}

impl Continuation {
    /// The conversation to go on with, if an agent of this very profile had it.
    pub(crate) fn session_for(&self, profile: &Profile) -> Option<String> {
        let is_same = self.profile.as_ref() == Some(&profile.name);
        self.session.clone().filter(|_| is_same && profile.kind.has_sessions())
    }
}

/// What must change between two rounds of the gate for it to be worth a third: what fails, and the agent's own work.
/// What others do meanwhile is no progress.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fingerprint {
    failed: Vec<(CheckName, String)>,
    commits: Vec<String>,
    files: BTreeMap<RepoPath, Content>,
}

/// What becomes of files that an agent has changed after its offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaterChanges {
    /// It is told.
    SendBack,
    /// It was told; they are saved.
    Save,
}

impl Fingerprint {
    pub(crate) fn of(judgement: &Judgement, files: BTreeMap<RepoPath, Content>) -> Self {
        let failed = judgement.failed.iter().map(|check| (check.name, check.detail.clone()));
        let offer = judgement.offer.as_ref().map(|offer| offer.head.to_string());
        let commits = judgement.commits.iter().cloned().chain(offer).collect();
        Self { failed: failed.collect(), commits, files }
    }
}

impl BlockingOps {
    /// The files that an issue names, as far as they make sense here; the others, in words.
    pub(crate) fn hints(&self, issue: &Issue) -> (Vec<Want>, Vec<String>) {
        let scope = self.repo.scope();
        let mut problems = Vec::new();
        let mut wants = Vec::new();
        for file in &issue.files {
            match scope.want(scope.root(), file.as_ref(), Mode::Exclusive, Reading::Guess) {
                Ok(want) => wants.push(want),
                Err(error) => problems.push(format!("{} names the file `{file}`: {error}", issue.id)),
            }
        }
        (wants, problems)
    }

    /// Takes an issue: first in the store, so that whatever happens next can be undone, then in the tracker.
    pub(crate) fn claim(
        &self,
        run: &RunId,
        issue: &IssueId,
        profile: &str,
        is_asked_for: bool,
    ) -> Result<Claim> {
        let issue = self.source.show(issue)?;
        if issue.is_closed() {
            return Ok(Claim::Gone("it is closed".to_owned()));
        }
        let tries = self.tries(&issue.id)?;
        if tries.ended >= self.options.attempts && !is_asked_for {
            return Ok(Claim::TooOften(tries.ended));
        }
        if is_asked_for && self.options.keeping == Keeping::Store {
            self.unblock(&issue.id)?;
        }
        let mut left = self.left_over(&issue.id)?;
        let new = NewAttempt {
            run: run.clone(),
            issue: issue.id.clone(),
            tracker: match self.options.keeping {
                Keeping::Store => Tracker::BuiltIn,
                Keeping::Tracker => Tracker::Other,
            },
            agent: agent_name(profile, &issue.id, tries.next),
            profile: profile.to_owned(),
            head: self.repo.resolve("HEAD")?,
        };
        self.keep_uncommitted(run, &new.agent)?;
        let attempt = match self.claim_in_store(&new)? {
            StoreClaim::Granted(attempt) => *attempt,
            StoreClaim::Gone(why) => return Ok(Claim::Gone(why)),
        };
        if let Some(why) = self.claim_in_tracker(&attempt)? {
            return Ok(Claim::Gone(why));
        }
        if let Some(left) = &mut left
            && let Some(saved) = &left.saved
        {
            // What others hold by now is theirs; then the agent is told where its work lies.
            left.is_in_place = self.take_files(&attempt, &saved.files(&self.repo)?)?
                && salvage::put_in_place(&self.repo, saved)?;
        }
        Ok(Claim::Granted(Box::new(ClaimedIssue { attempt, issue, left })))
    }

    /// Why the tracker did not give the issue, if it keeps issues and did not. Then the claim in the store is undone.
    fn claim_in_tracker(&self, attempt: &Attempt) -> Result<Option<String>> {
        let Attempt { issue, agent, .. } = attempt;
        if self.options.keeping == Keeping::Store {
            return Ok(None);
        }
        match self.source.claim(issue, agent) {
            Ok(ClaimAnswer::Claimed) => Ok(None),
            Ok(ClaimAnswer::AlreadyTaken { by }) => {
                self.give_back(attempt)?;
                Ok(Some(format!("{by} works on it")))
            }
            Err(error) => {
                // It may have claimed it all the same, and failed to say so.
                let _ = self.source.release(issue, agent);
                self.give_back(attempt)?;
                Err(error.into())
            }
        }
    }

    /// What the last attempt at the issue left, if it was cut off and this run goes on with such.
    fn left_over(&self, issue: &IssueId) -> Result<Option<Continuation>> {
        let Some(left) = self.options.resume.then(|| self.unfinished(issue)).transpose()?.flatten() else {
            return Ok(None);
        };
        let saved = match left.saved_ref {
            Some(name) => self.repo.resolve(&name)?.map(|commit| SavedRef { name, commit }),
            None => None,
        };
        Ok(Some(Continuation {
            number: left.number,
            profile: left.profile,
            session: left.session,
            saved,
            is_in_place: false,
        }))
    }

    pub(crate) fn wants<'a>(&self, files: impl IntoIterator<Item = &'a RepoPath>) -> Vec<Want> {
        let want = |path: &RepoPath| Want {
            target: Target::File(self.repo.key(path)),
            aliases: Vec::new(),
            mode: Mode::Exclusive,
        };
        files.into_iter().map(want).collect()
    }

    /// Issues that agents of the run have added and that the next run begins.
    pub(crate) fn added_for_later(&self, run: &RunId) -> Result<Vec<IssueId>> {
        match self.options.take_added {
            TakeAdded::NextRun => Ok(self.store()?.issues_added_in(run)?),
            TakeAdded::Now => Ok(Vec::new()),
        }
    }

    /// What people have said about the issue, from outside of every agent's tree: the store knows who wrote a note. What
    /// another tracker keeps may be anybody's.
    pub(crate) fn notes_of_people(&self, issue: &IssueId) -> Result<Vec<PersonNote>> {
        let notes = self.store()?.notes(issue)?;
        let of_person = |note: IssueNote| match note.author {
            Who::Person(author) => Some(PersonNote { author, text: note.text }),
            Who::Agent(_) => None,
        };
        Ok(notes.into_iter().filter_map(of_person).collect())
    }

    /// Undoes a claim that is not to be begun after all. Work that was put in place for it is saved again.
    pub(crate) fn undo(&self, attempt: &Attempt, why: &str) -> Result<()> {
        if !self.has_left_work(attempt)? {
            return self.put_back(attempt);
        }
        self.end(&AttemptEnd::cut_off(attempt.clone(), why, Cause::Stopped)).map(|_| ())
    }

    /// Undoes a claim that came to nothing.
    pub(crate) fn put_back(&self, attempt: &Attempt) -> Result<()> {
        if self.options.keeping == Keeping::Tracker {
            self.source.release(&attempt.issue, &attempt.agent)?;
        }
        self.give_back(attempt)
    }

    /// `later`: what becomes of files that were changed after the offer.
    pub(crate) fn judge(
        &self,
        attempt: &Attempt,
        message: Option<&str>,
        later: LaterChanges,
    ) -> Result<(Judgement, Fingerprint)> {
        self.catch_up(attempt)?;
        let mut judgement = self.validator.judge(attempt, message)?;
        if let Some(offer) =
            judgement.offer.as_ref().filter(|_| judgement.accepted && later == LaterChanges::SendBack)
        {
            let files = self.changed_since(attempt, offer)?;
            if !files.is_empty() {
                judgement.accepted = false;
                judgement.failed.push(offers::changed_later(&files));
            }
        }
        let files = if judgement.accepted {
            BTreeMap::new()
        } else {
            let own = self.own_dirty_files(attempt)?;
            self.repo.contents(&own)?
        };
        let fingerprint = Fingerprint::of(&judgement, files);
        Ok((judgement, fingerprint))
    }

    /// What the attempt's agent has changed and not committed. From here on it is held for the agent, so nobody else
    /// can take it before it is saved.
    fn own_dirty_files(&self, attempt: &Attempt) -> Result<BTreeSet<RepoPath>> {
        self.own(attempt, salvage::dirty(&self.repo)?)
    }

    /// Those of the files that the attempt's agent had. They are held for it, too.
    fn own(&self, attempt: &Attempt, files: BTreeSet<RepoPath>) -> Result<BTreeSet<RepoPath>> {
        let mut files: BTreeMap<Key, RepoPath> =
            files.into_iter().map(|path| (self.repo.key(&path), path)).collect();
        let keys: Vec<Key> = files.keys().cloned().collect();
        let own = self.secure(attempt, &keys)?;
        Ok(own.into_iter().filter_map(|key| files.remove(&key)).collect())
    }

    /// Keeps what people have left uncommitted, before the agent begins. What is held may be an agent's.
    fn keep_uncommitted(&self, run: &RunId, agent: &AgentId) -> Result<()> {
        let is_held = |path: &RepoPath| Ok::<_, EngineError>(!self.holders(&self.wants([path]))?.is_empty());
        Uncommitted::keep_unheld(&self.repo, run, agent, is_held)?;
        self.refresh_unversioned(run)
    }
}

impl std::fmt::Debug for BlockingOps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingOps").field("repo", &self.repo).finish_non_exhaustive()
    }
}

/// The name of the agent of one attempt. It says all a person wants to know, as long as that fits.
fn agent_name(profile: &str, issue: &IssueId, number: u32) -> AgentId {
    let full = format!("{profile}-{issue}-{number}");
    AgentId::new(full).unwrap_or_else(|_| {
        let short = Key::from_stored(std::ffi::OsStr::new(issue.as_str()).as_bytes().to_vec()).short_id();
        AgentId::new(format!("agent-{short}-{number}")).expect("letters and digits make a name")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_goes_on_only_under_the_profile_that_began_it() {
        let mut claude = mala_agents::start::built_in_profiles();
        claude.retain(|profile| profile.name == "claude");
        let claude = claude.remove(0);
        let opus = Profile { name: "claude-opus".to_owned(), ..claude.clone() };
        for (began, other) in [(&claude, &opus), (&opus, &claude)] {
            let left = Continuation {
                number: 1,
                profile: Some(began.name.clone()),
                session: Some("s-1".to_owned()),
                saved: None,
                is_in_place: false,
            };
            assert_eq!(left.session_for(began).as_deref(), Some("s-1"));
            assert_eq!(left.session_for(other), None, "{} after {}", other.name, began.name);
            let unknown = Continuation { profile: None, ..left };
            assert_eq!(unknown.session_for(began), None);
        }
    }
}
