//! Asks against a model: random lives of three agents that hold, ask, answer, take, die and come back.
//!
//! The model is a list of locks and a list of asks with the rules said once more. Locks are exclusive, nobody waits in a
//! queue, and whoever dies is noticed at once; all of that has tests of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use mala_core::ask::{MAX_DEFERRAL, MAX_DEFERRALS};
use mala_core::{Ask, AskState, Life, Lock, LockId};
use mala_store::{
    AskError, AskFilter, AskRequest, Authority, Changes, Guard, Outcome, Party, Request, StoreError,
};
use mala_tests::fakes::TestLiveness;
use mala_tests::invariants::{assert_consistent, assert_nobody_excludes_another};
use mala_tests::table::{self, DUE_IN, IDLE, Table};
use mala_tests::{ONLY_THE_DEAD, Terse, agent, party, wants};
use proptest::prelude::*;

const AGENTS: [&str; 3] = ["ann", "bob", "cleo"];
/// Text and, by hand, all that it covers.
const TARGETS: [(&str, &[char]); 3] = [("a", &['a']), ("b", &['b']), ("pattern:[ab]", &['a', 'b'])];
/// How often a sign of life is noted.
const SEEN_EVERY: u64 = 15_000;

#[derive(Debug, Clone)]
enum Step {
    Reserve { agent: usize, target: usize },
    Release { agent: usize, target: usize },
    Ask { agent: usize, target: usize },
    AnswerRelease { agent: usize, ask: usize },
    Defer { agent: usize, ask: usize, millis: u64 },
    Cancel { agent: usize, ask: usize },
    Take { agent: usize, ask: usize, is_stale: bool, is_dirty: bool, is_forced: bool },
    Escalate,
    Pass { millis: u64 },
    Die { agent: usize },
}

