//! What a person offers to land: the commits of a branch as one candidate, and the checkouts that branches are in.

use std::path::PathBuf;

use crate::call::nul_parts;
use crate::salvage::{SalvageError, oid};
use crate::{GitError, Oid, Repo, RepoPath};

/// What a revision has that a branch has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// The branch has all of it.
    OnBranch,
    /// The two have no commit in common.
    Unrelated,
    /// There are commits, and together they change no file.
    Unchanged,
    /// One commit on top of what the two have in common.
    Candidate { base: Oid, head: Oid, commits: usize },
}

/// A checkout of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    pub root: PathBuf,
    /// The full name of its branch; none for a detached `HEAD`.
    pub branch: Option<String>,
}

impl Repo {
    /// What `revision` has that `tip` has not, as one commit: its own where it is one, else all of them squashed into a new
    /// one, by the author of the last.
    pub fn propose(&self, tip: &Oid, revision: &Oid) -> Result<Proposal, SalvageError> {
        if self.is_ancestor(revision, tip)? {
            return Ok(Proposal::OnBranch);
        }
        let base = self.git("merge-base").arg(tip).arg(revision).line_if_any()?;
        let Some(base) = base.map(oid).transpose()? else { return Ok(Proposal::Unrelated) };
        let last = self.commit(revision)?;
        if self.commit(&base)?.tree == last.tree {
            return Ok(Proposal::Unchanged);
        }
        if self.has_all(tip, &base, revision)? {
            return Ok(Proposal::OnBranch);
        }
        let commits = self.commits_between(&base, revision.as_str())?.len();
        let head = if last.parents.as_slice() == [base.clone()] {
            revision.clone()
        } else {
            self.squash(&base, revision, &last.tree)?
        };
        Ok(Proposal::Candidate { base, head, commits })
    }

    /// True if `tip` holds each file that changed since `base` as `revision` does: what has landed is another commit there.
    fn has_all(&self, tip: &Oid, base: &Oid, revision: &Oid) -> Result<bool, SalvageError> {
        let changes = self.changes_between(base, revision)?;
        let there = self.tree_entries(tip, changes.iter().map(|change| &change.path))?;
        Ok(changes.iter().all(|change| there.get(&change.path) == change.after.as_ref()))
    }

    fn squash(&self, base: &Oid, revision: &Oid, tree: &Oid) -> Result<Oid, SalvageError> {
        let format = "--format=%an%x00%ae%x00%ad%x00%cd%x00%s";
        let author = self
            .git("rev-list")
            .args(["--no-commit-header", "--max-count=1", "--date=raw", "--encoding=UTF-8", format])
            .arg(revision)
            .arg("--")
            .line()?;
        let mut fields = author.splitn(5, '\0');
        let mut field = || fields.next().unwrap_or_default().to_owned();
        let (name, mail, date, committed, subject) = (field(), field(), field(), field(), field());
        let range = format!("^{base}");
        let subjects = self
            .git("rev-list")
            .args(["--no-commit-header", "--reverse", "--topo-order", "--no-merges", "--encoding=UTF-8"])
            .args(["--format=* %s"])
            .arg(revision)
            .args([&range, "--"])
            .line()?;
        let call = self.plain_git("commit-tree").arg(tree).arg("-p").arg(base);
        let call = call.env("GIT_AUTHOR_NAME", name).env("GIT_AUTHOR_EMAIL", mail);
        let call = call.env("GIT_AUTHOR_DATE", format!("@{date}"));
        // Who offers the same twice offers one commit.
        let call = call.env("GIT_COMMITTER_DATE", format!("@{committed}"));
        oid(call.input(format!("{subject}\n\n{subjects}\n")).line()?)
    }

    /// All checkouts of the repository, the main one first. One without files, of a bare repository, is none.
    pub fn checkouts(&self) -> Result<Vec<Checkout>, GitError> {
        let list = self.git("worktree").args(["list", "--porcelain", "-z"]).output()?;
        let mut found: Vec<Checkout> = Vec::new();
        let mut bare = Vec::new();
        for part in nul_parts(&list) {
            if let Some(root) = part.strip_prefix(b"worktree ") {
                let root = RepoPath::from_bytes(root).as_path().to_owned();
                found.push(Checkout { root, branch: None });
            } else if let (Some(branch), Some(last)) = (part.strip_prefix(b"branch "), found.last_mut()) {
                last.branch = Some(String::from_utf8_lossy(branch).into_owned());
            } else if part == b"bare" {
                bare.extend(found.last().map(|last| last.root.clone()));
            }
        }
        found.retain(|checkout| !bare.contains(&checkout.root));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use mala_core::Scope;

    use super::*;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            let world = Self(tempfile::tempdir().unwrap());
            world.git(&["init", "-q", "-b", "main"]);
            world.git(&["config", "user.name", "Land"]);
            world.git(&["config", "user.email", "land@example.invalid"]);
            world.commit("a", "one");
            world
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn repo(&self) -> Repo {
            Repo::new(Scope::discover(self.root()).unwrap())
        }

        fn git(&self, args: &[&str]) -> String {
            let out = Command::new("git").current_dir(self.root()).args(args).output().unwrap();
            assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8_lossy(&out.stdout).trim().to_owned()
        }

        fn commit(&self, file: &str, subject: &str) -> Oid {
            fs::write(self.root().join(file), subject).unwrap();
            self.git(&["add", "-A"]);
            self.git(&["commit", "-q", "-m", subject, "--author", "Fay <fay@example.invalid>"]);
            self.at("HEAD")
        }

        fn at(&self, revision: &str) -> Oid {
            Oid::parse(&self.git(&["rev-parse", revision])).unwrap()
        }
    }

