//! Answers for the kernel tier.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mala_config::{Settings, Unlocked};
use mala_core::scope::ScopeError;
use mala_core::shell::word;
use mala_core::{AgentId, Key, Lock, Mode, Pattern, Scope, Target, Timestamp, Want};
use mala_logs::telemetry::{LockResult, metrics};
use mala_sandbox::{Action, Attempt, GitLock, Guard, Hold, Ruling, Start, Writer, has_writers, writers};
use mala_store::process::Process;
use mala_store::{Cause, EventKind, Outcome, Party, Refusal, Request, Store, StoreError, Which};
use serde_json::json;

use super::drain::{LOOK_AGAIN, PATIENCE, give_back, open_elsewhere, outlive_the_dead, path_of};
use super::git_locks::GitLocks;
use super::ignored::Ignored;
use super::others::Others;
use super::refusals::{Refusals, Refused};
use super::turns::{Turns, command_line};
use super::worktree;
use crate::error::CliError;
use crate::refusal;
use crate::ui::plain;

/// A program's next place is looked at within this time.
const NEXT_PLACE: Duration = Duration::from_millis(100);

/// A file that is open without a lock.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) key: Key,
    pub(crate) writer: Writer,
    /// Who has the lock now.
    pub(crate) holder: Option<AgentId>,
}

/// One agent's rights, from memory where nothing has changed and else from the store.
#[derive(Debug)]
pub(crate) struct StoreGuard {
    scope: Scope,
    party: Party,
    ttl: Duration,
    unlocked: Unlocked,
    ignored: Arc<Ignored>,
    head: PathBuf,
    turns: Turns,
    git_locks: GitLocks,
    /// Device and inode.
    own_program: Option<(u64, u64)>,
    /// See [`Guard::grants`].
    grants: AtomicU64,
    desk: Mutex<Books>,
    /// Rings when a call is over and somebody waits for that.
    ended: Condvar,
}

/// What is known about the agent's files, and the way to find out.
#[derive(Debug)]
struct Books {
    store: Store,
    files: HashMap<Key, Known>,
    /// The store's version when open files were last compared with locks.
    watched: i64,
    /// Files that are just being handed on: nobody opens them any more.
    leaving: HashSet<Key>,
    /// Calls that were allowed and are just being performed, and how many there were.
    under_way: Vec<UnderWay>,
    calls: u64,
    /// How many wait for calls to be over.
    waiting: usize,
    refusals: Refusals,
    /// The thread that was last refused a command, which, and when.
    tried: Option<(u32, String, Instant)>,
    others: Option<Others>,
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
enum Then {
    Nothing,
    /// A temporary file has become the real one: its own name is of no more use.
    GiveBack(Key),
    /// Nothing is in this folder any more.
    Forget(Key),
}

/// What comes of an attempt.
#[derive(Debug)]
enum Decision {
    Allow(Then),
    Refuse(String),
    /// The agent has the lock, and a program of another one has the file open for writing.
    StillOpen {
        message: String,
        granted: Vec<Lock>,
        since: Timestamp,
    },
}

/// What is known about a file.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    /// The agent alone holds it, as of this version of the store.
    held_at: Option<i64>,
    /// The tree may have it open for writing.
    is_opened: bool,
    /// The agent has made it; if it renames it, the old name is given back.
    is_own: bool,
}

impl StoreGuard {
    pub(crate) fn new(
        store: Store,
        scope: &Scope,
        party: &Party,
        turns: Turns,
        settings: &Settings,
        ignored: Arc<Ignored>,
    ) -> Result<Self, CliError> {
        let books = Books {
            store,
            files: HashMap::new(),
            watched: -1,
            leaving: HashSet::new(),
            under_way: Vec::new(),
            calls: 0,
            waiting: 0,
            refusals: Refusals::default(),
            tried: None,
            others: None,
        };
        Ok(Self {
            scope: scope.clone(),
            party: party.clone(),
            ttl: settings.lock.ttl,
            unlocked: settings.enforcement.unlocked,
            ignored,
            head: super::head(scope),
            turns,
            git_locks: GitLocks::open(scope)?,
            own_program: program_of(std::process::id()),
            grants: AtomicU64::new(0),
            desk: Mutex::new(books),
            ended: Condvar::new(),
        })
    }

