//! What is known about one agent's files: which it holds, which its tree may have open, which are just being handed on, and which
//! calls are under way. All of it is memory; what is not in it is in the store.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use mala_core::{AgentId, Key, Target};
use mala_sandbox::{Action, Attempt, EntryKind};
use mala_store::{EventKind, Party, Store, StoreError, Which};
use serde_json::{Value, json};

use super::foreign_locks::ForeignLocks;
use super::refusals::{Refusals, RefusedWrite};
use crate::wants::{key, want_of};

#[derive(Debug)]
pub(super) struct AgentState {
    pub(super) store: Store,
    pub(super) refusals: Refusals,
    agent: AgentId,
    files: HashMap<Key, File>,
    others: Option<ForeignLocks>,
    /// The store's version when open files were last compared with locks.
    watched: i64,
    /// Files that are just being handed on: nobody opens them any more.
    leaving: HashSet<Key>,
    /// Calls that were allowed and are just being performed, and how many there were.
    under_way: Vec<UnderWay>,
    calls: u64,
    /// How many wait for calls to be over.
    waiting: usize,
    /// What the tree has committed, until it is recorded.
    commits: Vec<Value>,
}

#[derive(Debug, Default, Clone, Copy)]
struct File {
    /// The agent alone holds it, as of this version of the store.
    held_at: Option<i64>,
    /// The tree may have it open for writing.
    is_opened: bool,
    /// The agent has made it; if it renames it, the old name is given back.
    is_own: bool,
}

/// A call that was allowed.
#[derive(Debug)]
struct UnderWay {
    pid: u32,
    number: u64,
    keys: Vec<Key>,
    then: Then,
}

/// What is to be done when a call has been performed, and not before.
#[derive(Debug)]
pub(super) enum Then {
    Nothing,
    /// A temporary file has become the real one: its own name is of no more use.
    GiveBack(Key),
    /// Nothing is in this folder any more.
    Forget(Key),
}

/// What is held and open.
impl AgentState {
    pub(super) fn new(store: Store, agent: &AgentId) -> Self {
        Self {
            store,
            refusals: Refusals::default(),
            agent: agent.clone(),
            files: HashMap::new(),
            others: None,
            watched: -1,
            leaving: HashSet::new(),
            under_way: Vec::new(),
            calls: 0,
            waiting: 0,
            commits: Vec::new(),
        }
    }

    /// True if the agent alone holds the file and the store still has this version.
    pub(super) fn is_held(&self, key: &Key, version: i64) -> bool {
        self.files.get(key).is_some_and(|file| file.held_at == Some(version))
    }

    /// True if the tree may have the file open for writing.
    pub(super) fn is_opened(&self, key: &Key) -> bool {
        self.files.get(key).is_some_and(|file| file.is_opened)
    }

    /// Files that the tree may have open for writing.
    pub(super) fn opened(&self) -> impl Iterator<Item = &Key> {
        self.files.iter().filter(|(_, file)| file.is_opened).map(|(key, _)| key)
    }

    /// Files that the tree may have open although their locks are gone, if anything has changed since this was last asked.
    pub(super) fn without_lock(&mut self) -> Result<Vec<Key>, StoreError> {
        let version = self.store.data_version()?;
        if self.watched == version || self.opened().next().is_none() {
            return Ok(Vec::new());
        }
        self.watched = version;
        let mut own = self.store.locks()?;
        own.retain(|lock| lock.agent == self.agent);
        let is_own = |key: &Key| {
            let file = want_of(key);
            own.iter().any(|lock| lock.claim().overlaps(&file.claim(&self.agent)))
        };
        Ok(self.opened().filter(|key| !is_own(key)).cloned().collect())
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.files.remove(key);
    }

    pub(super) fn forget_all(&mut self) {
        self.files.clear();
    }

    /// What other agents hold; none if that cannot be found out.
    pub(super) fn others(&mut self) -> Option<&ForeignLocks> {
        let version = self.store.data_version().ok()?;
        if self.others.as_ref().is_none_or(|others| others.version != version) {
            let mut locks = self.store.locks().ok()?;
            locks.retain(|lock| lock.agent != self.agent);
            self.others = Some(ForeignLocks::new(version, locks));
        }
        self.others.as_ref()
    }

    /// The agent got `keys` when the store had this version.
    pub(super) fn note_grant(&mut self, attempt: &Attempt<'_>, keys: &[Key], version: i64) -> Then {
        if attempt.kind == EntryKind::Directory {
            return match (attempt.action, keys) {
                (Action::Rename, [from, to]) => {
                    self.folders_move(&[(from, to)]);
                    Then::Forget(from.clone())
                }
                (Action::Exchange, [one, other]) => {
                    self.folders_move(&[(one, other), (other, one)]);
                    Then::Nothing
                }
                _ => Then::Nothing,
            };
        }
        for key in keys {
            let file = self.files.entry(key.clone()).or_default();
            *file = File {
                held_at: Some(version),
                is_opened: true,
                is_own: file.is_own || attempt.action == Action::Create,
            };
        }
        self.then(attempt.action, keys)
    }