fn some_step() -> impl Strategy<Value = Step> {
    let (agent, target, ask) = (|| 0..AGENTS.len(), || 0..TARGETS.len(), || 0..6usize);
    let etas = vec![0, 30_000, 60 * 60_000, 60 * 60_000 + 1];
    let one_in_five = || prop::bool::weighted(0.2);
    prop_oneof![
        5 => (agent(), target()).prop_map(|(agent, target)| Step::Reserve { agent, target }),
        2 => (agent(), target()).prop_map(|(agent, target)| Step::Release { agent, target }),
        6 => (agent(), target()).prop_map(|(agent, target)| Step::Ask { agent, target }),
        3 => (agent(), ask()).prop_map(|(agent, ask)| Step::AnswerRelease { agent, ask }),
        2 => (agent(), ask(), prop::sample::select(etas))
            .prop_map(|(agent, ask, millis)| Step::Defer { agent, ask, millis }),
        1 => (agent(), ask()).prop_map(|(agent, ask)| Step::Cancel { agent, ask }),
        5 => (agent(), ask(), one_in_five(), one_in_five(), one_in_five())
            .prop_map(|(agent, ask, is_stale, is_dirty, is_forced)| Step::Take { agent, ask, is_stale, is_dirty, is_forced }),
        2 => Just(Step::Escalate),
        5 => prop::sample::select(vec![1, 20_000, 60_000, 600_000]).prop_map(|millis| Step::Pass { millis }),
        1 => agent().prop_map(|agent| Step::Die { agent }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    target: usize,
    agent: usize,
    /// Which lock this is, as long as it lives.
    number: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    asker: usize,
    holder: usize,
    target: usize,
    lock: usize,
    state: AskState,
    due: u64,
    deferrals: u32,
    is_escalated: bool,
}

#[derive(Debug, Default)]
struct Model {
    now: u64,
    locks: Vec<Held>,
    asks: Vec<Asked>,
    /// When each living agent was last noted, and when it last left any other trace.
    seen: BTreeMap<usize, u64>,
    signs: BTreeMap<usize, u64>,
    last_lock: usize,
}

fn overlap(one: usize, other: usize) -> bool {
    TARGETS[one].1.iter().any(|name| TARGETS[other].1.contains(name))
}

impl Model {
    fn enroll(&mut self, agent: usize) {
        let now = self.now;
        let seen = self.seen.entry(agent).or_insert_with(|| {
            // Somebody new writes an event about itself.
            self.signs.insert(agent, now);
            now
        });
        if now - *seen >= SEEN_EVERY {
            *seen = now;
        }
    }

    fn sign(&mut self, agent: usize) {
        self.signs.insert(agent, self.now);
    }

    fn idle(&self, agent: usize) -> u64 {
        let last = self.signs.get(&agent).max(self.seen.get(&agent)).copied().unwrap_or(0);
        self.now - last
    }

    fn in_the_way(&self, agent: usize, target: usize) -> Vec<Held> {
        let is_in_the_way = |lock: &&Held| lock.agent != agent && overlap(lock.target, target);
        self.locks.iter().filter(is_in_the_way).copied().collect()
    }

    fn holds(&self, agent: usize, target: usize) -> bool {
        self.locks.iter().any(|lock| (lock.agent, lock.target) == (agent, target))
    }

    fn reserve(&mut self, agent: usize, target: usize) -> bool {
        self.enroll(agent);
        if !self.in_the_way(agent, target).is_empty() {
            self.sign(agent);
            return false;
        }
        if !self.holds(agent, target) {
            self.insert(agent, target);
        }
        true
    }

    fn insert(&mut self, agent: usize, target: usize) {
        self.last_lock += 1;
        self.locks.push(Held { target, agent, number: self.last_lock });
        self.sign(agent);
    }

    fn release(&mut self, agent: usize, target: usize) {
        if let Some(lock) = self.locks.iter().position(|lock| (lock.agent, lock.target) == (agent, target)) {
            let lock = self.locks.remove(lock);
            self.sign(agent);
            self.settle(lock.number);
        }
    }

    /// Asks about a lock that is gone or has moved.
    fn settle(&mut self, lock: usize) {
        for place in 0..self.asks.len() {
            let ask = self.asks[place].clone();
            if ask.lock == lock && ask.state.is_pending() {
                let got_it = self.holds(ask.asker, ask.target);
                self.asks[place].state = if got_it { AskState::Released } else { AskState::Moot };
            }
        }
    }

    fn ask(&mut self, agent: usize, target: usize) -> Result<(), &'static str> {
        let in_the_way = self.in_the_way(agent, target);
        if in_the_way.is_empty() {
            return Err(if self.holds(agent, target) { "Yours" } else { "Free" });
        }
        self.enroll(agent);
        for lock in in_the_way {
            let is_same =
                |ask: &Asked| ask.lock == lock.number && ask.asker == agent && ask.state.is_pending();
            if !self.asks.iter().any(is_same) {
                self.asks.push(Asked {
                    asker: agent,
                    holder: lock.agent,
                    target,
                    lock: lock.number,
                    state: AskState::Open,
                    due: self.now + millis(DUE_IN),
                    deferrals: 0,
                    is_escalated: false,
                });
            }
        }
        Ok(())
    }

    fn pending(&self, ask: usize) -> Result<Asked, &'static str> {
        let ask = self.asks[ask].clone();
        if ask.state.is_pending() { Ok(ask) } else { Err("Over") }
    }

    fn answerable(&self, agent: usize, ask: usize) -> Result<Asked, &'static str> {
        let ask = self.pending(ask)?;
        if ask.holder == agent { Ok(ask) } else { Err("NotHolder") }
    }

    fn answer_release(&mut self, agent: usize, place: usize) -> Result<(), &'static str> {
        let ask = self.answerable(agent, place)?;
        if !self.seen.contains_key(&ask.asker) {
            self.asks[place].state = AskState::Moot;
            return Ok(());
        }
        self.asks[place].state = AskState::Released;
        self.hand(&ask);
        Ok(())
    }

    fn hand(&mut self, ask: &Asked) {
        let others = self.in_the_way(ask.asker, ask.target);
        let is_alone = others.iter().all(|lock| lock.number == ask.lock);
        let place =
            self.locks.iter().position(|lock| lock.number == ask.lock).expect("pending asks have a lock");
        self.sign(ask.holder);
        if is_alone && self.locks[place].target == ask.target {
            self.locks[place].agent = ask.asker;
            self.sign(ask.asker);
        } else {
            self.locks.remove(place);
            if is_alone && !self.holds(ask.asker, ask.target) {
                self.insert(ask.asker, ask.target);
            }
        }
        self.settle(ask.lock);
    }

    fn defer(&mut self, agent: usize, place: usize, eta: u64) -> Result<(), &'static str> {
        let ask = self.answerable(agent, place)?;
        if ask.deferrals >= MAX_DEFERRALS {
            return Err("DeferredAlready");
        }
        if eta > millis(MAX_DEFERRAL) {
            return Err("DeferredTooLong");
        }
        let due = self.now + eta;
        self.asks[place] = Asked { state: AskState::Deferred, deferrals: 1, due, is_escalated: false, ..ask };
        Ok(())
    }

    fn cancel(&mut self, agent: usize, place: usize) -> Result<(), &'static str> {
        if self.pending(place)?.asker != agent {
            return Err("NotAsker");
        }
        self.asks[place].state = AskState::Cancelled;
        Ok(())
    }

    fn take(
        &mut self,
        agent: usize,
        place: usize,
        guard: &Guard,
        is_stale: bool,
    ) -> Result<(), &'static str> {
        let ask = self.pending(place)?;
        let is_forced = guard.authority == Authority::Force;
        if ask.asker != agent && !is_forced {
            return Err("NotAsker");
        }
        if !self.seen.contains_key(&ask.asker) {
            return Err("AgentGone");
        }
        if is_stale {
            return Err("Changed");
        }
        if !is_forced && ask.due > self.now {
            return Err("NotDue");
        }
        if !is_forced && self.idle(ask.holder) < millis(IDLE) {
            return Err("HolderActive");
        }
        if !is_forced && guard.changes == Changes::Uncommitted {
            return Err("Uncommitted");
        }
        self.asks[place].state = AskState::Taken;
        self.hand(&ask);
        Ok(())
    }

    fn escalate(&mut self) -> usize {
        let (now, seen, mut told) = (self.now, &self.seen, 0);
        let is_due = |ask: &&mut Asked| ask.state.is_pending() && ask.due <= now && !ask.is_escalated;
        for ask in self.asks.iter_mut().filter(is_due) {
            if seen.contains_key(&ask.asker) {
                ask.is_escalated = true;
                told += 1;
            } else {
                ask.state = AskState::Moot;
            }
        }
        told
    }

    fn die(&mut self, agent: usize) {
        self.seen.remove(&agent);
        while let Some(lock) = self.locks.iter().position(|lock| lock.agent == agent) {
            let lock = self.locks.remove(lock);
            self.sign(agent);
            self.settle(lock.number);
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap()
}

/// Both sides of the comparison.
struct Pair {
    table: Table,
    model: Model,
    pids: [u32; 3],
    /// The store's asks, in the order of the model's.
    asks: Vec<Ask>,
    /// What the store calls the model's locks.
    locks: BTreeMap<usize, LockId>,
}

impl Pair {
    fn new() -> Self {
        Self {
            table: Table::new(),
            model: Model::default(),
            pids: [1, 2, 3],
            asks: Vec::new(),
            locks: BTreeMap::new(),
        }
    }

    fn party(&self, number: usize) -> Party {
        Party { owner: TestLiveness::owner(self.pids[number]), ..party(AGENTS[number]) }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Reserve { agent, target } => {
                let wants = wants(&[TARGETS[target].0]);
                let request = Request { party: self.party(agent), wants, ..table::request("x", &[]) };
                let outcome = self.table.store.reserve(&request).unwrap();
                assert_eq!(matches!(outcome, Outcome::Granted(_)), self.model.reserve(agent, target));
            }
            Step::Release { agent, target } if self.model.holds(agent, target) => {
                self.table.store.give_back(AGENTS[agent], &[TARGETS[target].0]);
                self.model.release(agent, target);
            }
            Step::Ask { agent, target } => {
                let request =
                    AskRequest { party: self.party(agent), ..table::ask_request("x", TARGETS[target].0) };
                let asked = self.table.store.ask(&request);
                let known = self.asks.len();
                assert_eq!(word(&asked), self.model.ask(agent, target));
                let asked = asked.unwrap_or_default().into_iter();
                self.asks.extend(
                    asked.filter(|ask| self.asks.iter().all(|known| known.id != ask.id)).collect::<Vec<_>>(),
                );
                self.sort_new(known);
            }
            Step::Pass { millis } => {
                self.table.pass(Duration::from_millis(millis));
                self.model.now += millis;
            }
            Step::Die { agent } => {
                self.table.liveness.set(self.pids[agent], Life::Dead);
                self.pids[agent] += 10;
                self.table.store.sweep(ONLY_THE_DEAD).unwrap();
                self.model.die(agent);
            }
            Step::Escalate => {
                assert_eq!(self.table.store.escalate_due().unwrap().len(), self.model.escalate());
            }
            _ => self.answer(step),
        }
    }

    /// Puts new asks in the model's order, which is that of the locks they are about.
    fn sort_new(&mut self, known: usize) {
        let (model, locks) = (&self.model.asks[known..], &self.locks);
        let place = |ask: &Ask| model.iter().position(|asked| locks[&asked.lock] == ask.lock);
        self.asks[known..].sort_by_key(place);
    }

    fn answer(&mut self, step: &Step) {
        let store = &mut self.table.store;
        let id = |place: usize| self.asks.get(place).map(|ask| ask.id.clone());
        let (result, expected) = match *step {
            Step::AnswerRelease { agent: by, ask } => {
                let Some(id) = id(ask) else { return };
                let result = store.answer_release(&agent(AGENTS[by]), &id).map(drop);
                (result, self.model.answer_release(by, ask))
            }
            Step::Defer { agent: by, ask, millis } => {
                let Some(id) = id(ask) else { return };
                let result =
                    store.answer_defer(&agent(AGENTS[by]), &id, Duration::from_millis(millis)).map(drop);
                (result, self.model.defer(by, ask, millis))
            }
            Step::Cancel { agent: by, ask } => {
                let Some(id) = id(ask) else { return };
                (store.cancel_ask(&agent(AGENTS[by]), &id).map(drop), self.model.cancel(by, ask))
            }
            Step::Take { agent: by, ask, is_stale, is_dirty, is_forced } => {
                let Some(id) = id(ask) else { return };
                let guard = table::guard(&self.asks[ask]);
                let guard = if is_stale { table::stale(guard) } else { guard };
                let guard = Guard {
                    changes: if is_dirty { Changes::Uncommitted } else { Changes::None },
                    authority: if is_forced { Authority::Force } else { Authority::Rules },
                    ..guard
                };
                let result = store.take_asked(&agent(AGENTS[by]), &id, &guard).map(drop);
                (result, self.model.take(by, ask, &guard, is_stale))
            }
            _ => return,
        };
        assert_eq!(word(&result), expected, "{step:?}");
    }

    fn compare(&mut self) {
        let stored = self.table.store.locks().unwrap();
        assert_eq!(stored.len(), self.model.locks.len(), "{stored:?}");
        for held in &self.model.locks {
            let target = &wants(&[TARGETS[held.target].0])[0].target;
            let is_it = |lock: &&Lock| lock.agent.as_str() == AGENTS[held.agent] && lock.target == *target;
            let lock = stored.iter().find(is_it).unwrap_or_else(|| panic!("not stored: {held:?}"));
            assert_eq!(*self.locks.entry(held.number).or_insert_with(|| lock.id.clone()), lock.id);
        }
        assert_nobody_excludes_another(&mut self.table.store);
        let all = AskFilter { ended: true, ..AskFilter::default() };
        let stored = self.table.store.asks(&all).unwrap();
        let start = mala_core::ports::Clock::now(&mala_tests::fakes::TestClock::default());
        for (known, model) in self.asks.iter().zip(&self.model.asks) {
            let ask = stored.iter().find(|ask| ask.id == known.id).unwrap();
            let stored = Asked {
                asker: number(ask.asker.as_str()),
                holder: number(ask.holder.as_str()),
                state: ask.state,
                due: millis(ask.due_at.since(start)),
                deferrals: ask.deferrals,
                is_escalated: ask.escalated_at.is_some(),
                ..model.clone()
            };
            assert_eq!(stored, *model);
            assert_eq!(ask.want, wants(&[TARGETS[model.target].0])[0]);
        }
        assert_eq!((stored.len(), self.asks.len()), (self.model.asks.len(), self.model.asks.len()));
    }
}

fn number(name: &str) -> usize {
    AGENTS.iter().position(|agent| *agent == name).unwrap()
}

fn word<T>(result: &Result<T, StoreError>) -> Result<(), &'static str> {
    match result {
        Ok(_) => Ok(()),
        Err(StoreError::AgentGone { .. }) => Err("AgentGone"),
        Err(StoreError::Ask(error)) => Err(match error {
            AskError::Free { .. } => "Free",
            AskError::Yours { .. } => "Yours",
            AskError::Over { .. } => "Over",
            AskError::NotHolder { .. } => "NotHolder",
            AskError::NotAsker { .. } => "NotAsker",
            AskError::DeferredAlready { .. } => "DeferredAlready",
            AskError::DeferredTooLong => "DeferredTooLong",
            AskError::Changed { .. } => "Changed",
            AskError::NotDue { .. } => "NotDue",
            AskError::HolderActive { .. } => "HolderActive",
            AskError::Uncommitted { .. } => "Uncommitted",
            other => panic!("{other:?}"),
        }),
        Err(other) => panic!("the store failed: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn asks_do_what_the_model_does(steps in prop::collection::vec(some_step(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step);
            pair.compare();
        }
        assert_consistent(&pair.table.world);
    }
}
