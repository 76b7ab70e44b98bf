//! What a test in a slot did not contain: what other live agents hold, and what is offered and has not landed.
//!
//! A test on one's own changes alone fails where they need what somebody else is still working on. Whose that is, only mala
//! knows.

use std::collections::BTreeMap;

use mala_core::{AgentId, AttemptState, EntryState, IssueId, Lock, Mode, Target};
use mala_git::{Repo, RepoPath};
use mala_store::{EntryFilter, Party, Store};
use serde::Serialize;

use crate::slot_test::Work;
use crate::validation::ValidationError;

/// So many files are named.
const MAX_NAMED: usize = 10;

/// Files that were not in a test as others will have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NotInTest {
    #[serde(rename = "not_in_test")]
    pub files: Vec<OthersFile>,
    /// How many more there are.
    #[serde(rename = "not_in_test_besides")]
    pub besides: usize,
}

/// A file, or a pattern of files, that somebody else is at work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OthersFile {
    pub path: String,
    pub agent: Option<AgentId>,
    pub issue: Option<IssueId>,
    /// `working`, `needs_input`, or where its entry in the landing queue stands.
    pub state: &'static str,
}

impl NotInTest {
    /// What was missing from a test of `work` by `party`. The files of issues come first: their landing can be waited for.
    pub fn of(repo: &Repo, store: &mut Store, party: &Party, work: &Work) -> Result<Self, ValidationError> {
        let mut files = held(store, party)?;
        for (path, file) in offered(repo, store, party, work)? {
            files.insert(path, file);
        }
        let mut files: Vec<OthersFile> = files.into_values().collect();
        files.sort_by_key(|file| file.issue.is_none());
        let besides = files.len().saturating_sub(MAX_NAMED);
        files.truncate(MAX_NAMED);
        Ok(Self { files, besides })
    }

    /// Issues whose landing can be waited for, each once.
    pub fn issues(&self) -> Vec<&IssueId> {
        let mut issues: Vec<&IssueId> = self.files.iter().filter_map(|file| file.issue.as_ref()).collect();
        issues.sort();
        issues.dedup();
        issues
    }

    /// In words: "src/api.rs (A, bd-3, working)". Nothing if nothing was missing.
    pub fn words(&self) -> Option<String> {
        let named = self.files.iter().map(OthersFile::words).collect::<Vec<_>>().join(", ");
        match self.besides {
            _ if self.files.is_empty() => None,
            0 => Some(named),
            besides => Some(format!("{named} and {besides} more")),
        }
    }
}

impl OthersFile {
    fn words(&self) -> String {
        let agent = self.agent.as_ref().map(ToString::to_string);
        let issue = self.issue.as_ref().map(ToString::to_string);
        let state = self.state.replace('_', " ");
        let about: Vec<String> = agent.into_iter().chain(issue).chain([state]).collect();
        format!("{} ({})", self.path, about.join(", "))
    }
}

/// What other live agents hold for themselves, by its name.
fn held(store: &mut Store, party: &Party) -> Result<BTreeMap<String, OthersFile>, ValidationError> {
    let run = store.current_run()?;
    let attempts = run.map(|run| store.attempts_of_run(&run.id)).transpose()?.unwrap_or_default();
    let asks = |agent: &AgentId| {
        let is_asking = |state: AttemptState| state == AttemptState::NeedsInput;
        attempts.iter().any(|attempt| attempt.agent == *agent && is_asking(attempt.state))
    };
    let is_others = |lock: &Lock| lock.mode == Mode::Exclusive && lock.agent != party.agent;
    let locks = store.locks()?.into_iter().filter(is_others);
    let named = locks.filter_map(|lock| {
        let path = match &lock.target {
            Target::File(key) => key.to_string(),
            Target::Pattern(pattern) => pattern.to_string(),
            Target::Name(_) => return None,
        };
        let state = if asks(&lock.agent) { "needs_input" } else { "working" };
        Some((path.clone(), OthersFile { path, agent: Some(lock.agent), issue: lock.issue, state }))
    });
    Ok(named.collect())
}

/// What waits in the landing queue and is not what was tested.
fn offered(
    repo: &Repo,
    store: &mut Store,
    party: &Party,
    work: &Work,
) -> Result<Vec<(String, OthersFile)>, ValidationError> {
    let mut files = Vec::new();
    for entry in store.entries(&EntryFilter { open: true, ..EntryFilter::default() })? {
        if entry.state == EntryState::Landed || entry.agent.as_ref() == Some(&party.agent) {
            continue;
        }
        // One whose commit is gone is for the queue to tell.
        let Ok(changes) = repo.changes_between(&entry.base, &entry.head) else { continue };
        let tested = repo.tree_entries(&work.commit, changes.iter().map(|change| &change.path))?;
        let is_absent = |path: &RepoPath, after| tested.get(path) != after;
        for change in changes.iter().filter(|change| is_absent(&change.path, change.after.as_ref())) {
            let path = change.path.to_string();
            let (agent, issue) = (entry.agent.clone(), entry.issue.clone());
            files.push((path.clone(), OthersFile { path, agent, issue, state: entry.state.as_str() }));
        }
    }
    Ok(files)
}
