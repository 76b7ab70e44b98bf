//! Working the queue off: one round after the other, with validations that go on from one to the next.
//!
//! The entries of a round are put on the branch, one commit each, and validated together. While that goes on, newcomers are
//! validated on top of them if there is room: when the round lands, they are the next one, whose validation is under way or done. What
//! belongs to a tree that the next round has as well is never begun anew.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use mala_core::{Entry, EntryId, EntryState, IssueId, Oid};
use mala_git::RepoPath;
use mala_git::landing::{self, BranchMove, LandError, Stacked};
use mala_store::Store;

use super::audit::Audit;
use super::blame::Suspect;
use super::crew::{Crew, Task};
use super::search::{Known, Search};
use super::{Layer, Queue, QueueError, Round};
use crate::validation::{Validation, earlier_pass};

/// How often newcomers, and cores that have become idle, are looked for while validations are under way.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// After so many landings the branch is validated in an emptied slot.
const AUDIT_INTERVAL: u32 = 20;

/// What becomes of the branch while one process works its queue off.
pub(super) struct Worker<'scope, 'env, 'store> {
    pub(super) queue: Queue<'env>,
    pub(super) store: &'store mut Store,
    pub(super) crew: Crew<'scope, 'env>,
    /// The entries of the next round, in order, if they are known by now: what did not land of this one, or its newcomers.
    plan: Vec<EntryId>,
    /// Entries of which it is being found out whether they are to blame.
    pub(super) suspects: Vec<Suspect>,
    /// Trees that have failed, and what failed.
    pub(super) red: BTreeMap<Oid, Validation>,
    /// Issues that have landed below what is left of the stack.
    pub(super) below: Vec<IssueId>,
    /// Entries that a validation which is under way is about.
    validating: BTreeSet<EntryId>,
    /// Entries that can only be tried alone, and were since something landed.
    tried: BTreeSet<EntryId>,
    /// The audit that is under way.
    pub(super) audit: Option<Audit>,
    /// What was said of entries that wait.
    said: HashSet<(EntryId, String)>,
}

/// The entries of a round on the branch, with newcomers on top.
struct Stack {
    tip: Oid,
    /// The tree of the branch, then that of each layer.
    trees: Vec<Oid>,
    layers: Vec<Layer>,
    search: Search,
    /// Entries that cannot be put on top now.
    refused: BTreeSet<EntryId>,
    /// It stays alone: it has killed mala before, or a person was in its way.
    is_alone: bool,
}

impl Stack {
    fn prefixes_of<'s>(&'s self, tree: &'s Oid) -> impl Iterator<Item = usize> + 's {
        (0..).zip(&self.trees).filter(move |(_, other)| *other == tree).map(|(prefix, _)| prefix)
    }

    fn is_wanted(&self, tree: &Oid) -> bool {
        self.prefixes_of(tree).any(|prefix| !self.search.is_moot(prefix))
    }

    fn under_way(&self, crew: &Crew<'_, '_>) -> Vec<usize> {
        let is_under_way = |tree: &Oid| crew.has(&Task::Tree(tree.clone()));
        (0..).zip(&self.trees).filter(|(_, tree)| is_under_way(tree)).map(|(prefix, _)| prefix).collect()
    }
}

impl<'scope, 'env, 'store> Worker<'scope, 'env, 'store> {
    pub(super) fn new(queue: Queue<'env>, store: &'store mut Store, crew: Crew<'scope, 'env>) -> Self {
        Self {
            queue,
            store,
            crew,
            plan: Vec::new(),
            suspects: Vec::new(),
            red: BTreeMap::new(),
            below: Vec::new(),
            validating: BTreeSet::new(),
            tried: BTreeSet::new(),
            audit: None,
            said: HashSet::new(),
        }
    }