    #[test]
    fn one_commit_is_offered_as_it_is() {
        let world = World::new();
        world.git(&["switch", "-q", "-c", "feature"]);
        let head = world.commit("b", "two");
        let proposal = world.repo().propose(&world.at("main"), &head).unwrap();
        assert_eq!(proposal, Proposal::Candidate { base: world.at("main"), head, commits: 1 });
    }

    #[test]
    fn several_commits_and_merges_become_one_by_the_last_author() {
        let world = World::new();
        world.git(&["switch", "-q", "-c", "feature"]);
        world.commit("b", "two");
        world.git(&["switch", "-q", "main"]);
        let merged = world.commit("c", "of main");
        world.git(&["switch", "-q", "feature"]);
        world.git(&["merge", "-q", "-m", "merge main", "main"]);
        let last = world.commit("b", "three");
        world.git(&["switch", "-q", "main"]);
        let tip = world.commit("d", "later on main");
        let proposal = world.repo().propose(&tip, &last).unwrap();
        let Proposal::Candidate { base, head, commits: 3 } = proposal else { panic!("{proposal:?}") };
        assert_eq!(base, merged);
        assert_eq!(
            world.repo().propose(&tip, &last).unwrap(),
            Proposal::Candidate { base, head: head.clone(), commits: 3 }
        );
        let made = world.repo().commit(&head).unwrap();
        assert_eq!((made.parents, made.tree), (vec![merged], world.repo().commit(&last).unwrap().tree));
        assert_eq!(made.message.trim_end(), "three\n\n* two\n* three");
        let format = "--format=%an <%ae> %ad|%cn";
        let shown = world.git(&["show", "-s", "--date=raw", format, head.as_str()]);
        let date = world.git(&["show", "-s", "--date=raw", "--format=%ad", last.as_str()]);
        assert_eq!(shown, format!("Fay <fay@example.invalid> {date}|Land"));
    }

    #[test]
    fn what_the_branch_has_what_changes_nothing_and_what_is_unrelated_is_no_candidate() {
        let world = World::new();
        let (repo, first) = (world.repo(), world.at("HEAD"));
        let tip = world.commit("b", "two");
        assert_eq!(repo.propose(&tip, &first).unwrap(), Proposal::OnBranch);
        assert_eq!(repo.propose(&tip, &tip).unwrap(), Proposal::OnBranch);
        world.git(&["switch", "-q", "-c", "picked", first.as_str()]);
        let original = world.commit("c", "three");
        world.git(&["switch", "-q", "main"]);
        world.git(&["cherry-pick", "-x", original.as_str()]);
        assert_eq!(repo.propose(&world.at("main"), &original).unwrap(), Proposal::OnBranch);
        assert_ne!(repo.propose(&tip, &original).unwrap(), Proposal::OnBranch);
        world.git(&["switch", "-q", "-c", "feature", tip.as_str()]);
        world.git(&["commit", "-q", "--allow-empty", "-m", "nothing"]);
        assert_eq!(repo.propose(&tip, &world.at("HEAD")).unwrap(), Proposal::Unchanged);
        world.git(&["switch", "-q", "--orphan", "other"]);
        let other = world.commit("z", "elsewhere");
        assert_eq!(repo.propose(&tip, &other).unwrap(), Proposal::Unrelated);
    }

    #[test]
    fn checkouts_are_listed_with_their_branches() {
        let world = World::new();
        let beside = tempfile::tempdir().unwrap();
        let linked = beside.path().join("new\nline");
        world.git(&["worktree", "add", "-q", "-b", "feature", linked.to_str().unwrap()]);
        let found = world.repo().checkouts().unwrap();
        let branches: Vec<_> = found.iter().map(|checkout| checkout.branch.as_deref()).collect();
        assert_eq!(branches, [Some("refs/heads/main"), Some("refs/heads/feature")]);
        assert_eq!(found[1].root.canonicalize().unwrap(), linked.canonicalize().unwrap());
    }
}
