//! The branch moves: what was begun is written down first, so that whoever comes after a kill finishes or undoes it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use mala_core::{Conflict, Entry, EntryId, EntryState, Key, Life, Oid, crash_point};
use mala_git::landing::{self, BranchMove, Candidate, Landed, Obstacle, Repaired, Stacked};
use mala_git::{Repo, RepoPath};
use mala_store::{FileBlob, FreedFile, LandingError, NewLanding, Store, StoreError};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::{Layer, Outcome, Queue, QueueError, Round, Settled, list};

/// The trailer of a commit below the tip of a landing: the tree that was proven.
const TRAILER: &str = "Mala-Landing";

impl Queue<'_> {
    /// Moves the branch to the last of `layers`, all of which are green together. True if it has moved.
    pub(super) fn land(
        &self,
        store: &mut Store,
        tip: &Oid,
        layers: &[Layer],
        round: &mut Round,
    ) -> Result<bool, QueueError> {
        let entries = self.as_landed(tip, layers)?;
        let to = entries.last().map_or(tip, |(_, commit)| commit).clone();
        let mut onto = tip;
        for (entry, commit) in &entries {
            let there = landing::already_there(self.repo, (&entry.base, &entry.head), (onto, commit))?;
            let note =
                (!there.is_empty()).then(|| format!("the branch had part of it already: {}", list(&there)));
            self.advance(store, entry, EntryState::Green, note.as_deref())?;
            onto = commit;
        }
        crash_point("queue:green");
        let (directory, spared) = match self.begin(store, tip, &to, &entries) {
            Err(QueueError::Store(StoreError::Landing(LandingError::FilesHeld { conflicts }))) => {
                return self.wait_for_holders(store, &entries, &conflicts, round);
            }
            begun => begun?,
        };
        crash_point("queue:begun");
        let reason = reason(&entries);
        let step = BranchMove { spared: &spared, ..self.step(tip, &to, &reason, &directory) };
        let is_done = match landing::land(self.repo, &step) {
            Ok(Landed::Done { left }) => {
                crash_point("queue:landed");
                self.forget_bases(store, entries.iter().map(|(entry, _)| entry), (&spared, &left))?;
                round.left_alone.extend(left);
                store.finish_landing(self.branch)?;
                for (entry, commit) in entries {
                    self.record(store, &entry, &commit, &[])?;
                    round.settled.push(Settled { entry, outcome: Outcome::Landed(commit) });
                }
                true
            }
            Ok(Landed::Moved(_)) => {
                store.overtake_landing(self.branch)?;
                round.was_overtaken = true;
                false
            }
            Ok(Landed::Held(obstacles)) => {
                store.undo_landing(self.branch)?;
                self.hold(store, &entries, &obstacles, round)?;
                false
            }
            Err(error) => {
                // The branch may have moved all the same.
                self.finish_killed(store, round)?;
                return Err(error.into());
            }
        };
        let _ = fs::remove_dir_all(&directory);
        Ok(is_done)
    }

    /// The commits as they land: those below the tip say which tree was proven. Trees stay the same, so the proof does.
    fn as_landed(&self, tip: &Oid, layers: &[Layer]) -> Result<Vec<(Entry, Oid)>, QueueError> {
        let [below @ .., last] = layers else { return Ok(Vec::new()) };
        if below.is_empty() {
            return Ok(vec![(last.entry.clone(), last.commit.clone())]);
        }
        let proven = self.repo.commit(&last.commit)?.tree;
        let (mut top, mut base) = (tip.clone(), tip.clone());
        let mut landed = Vec::new();
        for layer in layers {
            let commit = self.repo.commit(&layer.commit)?;
            let message = if layer.commit == last.commit {
                commit.message.clone()
            } else {
                with_trailer(&commit.message, &proven)
            };
            let head = layer.commit.clone();
            let candidate = Candidate { base: base.clone(), head: head.clone(), message: Some(message) };
            let Stacked::Commit(made) = landing::stack(self.repo, &top, &candidate)? else {
                return Err(QueueError::Restacked(self.branch.to_owned()));
            };
            (top, base) = (made.clone(), head);
            landed.push((layer.entry.clone(), made));
        }
        Ok(landed)
    }

    /// Somebody has just taken a file whose work the branch cannot move on below.
    fn wait_for_holders(
        &self,
        store: &mut Store,
        entries: &[(Entry, Oid)],
        conflicts: &[Conflict],
        round: &mut Round,
    ) -> Result<bool, QueueError> {
        for (entry, _) in entries {
            self.advance_if(store, entry.id, EntryState::Green, EntryState::Waiting)?;
            round.waiting.push((entry.clone(), waits_for(conflicts)));
        }
        Ok(false)
    }

    /// Writes down what is about to happen. Gives a directory for what is prepared, and the files that the branch moves on below.
    fn begin(
        &self,
        store: &mut Store,
        from: &Oid,
        to: &Oid,
        entries: &[(Entry, Oid)],
    ) -> Result<(PathBuf, BTreeSet<RepoPath>), QueueError> {
        let directory = self.directory();
        let made = fs::remove_dir_all(&directory);
        let made = match made {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&directory),
        };
        made.map_err(|source| QueueError::Io { path: directory.clone(), source })?;
        let changes = self.changes(entries.iter().map(|(entry, _)| entry))?;
        let spared = store.begin_landing(&NewLanding {
            branch: self.branch.to_owned(),
            from: from.clone(),
            to: to.clone(),
            directory: Some(directory.clone()),
            entries: entries.iter().map(|(entry, commit)| (entry.id, commit.clone())).collect(),
            changes: changes.iter().map(|(id, path)| (*id, self.repo.key(path))).collect(),
            freed: self.freed(from, entries.iter().map(|(entry, _)| entry))?,
            owner: self.owner.clone(),
        })?;
        Ok((directory, self.named(&changes, &spared)))
    }

    /// The files that these entries change and hold no more, with what the branch has there.
    fn freed<'e>(
        &self,
        from: &Oid,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> Result<Vec<FreedFile>, QueueError> {
        let mut freed = Vec::new();
        for entry in entries.filter(|entry| entry.frees_files) {
            let changed = self.repo.changes_between(&entry.base, &entry.head)?;
            let there = self.repo.tree_entries(from, changed.iter().map(|change| &change.path))?;
            freed.extend(changed.iter().map(|change| {
                FreedFile {
                    entry: entry.id,
                    key: self.repo.key(&change.path),
                    base: there
                        .get(&change.path)
                        .map(|entry| FileBlob { mode: entry.mode.clone(), oid: entry.oid.clone() }),
                }
            }));
        }
        Ok(freed)
    }

    /// The files that have moved along with the branch started from nothing else.
    fn forget_bases<'e>(
        &self,
        store: &mut Store,
        entries: impl Iterator<Item = &'e Entry>,
        (spared, left): (&BTreeSet<RepoPath>, &[RepoPath]),
    ) -> Result<(), QueueError> {
        for entry in entries.filter(|entry| entry.frees_files) {
            let changes = self.changes(std::iter::once(entry))?;
            let mut moved: Vec<&RepoPath> = changes.iter().map(|(_, path)| path).collect();
            moved.retain(|path| !spared.contains(*path) && !left.contains(path));
            let moved: Vec<Key> = moved.into_iter().map(|path| self.repo.key(path)).collect();
            store.forget_file_bases(entry.id, &moved)?;
        }
        Ok(())
    }

    /// Those of the changed files that have these names in the store.
    fn named(&self, changes: &BTreeSet<(EntryId, RepoPath)>, keys: &[Key]) -> BTreeSet<RepoPath> {
        let paths = changes.iter().map(|(_, path)| path);
        paths.filter(|path| keys.contains(&self.repo.key(path))).cloned().collect()
    }

    /// The files of these entries that the branch would move on below now.
    pub(super) fn spared(
        &self,
        store: &mut Store,
        entries: &[&Entry],
    ) -> Result<BTreeSet<RepoPath>, QueueError> {
        let mut spared = BTreeSet::new();
        for entry in entries.iter().filter(|entry| entry.frees_files) {
            let changes = self.changes(std::iter::once(*entry))?;
            let keys: Vec<Key> = changes.iter().map(|(_, path)| self.repo.key(path)).collect();
            spared.extend(self.named(&changes, &store.in_the_way(entry, &keys)?.spared));
        }
        Ok(spared)
    }

    /// The files that each entry changes.
    fn changes<'e>(
        &self,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> Result<BTreeSet<(EntryId, RepoPath)>, QueueError> {
        let mut changes = BTreeSet::new();
        for entry in entries {
            let changed = self.repo.changes_between(&entry.base, &entry.head)?;
            changes.extend(changed.into_iter().map(|change| (entry.id, change.path)));
        }
        Ok(changes)
    }

    /// Entries that need no move of the branch.
    pub(super) fn record_landing(
        &self,
        store: &mut Store,
        from: &Oid,
        to: &Oid,
        entries: &[(Entry, Oid)],
    ) -> Result<(), QueueError> {
        let (directory, _) = self.begin(store, from, to, entries)?;
        store.finish_landing(self.branch)?;
        let _ = fs::remove_dir_all(&directory);
        Ok(())
    }

    pub(super) fn step<'s>(
        &'s self,
        from: &'s Oid,
        to: &'s Oid,
        reason: &'s str,
        directory: &'s Path,
    ) -> BranchMove<'s> {
        static NOTHING: BTreeSet<RepoPath> = BTreeSet::new();
        BranchMove { branch: self.branch, from, to, reason, directory, spared: &NOTHING }
    }

    /// Holds what something in the checkout is in the way of already. True if there was such a thing.
    pub(super) fn hold_ahead(
        &self,
        store: &mut Store,
        tip: &Oid,
        layers: &[Layer],
        round: &mut Round,
    ) -> Result<bool, QueueError> {
        let Some(top) = layers.last() else { return Ok(false) };
        let directory = self.directory();
        let spared = self.spared(store, &layers.iter().map(|layer| &layer.entry).collect::<Vec<_>>())?;
        let step = BranchMove { spared: &spared, ..self.step(tip, &top.commit, "", &directory) };
        let obstacles = landing::look_ahead(self.repo, &step)?;
        if obstacles.is_empty() {
            return Ok(false);
        }
        let entries: Vec<(Entry, Oid)> =
            layers.iter().map(|layer| (layer.entry.clone(), layer.commit.clone())).collect();
        self.hold(store, &entries, &obstacles, round)?;
        Ok(true)
    }

    /// Something in the checkout is in the way. Entries that it does not concern go on; if that cannot be told, all of them wait.
    fn hold(
        &self,
        store: &mut Store,
        entries: &[(Entry, Oid)],
        obstacles: &[Obstacle],
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let mut held = Vec::new();
        for (entry, _) in entries {
            let changes = self.repo.changes_between(&entry.base, &entry.head)?;
            let concerns = |obstacle: &&Obstacle| {
                obstacle.path.as_ref().is_none_or(|path| {
                    changes.iter().any(|change| change.path.is_within(path) || path.is_within(&change.path))
                })
            };
            held.push(obstacles.iter().filter(concerns).map(words).collect::<Vec<_>>().join("; "));
        }
        let is_known = held.iter().any(|why| !why.is_empty());
        let all = obstacles.iter().map(words).collect::<Vec<_>>().join("; ");
        for ((entry, _), why) in entries.iter().zip(held) {
            let why = if is_known { why } else { all.clone() };
            if why.is_empty() {
                round.was_overtaken = true;
                continue;
            }
            let entry = self.advance(store, entry, EntryState::Held, Some(&why))?;
            round.waiting.push((entry, why));
        }
        Ok(())
    }

    /// Finishes or undoes a landing whose process is gone. Gives the files that somebody has written since.
    ///
    /// # Errors
    ///
    /// Also if its process may still be at work.
    pub fn repair(&self, store: &mut Store) -> Result<Vec<RepoPath>, QueueError> {
        if store.landing(self.branch)?.is_none() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let mut round = Round::default();
        self.finish_killed(store, &mut round)?;
        Ok(round.left_alone)
    }

    /// The right to work this branch. The kernel takes it back when its process dies.
    pub(super) fn lock(&self) -> Result<Flock<File>, QueueError> {
        let path = self.directory().with_extension("lock");
        let failed = |source: io::Error| QueueError::Io { path: path.clone(), source };
        fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(failed)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(lock),
            Err((_, Errno::EWOULDBLOCK)) => Err(QueueError::Busy(self.branch.to_owned())),
            Err((_, error)) => Err(failed(error.into())),
        }
    }

    pub(super) fn finish_killed(&self, store: &mut Store, round: &mut Round) -> Result<(), QueueError> {
        let Some(row) = store.landing(self.branch)? else { return Ok(()) };
        if row.life != Life::Dead && row.owner != *self.owner {
            return Err(QueueError::UnderWay { branch: row.branch, owner: Box::new(row.owner) });
        }
        let directory = row.directory.clone().unwrap_or_else(|| self.directory());
        let mut entries = Vec::new();
        for (id, _) in &row.entries {
            entries.extend(store.entry(*id)?);
        }
        // Somebody may have taken files of it since its process died.
        let spared = store.hold_files(self.owner, &self.freed(&row.from, entries.iter())?)?;
        let spared = self.named(&self.changes(entries.iter())?, &spared);
        let step =
            BranchMove { spared: &spared, ..self.step(&row.from, &row.to, "mala: repair", &directory) };
        match landing::repair(self.repo, &step)? {
            Repaired::Finished { left } => {
                let landed = |entry: Entry| {
                    let commit = entry.landed.clone().unwrap_or_else(|| row.to.clone());
                    Settled { entry, outcome: Outcome::Landed(commit) }
                };
                self.forget_bases(store, entries.iter(), (&spared, &left))?;
                round.settled.extend(store.finish_landing(self.branch)?.into_iter().map(landed));
                let known = store.file_bases()?;
                // What a dead agent has left is not somebody's.
                let is_known = |path: &RepoPath| known.iter().any(|base| base.key == self.repo.key(path));
                round.left_alone.extend(left.into_iter().filter(|path| !is_known(path)));
            }
            Repaired::Undone => _ = store.undo_landing(self.branch)?,
        }
        let _ = fs::remove_dir_all(&directory);
        Ok(())
    }

    /// Where landings of this branch prepare what they write. No agent can write there.
    pub(super) fn directory(&self) -> PathBuf {
        directory(self.repo, self.branch)
    }
}