    /// Works until nothing can move any more, the queue is paused, or `tell` has heard enough.
    pub(super) fn run(&mut self, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<(), QueueError> {
        while self.store.queue_pause(self.queue.branch)?.is_none() {
            let mut round = Round::default();
            round.failure = self.round(&mut round).err();
            let goes_on = round.failure.is_none() && (round.has_progress() || !self.crew.is_idle());
            round.waiting.retain(|(entry, why)| self.said.insert((entry.id, why.clone())));
            let is_worth_a_word = !round.is_empty();
            if (is_worth_a_word && tell(round).is_break()) || !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Audits what has landed, if anything has, and waits for the answer.
    pub(super) fn audit(&mut self, tell: &mut dyn FnMut(Round) -> ControlFlow<()>) -> Result<(), QueueError> {
        let mut round = Round::default();
        self.audit_if_due(1, &mut round)?;
        while self.audit.is_some() {
            if !round.is_empty() && tell(std::mem::take(&mut round)).is_break() {
                return Ok(());
            }
            if let Some((task, validation)) = self.crew.wait(LOOK_INTERVAL)? {
                self.note(&task, validation, &mut round)?;
            }
        }
        if !round.is_empty() {
            let _ = tell(round);
        }
        Ok(())
    }

    fn round(&mut self, round: &mut Round) -> Result<(), QueueError> {
        let Some(tip) = self.queue.repo.resolve(self.queue.branch)? else {
            return Err(QueueError::NoBranch(self.queue.branch.to_owned()));
        };
        match self.next_stack(tip, round)? {
            Some(stack) => self.prove(stack, round),
            // The branch is where it is until it is known who is to blame, or somebody comes.
            None if !self.crew.is_idle() => {
                self.crew.cancel_trees(|_| true);
                self.mark(None)?;
                if let Some((task, validation)) = self.crew.wait(LOOK_INTERVAL)? {
                    self.note(&task, validation, round)?;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Puts the entries of the next round on top of the branch.
    fn next_stack(&mut self, tip: Oid, round: &mut Round) -> Result<Option<Stack>, QueueError> {
        let open = self.ready()?;
        let planned: Vec<Entry> = std::mem::take(&mut self.plan)
            .into_iter()
            .filter_map(|id| open.iter().find(|entry| entry.id == id).cloned())
            .collect();
        if !planned.is_empty() {
            let most = planned.len();
            let layers = self.queue.stack(self.store, &tip, (planned, most), round)?;
            if !layers.is_empty() {
                return self.stack_of(tip, layers, false).map(Some);
            }
        }
        self.below.clear();
        let (alone, together): (Vec<Entry>, Vec<Entry>) = open.into_iter().partition(is_tried_alone);
        let most = self.queue.size(self.store)?;
        let layers = self.queue.stack(self.store, &tip, (together, most), round)?;
        if !layers.is_empty() {
            return self.stack_of(tip, layers, false).map(Some);
        }
        // They are tried when nothing else is to do, so that they hold nobody up.
        if round.has_progress() || !self.crew.is_idle() {
            return Ok(None);
        }
        for entry in alone {
            if !self.tried.insert(entry.id) {
                continue;
            }
            let layers = self.queue.stack(self.store, &tip, (vec![entry], 1), round)?;
            if !layers.is_empty() && !self.queue.hold_ahead(self.store, &tip, &layers, round)? {
                return self.stack_of(tip, layers, true).map(Some);
            }
        }
        Ok(None)
    }

    /// Entries that could take part, in order.
    fn ready(&mut self) -> Result<Vec<Entry>, QueueError> {
        let mut open = self.queue.open(self.store)?;
        open.retain(|entry| {
            entry.is_ready && self.suspects.iter().all(|suspect| suspect.layer.entry.id != entry.id)
        });
        Ok(open)
    }

    fn stack_of(&self, tip: Oid, layers: Vec<Layer>, is_alone: bool) -> Result<Stack, QueueError> {
        let repo = self.queue.repo;
        let mut trees = vec![repo.commit(&tip)?.tree];
        for layer in &layers {
            trees.push(repo.commit(&layer.commit)?.tree);
        }
        let is_branch_green = earlier_pass(repo, self.queue.requirements, &trees[0])?.is_some();
        let mut search = Search::new(layers.len(), is_branch_green);
        for (prefix, _) in (0..).zip(&trees).skip(1).filter(|(_, tree)| self.red.contains_key(tree)) {
            search.learn(prefix, false);
        }
        Ok(Stack { tip, trees, layers, search, refused: BTreeSet::new(), is_alone })
    }

    /// Validates until something can land, or somebody is to blame.
    fn prove(&mut self, mut stack: Stack, round: &mut Round) -> Result<(), QueueError> {
        // What cannot land now is not worth a validation.
        if !stack.is_alone && self.queue.hold_ahead(self.store, &stack.tip, &stack.layers, round)? {
            return Ok(());
        }
        if self.queue.requirements.is_empty() {
            let all = stack.layers.len();
            return self.land_proven(&stack, all, round);
        }
        loop {
            match stack.search.known() {
                Known::Open => {}
                Known::Green(count) => return self.land_proven(&stack, count, round),
                Known::FirstRed => {
                    return self.suspect(stack.layers.swap_remove(0), stack.trees.swap_remove(1));
                }
                Known::BranchRed => return self.mend(&stack.tip, &stack.trees[0], &stack.layers, round),
            }
            self.crew.cancel_trees(|tree| !stack.is_wanted(tree));
            self.start_next(&mut stack)?;
            self.mark(Some(&stack))?;
            if let Some((task, validation)) = self.crew.wait(LOOK_INTERVAL)? {
                let is_green = validation.has_passed();
                self.note(&task, validation, round)?;
                if let Task::Tree(tree) = &task {
                    let prefixes: Vec<usize> = stack.prefixes_of(tree).collect();
                    prefixes.into_iter().for_each(|prefix| stack.search.learn(prefix, is_green));
                }
            }
        }
    }

    /// Begins as many validations as there is room for.
    fn start_next(&mut self, stack: &mut Stack) -> Result<(), QueueError> {
        while self.crew.has_room() {
            if !stack.is_alone && stack.search.takes_newcomers() && !self.crew.is_idle() {
                self.take_newcomers(stack)?;
            }
            let Some(prefix) = stack.search.next(&stack.under_way(&self.crew)) else { return Ok(()) };
            let commit = prefix.checked_sub(1).map_or(&stack.tip, |below| &stack.layers[below].commit);
            self.crew.start(Task::Tree(stack.trees[prefix].clone()), commit)?;
        }
        Ok(())
    }

    /// Puts entries that have come since on top of the stack, unless those that came before have no validation yet.
    fn take_newcomers(&mut self, stack: &mut Stack) -> Result<(), QueueError> {
        let is_awaited = |tree: &Oid| !self.crew.has(&Task::Tree(tree.clone()));
        if stack.trees.last().is_some_and(is_awaited) {
            return Ok(());
        }
        let known: BTreeSet<EntryId> = stack.layers.iter().map(|layer| layer.entry.id).collect();
        let mut newcomers = self.ready()?;
        newcomers.retain(|entry| {
            !known.contains(&entry.id) && !stack.refused.contains(&entry.id) && !is_tried_alone(entry)
        });
        newcomers.truncate(self.queue.size(self.store)?);
        let newcomers = self.queue.lock_files_last(newcomers)?;
        let mut top = stack.layers.last().map_or(&stack.tip, |layer| &layer.commit).clone();
        let mut on_top = Vec::new();
        for entry in newcomers {
            match self.put_newcomer_on(&top, &entry)? {
                Some(commit) => {
                    top = commit.clone();
                    on_top.push(Layer { entry, commit });
                }
                // The next round finds out what that means.
                None => _ = stack.refused.insert(entry.id),
            }
        }
        if on_top.is_empty() {
            return Ok(());
        }
        let entries = stack.layers.iter().chain(&on_top).map(|layer| &layer.entry);
        let spared = self.queue.spared(self.store, &entries.collect::<Vec<_>>())?;
        if self.queue.is_in_the_way((&stack.tip, &top), &spared)? {
            stack.refused.extend(on_top.iter().map(|layer| layer.entry.id));
            return Ok(());
        }
        for layer in on_top {
            stack.trees.push(self.queue.repo.commit(&layer.commit)?.tree);
            stack.layers.push(layer);
            stack.search.add(1);
        }
        Ok(())
    }

    /// The commit of a newcomer on top of the stack, if it can be put there now.
    fn put_newcomer_on(&mut self, top: &Oid, entry: &Entry) -> Result<Option<Oid>, QueueError> {
        match self.queue.held_paths(self.store, entry) {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(None),
            Err(QueueError::Git(error)) if error.is_about_object() => return Ok(None),
            Err(error) => return Err(error),
        }
        match self.queue.put_on(top, entry) {
            Ok(Stacked::Commit(commit)) => Ok(Some(commit)),
            Ok(Stacked::Nothing | Stacked::Conflict(_)) => Ok(None),
            Err(QueueError::Land(LandError::Git(error))) if error.is_about_object() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has the store say which entries are being validated: those count if this process is killed.
    fn mark(&mut self, stack: Option<&Stack>) -> Result<(), QueueError> {
        let mut about: BTreeSet<EntryId> =
            self.suspects.iter().map(|suspect| suspect.layer.entry.id).collect();
        if let Some(stack) = stack {
            let highest = stack.under_way(&self.crew).into_iter().max().unwrap_or(0);
            about.extend(stack.layers.iter().take(highest).map(|layer| layer.entry.id));
        }
        for id in self.validating.difference(&about) {
            self.queue.advance_if(self.store, *id, EntryState::Validating, EntryState::Waiting)?;
        }
        for id in about.difference(&self.validating) {
            self.queue.advance_if(self.store, *id, EntryState::Waiting, EntryState::Validating)?;
        }
        self.validating = about;
        Ok(())
    }

    /// Remembers what a validation has said.
    fn note(&mut self, task: &Task, validation: Validation, round: &mut Round) -> Result<(), QueueError> {
        match task {
            Task::Tree(tree) if !validation.has_passed() => {
                self.red.insert(tree.clone(), validation);
                Ok(())
            }
            Task::Tree(_) => Ok(()),
            Task::Again(tree) => self.convict(tree, validation, round),
            Task::Audit(_) => self.conclude_audit(&validation, round),
        }
    }

    /// The answer about one commit, whatever else is under way.
    pub(super) fn ask(&mut self, commit: &Oid, round: &mut Round) -> Result<Validation, QueueError> {
        let task = Task::Tree(self.queue.repo.commit(commit)?.tree);
        self.crew.start(task.clone(), commit)?;
        loop {
            match self.crew.wait(LOOK_INTERVAL)? {
                Some((done, validation)) if done == task => return Ok(validation),
                Some((done, validation)) => self.note(&done, validation, round)?,
                None => {}
            }
        }
    }

    /// Moves the branch to the first `count` entries. The rest is the next round.
    fn land_proven(&mut self, stack: &Stack, count: usize, round: &mut Round) -> Result<(), QueueError> {
        let (green, rest) = stack.layers.split_at(count);
        let open: BTreeSet<EntryId> = self.ready()?.into_iter().map(|entry| entry.id).collect();
        if !green.iter().all(|layer| open.contains(&layer.entry.id)) {
            // Somebody has dropped one of them: the others are another tree.
            round.was_overtaken = true;
            return Ok(());
        }
        for layer in green {
            self.validating.remove(&layer.entry.id);
        }
        if self.queue.land(self.store, &stack.tip, green, round)? {
            self.tried.clear();
            self.plan = rest.iter().map(|layer| layer.entry.id).collect();
            self.below.extend(green.iter().filter_map(|layer| layer.entry.issue.clone()));
            self.audit_if_due(AUDIT_INTERVAL, round)?;
        }
        Ok(())
    }
}

/// What a person is in the way of, and what has killed mala once.
fn is_tried_alone(entry: &Entry) -> bool {
    entry.state == EntryState::Held || entry.kills > 0
}

impl Queue<'_> {
    /// True if something in the checkout would keep it from going along to this commit now.
    fn is_in_the_way(
        &self,
        (tip, top): (&Oid, &Oid),
        spared: &BTreeSet<RepoPath>,
    ) -> Result<bool, QueueError> {
        let directory = self.directory();
        let step = BranchMove { spared, ..self.step(tip, top, "", &directory) };
        Ok(!landing::look_ahead(self.repo, &step)?.is_empty())
    }
}
