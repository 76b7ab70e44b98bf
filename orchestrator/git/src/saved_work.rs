//! The work of an attempt that is not on the branch: what it has offered, and what was saved when it ended. It can be looked
//! at, put back into the checkout, or written elsewhere.
//!
//! Nothing here needs the store, so agents do the same inside of their trees, where their writes take the usual locks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use mala_core::IssueId;

use crate::candidate;
use crate::retry::Git;
use crate::salvage::{SalvageError, SavedRef, aside_ref, attempt_ref, dirty, saved_as};
use crate::{FileChange, Oid, Repo, RepoPath, TreeEntry};

/// Files that are named in one call of git.
const FILES_PER_CALL: usize = 500;

/// All work of one attempt.
#[derive(Debug, Clone)]
pub struct SavedWork {
    pub attempt: u32,
    /// The latest first. No file is in two of them: the latest has it.
    pub parts: Vec<WorkPart>,
}

/// What one ref has of it.
#[derive(Debug, Clone)]
pub struct WorkPart {
    pub saved: SavedRef,
    base: Option<Oid>,
    pub changes: Vec<FileChange>,
}

/// Why a file cannot be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The checkout has something there that is not committed.
    Uncommitted,
    /// The branch has changed it since.
    ChangedSince,
}

/// The work of an attempt, or of the newest one that has left some.
pub fn find(repo: &Repo, issue: &IssueId, attempt: Option<u32>) -> Result<Option<SavedWork>, SalvageError> {
    let mut attempts = match attempt {
        Some(attempt) => vec![attempt],
        None => {
            let first = attempt_ref(issue, 1);
            let folder = first.strip_suffix("/1").unwrap_or(&first);
            let mut known = candidate::attempts_below(repo, folder)?;
            known.extend(candidate::attempts(repo, issue)?);
            known
        }
    };
    attempts.sort_unstable();
    attempts.dedup();
    for attempt in attempts.into_iter().rev() {
        let work = of_attempt(repo, issue, attempt)?;
        if !work.parts.is_empty() {
            return Ok(Some(work));
        }
    }
    Ok(None)
}

const CHANGED_AFTER: &str = "changed after ";

/// Why changes were saved that an agent has made after it had offered this commit. By this it is told which offer they belong to.
pub fn changed_after(offer: &Oid) -> String {
    format!("{CHANGED_AFTER}{offer} was offered")
}

fn of_attempt(repo: &Repo, issue: &IssueId, attempt: u32) -> Result<SavedWork, SalvageError> {
    let mut refs = saved_as(repo, &aside_ref(issue, attempt), None)?;
    refs.extend(saved_as(repo, &attempt_ref(issue, attempt), None)?);
    refs.reverse();
    // A rejected attempt offers again, so the last offer is later than what was saved with another one.
    let offer = candidate::all(repo, issue, attempt)?.pop();
    let (mut later, mut earlier) = (Vec::new(), Vec::new());
    for saved in refs {
        let commit = repo.commit(&saved.commit)?;
        let is_with_another = commit.message.contains(CHANGED_AFTER)
            && offer.as_ref().is_none_or(|offer| !commit.message.contains(&changed_after(&offer.commit)));
        if is_with_another { &mut earlier } else { &mut later }.push((commit, saved));
    }
    if let Some(offer) = offer {
        let saved = SavedRef { name: offer.name, commit: offer.commit };
        later.push((repo.commit(&saved.commit)?, saved));
    }
    let (mut parts, mut seen) = (Vec::new(), BTreeSet::new());
    for (commit, saved) in later.into_iter().chain(earlier) {
        let mut changes = repo.changes_of(&commit)?;
        changes.retain(|change| seen.insert(change.path.clone()));
        if !changes.is_empty() {
            parts.push(WorkPart { saved, base: commit.parents.into_iter().next(), changes });
        }
    }
    Ok(SavedWork { attempt, parts })
}

impl SavedWork {
    pub fn changes(&self) -> impl Iterator<Item = &FileChange> {
        self.parts.iter().flat_map(|part| &part.changes)
    }

    /// All of it as a patch.
    pub fn patch(&self, repo: &Repo) -> Result<Vec<u8>, SalvageError> {
        self.diff(repo, &["-p", "--binary"])
    }

    /// How much each file changes, for people.
    pub fn stat(&self, repo: &Repo) -> Result<Vec<u8>, SalvageError> {
        self.diff(repo, &["--stat"])
    }