    /// The checkout that it watches over.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Removes lock files of git that killed processes of the tree have left.
    pub(crate) fn clear_git_locks(&self) {
        self.git_locks.clear();
    }

    /// The same for the last time, when the tree is dead.
    pub(crate) fn end_git_locks(&self) {
        self.git_locks.end();
    }

    /// Where test commands queue.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Files that the tree may have open for writing, out of those that `wants` cover.
    pub(crate) fn opened(&self, wants: &[Want]) -> Vec<Key> {
        let Ok(books) = self.desk.lock() else { return Vec::new() };
        let agent = &self.party.agent;
        let is_wanted = |key: &&Key| {
            let file = want_of(key);
            wants.iter().any(|want| want.claim(agent).overlaps(&file.claim(agent)))
        };
        books.opened().filter(is_wanted).cloned().collect()
    }

    /// Files that the tree still has open for writing although it has lost their locks. Each is told once.
    pub(crate) fn lost(&self) -> Result<Vec<Lost>, StoreError> {
        let Ok(mut books) = self.desk.lock() else { return Ok(Vec::new()) };
        let version = books.store.data_version()?;
        if books.watched == version || books.opened().next().is_none() {
            return Ok(Vec::new());
        }
        books.watched = version;
        let held = books.store.locks()?;
        let own: Vec<_> = held.iter().filter(|lock| lock.agent == self.party.agent).collect();
        let is_own = |key: &Key| {
            let file = want_of(key);
            own.iter().any(|lock| lock.claim().overlaps(&file.claim(&self.party.agent)))
        };
        let gone: Vec<Key> = books.opened().filter(|key| !is_own(key)).cloned().collect();
        let mut lost = Vec::new();
        for key in gone {
            books.files.remove(&key);
            let path = path_of(&self.scope, &key);
            // Looking for the writer means looking at every process there is, so only if there is one.
            if !has_writers(&path).unwrap_or(true) {
                continue;
            }
            let open = writers(&path);
            let Some(writer) = open.into_iter().find(|writer| is_in_tree(writer.pid)) else { continue };
            let target = Target::File(key.clone());
            let holder = books.store.holders(&want_of(&key))?.into_iter().next();
            let holder = holder.map(|lock| lock.agent);
            let detail = json!({ "program": writer.program, "pid": writer.pid, "holder": holder });
            books.store.record_fact(&self.party, EventKind::LockLost, Some(&target), &detail)?;
            lost.push(Lost { key, writer, holder });
        }
        Ok(lost)
    }

    /// The tree is gone: nothing is open any more, and what is given back now is not lost.
    pub(crate) fn tree_ended(&self) {
        if let Ok(mut books) = self.desk.lock() {
            books.files.clear();
        }
    }

    /// Gives back all that the agent holds.
    pub(crate) fn release_all(&self) -> Result<(), StoreError> {
        let mut books = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        books.store.release(&self.party.agent, &Which::All)?;
        Ok(())
    }

    /// Nobody in the tree opens these files until the value is dropped. Waits for what was allowed before.
    pub(crate) fn leave<'g>(&'g self, keys: &'g [Key]) -> Result<Leaving<'g>, CliError> {
        let failed = || CliError::refused("mala failed while it judged a write; start the agent again");
        let mut books = self.desk.lock().map_err(|_poisoned| failed())?;
        books.leaving.extend(keys.iter().cloned());
        books.waiting += 1;
        let last = books.calls;
        let is_under_way = |books: &mut Books| books.under_way.iter().any(|call| call.number <= last);
        let waited = self.ended.wait_timeout_while(books, PATIENCE, is_under_way);
        let (mut books, waited) = waited.map_err(|_poisoned| failed())?;
        books.waiting -= 1;
        drop(books);
        let leaving = Leaving { guard: self, keys };
        if waited.timed_out() {
            return Err(CliError::refused("a change that was allowed before is still being made")
                .hint("release again in a moment"));
        }
        Ok(leaving)
    }

    /// Everything that was refused so far, with how often.
    pub(crate) fn refused(&self) -> Vec<(Refused, u64)> {
        self.desk.lock().map(|books| books.refusals.all()).unwrap_or_default()
    }

