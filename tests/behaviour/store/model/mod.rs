//! The store against a model: random lives of a few agents, step by step, with the same outcome on both sides.
//!
//! The model ([`plain`]) knows nothing of tables, keys or patterns. It is a list of held locks and the rules of mala
//! said once more, as plainly as possible; what targets cover is written out by hand.

mod plain;

use std::collections::BTreeSet;
use std::time::Duration;

use mala_core::{Fence, Lock, Mode, Want};
use mala_store::{Outcome, Party, Released, Renewed, Request, Store, StoreError, Which};
use mala_tests::fakes::{TestClock, TestLiveness};
use mala_tests::invariants::{assert_consistent, assert_nobody_excludes_another};
use mala_tests::{ONLY_THE_DEAD, World, agent, ask};
use proptest::prelude::*;

use plain::{AGENTS, Answer, Held, Model, TARGETS, Wanted};

#[derive(Debug, Clone)]
enum Step {
    Reserve {
        agent: usize,
        wants: Vec<Wanted>,
        ttl: u64,
    },
    Check {
        agent: usize,
        wants: Vec<Wanted>,
    },
    /// No targets: all of the agent's locks.
    Release {
        agent: usize,
        targets: Vec<usize>,
    },
    Renew {
        agent: usize,
        targets: Vec<usize>,
        ttl: Option<u64>,
    },
    Transfer {
        from: usize,
        to: usize,
        targets: Vec<usize>,
    },
    Pass {
        millis: u64,
    },
    Die {
        agent: usize,
    },
    Sweep,
}

fn some_wants() -> impl Strategy<Value = Vec<Wanted>> {
    let wanted =
        (0..TARGETS.len(), any::<bool>()).prop_map(|(target, exclusive)| Wanted { target, exclusive });
    prop::collection::vec(wanted, 1..=3)
}

fn some_targets() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..TARGETS.len(), 0..=2)
}

fn some_step() -> impl Strategy<Value = Step> {
    let agent = || 0..AGENTS.len();
    let ttl = || prop::sample::select(vec![1, 10, 50, 1_000]);
    prop_oneof![
        8 => (agent(), some_wants(), ttl()).prop_map(|(agent, wants, ttl)| Step::Reserve { agent, wants, ttl }),
        2 => (agent(), some_wants()).prop_map(|(agent, wants)| Step::Check { agent, wants }),
        2 => (agent(), some_targets()).prop_map(|(agent, targets)| Step::Release { agent, targets }),
        1 => (agent(), some_targets(), prop::option::of(ttl()))
            .prop_map(|(agent, targets, ttl)| Step::Renew { agent, targets, ttl }),
        3 => (agent(), agent(), some_targets()).prop_map(|(from, to, targets)| Step::Transfer { from, to, targets }),
        2 => prop::sample::select(vec![1, 9, 40, 900]).prop_map(|millis| Step::Pass { millis }),
        1 => agent().prop_map(|agent| Step::Die { agent }),
        1 => Just(Step::Sweep),
    ]
}

/// Both sides of the comparison.
struct Pair {
    world: World,
    store: Store,
    clock: TestClock,
    liveness: TestLiveness,
    model: Model,
    highest: Fence,
    known: Vec<Lock>,
}