    fn diff(&self, repo: &Repo, how: &[&str]) -> Result<Vec<u8>, SalvageError> {
        let mut all = Vec::new();
        for part in &self.parts {
            for changes in part.changes.chunks(FILES_PER_CALL) {
                let call =
                    repo.git("diff-tree").args(["-r", "--no-renames", "--no-ext-diff", "--no-textconv"]);
                let call = call.args(how);
                let call = match &part.base {
                    Some(base) => call.arg(base).arg(&part.saved.commit),
                    None => call.args(["--root", "--no-commit-id"]).arg(&part.saved.commit),
                };
                let call = call.arg("--").args(changes.iter().map(|change| change.path.as_path()));
                all.extend(call.output()?);
            }
        }
        Ok(all)
    }

    /// What keeps it from being put back. Files that the checkout has as they were saved are in nobody's way.
    pub fn obstacles(&self, repo: &Repo) -> Result<BTreeMap<RepoPath, Obstacle>, SalvageError> {
        let dirty = dirty(repo)?;
        let now = self.committed(repo)?;
        let mut found = BTreeMap::new();
        for change in self.changes() {
            let there = now.get(&change.path);
            let is_untracked = there.is_none() && change.path.within(repo.root()).symlink_metadata().is_ok();
            if dirty.contains(&change.path) || is_untracked {
                found.insert(change.path.clone(), Obstacle::Uncommitted);
            } else if there != change.before.as_ref() && there != change.after.as_ref() {
                found.insert(change.path.clone(), Obstacle::ChangedSince);
            }
        }
        Ok(found)
    }

    /// Without what the last commit has already.
    pub fn missing(mut self, repo: &Repo) -> Result<Self, SalvageError> {
        let now = self.committed(repo)?;
        for part in &mut self.parts {
            part.changes.retain(|change| now.get(&change.path) != change.after.as_ref());
        }
        self.parts.retain(|part| !part.changes.is_empty());
        Ok(self)
    }

    fn committed(&self, repo: &Repo) -> Result<BTreeMap<RepoPath, TreeEntry>, SalvageError> {
        let files: BTreeSet<RepoPath> = self.changes().map(|change| change.path.clone()).collect();
        match repo.resolve("HEAD")? {
            Some(head) if !files.is_empty() => Ok(repo.tree_entries(&head, &files)?),
            _ => Ok(BTreeMap::new()),
        }
    }

    /// Puts all of it into the checkout, or nothing. The index stays as it is. Nothing may be in the way.
    pub fn put_back(&self, repo: &Repo) -> Result<(), SalvageError> {
        let patch = self.patch(repo)?;
        if !patch.is_empty() {
            Git::at(repo.root()).run(&["apply", "--whitespace=nowarn", "-"], &patch)?;
        }
        Ok(())
    }

    /// Writes the files below `directory`, as git stores them. Those that the work deletes are not there.
    pub fn write_to(&self, repo: &Repo, directory: &Path) -> Result<(), SalvageError> {
        for change in self.changes() {
            let Some(entry) = &change.after else { continue };
            let place = change.path.within(directory);
            write_entry(repo, entry, &place)
                .map_err(|source| SalvageError::Io { path: place.clone(), source })??;
        }
        Ok(())
    }
}