    fn decide(&self, books: &mut Books, attempt: &Attempt<'_>, keys: &[Key]) -> Result<Decision, StoreError> {
        if let Some(key) = keys.iter().find(|key| books.leaving.contains(*key)) {
            let message = format!("`{}` is being handed on; ask for it again", plain(key));
            return Ok(Decision::Refuse(message));
        }
        if attempt.is_folder && attempt.action == Action::Create {
            return self.decide_on_new_folder(books, keys);
        }
        let version = books.store.data_version()?;
        let is_held = |key| books.files.get(key).is_some_and(|file| file.held_at == Some(version));
        if !attempt.is_folder && keys.iter().all(is_held) {
            return Ok(Decision::Allow(Then::Nothing));
        }
        if let Some(key) = keys.iter().find(|key| attempt.is_folder && all_in(key.as_bytes()).is_none()) {
            return Ok(Decision::Refuse(format!(
                "the path of `{}` is too long for a folder to be locked with all that is in it",
                plain(key)
            )));
        }
        let mut wants = Vec::new();
        for key in keys {
            wants.extend(wants_of(key, attempt.is_folder));
        }
        if self.unlocked == Unlocked::Deny
            && attempt.action != Action::Create
            && !self.holds_all(books, &wants)?
        {
            let paths: Vec<_> = attempt.paths.iter().map(|path| plain(path.display())).collect();
            let words: Vec<_> = paths.iter().map(|path| word(path)).collect();
            return Ok(Decision::Refuse(format!(
                "you hold no lock on `{}`; take it first: mala lock acquire {}",
                paths.join(" "),
                words.join(" ")
            )));
        }
        let reason = Some(format!("written by {}", plain(attempt.program().display())));
        let request = Request { party: self.party.clone(), wants, ttl: self.ttl, reason };
        let since = Timestamp::now();
        let outcome = books.store.reserve(&request)?;
        metrics().lock_try(LockResult::from(matches!(outcome, Outcome::Granted(_))));
        let locks = match outcome {
            Outcome::Granted(locks) => locks,
            Outcome::Refused(refusal) => {
                let message = sentence(&mut books.store, &self.party.agent, &refusal);
                return Ok(Decision::Refuse(message));
            }
        };
        if let Err(error) = outlive_the_dead(&self.scope, &mut books.store, &locks) {
            let why = plain(error.messages().join(": "));
            return Ok(Decision::Refuse(format!("cannot save what a killed agent left there: {why}")));
        }
        let is_new = |key: &&Key| {
            attempt.action != Action::Create && !books.files.get(*key).is_some_and(|file| file.is_opened)
        };
        let new: Vec<Key> = keys.iter().filter(is_new).cloned().collect();
        if let Some(error) = open_elsewhere(&self.scope, &mut books.store, &self.party.agent, &new)? {
            let message = error.messages().join(": ");
            return Ok(Decision::StillOpen { message, granted: locks, since });
        }
        self.grants.fetch_add(1, Ordering::SeqCst);
        Ok(Decision::Allow(books.note_grant(attempt, keys, version)))
    }

    /// A folder needs no lock, but where somebody else has locked a name, there is no room for it.
    fn decide_on_new_folder(&self, books: &mut Books, keys: &[Key]) -> Result<Decision, StoreError> {
        let agent = &self.party.agent;
        let wants: Vec<Want> = keys.iter().map(want_of).collect();
        let others = books.others(agent);
        if others.is_some_and(|others| !wants.iter().any(|want| others.hold(agent, want))) {
            return Ok(Decision::Allow(Then::Nothing));
        }
        let conflicts = books.store.check(agent, &wants)?;
        if conflicts.is_empty() {
            return Ok(Decision::Allow(Then::Nothing));
        }
        let refusal = Refusal { cause: Cause::Held, conflicts };
        Ok(Decision::Refuse(sentence(&mut books.store, agent, &refusal)))
    }

