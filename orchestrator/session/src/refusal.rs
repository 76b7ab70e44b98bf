//! Why somebody is refused a file, in words: who holds it, how that came about, and how to get it. The kernel tier, the hooks
//! and the command line say the same.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mala_core::shell::word;
use mala_core::text::{plain, span};
use mala_core::{AgentId, Conflict, Scope, Target, Timestamp};
use mala_git::Repo;
use mala_git::commit::NotYours;
use mala_store::Store;

/// "`a` is held by `bob` (issue x) for 3m", and if it was taken from this agent: by whom, when, and why.
pub fn held(store: &mut Store, agent: &AgentId, conflict: &Conflict) -> String {
    let holder = &conflict.holder;
    let issue = holder.issue.as_ref().map(|issue| format!(" (issue {issue})")).unwrap_or_default();
    let since = span(Timestamp::now().since(holder.acquired_at));
    let held = format!("`{}` is held by `{}`{issue} for {since}", plain(named(conflict)), holder.agent);
    match taken(store, agent, conflict) {
        Some(taken) => format!("{held}; {taken}"),
        None => held,
    }
}

/// That the file was taken from this agent by whoever holds it now: by whom, when, and why.
pub fn taken(store: &mut Store, agent: &AgentId, conflict: &Conflict) -> Option<String> {
    let Conflict { want, holder } = conflict;
    // Who cannot find out how it came about still says who holds it.
    let ask = store.taken_from(agent, &want.target).ok().flatten()?;
    let at = ask.answered_at.filter(|at| *at <= holder.acquired_at && ask.asker == holder.agent)?;
    Some(format!(
        "it was taken from you by `{}` {} ago: {} (more: mala msg thread {})",
        ask.ended_by.as_ref().unwrap_or(&ask.asker),
        span(Timestamp::now().since(at)),
        plain(&ask.why),
        ask.id
    ))
}

/// What is held: of a pattern that somebody wants, the file or pattern in it.
pub fn named(conflict: &Conflict) -> &Target {
    match &conflict.want.target {
        Target::Pattern(_) => &conflict.holder.target,
        wanted => wanted,
    }
}

/// Whoever reads a hint: it is to be typed as it stands, in the folder that the reader is in.
#[derive(Debug)]
pub struct Reader<'a> {
    scope: &'a Scope,
    /// Canonical; nothing in another checkout, or in none.
    folder: Option<PathBuf>,
}

impl<'a> Reader<'a> {
    pub fn new(scope: &'a Scope, cwd: &Path) -> Self {
        let is_here = Scope::discover(cwd).is_ok_and(|found| found == *scope);
        Self { scope, folder: cwd.canonicalize().ok().filter(|_| is_here) }
    }

    /// A command of mala's about a target.
    pub fn command(&self, command: &str, target: &Target) -> String {
        let root = self.scope.root();
        let mala = match &self.folder {
            Some(_) => "mala".to_owned(),
            None => format!("mala -C {}", word(root.as_os_str().as_bytes())),
        };
        let path = self.scope.typed(self.folder.as_deref().unwrap_or(root), target);
        format!("{mala} {command} {}", word(path))
    }

    pub fn ask(&self, target: &Target) -> String {
        format!("{} --why REASON", self.command("lock ask", target))
    }

    /// What to type about files that are not the committer's own: the first of them, if they are many.
    pub fn about(&self, files: &[NotYours]) -> impl Iterator<Item = String> {
        const SHOWN: usize = 3;
        let repo = Repo::new(self.scope.clone());
        files.iter().take(SHOWN).map(move |file| {
            let target = Target::File(repo.key(&file.path));
            match &file.holder {
                Some(_) => format!("ask for it: {}", self.ask(&target)),
                None => format!("take it first: {}", self.command("lock acquire", &target)),
            }
        })
    }

    /// What to type to get it.
    pub fn next_step(&self, target: &Target) -> String {
        let queue = self.command("lock acquire", target);
        format!("ask for it: {}, or queue for it: {queue} --wait 5m", self.ask(target))
    }
}