/// The outer error is one of writing, the inner one of reading.
fn write_entry(repo: &Repo, entry: &TreeEntry, place: &Path) -> std::io::Result<Result<(), SalvageError>> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    // Nothing of a submodule is ours.
    if entry.mode == "160000" {
        return fs::create_dir_all(place).map(Ok);
    }
    let bytes = match Git::at(repo.root()).run(&["cat-file", "blob", entry.oid.as_str()], b"") {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error.into())),
    };
    if entry.mode == "120000" {
        return symlink(RepoPath::from_bytes(bytes).as_path(), place).map(Ok);
    }
    fs::write(place, bytes)?;
    if entry.mode == "100755" {
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use mala_core::Scope;

    use super::*;
    use crate::salvage;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            let world = Self(tempfile::tempdir().unwrap());
            world.git(&["init", "-q", "-b", "main"]);
            world.git(&["config", "user.name", "t"]);
            world.git(&["config", "user.email", "t@example.invalid"]);
            world.write("a", "a\n");
            world.write("gone", "gone\n");
            world.commit();
            world
        }

        fn repo(&self) -> Repo {
            Repo::new(Scope::discover(self.0.path()).unwrap())
        }

        fn git(&self, args: &[&str]) -> String {
            let out = Command::new("git").current_dir(self.0.path()).args(args).output().unwrap();
            assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8_lossy(&out.stdout).trim().to_owned()
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.0.path().join(file), text).unwrap();
        }

        fn read(&self, file: &str) -> Option<String> {
            fs::read_to_string(self.0.path().join(file)).ok()
        }

        fn commit(&self) -> Oid {
            self.git(&["add", "-A"]);
            self.git(&["commit", "-q", "-m", "x"]);
            Oid::parse(&self.git(&["rev-parse", "HEAD"])).unwrap()
        }

        /// Offers the checkout as attempt 2 of bd-1, then saves a later change of it.
        fn with_work() -> Self {
            let world = Self::new();
            world.write("a", "offered  \n");
            world.write("run.sh", "offered\n");
            fs::set_permissions(world.0.path().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::remove_file(world.0.path().join("gone")).unwrap();
            let offered = world.commit();
            world.git(&["reset", "-q", "--hard", "HEAD^"]);
            candidate::pin(&world.repo(), &issue(), 2, &offered).unwrap();
            world.write("a", "later\n");
            let files = BTreeSet::from([RepoPath::from_bytes("a")]);
            salvage::save(&world.repo(), &attempt_ref(&issue(), 2), &files, "saved").unwrap().unwrap();
            world.git(&["checkout", "-q", "a"]);
            candidate::pin_proposal(&world.repo(), Some(&issue()), &offered).unwrap();
            world
        }
    }

    fn issue() -> IssueId {
        IssueId::new("bd-1").unwrap()
    }

    #[test]
    fn later_changes_win_over_the_candidate_and_come_back_whatever_git_thinks_of_blanks() {
        let world = World::with_work();
        world.git(&["config", "apply.whitespace", "error-all"]);
        let repo = world.repo();
        let work = find(&repo, &issue(), None).unwrap().unwrap();
        let names: Vec<&str> = work.parts.iter().map(|part| part.saved.name.as_str()).collect();
        assert_eq!((work.attempt, names), (2, vec!["refs/mala/bd-1/2", "refs/mala/candidates/bd-1/2"]));
        assert!(work.obstacles(&repo).unwrap().is_empty());
        work.put_back(&repo).unwrap();
        assert_eq!(world.read("a").as_deref(), Some("later\n"));
        assert_eq!((world.read("run.sh").as_deref(), world.read("gone")), (Some("offered\n"), None));
        assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "", "the index is as it was");
        assert_eq!(find(&repo, &issue(), Some(1)).unwrap().map(|work| work.attempt), None);
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let world = World::with_work();
        let repo = world.repo();
        let work = find(&repo, &issue(), Some(2)).unwrap().unwrap();
        world.write("gone", "changed on the branch\n");
        world.commit();
        world.write(".git/info/exclude", "run.sh\n");
        world.write("run.sh", "ignored\n");
        world.write("a", "dirty\n");
        let obstacles = work.obstacles(&repo).unwrap();
        let told: Vec<(String, Obstacle)> =
            obstacles.into_iter().map(|(path, why)| (path.to_text(), why)).collect();
        let expected = [
            ("a".to_owned(), Obstacle::Uncommitted),
            ("gone".to_owned(), Obstacle::ChangedSince),
            ("run.sh".to_owned(), Obstacle::Uncommitted),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_has_landed_is_not_missing_and_in_nobodys_way() {
        let world = World::with_work();
        let repo = world.repo();
        fs::remove_file(world.0.path().join("gone")).unwrap();
        world.write("a", "later\n");
        world.commit();
        let work = find(&repo, &issue(), None).unwrap().unwrap();
        assert!(work.obstacles(&repo).unwrap().is_empty());
        let missing = work.missing(&repo).unwrap();
        let files: Vec<String> = missing.changes().map(|change| change.path.to_text()).collect();
        assert_eq!(files, ["run.sh"]);
        missing.put_back(&repo).unwrap();
        assert_eq!(world.read("run.sh").as_deref(), Some("offered\n"));
    }

    #[test]
    fn files_are_written_elsewhere_with_their_modes() {
        let world = World::with_work();
        let elsewhere = tempfile::tempdir().unwrap();
        let work = find(&world.repo(), &issue(), None).unwrap().unwrap();
        work.write_to(&world.repo(), elsewhere.path()).unwrap();
        assert_eq!(fs::read_to_string(elsewhere.path().join("a")).unwrap(), "later\n");
        let mode = fs::metadata(elsewhere.path().join("run.sh")).unwrap().permissions().mode();
        assert!(mode & 0o111 != 0 && !elsewhere.path().join("gone").exists());
        assert_eq!(world.read("a").as_deref(), Some("a\n"), "the checkout is as it was");
    }
}
