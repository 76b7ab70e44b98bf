//! Where issues come from: the built-in tracker, or the one that the project uses.

use std::env;
use std::sync::{Arc, Mutex, MutexGuard};

use mala_config::{Settings, Source};
use mala_core::{AgentId, Issue, IssueId, PersonId, Scope, Who};
use mala_issues::{
    Choice, ClaimAnswer, Found, IssueError, IssueSource, Label, Limits, Result, Tracker, find,
};
use mala_store::{Store, StoreError};

use crate::error::{self, EngineError};
use crate::options::Keeping;

/// A tracker, and who keeps its issues.
type Chosen = (Arc<dyn IssueSource>, Keeping);

/// The tracker that serves this checkout.
pub fn choose(scope: &Scope, settings: &Settings) -> error::Result<Chosen> {
    let path = env::var_os("PATH").unwrap_or_default();
    let tracker = |found: &Found| -> error::Result<Chosen> {
        let source = found.open(scope.root(), Limits::default()).map_err(EngineError::Tracker)?;
        Ok((Arc::new(source), Keeping::Tracker))
    };
    let named = |kind: Tracker| tracker(&find(kind, &path)?);
    match settings.issues.source {
        Source::Builtin => built_in(scope),
        Source::Br => named(Tracker::Br),
        Source::Bd => named(Tracker::Bd),
        Source::Auto => match mala_issues::choose(scope.root(), &path)? {
            Choice::BuiltIn => built_in(scope),
            Choice::Tracker(found) => tracker(&found),
        },
    }
}

fn built_in(scope: &Scope) -> error::Result<Chosen> {
    Ok((Arc::new(BuiltIn::new(Store::open(scope)?)), Keeping::Store))
}

/// The tracker in the store.
#[derive(Debug)]
pub(crate) struct BuiltIn(Mutex<Store>);

/// Who does what no agent does.
pub(crate) fn mala() -> Who {
    Who::Person(PersonId::new("mala").expect("it is a name"))
}

impl BuiltIn {
    pub(crate) fn new(store: Store) -> Self {
        Self(Mutex::new(store))
    }

    fn store(&self) -> Result<MutexGuard<'_, Store>> {
        self.0.lock().map_err(|_| other("the store was left in the middle of something"))
    }
}

impl IssueSource for BuiltIn {
    fn name(&self) -> &str {
        "mala"
    }

    fn ready(&self, limit: usize) -> Result<Vec<Issue>> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        self.store()?.ready(None, limit).map_err(other)
    }

    fn show(&self, id: &IssueId) -> Result<Issue> {
        let found = self.store()?.issue(id).map_err(other)?;
        found.ok_or_else(|| IssueError::NotFound { id: id.clone() })
    }

    fn claim(&self, id: &IssueId, actor: &AgentId) -> Result<ClaimAnswer> {
        let taken = |by: Option<String>| ClaimAnswer::AlreadyTaken { by: by.unwrap_or_default() };
        match self.store()?.claim_issue(&Who::Agent(actor.clone()), id) {
            Ok(_) => Ok(ClaimAnswer::Claimed),
            Err(StoreError::Issue(mala_store::IssueError::NotOpen { assignee, .. })) => {
                let issue = self.show(id)?;
                if issue.is_closed() {
                    Err(IssueError::Closed { id: id.clone() })
                } else {
                    Ok(taken(assignee))
                }
            }
            Err(StoreError::Issue(mala_store::IssueError::Unknown { id })) => {
                Err(IssueError::NotFound { id })
            }
            Err(error) => Err(other(error)),
        }
    }

    fn release(&self, id: &IssueId, actor: &AgentId) -> Result<()> {
        self.show(id)?;
        self.store()?.release_issue(&Who::Agent(actor.clone()), id).map_err(other)?;
        Ok(())
    }

    fn append_note(&self, id: &IssueId, text: &str) -> Result<()> {
        let issue = self.show(id)?;
        if !issue.notes.iter().any(|note| note.text.trim() == text.trim()) {
            self.store()?.note(&mala(), id, text.trim()).map_err(other)?;
        }
        Ok(())
    }

    fn add_label(&self, id: &IssueId, label: &Label) -> Result<()> {
        self.show(id)?;
        self.store()?.label_issue(&mala(), id, &[label.to_string()], &[]).map_err(other)?;
        Ok(())
    }

    fn remove_label(&self, id: &IssueId, label: &Label) -> Result<()> {
        self.show(id)?;
        self.store()?.label_issue(&mala(), id, &[], &[label.to_string()]).map_err(other)?;
        Ok(())
    }

    fn close(&self, id: &IssueId, reason: &str) -> Result<()> {
        self.show(id)?;
        self.store()?.close_issue(&mala(), id, Some(reason)).map_err(other)?;
        Ok(())
    }
}

fn other(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> IssueError {
    IssueError::Other { name: "mala issue".to_owned(), source: source.into() }
}
