//! Answers for the kernel tier.

mod agent_state;
mod foreign_locks;
mod index_entries;
mod refusals;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use mala_agents::{Objection, When};
use mala_config::{Settings, Unlocked};
use mala_core::text::{causes, plain};
use mala_core::{AgentId, Conflict, Fence, Key, Lock, LockGroups, Mode, Scope, Target, Want};
use mala_gate::evidence::command_line;
use mala_logs::telemetry::{LockResult, metrics};
use mala_sandbox::{
    Action, Attempt, EntryKind, GitLock, Guard, Hold, Ruling, Start, Writer, has_writers, writers,
};
use mala_store::process::Process;
use mala_store::{Cause, EventKind, Outcome, Party, Refusal, Request, Store, StoreError, Which};
use serde_json::json;

use self::agent_state::{AgentState, Then};
use crate::SessionError;
use crate::acquire::{
    WRITERS_POLL_INTERVAL, WRITERS_TIMEOUT, give_back, open_elsewhere, path_of, reserve,
    wait_for_dead_writers,
};
use crate::git_guard::{ANOTHER_CHECKOUT, GitGuard, IndexView};
use crate::ignored::Ignored;
use crate::reads::{Freshness, Look, Reads, changed_by};
use crate::refusal::{self, Reader};
use crate::turns::Turns;
use crate::wants::{all_in, key, want_of, wants_of, with_groups};

pub use self::refusals::RefusedWrite;

/// A file that is open without a lock.
#[derive(Debug)]
pub struct LostLock {
    pub key: Key,
    pub writer: Writer,
    /// Who has the lock now.
    pub holder: Option<AgentId>,
}

/// One agent's rights, from memory where nothing has changed and else from the store.
#[derive(Debug)]
pub struct StoreGuard {
    scope: Scope,
    party: Party,
    ttl: Duration,
    groups: LockGroups,
    unlocked: Unlocked,
    ignored: Arc<Ignored>,
    turns: Turns,
    git_guard: GitGuard,
    reads: Reads,
    /// Device and inode.
    own_program: Option<(u64, u64)>,
    /// See [`Guard::grants`].
    grants: AtomicU64,
    is_hooked: AtomicBool,
    state: Mutex<AgentState>,
    /// Rings when a call is over and somebody waits for that.
    ended: Condvar,
}

/// What comes of an attempt.
#[derive(Debug)]
enum Decision {
    Allow {
        then: Then,
        /// What others have changed in files that are the agent's from now on.
        notice: Option<String>,
    },
    Refuse(String),
    /// The agent has the lock, and a program of another one has the file open for writing.
    StillOpen {
        message: String,
        granted: Vec<Lock>,
        since: Fence,
    },
}

impl Decision {
    fn allow(then: Then) -> Self {
        Self::Allow { then, notice: None }
    }
}

impl StoreGuard {
    pub fn new(
        store: Store,
        party: &Party,
        turns: Turns,
        settings: &Settings,
        ignored: Arc<Ignored>,
    ) -> Result<Self, SessionError> {
        let scope = turns.scope();
        Ok(Self {
            scope: scope.clone(),
            party: party.clone(),
            ttl: settings.lock.ttl,
            groups: settings.lock_groups(),
            unlocked: settings.enforcement.unlocked,
            ignored,
            git_guard: GitGuard::of(party, scope, settings)?,
            reads: Reads::of(scope, &party.agent),
            turns,
            own_program: program_of(std::process::id()),
            grants: AtomicU64::new(0),
            is_hooked: AtomicBool::new(false),
            state: Mutex::new(AgentState::new(store, &party.agent)),
            ended: Condvar::new(),
        })
    }

    /// The checkout that it watches over.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// A hook of the tree's client was called. True for the first one.
    pub fn hear_hook(&self) -> bool {
        !self.is_hooked.swap(true, Ordering::Relaxed)
    }

    /// What the git_guard of the tree do.
    pub fn git_guard(&self) -> &GitGuard {
        &self.git_guard
    }

    /// Where test commands queue.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Files that the tree may have open for writing, out of those that `wants` cover.
    pub fn opened(&self, wants: &[Want]) -> Vec<Key> {
        let Ok(state) = self.state.lock() else { return Vec::new() };
        let agent = &self.party.agent;
        let is_wanted = |key: &&Key| {
            let file = want_of(key);
            wants.iter().any(|want| want.claim(agent).overlaps(&file.claim(agent)))
        };
        state.opened().filter(is_wanted).cloned().collect()
    }