    fn holds_all(&self, books: &mut Books, wants: &[Want]) -> Result<bool, StoreError> {
        for want in wants {
            let holders = books.store.holders(want)?;
            if !holders.iter().any(|lock| lock.agent == self.party.agent && lock.mode == Mode::Exclusive) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Files that are being handed on, see [`StoreGuard::leave`].
#[derive(Debug)]
pub(crate) struct Leaving<'g> {
    guard: &'g StoreGuard,
    keys: &'g [Key],
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Ok(mut books) = self.guard.desk.lock() {
            books.leaving.retain(|key| !self.keys.contains(key));
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

    /// True if git, started in `folder` with `args`, works in another repository, or in none: everything there is the agent's
    /// own, and what it does here all the same is judged file by file.
    fn is_elsewhere(&self, start: &Start<'_>, args: &[OsString], folder: &Path) -> bool {
        if let Some(named) = start.variable("GIT_DIR") {
            // Worktrees have their branches in common.
            let own = self.scope.git_dir();
            return worktree::git_dir(&folder.join(named))
                .is_some_and(|named| named != own && !named.starts_with(own.join("worktrees")));
        }
        let Some(start) = mala_agents::git::start_folder(args, folder) else { return false };
        Scope::discover(&start).map_or_else(
            |error| matches!(error, ScopeError::NotARepository { .. }),
            |scope| scope.root() != self.scope.root(),
        )
    }

    /// True if another agent holds the file, or something in the folder. What cannot be found out counts as held.
    pub(crate) fn is_held_by_others(&self, path: &Path, is_folder: bool) -> bool {
        let Ok(mut books) = self.desk.lock() else { return true };
        let agent = &self.party.agent;
        let wants = wants_of(&key(path), is_folder);
        books.others(agent).is_none_or(|others| wants.iter().any(|want| others.hold(agent, want)))
    }

    /// True if another agent holds something below, should this be a folder.
    fn others_hold_below(&self, path: &Path) -> bool {
        let Ok(mut books) = self.desk.lock() else { return true };
        let agent = &self.party.agent;
        books.others(agent).is_none_or(|others| others.hold_below(agent, &key(path)))
    }

    /// An agent that holds the whole tree may move it.
    fn holds_everything(&self, books: &mut Books) -> bool {
        let locks = books.store.locks().unwrap_or_default();
        locks.iter().any(|lock| {
            lock.agent == self.party.agent && lock.mode == Mode::Exclusive && lock.target.as_bytes() == b"**"
        })
    }
}

impl Books {
    /// What other agents hold; none if that cannot be found out.
    fn others(&mut self, agent: &AgentId) -> Option<&Others> {
        let version = self.store.data_version().ok()?;
        if self.others.as_ref().is_none_or(|others| others.version != version) {
            let mut locks = self.store.locks().ok()?;
            locks.retain(|lock| lock.agent != *agent);
            self.others = Some(Others::new(version, locks));
        }
        self.others.as_ref()
    }

    /// Files that the tree may have open for writing.
    fn opened(&self) -> impl Iterator<Item = &Key> {
        self.files.iter().filter(|(_, file)| file.is_opened).map(|(key, _)| key)
    }

    /// True if the thread has just been told: a shell that is refused a program looks for it in the next folder of `PATH`.
    fn is_next_place(&mut self, pid: u32, command: &str) -> bool {
        let now = Instant::now();
        let is_told = self
            .tried
            .as_ref()
            .is_some_and(|(last, told, when)| *last == pid && told == command && now - *when < NEXT_PLACE);
        self.tried = Some((pid, command.to_owned(), now));
        is_told
    }

    /// What a program that insists is told once more.
    fn repeats(&mut self, refused: impl FnOnce() -> Refused) -> Option<String> {
        if !self.refusals.is_one_often() {
            return None;
        }
        let version = self.store.data_version().ok()?;
        self.refusals.repeated(&refused(), version, Instant::now())
    }

    fn note_refusal(&mut self, refused: Refused, message: &str) {
        let version = self.store.data_version().unwrap_or(-1);
        self.refusals.add(refused, message.to_owned(), version, Instant::now());
    }

    /// What is open in folders stays open under their new names. Until they have moved, under the old ones too.
    fn folders_move(&mut self, moves: &[(&Key, &Key)]) {
        let mut moving: Vec<(Key, Known)> = Vec::new();
        for (from, to) in moves {
            moving.extend(self.files.iter().filter_map(|(old, known)| {
                let rest = old.as_path().strip_prefix(from.as_path()).ok()?;
                Some((key(&to.as_path().join(rest)), *known))
            }));
        }
        for (new, known) in moving {
            let file = self.files.entry(new).or_default();
            *file = Known {
                held_at: None,
                is_opened: file.is_opened || known.is_opened,
                is_own: file.is_own || known.is_own,
            };
        }
    }

    /// The agent got `keys` when the store had this version.
    fn note_grant(&mut self, attempt: &Attempt<'_>, keys: &[Key], version: i64) -> Then {
        if attempt.is_folder {
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
            *file = Known {
                held_at: Some(version),
                is_opened: true,
                is_own: file.is_own || attempt.action == Action::Create,
            };
        }
        match (attempt.action, keys) {
            (Action::Rename, [from, _]) if self.files[from].is_own => Then::GiveBack(from.clone()),
            _ => Then::Nothing,
        }
    }

    fn begin(&mut self, pid: u32, keys: Vec<Key>, then: Then) {
        self.calls += 1;
        self.under_way.push(UnderWay { pid, number: self.calls, keys, then });
    }

    fn end(&mut self, agent: &AgentId, pid: u32, is_performed: bool) {
        let Some(index) = self.under_way.iter().position(|call| call.pid == pid) else { return };
        match self.under_way.swap_remove(index).then {
            // Another thread may be about to make it again.
            Then::GiveBack(key)
                if is_performed && !self.under_way.iter().any(|call| call.keys.contains(&key)) =>
            {
                self.files.remove(&key);
                // A lock that stays is given back at the end.
                let _ = self.store.release(agent, &Which::These(vec![want_of(&key)]));
            }
            Then::Forget(folder) if is_performed => {
                self.files.retain(|key, _| !key.as_path().starts_with(folder.as_path()));
            }
            _ => {}
        }
    }
}

impl Guard for StoreGuard {
    fn judge(&self, attempt: &Attempt<'_>) -> Ruling {
        const FAILED: &str = "mala failed while it judged another write; start the agent again";
        let keys: Vec<Key> = attempt.paths.iter().map(|path| key(path)).collect();
        let Ok(mut books) = self.desk.lock() else { return refuse(FAILED) };
        if let Some(message) = books.repeats(|| refused(attempt)) {
            return Ruling::Refuse { message };
        }
        let mut waiting = None;
        let ruling = loop {
            match self.decide(&mut books, attempt, &keys) {
                Ok(Decision::Allow(then)) => {
                    books.begin(attempt.pid, keys, then);
                    return Ruling::Allow;
                }
                Ok(Decision::Refuse(message)) => break refuse(&message),
                Ok(Decision::StillOpen { message, granted, since }) => {
                    let (since, began) = *waiting.get_or_insert_with(|| (since, Instant::now()));
                    if began.elapsed() >= PATIENCE {
                        give_back(&mut books.store, &granted, since);
                        break refuse(&message);
                    }
                    // Whatever else the agent does goes on.
                    drop(books);
                    thread::sleep(LOOK_AGAIN);
                    let Ok(again) = self.desk.lock() else { return refuse(FAILED) };
                    books = again;
                }
                Err(error) => break refuse(&format!("nothing may be written: {error}")),
            }
        };
        if let Ruling::Refuse { message } = &ruling {
            let refused = refused(attempt);
            let target = attempt.paths.last().map(|path| Target::File(key(path)));
            let detail = json!({ "program": refused.program, "files": refused.what, "said": message });
            // The refusal stands, whether or not it can be recorded.
            let _ = books.store.record_fact(&self.party, EventKind::WriteRefused, target.as_ref(), &detail);
            books.note_refusal(refused, message);
        }
        ruling
    }

    fn is_over(&self, pid: u32, is_performed: bool) {
        let Ok(mut books) = self.desk.lock() else { return };
        books.end(&self.party.agent, pid, is_performed);
        if books.waiting > 0 {
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
        path == self.head && self.desk.lock().is_ok_and(|mut books| self.holds_everything(&mut books))
    }

    fn judge_start(&self, start: &Start<'_>) -> Ruling {
        let Some(args) = git_args(start) else { return Ruling::Allow };
        if self.is_mala(start.pid) {
            return Ruling::Allow;
        }
        let folder = Path::new("/proc").join(start.pid.to_string()).join("cwd");
        let Some(objection) = mala_agents::git::objection(&args, |path| folder.join(path).exists()) else {
            return Ruling::Allow;
        };
        if self.is_elsewhere(start, &args, &folder) || worktree::is_filled(&self.scope, start, &folder) {
            return Ruling::Allow;
        }
        let Ok(mut books) = self.desk.lock() else { return refuse("mala failed; start the agent again") };
        if self.holds_everything(&mut books) {
            return Ruling::Allow;
        }
        let refused = Refused { program: "git".to_owned(), what: cut(command_line(&args)) };
        if books.is_next_place(start.pid, &refused.what) {
            return Ruling::Refuse { message: String::new() };
        }
        if let Some(message) = books.repeats(|| refused.clone()) {
            return Ruling::Refuse { message };
        }
        let said = cut(objection.to_string());
        let ruling = refuse(&said);
        if let Ruling::Refuse { message } = &ruling {
            let detail = json!({ "command": refused.what, "said": said });
            let _ = books.store.record_fact(&self.party, EventKind::CommandRefused, None, &detail);
            books.note_refusal(refused, message);
        }
        ruling
    }

    fn makes_git_lock(&self, lock: &GitLock<'_>) {
        self.git_locks.note(lock);
    }

    fn clears_git_lock(&self, path: &Path) -> bool {
        self.git_locks.clear_at(path)
    }

    fn hold(&self, start: &Start<'_>) -> Option<Box<dyn Hold>> {
        Some(Box::new(self.turns.of(start)?))
    }
}

/// The command line, if git starts: also by the names that its commands have of their own (`git-reset`).
fn git_args<'s>(start: &'s Start<'_>) -> Option<Cow<'s, [OsString]>> {
    if start.program == "git" {
        return Some(start.args().into());
    }
    let command = start.program.to_str()?.strip_prefix("git-")?;
    let rest = start.args().iter().skip(1).cloned();
    Some(["git".into(), command.into()].into_iter().chain(rest).collect())
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

fn refused(attempt: &Attempt<'_>) -> Refused {
    let what = attempt.paths.iter().map(|path| plain(path.display())).collect::<Vec<_>>().join(" ");
    Refused { program: plain(attempt.program().display()), what }
}

/// True for a process below this supervisor.
fn is_in_tree(pid: u32) -> bool {
    let own = std::process::id();
    Process::find(pid).is_some_and(|process| process.ancestors().any(|ancestor| ancestor.pid == own))
}

fn key(path: &Path) -> Key {
    Key::from_stored(path.as_os_str().as_bytes().to_vec())
}

fn want_of(key: &Key) -> Want {
    Want { target: Target::File(key.clone()), aliases: Vec::new(), mode: Mode::Exclusive }
}

/// A file, or a folder with everything below it. If that cannot be said, with everything in the nearest folder around it of
/// which it can.
fn wants_of(key: &Key, is_folder: bool) -> Vec<Want> {
    let mut wants = vec![want_of(key)];
    if is_folder {
        let around = key.as_path().ancestors().map(|folder| folder.as_os_str().as_bytes());
        let pattern = around.into_iter().find_map(all_in);
        wants.extend(pattern.map(|pattern| Want { target: Target::Pattern(pattern), ..want_of(key) }));
    }
    wants
}

/// Everything in a folder; none if the path is too long for a pattern.
fn all_in(folder: &[u8]) -> Option<Pattern> {
    let text = match folder {
        b"" => b"**".to_vec(),
        folder => [Pattern::literal(folder).text(), b"/**"].concat(),
    };
    Pattern::parse(&text).ok()
}

fn refuse(message: &str) -> Ruling {
    Ruling::Refuse { message: format!("mala: {message}") }
}

fn sentence(store: &mut Store, agent: &AgentId, refusal: &Refusal) -> String {
    let Some(conflict) = refusal.conflicts.first() else {
        return "it would make agents wait for each other".to_owned();
    };
    format!("{}; {}", refusal::held(store, agent, conflict), refusal::next_step(&conflict.want.target))
}
