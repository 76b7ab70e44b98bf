//! Git commands that are wrong in a checkout several agents share.
//!
//! They move the whole tree, take others' work along, or step around the hooks that guard commits, even where every single
//! file could be changed. Each has an alternative that touches only one's own files. The rules look at arguments only; the
//! caller says which paths exist.

mod alias;
mod call;
mod commit;
mod landing;
mod protected;
mod rules;
mod table;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use call::Call;
pub use commit::{Commit, committed};
pub use landing::RunAgent;
pub(crate) use rules::is_harmless_setting;

use self::alias::{Expanded, expand};
use crate::objection::Objection;

/// Variables that send git to another repository, index or configuration.
const VARIABLES: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
];

/// What is known about a command line beside its words.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Whether a path is there.
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// What a command that git does not have stands for, as git's settings say.
    pub alias: &'a dyn Fn(&str) -> Option<String>,
    /// Settings that git is given by its environment, as `key=value`.
    pub settings: &'a [String],
    pub run: Option<&'a RunAgent>,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts")
            .field("settings", &self.settings)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

/// Everything to be said against the command `args`, `git` itself first, also what holds only under conditions. What a run
/// forbids comes first.
pub fn objections(args: &[OsString], facts: &Facts<'_>) -> Vec<Objection> {
    judge(&texts(args), facts)
}

/// The same, and what is to be said because nobody may write a part of what it writes: git would change the rest and fail then.
pub fn objections_enforced(args: &[OsString], facts: &Facts<'_>) -> Vec<Objection> {
    let mut found = objections(args, facts);
    found.extend(with_call(&texts(args), facts, protected::judge).flatten());
    found
}

/// The command of `args`, `git` itself first, if it is not one of git's own and no alias.
pub fn unknown_command(args: &[OsString], facts: &Facts<'_>) -> Option<String> {
    let unknown =
        |call: &Call<'_>, _: &Facts<'_>| (!table::is_known(call.verb)).then(|| call.verb.to_owned());
    with_call(&texts(args), facts, unknown).flatten()
}

/// True if git, started with `args`, itself first, runs the hooks that guard what it makes.
pub fn runs_hooks(args: &[OsString], facts: &Facts<'_>) -> bool {
    let runs = |call: &Call<'_>, facts: &Facts<'_>| table::runs_hooks(&table::writes(call, facts.exists));
    with_call(&texts(args), facts, runs).unwrap_or(false)
}

/// Why git must not be started where the hooks that guard commits would not run.
pub fn hooks_objection(args: &[OsString]) -> Objection {
    Objection::new(
        format!("git {}", texts(args).join(" ")),
        "the hooks that guard commits would not run",
        rules::COMMIT,
    )
}

/// What a command changes where it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritesInCheckout {
    pub files: bool,
    pub index: bool,
}

/// What the command `args`, `git` itself first, changes of files and index, whichever those are.
pub fn writes_in_checkout(args: &[OsString], exists: &dyn Fn(&Path) -> bool) -> WritesInCheckout {
    let facts = Facts { exists, alias: &|_| None, settings: &[], run: None };
    let parts = with_call(&texts(args), &facts, |call, facts| table::writes(call, facts.exists));
    let parts = parts.unwrap_or_default();
    WritesInCheckout {
        files: parts.contains(&table::Part::Files),
        index: parts.contains(&table::Part::Index),
    }
}

/// What is to be said against the command `args` in another checkout of the repository.
pub fn another_checkout_objection(args: &[OsString], facts: &Facts<'_>) -> Option<Objection> {
    use table::Part;
    let changes = |call: &Call<'_>, facts: &Facts<'_>| {
        let parts = table::writes(call, facts.exists);
        let changes = [Part::Branch, Part::Head, Part::Index, Part::Files];
        parts.iter().any(|part| changes.contains(part)).then(|| {
            let why = "it changes another checkout, which is only there to be read";
            Objection::new(call.typed(), why, "work in your own").protected()
        })
    };
    with_call(&texts(args), facts, changes).flatten()
}

/// What is said to who starts a command that mala does not know.
pub fn unknown_objection(args: &[OsString]) -> Objection {
    Objection::new(
        format!("git {}", texts(args).join(" ")),
        "mala does not know what it writes",
        rules::LEAVE,
    )
}

fn texts(args: &[OsString]) -> Vec<&str> {
    args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect()
}

/// Asks something about the command that `words`, behind `git`, stand for. None if that is none of git's.
fn with_call<T>(
    words: &[&str],
    facts: &Facts<'_>,
    ask: impl FnOnce(&Call<'_>, &Facts<'_>) -> T,
) -> Option<T> {
    let Expanded::Words(words) = expand(words, facts) else { return None };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Call::read(&words).map(|call| ask(&call, facts))
}

/// True if the command `args`, `git` itself first, locks the index before it reads it, looks itself whether it has changed since, or
/// has no use for it. All others may hold on to what they read before.
pub fn locks_first(args: &[OsString]) -> bool {
    const FIRST: &[&str] = &["add", "apply", "mv", "read-tree", "restore", "rm", "stage", "update-index"];
    /// They write it only to be faster the next time.
    const LOOK: &[&str] = &["describe", "diff", "status"];
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    Call::read(&args).is_none_or(|call| [FIRST, LOOK].concat().contains(&call.verb))
}

/// The folder that git would look for a repository from, as `args`, `git` itself first, change it when git is started in
/// `here`. None if they name the repository itself.
pub fn start_folder(args: &[OsString], here: &Path) -> Option<PathBuf> {
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    let call = Call::read(&args)?;
    (!call.is_elsewhere).then(|| call.folders.iter().fold(here.to_path_buf(), |at, folder| at.join(folder)))
}

pub(crate) fn judge(words: &[&str], facts: &Facts<'_>) -> Vec<Objection> {
    if expand(words, facts) == (Expanded::Shell { is_given: true }) {
        let why = "another name hides what a command does";
        return vec![Objection::new(format!("git {}", words.join(" ")), why, "run the plain command")];
    }
    let all = |call: &Call<'_>, facts: &Facts<'_>| {
        let of_run = facts.run.and_then(|run| landing::judge(call, facts.exists, run));
        of_run.into_iter().chain(rules::judge(call, facts)).collect()
    };
    with_call(words, facts, all).unwrap_or_default()
}

/// True if the command that `words`, behind `git`, stand for may write anything but objects.
pub(crate) fn may_write(words: &[&str], facts: &Facts<'_>) -> bool {
    let writes = |call: &Call<'_>, facts: &Facts<'_>| !table::writes(call, facts.exists).is_empty();
    with_call(words, facts, writes).unwrap_or(true)
}

/// Why git must not be started with the variable `name` set.
pub(crate) fn variable_objection(name: &str, run: Option<&RunAgent>) -> Option<Objection> {
    let is_config = name.starts_with("GIT_CONFIG_KEY_") || name.starts_with("GIT_CONFIG_VALUE_");
    (is_config || VARIABLES.contains(&name)).then(|| {
        let why = "it leads git past the files and hooks that everybody shares";
        let instead = match run {
            Some(run) => Cow::Owned(format!("run git without it, and {}", run.offer())),
            None => Cow::Borrowed("run git without it: git commit -- FILE"),
        };
        Objection::new(format!("{name}=..."), why, instead)
    })
}

#[cfg(test)]
mod tests;
