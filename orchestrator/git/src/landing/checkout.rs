//! Which checkout has a branch checked out.

use std::fs;
use std::io::ErrorKind;

use mala_core::Scope;
use mala_core::scope::ScopeError;

use super::{LandError, Obstacle};
use crate::Repo;

/// Where a rebase notes the branch that it will move in the end.
const REBASED_BRANCH: [&str; 2] = ["rebase-merge/head-name", "rebase-apply/head-name"];

/// The checkout that has the branch checked out, this one or a linked worktree, if any.
pub fn checkout_of(repo: &Repo, branch: &str) -> Result<Option<Repo>, LandError> {
    Ok(checkouts(repo, branch)?.into_iter().next())
}

/// All of them: `git worktree add --force` makes a second one.
pub(super) fn checkouts(repo: &Repo, branch: &str) -> Result<Vec<Repo>, LandError> {
    let mut found = Vec::new();
    if repo.branch()?.as_deref() == Some(branch) {
        found.push(repo.clone());
    }
    if is_only_checkout(repo) {
        return Ok(found);
    }
    for checkout in
        repo.checkouts()?.into_iter().filter(|checkout| checkout.branch.as_deref() == Some(branch))
    {
        match Scope::discover(&checkout.root) {
            Ok(scope) if scope.root() == repo.root() || scope.git_dir() != repo.scope().git_dir() => {}
            Ok(scope) => found.push(repo.beside(scope)),
            // Somebody removed its files, or git names its own directory, as it does for a submodule.
            Err(ScopeError::Bare { .. } | ScopeError::NotARepository { .. }) => {}
            Err(_) if !checkout.root.exists() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// True for the main checkout of a repository that has no linked ones
/// (<https://git-scm.com/docs/gitrepository-layout#Documentation/gitrepository-layout.txt-worktrees>).
fn is_only_checkout(repo: &Repo) -> bool {
    let common = repo.scope().git_dir();
    let mut linked = match fs::read_dir(common.join("worktrees")) {
        Ok(linked) => linked,
        Err(error) => return error.kind() == ErrorKind::NotFound && repo.is_main_checkout(),
    };
    linked.next().is_none() && repo.is_main_checkout()
}

/// Says so if the branch is being rebased somewhere: its checkout is on no branch meanwhile.
pub(super) fn rebase_of(repo: &Repo, branch: &str) -> Option<Obstacle> {
    let common = repo.scope().git_dir();
    let worktrees = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let mut git_dirs = [common.to_owned()].into_iter().chain(worktrees.map(|worktree| worktree.path()));
    let is_rebased = git_dirs.any(|git_dir| {
        REBASED_BRANCH
            .iter()
            .any(|name| fs::read_to_string(git_dir.join(name)).is_ok_and(|found| found.trim_end() == branch))
    });
    let why = "a rebase of this branch is not finished; finish it: git rebase --continue; or take it back: git rebase --abort";
    is_rebased.then(|| Obstacle { path: None, why: why.to_owned() })
}
