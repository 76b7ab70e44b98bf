//! Answers for the kernel tier.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use mala_config::Unlocked;
use mala_core::{Key, Mode, Pattern, Scope, Target, Want};
use mala_sandbox::{Action, Attempt, Guard, Ruling, Start};
use mala_store::{Outcome, Party, Refusal, Request, Store, StoreError, Which};

use super::git;
use super::ignored::Ignored;
use crate::error::CliError;
use crate::ui::{plain, span};

/// Something that was refused, for the report at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) program: String,
    /// The files, or the command.
    pub(crate) what: String,
}

/// One agent's rights, from memory where nothing has changed and else from the store.
#[derive(Debug)]
pub(crate) struct StoreGuard {
    party: Party,
    ttl: Duration,
    unlocked: Unlocked,
    ignored: Ignored,
    desk: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    store: Store,
    /// What this agent holds alone, as of `version`.
    held: HashSet<Key>,
    version: i64,
    /// Files this agent has made itself; if it renames one, the old name is given back.
    created: HashSet<Key>,
    refused: Vec<Refused>,
}

impl StoreGuard {
    pub(crate) fn new(
        scope: &Scope,
        party: &Party,
        ttl: Duration,
        unlocked: Unlocked,
    ) -> Result<Self, CliError> {
        let books = Books {
            store: Store::open(scope)?,
            held: HashSet::new(),
            version: -1,
            created: HashSet::new(),
            refused: Vec::new(),
        };
        Ok(Self {
            party: party.clone(),
            ttl,
            unlocked,
            ignored: Ignored::in_checkout(scope.root()),
            desk: Mutex::new(books),
        })
    }

    /// Everything that was refused so far.
    pub(crate) fn refused(&self) -> Vec<Refused> {
        self.desk.lock().map(|books| books.refused.clone()).unwrap_or_default()
    }

    fn decide(&self, books: &mut Books, attempt: &Attempt<'_>) -> Result<Ruling, StoreError> {
        let keys: Vec<Key> = attempt.paths.iter().map(|path| key(path)).collect();
        let version = books.store.data_version()?;
        if version == books.version && !attempt.is_folder && keys.iter().all(|key| books.held.contains(key)) {
            return Ok(Ruling::Allow);
        }
        books.held.clear();
        books.version = version;
        let mut wants = Vec::new();
        for key in &keys {
            wants.extend(wants_of(key, attempt.is_folder));
        }
        if self.unlocked == Unlocked::Deny
            && attempt.action != Action::Create
            && !self.holds_all(books, &wants)?
        {
            let paths: Vec<_> = attempt.paths.iter().map(|path| plain(path.display())).collect();
            let paths = paths.join(" ");
            return Ok(refuse(&format!(
                "you hold no lock on `{paths}`; take it first: mala lock acquire {paths}"
            )));
        }
        let reason = Some(format!("written by {}", plain(attempt.program().display())));
        let request = Request { party: self.party.clone(), wants, ttl: self.ttl, reason };
        Ok(match books.store.reserve(&request)? {
            Outcome::Granted(_) => {
                books.note_grant(&self.party, attempt, keys)?;
                Ruling::Allow
            }
            Outcome::Refused(refusal) => refuse(&sentence(&refusal)),
        })
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

impl StoreGuard {
    /// An agent that holds the whole tree may move it.
    fn holds_everything(&self, books: &mut Books) -> bool {
        let locks = books.store.locks().unwrap_or_default();
        locks.iter().any(|lock| {
            lock.agent == self.party.agent && lock.mode == Mode::Exclusive && lock.target.as_bytes() == b"**"
        })
    }
}

impl Books {
    fn note_grant(&mut self, party: &Party, attempt: &Attempt<'_>, keys: Vec<Key>) -> Result<(), StoreError> {
        match (attempt.action, keys.as_slice()) {
            (Action::Create, _) => self.created.extend(keys.iter().cloned()),
            // A temporary file that becomes the real one: its own name is of no more use.
            (Action::Rename, [from, _]) if self.created.remove(from) => {
                let which = Which::These(wants_of(from, false));
                self.store.release(&party.agent, &which)?;
            }
            _ => {}
        }
        if !attempt.is_folder {
            self.held.extend(keys);
        }
        Ok(())
    }
}

impl Guard for StoreGuard {
    fn judge(&self, attempt: &Attempt<'_>) -> Ruling {
        let Ok(mut books) = self.desk.lock() else {
            return refuse("mala failed while it judged another write; start the agent again");
        };
        let ruling = self
            .decide(&mut books, attempt)
            .unwrap_or_else(|error| refuse(&format!("nothing may be written: {error}")));
        if matches!(ruling, Ruling::Refuse { .. }) {
            let what = attempt.paths.iter().map(|path| plain(path.display())).collect::<Vec<_>>().join(" ");
            books.refused.push(Refused { program: plain(attempt.program().display()), what });
        }
        ruling
    }

    fn is_exempt(&self, path: &Path) -> bool {
        self.ignored.contains(path)
    }

    fn judge_start(&self, start: &Start<'_>) -> Ruling {
        if start.program != "git" {
            return Ruling::Allow;
        }
        let folder = Path::new("/proc").join(start.pid.to_string()).join("cwd");
        let Some(objection) = git::objection(start.args, |path| folder.join(path).exists()) else {
            return Ruling::Allow;
        };
        let Ok(mut books) = self.desk.lock() else { return refuse("mala failed; start the agent again") };
        if self.holds_everything(&mut books) {
            return Ruling::Allow;
        }
        let args: Vec<_> = start.args.iter().map(|arg| plain(arg.display())).collect();
        let what = args.join(" ");
        books.refused.push(Refused { program: "git".to_owned(), what: what.clone() });
        refuse(&format!("`{what}` is refused in a shared checkout: {objection}"))
    }
}

fn key(path: &Path) -> Key {
    Key::from_stored(path.as_os_str().as_bytes().to_vec())
}

/// A file, or a folder with everything below it.
fn wants_of(key: &Key, is_folder: bool) -> Vec<Want> {
    let want = |target| Want { target, aliases: Vec::new(), mode: Mode::Exclusive };
    let mut wants = vec![want(Target::File(key.clone()))];
    if is_folder {
        let text = [Pattern::literal(key.as_bytes()).text(), b"/**"].concat();
        wants.extend(Pattern::parse(&text).ok().map(|pattern| want(Target::Pattern(pattern))));
    }
    wants
}

fn refuse(message: &str) -> Ruling {
    Ruling::Refuse { message: format!("mala: {message}") }
}

fn sentence(refusal: &Refusal) -> String {
    let Some(conflict) = refusal.conflicts.first() else {
        return "it would make agents wait for each other".to_owned();
    };
    let (path, holder) = (plain(&conflict.want.target), &conflict.holder);
    let issue = holder.issue.as_ref().map(|issue| format!(" (issue {issue})")).unwrap_or_default();
    let held = span(mala_core::Timestamp::now().since(holder.acquired_at));
    format!(
        "`{path}` is held by `{}`{issue} for {held}; queue for it: mala lock acquire {path} --wait 5m",
        holder.agent
    )
}