impl Pair {
    fn new() -> Self {
        let (world, clock, liveness) = (World::in_memory(), TestClock::default(), TestLiveness::default());
        let store = world.store().with_clock(clock.clone()).with_liveness(liveness.clone());
        Self { world, store, clock, liveness, model: Model::default(), highest: Fence(0), known: Vec::new() }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Reserve { agent, wants, ttl } => {
                let request = Request {
                    party: self.party(*agent),
                    wants: store_wants(wants),
                    ttl: millis(*ttl),
                    ..ask("x", &[])
                };
                let answer = match self.store.reserve(&request).unwrap() {
                    Outcome::Granted(locks) => Answer::Granted(slots(&locks)),
                    Outcome::Refused(refusal) => {
                        Answer::Conflicts(refusal.conflicts.iter().map(|c| held_by(&c.holder)).collect())
                    }
                };
                assert_eq!(answer, self.model.reserve(*agent, wants, *ttl));
            }
            Step::Check { agent, wants } => {
                let conflicts = self.store.check(&name(*agent), &store_wants(wants)).unwrap();
                let conflicts: BTreeSet<_> = conflicts.iter().map(|c| held_by(&c.holder)).collect();
                assert_eq!(conflicts, self.model.conflicts(*agent, wants));
            }
            Step::Release { agent, targets } => {
                let released = self.store.release(&name(*agent), &which(targets));
                assert_eq!(self.released_answer(released), self.model.release(*agent, targets));
            }
            Step::Renew { agent, targets, ttl } => {
                let renewed = self.store.renew(&name(*agent), &which(targets), ttl.map(millis));
                assert_eq!(renewed_answer(renewed), self.model.renew(*agent, targets, *ttl));
            }
            Step::Transfer { from, to, targets } => {
                let moved = self.store.transfer(&name(*from), &name(*to), &which(targets));
                assert_eq!(renewed_answer(moved), self.model.transfer(*from, *to, targets));
            }
            Step::Pass { millis: span } => {
                self.clock.advance(millis(*span));
                self.model.pass(*span);
            }
            Step::Die { agent } => {
                if let Some(pid) = self.model.die(*agent) {
                    self.liveness.set(pid, mala_core::Life::Dead);
                }
            }
            Step::Sweep => {
                self.store.sweep(ONLY_THE_DEAD).unwrap();
                self.model.sweep();
                assert_eq!(self.world.count("lock"), i64::try_from(self.model.locks.len()).unwrap());
            }
        }
    }

    /// Who the agent is at this moment; a dead one comes back as a new process.
    fn party(&mut self, number: usize) -> Party {
        let pid = self.model.process(number);
        if AGENTS[number].is_abroad {
            self.liveness.set(pid, mala_core::Life::Unknown);
        }
        let (owner, supervised) = (TestLiveness::owner(pid), AGENTS[number].supervised);
        Party { agent: name(number), owner, supervised, issue: None, run: None }
    }

    /// A release also tidies up what the agent has long lost; only what it held counts.
    fn released_answer(&self, released: Result<Released, StoreError>) -> Answer {
        match released {
            Ok(Released::Done(mut locks)) => {
                locks.retain(|lock| self.known.iter().any(|known| known.id == lock.id));
                Answer::Granted(slots(&locks))
            }
            Ok(Released::NotYours(foreign)) => {
                Answer::Conflicts(foreign.iter().map(|c| held_by(&c.holder)).collect())
            }
            Err(error) => error_answer(&error),
        }
    }

    /// What must be true after every step.
    fn compare(&mut self) {
        let locks = self.store.locks().unwrap();
        let start = TestClock::default();
        let since_start =
            |lock: &Lock| lock.lease.expires_at.since(mala_core::ports::Clock::now(&start)).as_millis();
        let mut stored: Vec<Held> = locks
            .iter()
            .map(|lock| Held {
                slot: slot(lock),
                agent: number(lock),
                exclusive: lock.mode == Mode::Exclusive,
                pid: lock.owner.pid,
                supervised: lock.supervised,
                ttl: u64::try_from(lock.lease.ttl.as_millis()).unwrap(),
                expires: u64::try_from(since_start(lock)).unwrap(),
            })
            .collect();
        stored.sort();
        self.model.locks.sort();
        assert_eq!(stored, self.model.locks);
        assert_nobody_excludes_another(&mut self.store);
        self.compare_fences(locks);
    }

    /// A lock that is new, stronger or somebody else's has a fence that was never there before.
    fn compare_fences(&mut self, locks: Vec<Lock>) {
        for lock in &locks {
            let before = self.known.iter().find(|known| known.id == lock.id);
            let is_the_same =
                before.is_some_and(|known| (known.mode, &known.agent) == (lock.mode, &lock.agent));
            match before {
                Some(known) if is_the_same && known.fence == lock.fence => {}
                _ => assert!(lock.fence > self.highest, "{lock:?}"),
            }
        }
        self.highest = locks.iter().map(|lock| lock.fence).max().unwrap_or(self.highest).max(self.highest);
        self.known = locks;
    }
}

fn name(number: usize) -> mala_core::AgentId {
    agent(AGENTS[number].name)
}

fn number(lock: &Lock) -> usize {
    AGENTS.iter().position(|agent| agent.name == lock.agent.as_str()).unwrap()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn store_want(target: usize) -> Want {
    let target = &TARGETS[target];
    Want { aliases: target.aliases.iter().map(ask::key).collect(), ..ask::want(target.text) }
}

fn store_wants(wants: &[Wanted]) -> Vec<Want> {
    let mode = |wanted: &Wanted| if wanted.exclusive { Mode::Exclusive } else { Mode::Shared };
    wants.iter().map(|wanted| Want { mode: mode(wanted), ..store_want(wanted.target) }).collect()
}

fn which(targets: &[usize]) -> Which {
    if targets.is_empty() {
        return Which::All;
    }
    Which::These(targets.iter().map(|target| store_want(*target)).collect())
}

fn slot(lock: &Lock) -> usize {
    TARGETS.iter().find(|target| ask::want(target.text).target == lock.target).unwrap().slot
}

fn slots(locks: &[Lock]) -> BTreeSet<usize> {
    locks.iter().map(slot).collect()
}

fn held_by(lock: &Lock) -> (usize, usize) {
    (slot(lock), number(lock))
}

fn renewed_answer(renewed: Result<Renewed, StoreError>) -> Answer {
    match renewed {
        Ok(Renewed::Done(locks)) => Answer::Granted(slots(&locks)),
        Ok(Renewed::NotHeld(_)) => Answer::NotHeld,
        Err(error) => error_answer(&error),
    }
}

fn error_answer(error: &StoreError) -> Answer {
    match error {
        StoreError::UnknownAgent { .. } => Answer::Unknown,
        StoreError::AgentGone { .. } => Answer::Gone,
        StoreError::StillHeld { .. } => Answer::StillHeld,
        other => panic!("the store failed: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in prop::collection::vec(some_step(), 1..50)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step);
            pair.compare();
        }
        assert_consistent(&pair.world);
    }
}
