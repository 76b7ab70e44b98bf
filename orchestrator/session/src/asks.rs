//! Asking for files: the ask itself, waiting for what was asked for, and handing on what is done.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use mala_core::text::causes;
use mala_core::{AgentId, Ask, Conflict, Key, Lock, Scope, Target};
use mala_git::Repo;
use mala_store::{AskError, AskFilter, AskRequest, Outcome, Request, Store, StoreError, Wait};
use serde::{Deserialize, Serialize};

use crate::acquire::{acquire, acquire_or_wait};
use crate::{SessionError, Supervised, answer_release};

/// How often an ask is tried again because the file changed hands in between.
const MAX_ASK_TRIES: usize = 5;

/// What asking has come to.
#[derive(Debug)]
pub enum AskResult {
    /// The holders have to answer.
    Asked(Vec<Ask>),
    /// Nobody else holds it: it is the asker's now.
    Granted(Vec<Lock>),
}

/// Asks everybody in the way, or takes what nobody holds. The file may change hands in between; then it is asked again.
pub fn ask(scope: &Scope, store: &mut Store, request: &AskRequest) -> Result<AskResult, SessionError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match store.ask(request) {
            Ok(asks) => return Ok(AskResult::Asked(asks)),
            Err(StoreError::Ask(AskError::Free { .. } | AskError::Yours { .. })) if tries < MAX_ASK_TRIES => {
                if let Outcome::Granted(locks) = acquire(scope, store, &wish(request))? {
                    return Ok(AskResult::Granted(locks));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What the asker wants to hold.
fn wish(request: &AskRequest) -> Request {
    Request {
        party: request.party.clone(),
        wants: vec![request.want.clone()],
        ttl: request.ttl,
        reason: Some(request.why.clone()),
    }
}

/// Sleeps until the lock is the asker's. Whoever gets it before the asker does is asked as well; `remind` hears who is in
/// the way.
pub fn wait_for_asked(
    scope: &Scope,
    store: &mut Store,
    request: &AskRequest,
    (timeout, on_behalf_of): (Duration, Option<BorrowedFd<'_>>),
    mut remind: impl FnMut(&Conflict),
) -> Result<Outcome, SessionError> {
    let mut asking = Store::open(scope)?;
    // Reminded only when somebody else is in the way: the time itself never comes.
    let wait = Wait { longest: timeout, on_behalf_of, remind_every: Some(timeout) };
    let ask_again = |conflicts: &[Conflict]| {
        let is_asked = conflicts.is_empty() || asking.ask(request).is_ok();
        if let Some(conflict) = conflicts.first().filter(|_| is_asked) {
            remind(conflict);
        }
    };
    acquire_or_wait(scope, store, &wish(request), wait, ask_again)
}

/// A file that was handed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHandedOn {
    pub path: String,
    /// Who has it now.
    pub agent: String,
}

/// Hands those of the files on that somebody asked for, that the agent holds by name, and that have no further changes. A
/// lock on more than a file stays: its holder has not said that it is done with all of it. `warn` hears what stays because
/// it is still open.
pub fn hand_on(
    scope: &Scope,
    store: &mut Store,
    supervised: Option<&Supervised>,
    (agent, keys): (&AgentId, &[Key]),
    warn: &dyn Fn(&Target, &str),
) -> Result<Vec<FileHandedOn>, SessionError> {
    let asks = store.asks(&AskFilter { holder: Some(agent.clone()), ..AskFilter::default() })?;
    if asks.is_empty() {
        return Ok(Vec::new());
    }
    let repo = Repo::new(scope.clone());
    let dirty: Vec<Key> = repo.status()?.paths().map(|path| repo.key(path)).collect();
    let locks = store.locks()?;
    let is_done = |ask: &Ask| {
        let lock = locks.iter().find(|lock| lock.id == ask.lock && lock.agent == *agent);
        lock.is_some_and(|lock| match &lock.target {
            Target::File(key) => keys.contains(key) && !dirty.contains(key),
            Target::Pattern(_) | Target::Name(_) => false,
        })
    };
    let mut handed = Vec::new();
    // Whoever asked first gets it; the others are told that it has moved on.
    for ask in asks.iter().filter(|ask| is_done(ask)) {
        if !store.find_ask(&ask.id)?.state.is_pending() {
            continue;
        }
        match answer_release(scope, store, supervised, agent, &ask.id) {
            Ok(answered) if !answered.granted.is_empty() => {
                handed.push(FileHandedOn { path: ask.want.target.to_string(), agent: ask.asker.to_string() });
            }
            Ok(_) => {}
            // A file that is still open stays; the ask does, too.
            Err(error) => warn(&ask.want.target, &causes(&error)),
        }
    }
    Ok(handed)
}