    /// What is to be done when the agent has changed files that it holds.
    pub(super) fn then(&self, action: Action, keys: &[Key]) -> Then {
        match (action, keys) {
            (Action::Rename, [from, _]) if self.files.get(from).is_some_and(|file| file.is_own) => {
                Then::GiveBack(from.clone())
            }
            _ => Then::Nothing,
        }
    }

    /// What is open in folders stays open under their new names. Until they have moved, under the old ones too.
    fn folders_move(&mut self, moves: &[(&Key, &Key)]) {
        let mut moving: Vec<(Key, File)> = Vec::new();
        for (from, to) in moves {
            moving.extend(self.files.iter().filter_map(|(old, file)| {
                let rest = old.as_path().strip_prefix(from.as_path()).ok()?;
                Some((key(&to.as_path().join(rest)), *file))
            }));
        }
        for (new, moved) in moving {
            let file = self.files.entry(new).or_default();
            *file = File {
                held_at: None,
                is_opened: file.is_opened || moved.is_opened,
                is_own: file.is_own || moved.is_own,
            };
        }
    }
}

/// What is under way, and what waits for it.
impl AgentState {
    pub(super) fn begin(&mut self, pid: u32, keys: Vec<Key>, then: Then) {
        self.calls += 1;
        self.under_way.push(UnderWay { pid, number: self.calls, keys, then });
    }

    /// The call of this thread is over. True if somebody waits for that.
    pub(super) fn end(&mut self, pid: u32, is_performed: bool) -> bool {
        if let Some(index) = self.under_way.iter().position(|call| call.pid == pid) {
            let then = self.under_way.swap_remove(index).then;
            if is_performed {
                self.follow_up(then);
            }
        }
        self.waiting > 0
    }

    fn follow_up(&mut self, then: Then) {
        match then {
            // Another thread may be about to make it again.
            Then::GiveBack(key) if !self.under_way.iter().any(|call| call.keys.contains(&key)) => {
                self.files.remove(&key);
                // A lock that stays is given back at the end.
                let _ = self.store.release(&self.agent, &Which::These(vec![want_of(&key)]));
            }
            Then::Forget(folder) => {
                self.files.retain(|key, _| !key.as_path().starts_with(folder.as_path()));
            }
            Then::GiveBack(_) | Then::Nothing => {}
        }
    }

    /// Nobody opens these files until they [stay](Self::stay). Whoever calls this waits for calls up to the one with this number.
    pub(super) fn leave(&mut self, keys: &[Key]) -> u64 {
        self.leaving.extend(keys.iter().cloned());
        self.waiting += 1;
        self.calls
    }

    pub(super) fn stop_waiting(&mut self) {
        self.waiting -= 1;
    }

    /// True if a call up to this one is not over.
    pub(super) fn is_under_way(&self, last: u64) -> bool {
        self.under_way.iter().any(|call| call.number <= last)
    }

    pub(super) fn is_leaving(&self, key: &Key) -> bool {
        self.leaving.contains(key)
    }

    pub(super) fn stay(&mut self, keys: &[Key]) {
        self.leaving.retain(|key| !keys.contains(key));
    }
}

/// What was refused.
impl AgentState {
    /// What a program that insists is told once more.
    pub(super) fn repeats(&mut self, refused: impl FnOnce() -> RefusedWrite) -> Option<String> {
        if !self.refusals.is_one_often() {
            return None;
        }
        let version = self.store.data_version().ok()?;
        self.refusals.repeated(&refused(), version, Instant::now())
    }

    /// The refusal stands, whether or not it can be recorded.
    pub(super) fn record_refusal(
        &mut self,
        party: &Party,
        kind: EventKind,
        target: Option<&Target>,
        detail: &Value,
    ) {
        if self.refusals.count(Instant::now()) {
            self.sum_up_refusals(party);
            let _ = self.store.record_fact(party, kind, target, detail);
        }
    }

    pub(super) fn sum_up_refusals(&mut self, party: &Party) {
        if let Some(more) = self.refusals.take_more() {
            let _ = self.store.record_fact(party, EventKind::WriteRefused, None, &json!({ "more": more }));
        }
    }

    pub(super) fn note_refusal(&mut self, refused: RefusedWrite, message: &str) {
        let version = self.store.data_version().unwrap_or(-1);
        self.refusals.add(refused, message.to_owned(), version, Instant::now());
    }
}

/// What was committed.
impl AgentState {
    pub(super) fn note_commit(&mut self, detail: Value) {
        self.commits.push(detail);
    }

    pub(super) fn record_commits(&mut self, party: &Party) {
        for detail in self.commits.drain(..) {
            // Without a record the commit merely cannot be taken back.
            let _ = self.store.record_fact(party, EventKind::CommitMade, None, &detail);
        }
    }
}
