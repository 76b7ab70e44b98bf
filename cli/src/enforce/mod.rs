//! Ownership made physical: what the kernel tier asks, answered from the store.

mod drain;
pub(crate) mod git_locks;
mod guard;
mod ignored;
mod refusals;
mod turns;

pub(crate) use drain::{drain, outlive_the_dead};
pub(crate) use guard::{Lost, StoreGuard};
pub(crate) use ignored::Ignored;
pub(crate) use refusals::Refused;
pub(crate) use turns::{
    Announcement, TurnRules, Turns, command_line, count_wait, lossy, mutexes, no_turn, waiting_for, want,
};

use std::path::PathBuf;

use mala_agents::{Client, install};
use mala_core::Scope;
use mala_sandbox::Jail;

/// What an agent's tree is kept in: the checkout, with everything that could turn others against it out of reach, and
/// `exempt` folders where it does what it likes.
pub(crate) fn jail(scope: &Scope, mut exempt: Vec<PathBuf>) -> Jail {
    let git_dir = scope.git_dir().to_path_buf();
    let names = ["hooks", "config", "config.worktree", "info/attributes", "HEAD"];
    // Whoever could write these would be without hooks from then on, also where no kernel watches.
    let hooks = Client::ALL.into_iter().flat_map(install::files).map(|name| scope.root().join(name));
    let protected =
        names.iter().map(|name| git_dir.join(name)).chain([scope.state_dir()]).chain(hooks).collect();
    // What is in there has its name from its content, and is nobody's.
    exempt.push(git_dir.join("objects"));
    let spares = Some(spares(scope));
    Jail { root: scope.root().to_path_buf(), git_dir, protected, exempt, spares }
}

/// Where the folders are that the kernel tier makes in advance.
pub(crate) fn spares(scope: &Scope) -> PathBuf {
    scope.state_dir().join("spares")
}
