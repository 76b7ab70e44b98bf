//! Mala's own refs, which nobody else has a reason to write.

use std::fs::{self, File, Metadata, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use super::SalvageError;
use crate::retry::Git;
use crate::{GitError, Oid, Repo};

/// How long a lock must stay the same before it counts as left behind. A git holds the lock of one ref for an instant.
const INSTANT: Duration = Duration::from_secs(1);

/// `git update-ref` for the ref `name`, in the turn of all who write mala's refs in this repository.
///
/// The turn is an advisory lock that the git in it inherits, so it lasts until that git has ended, however this process
/// ends. Whoever has the turn therefore knows that a lock of the ref which stays there was left by one that was killed.
pub(crate) fn update(repo: &Repo, name: &str, args: &[&str]) -> Result<(), SalvageError> {
    let turn = turn(repo)?;
    unlock(repo, name);
    Git::in_turn(repo.root(), &turn).run(&[&["update-ref"], args].concat(), b"")?;
    Ok(())
}

/// Makes the ref `name` lead to `commit`, and looks whether it does: what it keeps may be taken out of the checkout next. With
/// `old`, only if it leads there now; empty, if it does not exist.
pub(crate) fn keep(
    repo: &Repo,
    name: &str,
    commit: &Oid,
    why: &str,
    old: Option<&str>,
) -> Result<(), SalvageError> {
    let args: Vec<&str> = ["-m", why, name, commit.as_str()].into_iter().chain(old).collect();
    update(repo, name, &args)?;
    match repo.resolve(name)? {
        Some(there) if there == *commit => Ok(()),
        _ => Err(GitError::answer("update-ref", b"").into()),
    }
}

fn turn(repo: &Repo) -> Result<File, SalvageError> {
    let folder = repo.scope().state_dir();
    let path = folder.join("refs-turn");
    let taken = fs::create_dir_all(&folder)
        .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
        .and_then(|file| file.lock().map(|()| file));
    taken.map_err(|source| SalvageError::Io { path, source })
}

fn unlock(repo: &Repo, name: &str) {
    let lock = repo.scope().git_dir().join(format!("{name}.lock"));
    let Ok(found) = fs::symlink_metadata(&lock) else { return };
    thread::sleep(INSTANT);
    let same = |now: &Metadata| {
        (now.dev(), now.ino(), now.ctime_nsec()) == (found.dev(), found.ino(), found.ctime_nsec())
    };
    if fs::symlink_metadata(&lock).is_ok_and(|now| same(&now)) {
        // If it cannot be removed, git says what is in its way.
        let _ = fs::remove_file(lock);
    }
}