    /// Files that the tree still has open for writing although it has lost their locks. Each is told once.
    pub fn lost(&self) -> Result<Vec<LostLock>, StoreError> {
        let Ok(mut state) = self.state.lock() else { return Ok(Vec::new()) };
        let mut lost = Vec::new();
        for key in state.without_lock()? {
            state.forget(&key);
            let path = path_of(&self.scope, &key);
            // Looking for the writer means looking at every process there is, so only if there is one.
            if !has_writers(&path).unwrap_or(true) {
                continue;
            }
            let open = writers(&path);
            let Some(writer) = open.into_iter().find(|writer| is_in_tree(writer.pid)) else { continue };
            let target = Target::File(key.clone());
            let holder = state.store.holders(&want_of(&key))?.into_iter().next();
            let holder = holder.map(|lock| lock.agent);
            let detail = json!({ "program": writer.program, "pid": writer.pid, "holder": holder });
            state.store.record_fact(&self.party, EventKind::LockLost, Some(&target), &detail)?;
            lost.push(LostLock { key, writer, holder });
        }
        Ok(lost)
    }

    /// The tree is gone: nothing is open any more, and what is given back now is not lost.
    pub fn tree_ended(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.forget_all();
            state.sum_up_refusals(&self.party);
            state.record_commits(&self.party);
        }
    }

    /// Records the commits of the tree, which git does not wait for.
    pub fn record_commits(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.record_commits(&self.party);
        }
    }

    /// Gives back all that the agent holds.
    pub fn release_all(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.store.release(&self.party.agent, &Which::All)?;
        Ok(())
    }

    /// Nobody in the tree opens these files until the value is dropped. Waits for what was allowed before.
    pub fn leave<'g>(&'g self, keys: &'g [Key]) -> Result<Leaving<'g>, SessionError> {
        let mut state = self.state.lock().map_err(|_poisoned| SessionError::JudgePanicked)?;
        let last = state.leave(keys);
        let waited = self.ended.wait_timeout_while(state, WRITERS_TIMEOUT, |state| state.is_under_way(last));
        let (mut state, waited) = waited.map_err(|_poisoned| SessionError::JudgePanicked)?;
        state.stop_waiting();
        drop(state);
        let leaving = Leaving { guard: self, keys };
        if waited.timed_out() {
            return Err(SessionError::ChangeUnderWay);
        }
        Ok(leaving)
    }

    /// Everything that was refused so far, with how often, and how many others there were.
    pub fn refused(&self) -> (Vec<(RefusedWrite, u64)>, u64) {
        self.state.lock().map(|state| state.refusals.all()).unwrap_or_default()
    }

    fn decide(
        &self,
        state: &mut AgentState,
        attempt: &Attempt<'_>,
        keys: &[Key],
    ) -> Result<Decision, StoreError> {
        if let Some(key) = keys.iter().find(|key| state.is_leaving(key)) {
            let message = format!("`{}` is being handed on; ask for it again", plain(key));
            return Ok(Decision::Refuse(message));
        }
        let is_directory = attempt.kind == EntryKind::Directory;
        if is_directory && attempt.action == Action::Create {
            return self.decide_on_new_folder(state, attempt, keys);
        }
        if attempt.kind == EntryKind::Symlink
            && let Some(refusal) = self.redirected(state, attempt, keys)?
        {
            return Ok(Decision::Refuse(refusal));
        }
        let version = state.store.data_version()?;
        if !is_directory && keys.iter().all(|key| state.is_held(key, version)) {
            return Ok(Decision::allow(state.then(attempt.action, keys)));
        }
        if let Some(key) = keys.iter().find(|key| is_directory && all_in(key.as_bytes()).is_none()) {
            return Ok(Decision::Refuse(format!(
                "the path of `{}` is too long for a folder to be locked with all that is in it",
                plain(key)
            )));
        }
        let mut wants = Vec::new();
        for key in keys {
            wants.extend(wants_of(key, is_directory));
        }
        if self.unlocked == Unlocked::Deny
            && attempt.action != Action::Create
            && !self.holds_all(state, &wants)?
        {
            let paths: Vec<_> = keys.iter().map(plain).collect();
            let reader = self.reader(attempt);
            let commands = keys.iter().map(|key| reader.command("lock acquire", &Target::File(key.clone())));
            return Ok(Decision::Refuse(format!(
                "you hold no lock on `{}`; take it first: {}",
                paths.join(" "),
                commands.collect::<Vec<_>>().join("; ")
            )));
        }
        let wants = with_groups(&self.scope, &self.groups, wants);
        if state.refusals.are_many(Instant::now()) {
            // To be refused by asking for it would be recorded.
            let conflicts = state.store.check(&self.party.agent, &wants)?;
            if !conflicts.is_empty() {
                let refusal = Refusal { cause: Cause::Held, conflicts };
                return Ok(Decision::Refuse(sentence(
                    &mut state.store,
                    &self.party.agent,
                    &refusal,
                    &self.reader(attempt),
                )));
            }
        }
        let reason = Some(format!("written by {}", plain(attempt.program().display())));
        let request = Request { party: self.party.clone(), wants, ttl: self.ttl, reason };
        let since = state.store.newest_event()?;
        let outcome = reserve(&mut state.store, &request)?;
        metrics().lock_try(LockResult::from(matches!(outcome, Outcome::Granted(_))));
        let locks = match outcome {
            Outcome::Granted(locks) => locks,
            Outcome::Refused(mut refusal) => {
                // What the program has named first, then what is locked with it.
                refusal.conflicts.sort_by_key(|conflict| {
                    !conflict.want.target.file().is_some_and(|key| keys.contains(key))
                });
                let message = sentence(&mut state.store, &self.party.agent, &refusal, &self.reader(attempt));
                return Ok(Decision::Refuse(message));
            }
        };
        if let Err(error) = wait_for_dead_writers(&self.scope, &mut state.store, &locks) {
            let why = plain(causes(&error));
            return Ok(Decision::Refuse(format!("cannot save what a killed agent left there: {why}")));
        }
        let is_new = |key: &&Key| attempt.action != Action::Create && !state.is_opened(key);
        let new: Vec<Key> = keys.iter().filter(is_new).cloned().collect();
        if let Some(error) = open_elsewhere(&self.scope, &mut state.store, &self.party.agent, &new)? {
            let message = causes(&error);
            return Ok(Decision::StillOpen { message, granted: locks, since });
        }
        self.grants.fetch_add(1, Ordering::SeqCst);
        // Advice: a file is the agent's, whether or not this can be found out.
        let notice = self.changed_by_others(&mut state.store, attempt, &locks, since).ok().flatten();
        Ok(Decision::Allow { then: state.note_grant(attempt, keys, version), notice })
    }

    /// Names files that the agent has just got, as it begins to write them, and that others have changed since it saw them last.
    fn changed_by_others(
        &self,
        store: &mut Store,
        attempt: &Attempt<'_>,
        locks: &[Lock],
        since: Fence,
    ) -> Result<Option<String>, StoreError> {
        if attempt.kind == EntryKind::Directory || attempt.action == Action::Create {
            return Ok(None);
        }
        let mut changed = Vec::new();
        for key in locks.iter().filter(|lock| lock.fence > since).filter_map(|lock| lock.target.file()) {
            let mut look = Look { scope: &self.scope, store, agent: &self.party.agent, call_began: since };
            let seen = self.reads.newest(key);
            if let Some(known) = seen {
                if let Freshness::Stale(stale) = look.compare(&self.reads, key, known)? {
                    let by = changed_by(stale.by.as_ref());
                    changed.push(format!("changed since you read it: `{}`, {by}", plain(key)));
                }
                self.reads.confirm(key, store.newest_event()?);
            } else if let Some(change) = look.landed_unseen(key, self.party.run.as_ref())? {
                changed.push(format!("changed {}: `{}`, {}", change.since, plain(key), change.by));
            }
        }
        Ok((!changed.is_empty()).then(|| changed.join("; ")))
    }

    /// A folder needs no lock, but where somebody else has locked a name, there is no room for it.
    fn decide_on_new_folder(
        &self,
        state: &mut AgentState,
        attempt: &Attempt<'_>,
        keys: &[Key],
    ) -> Result<Decision, StoreError> {
        let agent = &self.party.agent;
        let wants: Vec<Want> = keys.iter().map(want_of).collect();
        let others = state.others();
        if others.is_some_and(|others| !wants.iter().any(|want| others.hold(agent, want))) {
            return Ok(Decision::allow(Then::Nothing));
        }
        let mut conflicts = state.store.check(agent, &wants)?;
        // What is locked below it needs it.
        conflicts.retain(|Conflict { want, holder }| want.claim(agent).overlaps(&holder.claim()));
        if conflicts.is_empty() {
            return Ok(Decision::allow(Then::Nothing));
        }
        let refusal = Refusal { cause: Cause::Held, conflicts };
        Ok(Decision::Refuse(sentence(&mut state.store, agent, &refusal, &self.reader(attempt))))
    }

    /// What is said against a git that begins with `args`.
    fn said_against(&self, start: &Start<'_>, args: &[OsString]) -> Option<String> {
        let objections = self.git_guard.objections(start, args);
        if !objections.is_empty() {
            let is_free = self.state.lock().is_ok_and(|mut state| self.holds_everything(&mut state));
            let counts = |objection: &&Objection| !is_free || objection.when != When::Always;
            if let Some(objection) = objections.iter().find(counts) {
                return Some(objection.to_string());
            }
        }
        let commit = self.git_guard.commit(start, args)?;
        let why = self.foreign_commit(start, &commit)?;
        Some(format!("`{}` is refused in a shared checkout: {why}", command_line(args)))
    }

    /// Why a symlink cannot get its new name: what others have locked below that name would lead elsewhere.
    fn redirected(
        &self,
        state: &mut AgentState,
        attempt: &Attempt<'_>,
        keys: &[Key],
    ) -> Result<Option<String>, StoreError> {
        let agent = &self.party.agent;
        let new = match attempt.action {
            Action::Create | Action::Exchange => keys,
            Action::Rename | Action::Link => keys.last().map(std::slice::from_ref).unwrap_or_default(),
            Action::Write | Action::Delete | Action::Chmod => &[],
        };
        for key in new {
            if state.others().is_some_and(|others| !others.hold_below(agent, key)) {
                continue;
            }
            let Some(all) = all_in(key.as_bytes()) else {
                return Ok(Some(format!("the path of `{}` is too long for a symlink", plain(key))));
            };
            let want = Want { target: Target::Pattern(all), ..want_of(key) };
            let conflicts = state.store.check(agent, &[want])?;
            if !conflicts.is_empty() {
                let refusal = Refusal { cause: Cause::Held, conflicts };
                return Ok(Some(sentence(&mut state.store, agent, &refusal, &self.reader(attempt))));
            }
        }
        Ok(None)
    }

    /// Where hints are typed: most likely where the program is.
    fn reader(&self, attempt: &Attempt<'_>) -> Reader<'_> {
        let cwd = fs::read_link(format!("/proc/{}/cwd", attempt.pid));
        Reader::new(&self.scope, &cwd.unwrap_or_else(|_| self.scope.root().to_path_buf()))
    }

    /// True if the agent holds a file of another checkout, by the locks there.
    fn holds_in(&self, root: &Path, path: &Path) -> bool {
        let holds = || -> Option<bool> {
            let scope = Scope::discover(root).ok()?;
            let mut store = Store::open(&scope).ok()?;
            let holders = store.holders(&want_of(&key(path.strip_prefix(root).ok()?))).ok()?;
            let is_own = |lock: &Lock| lock.agent == self.party.agent && lock.mode == Mode::Exclusive;
            Some(holders.iter().any(is_own))
        };
        holds().unwrap_or(false)
    }

    fn holds_all(&self, state: &mut AgentState, wants: &[Want]) -> Result<bool, StoreError> {
        for want in wants {
            let holders = state.store.holders(want)?;
            if !holders.iter().any(|lock| lock.agent == self.party.agent && lock.mode == Mode::Exclusive) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Files that are being handed on, see [`StoreGuard::leave`].
#[derive(Debug)]
pub struct Leaving<'g> {
    guard: &'g StoreGuard,
    keys: &'g [Key],
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.guard.state.lock() {
            state.stay(self.keys);
        }
    }
}

impl StoreGuard {
    /// True if mala itself starts the program: it knows how to use git beside others. A test that it turns into is the
    /// agent's own.
    fn is_mala(&self, pid: u32) -> bool {
        let is_same = self.own_program.is_some_and(|own| program_of(pid) == Some(own));
        is_same && !is_first(pid) && !self.turns.is_announced(pid)
    }

    /// True if another agent holds the file, or something in the folder. What cannot be found out counts as held.
    pub fn is_held_by_others(&self, path: &Path, is_folder: bool) -> bool {
        let Ok(mut state) = self.state.lock() else { return true };
        let agent = &self.party.agent;
        let wants = wants_of(&key(path), is_folder);
        state.others().is_none_or(|others| wants.iter().any(|want| others.hold(agent, want)))
    }

    /// True if another agent holds something below, should this be a folder.
    fn others_hold_below(&self, path: &Path) -> bool {
        let Ok(mut state) = self.state.lock() else { return true };
        let agent = &self.party.agent;
        state.others().is_none_or(|others| others.hold_below(agent, &key(path)))
    }

    /// An agent that holds the whole tree may move it.
    fn holds_everything(&self, state: &mut AgentState) -> bool {
        state.store.holds_everything(&self.party.agent).unwrap_or(false)
    }
}

impl Guard for StoreGuard {
    fn judge(&self, attempt: &Attempt<'_>) -> Ruling {
        const FAILED: &str = "mala failed while it judged another write; start the agent again";
        let keys: Vec<Key> = attempt.paths.iter().map(|path| key(path)).collect();
        let Ok(mut state) = self.state.lock() else { return refuse(FAILED) };
        if let Some(message) = state.repeats(|| refused(attempt)) {
            return Ruling::Refuse { message };
        }
        let mut waiting = None;
        let ruling = loop {
            match self.decide(&mut state, attempt, &keys) {
                Ok(Decision::Allow { then, notice }) => {
                    state.begin(attempt.pid, keys, then);
                    return match notice {
                        None => Ruling::Allow,
                        Some(notice) => Ruling::AllowAndTell { message: format!("mala: {notice}") },
                    };
                }
                Ok(Decision::Refuse(message)) => break refuse(&message),
                Ok(Decision::StillOpen { message, granted, since }) => {
                    let (since, began) = *waiting.get_or_insert_with(|| (since, Instant::now()));
                    if began.elapsed() >= WRITERS_TIMEOUT {
                        give_back(&mut state.store, &granted, since);
                        break refuse(&message);
                    }
                    // Whatever else the agent does goes on.
                    drop(state);
                    thread::sleep(WRITERS_POLL_INTERVAL);
                    let Ok(again) = self.state.lock() else { return refuse(FAILED) };
                    state = again;
                }
                Err(error) => break refuse(&format!("nothing may be written: {error}")),
            }
        };
        if let Ruling::Refuse { message } = &ruling {
            let refused = refused(attempt);
            let target = attempt.paths.last().map(|path| Target::File(key(path)));
            let detail = json!({ "program": refused.program, "files": refused.what, "said": message });
            state.record_refusal(&self.party, EventKind::WriteRefused, target.as_ref(), &detail);
            state.note_refusal(refused, message);
        }
        ruling
    }

    fn is_over(&self, pid: u32, is_performed: bool) {
        let Ok(mut state) = self.state.lock() else { return };
        if state.end(pid, is_performed) {
            self.ended.notify_all();
        }
    }

    fn grants(&self) -> Option<u64> {
        Some(self.grants.load(Ordering::SeqCst))
    }

    /// What git ignores, unless somebody else has locked it: agents can change what git ignores.
    fn is_exempt(&self, path: &Path) -> bool {
        self.ignored.contains(path) && !self.is_held_by_others(path, false) && !self.others_hold_below(path)
    }

    fn is_exempt_folder(&self, path: &Path) -> bool {
        self.ignored.would_contain_folder(path) && !self.is_held_by_others(path, true)
    }

    /// Whoever holds the whole tree may move it, and `HEAD` with it.
    fn unlocks(&self, path: &Path) -> bool {
        self.git_guard.is_movable_head(path)
            && self.state.lock().is_ok_and(|mut state| self.holds_everything(&mut state))
    }

    fn explains_protected(&self, path: &Path) -> Option<String> {
        self.git_guard.refusal_at(path).map(|text| format!("mala: {text}"))
    }

    fn judge_place(&self, pid: u32, path: &Path) -> Ruling {
        match self.git_guard.others().around(path) {
            Some(root) if !self.holds_in(&root, path) => self.refuse_git(pid, path, ANOTHER_CHECKOUT),
            _ => Ruling::Allow,
        }
    }

    fn makes_git_directory(&self, path: &Path) {
        self.git_guard.others().note_made(path);
    }

    fn judge_start(&self, start: &Start<'_>) -> Ruling {
        let Some(args) = self.git_guard.begins(start) else { return Ruling::Allow };
        if self.is_mala(start.pid) {
            return Ruling::Allow;
        }
        let Some(said) = self.said_against(start, &args) else { return Ruling::Allow };
        let Ok(mut state) = self.state.lock() else { return refuse("mala failed; start the agent again") };
        let refused = RefusedWrite { program: "git".to_owned(), what: cut(command_line(&args)) };
        if state.refusals.is_next_place(start.pid, &refused.what, Instant::now()) {
            return Ruling::Refuse { message: String::new() };
        }
        if let Some(message) = state.repeats(|| refused.clone()) {
            return Ruling::Refuse { message };
        }
        let said = cut(said);
        let ruling = refuse(&said);
        if let Ruling::Refuse { message } = &ruling {
            let detail = json!({ "command": refused.what, "said": said });
            state.record_refusal(&self.party, EventKind::CommandRefused, None, &detail);
            state.note_refusal(refused, message);
        }
        ruling
    }

    fn makes_git_lock(&self, lock: &GitLock<'_>) {
        self.git_guard.makes_lock(lock);
    }

    fn judge_git_lock(&self, lock: &GitLock<'_>) -> Ruling {
        match self.git_guard.knowledge(lock) {
            IndexView::Current => Ruling::Allow,
            IndexView::Behind => refuse(
                "somebody else has just changed what is staged, and this git has read it before: run it again",
            ),
            IndexView::StillBehind => Ruling::Refuse { message: String::new() },
        }
    }

    fn clears_git_lock(&self, pid: u32, path: &Path) -> bool {
        self.git_guard.waits(pid, path)
    }

    fn replaces_git_file(&self, pid: u32, from: &Path, to: &Path) -> Ruling {
        if self.git_guard.is_index_of_another(to) {
            return self.refuse_git(pid, to, ANOTHER_CHECKOUT);
        }
        if let Some(message) = self.foreign_replacement(from, to) {
            return self.refuse_git(pid, to, &message);
        }
        if let Some((commit, parent)) = self.git_guard.replaces(from, to)
            && let Ok(mut state) = self.state.lock()
        {
            state.note_commit(json!({ "commit": commit, "parent": parent }));
        }
        Ruling::Allow
    }

    fn judge_git_file(&self, pid: u32, path: &Path, action: Action) -> Ruling {
        let Some(message) = self.git_guard.refusal_to_change(path, action) else { return Ruling::Allow };
        if self.state.lock().is_ok_and(|mut state| self.holds_everything(&mut state)) {
            return Ruling::Allow;
        }
        self.refuse_git(pid, path, message)
    }

    fn hold(&self, start: &Start<'_>) -> Option<Box<dyn Hold>> {
        Some(Box::new(self.turns.of(start)?))
    }
}

/// A command as long as anybody wants to read it.
fn cut(mut command: String) -> String {
    const MOST: usize = 1_000;
    if command.len() > MOST {
        command.truncate(command.floor_char_boundary(MOST));
        command.push_str("...");
    }
    command
}

/// Device and inode of the program that a process runs.
fn program_of(pid: u32) -> Option<(u64, u64)> {
    std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()))
}

/// True for the command of `mala exec` itself, which mala starts as well.
fn is_first(pid: u32) -> bool {
    let own = std::process::id();
    Process::find(pid).is_some_and(|process| process.ancestors().nth(1).is_some_and(|above| above.pid == own))
}

fn refused(attempt: &Attempt<'_>) -> RefusedWrite {
    let what = attempt.paths.iter().map(|path| plain(path.display())).collect::<Vec<_>>().join(" ");
    RefusedWrite { program: plain(attempt.program().display()), what }
}

/// True for a process below this supervisor.
fn is_in_tree(pid: u32) -> bool {
    let own = std::process::id();
    Process::find(pid).is_some_and(|process| process.ancestors().any(|ancestor| ancestor.pid == own))
}

fn refuse(message: &str) -> Ruling {
    Ruling::Refuse { message: format!("mala: {message}") }
}

fn sentence(store: &mut Store, agent: &AgentId, refusal: &Refusal, reader: &Reader<'_>) -> String {
    let Some(conflict) = refusal.conflicts.first() else {
        return "it would make agents wait for each other".to_owned();
    };
    let next_step = reader.next_step(refusal::named(conflict));
    format!("{}; {next_step}", refusal::held(store, agent, conflict))
}