fn directory(repo: &Repo, branch: &str) -> PathBuf {
    let name = Key::from_stored(branch.as_bytes().to_vec()).short_id();
    repo.scope().state_dir().join("landing").join(name)
}

/// True if a live process works the queue of this branch now.
pub fn is_worked(repo: &Repo, branch: &str) -> bool {
    let file = OpenOptions::new().write(true).open(directory(repo, branch).with_extension("lock"));
    file.is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err())
}

fn words(obstacle: &Obstacle) -> String {
    match &obstacle.path {
        Some(path) => format!("`{path}` {}", obstacle.why),
        None => obstacle.why.clone(),
    }
}

/// Who holds files of an entry, in words.
pub(super) fn waits_for(conflicts: &[Conflict]) -> String {
    let names: Vec<String> = conflicts
        .iter()
        .map(|conflict| format!("`{}` of `{}`", conflict.contended(), conflict.holder.agent))
        .collect();
    format!("it waits for {}", names.join(", "))
}

fn reason(entries: &[(Entry, Oid)]) -> String {
    let names: Vec<String> = entries
        .iter()
        .map(|(entry, _)| entry.issue.as_ref().map_or_else(|| entry.id.to_string(), ToString::to_string))
        .collect();
    format!("mala: landed {}", names.join(", "))
}

/// The message with the trailer, behind others that are there.
fn with_trailer(message: &str, tree: &Oid) -> String {
    let message = message.trim_end();
    let is_trailer = |line: &str| line.split_once(": ").is_some_and(|(name, _)| !name.contains(' '));
    let last = message.rsplit("\n\n").next().unwrap_or_default();
    let has_trailers = message.contains("\n\n") && last.lines().all(is_trailer);
    let gap = if has_trailers { "\n" } else { "\n\n" };
    format!("{message}{gap}{TRAILER}: {tree}\n")
}
