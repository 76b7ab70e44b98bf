//! Candidates: what attempts offer, pinned by refs of mala's own that no agent can write.
//!
//! The first offer of an attempt is `refs/mala/candidates/ISSUE/ATTEMPT`, the next ones end in `.2`, `.3` and so on. A ref is
//! created and never moved, so nothing that was ever offered is lost.

use mala_core::IssueId;

use crate::retry::Git;
use crate::salvage::{SalvageError, attempt_ref, numbered, oid, ref_part, refs};
use crate::{Oid, Repo};

/// Below here lie all candidates.
const CANDIDATES: &str = "refs/mala/candidates";

/// A commit that an attempt has offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    pub name: String,
    pub commit: Oid,
}

fn first_ref(issue: &IssueId, attempt: u32) -> String {
    format!("{CANDIDATES}/{}/{attempt}", ref_part(issue.as_str()))
}

/// Pins a commit as the newest candidate of an attempt. If that is what the newest one holds already, it stands.
pub fn pin(repo: &Repo, issue: &IssueId, attempt: u32, commit: &Oid) -> Result<Pinned, SalvageError> {
    let first = first_ref(issue, attempt);
    let earlier = all(repo, issue, attempt)?;
    if let Some(last) = earlier.last().filter(|last| last.commit == *commit) {
        return Ok(last.clone());
    }
    let last = earlier.last().and_then(|last| number_of(&last.name, &first)).unwrap_or(0);
    let name = numbered(&first, last.saturating_add(1));
    refs::keep(repo, &name, commit, "mala: offered", Some(""))?;
    Ok(Pinned { name, commit: commit.clone() })
}

/// Pins a commit that a person offers, for an issue or for none.
pub fn pin_proposal(repo: &Repo, issue: Option<&IssueId>, commit: &Oid) -> Result<Pinned, SalvageError> {
    let stem = match issue {
        Some(issue) => format!("{CANDIDATES}/{}/land.", ref_part(issue.as_str())),
        None => format!("{CANDIDATES}/land/"),
    };
    for number in 1_u32.. {
        let name = format!("{stem}{number}");
        match repo.resolve(&name)? {
            Some(there) if there == *commit => return Ok(Pinned { name, commit: there }),
            Some(_) => {}
            None => {
                refs::keep(repo, &name, commit, "mala: offered", Some(""))?;
                return Ok(Pinned { name, commit: commit.clone() });
            }
        }
    }
    unreachable!("some number is free")
}

/// Numbers of the attempts at an issue that have offered something, in no order.
pub(crate) fn attempts(repo: &Repo, issue: &IssueId) -> Result<Vec<u32>, SalvageError> {
    attempts_below(repo, &format!("{CANDIDATES}/{}", ref_part(issue.as_str())))
}

/// Numbers of the attempts that have refs below `folder`.
pub(crate) fn attempts_below(repo: &Repo, folder: &str) -> Result<Vec<u32>, SalvageError> {
    let list = Git::at(repo.root()).line(&["for-each-ref", "--format=%(refname)", folder], b"")?;
    let names = list.lines().filter_map(|name| name.strip_prefix(folder)?.strip_prefix('/'));
    Ok(names.filter_map(|name| name.split('.').next()?.parse().ok()).collect())
}

/// The refs of everything that is kept of an attempt: what it has offered, and what was saved of its work.
pub fn refs_of(repo: &Repo, issue: &IssueId, attempt: u32) -> Result<Vec<Pinned>, SalvageError> {
    let firsts = [first_ref(issue, attempt), attempt_ref(issue, attempt)];
    let patterns = firsts.iter().flat_map(|first| [first.clone(), format!("{first}.*")]);
    let args: Vec<String> = ["for-each-ref", "--format=%(objectname) %(refname)"]
        .map(str::to_owned)
        .into_iter()
        .chain(patterns)
        .collect();
    let list = Git::at(repo.root()).line(&args.iter().map(String::as_str).collect::<Vec<_>>(), b"")?;
    let pairs = list.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(id, name)| Ok(Pinned { name: name.to_owned(), commit: oid(id.to_owned())? })).collect()
}

/// Removes a ref, if it still holds this commit.
pub fn forget(repo: &Repo, pinned: &Pinned) -> Result<(), SalvageError> {
    refs::update(repo, &pinned.name, &["-d", &pinned.name, pinned.commit.as_str()])
}

/// All candidates of an attempt, oldest first.
pub fn all(repo: &Repo, issue: &IssueId, attempt: u32) -> Result<Vec<Pinned>, SalvageError> {
    let first = first_ref(issue, attempt);
    let mut offers = Vec::new();
    for number in 1_u32.. {
        let name = numbered(&first, number);
        let Some(commit) = repo.resolve(&name)? else { break };
        offers.push(Pinned { name, commit });
    }
    // Of old attempts the first ones may be gone.
    if offers.is_empty() { listed(repo, &first) } else { Ok(offers) }
}

fn listed(repo: &Repo, first: &str) -> Result<Vec<Pinned>, SalvageError> {
    let format = "--format=%(objectname) %(refname)";
    let list = Git::at(repo.root()).line(&["for-each-ref", format, first, &format!("{first}.*")], b"")?;
    let mut found = Vec::new();
    for line in list.lines() {
        let Some((id, name)) = line.split_once(' ') else { continue };
        if let Some(number) = number_of(name, first) {
            found.push((number, Pinned { name: name.to_owned(), commit: oid(id.to_owned())? }));
        }
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, pinned)| pinned).collect())
}

/// Which offer a ref is, if the first one is called `first`.
fn number_of(name: &str, first: &str) -> Option<u32> {
    match name.strip_prefix(first)? {
        "" => Some(1),
        rest => rest.strip_prefix('.')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use mala_core::Scope;

    use super::*;

    #[test]
    fn offers_are_pinned_in_their_order_and_the_same_one_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let git = |args: &[&str]| {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
            let out = Command::new("git").current_dir(root).args(identity).args(args).output().unwrap();
            assert!(out.status.success(), "{args:?}");
            String::from_utf8_lossy(&out.stdout).trim().to_owned()
        };
        git(&["init", "-q", "-b", "main"]);
        let commits: Vec<Oid> = (0..12)
            .map(|number| {
                fs::write(root.join("a"), number.to_string()).unwrap();
                git(&["add", "-A"]);
                git(&["commit", "-q", "-m", "x"]);
                Oid::parse(&git(&["rev-parse", "HEAD"])).unwrap()
            })
            .collect();
        let repo = Repo::new(Scope::discover(root).unwrap());
        let (one, other) = (IssueId::new("bd-1").unwrap(), IssueId::new("bd-10").unwrap());
        pin(&repo, &other, 1, &commits[0]).unwrap();
        for commit in &commits {
            pin(&repo, &one, 1, commit).unwrap();
            assert_eq!(pin(&repo, &one, 1, commit).unwrap().commit, *commit);
        }
        pin(&repo, &one, 11, &commits[0]).unwrap();
        let found = all(&repo, &one, 1).unwrap();
        assert_eq!(found.iter().map(|pinned| pinned.commit.clone()).collect::<Vec<_>>(), commits);
        assert_eq!(found[0].name, "refs/mala/candidates/bd-1/1");
        assert_eq!(found[11].name, "refs/mala/candidates/bd-1/1.12");
    }
}
