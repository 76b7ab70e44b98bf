//! The rules of mala, said once more and as plainly as possible.

use std::collections::{BTreeMap, BTreeSet};

/// Something that can be locked, and by hand all that it covers of a small world.
pub(super) struct Target {
    pub(super) text: &'static str,
    /// Other names of the same file.
    pub(super) aliases: &'static [&'static str],
    /// Two names of one file have one slot: nobody holds both.
    pub(super) slot: usize,
    covers: &'static [&'static str],
}

const fn target(
    text: &'static str,
    aliases: &'static [&'static str],
    slot: usize,
    covers: &'static [&'static str],
) -> Target {
    Target { text, aliases, slot, covers }
}

pub(super) const TARGETS: &[Target] = &[
    target("a", &[], 0, &["a"]),
    target("b", &[], 1, &["b"]),
    target("d/x", &[], 2, &["d/x"]),
    target("h", &["d/link"], 3, &["h", "d/link"]),
    target("d/link", &["h"], 3, &["h", "d/link"]),
    target("pattern:d/*", &[], 4, &["d/x", "d/link", "d/other"]),
    target("pattern:**/x", &[], 5, &["x", "d/x", "d/e/x"]),
    target("pattern:[ab]", &[], 6, &["a", "b"]),
    target("pattern:d/x", &[], 7, &["d/x"]),
    target("name:test", &[], 8, &["the name test"]),
    target("name:a", &[], 9, &["the name a"]),
];

pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) supervised: bool,
    pub(super) is_abroad: bool,
}

pub(super) const AGENTS: &[Agent] = &[
    Agent { name: "ann", supervised: false, is_abroad: false },
    Agent { name: "bob", supervised: true, is_abroad: false },
    Agent { name: "cleo", supervised: true, is_abroad: true },
];

#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) target: usize,
    pub(super) exclusive: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    pub(super) slot: usize,
    pub(super) agent: usize,
    pub(super) exclusive: bool,
    pub(super) pid: u32,
    pub(super) supervised: bool,
    pub(super) ttl: u64,
    pub(super) expires: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These slots.
    Granted(BTreeSet<usize>),
    /// Slot and agent of everything in the way.
    Conflicts(BTreeSet<(usize, usize)>),
    NotHeld,
    StillHeld,
    Unknown,
    Gone,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    now: u64,
    /// Only what is really held.
    pub(super) locks: Vec<Held>,
    /// The process of every agent that was ever there, and whether it lives.
    processes: BTreeMap<usize, (u32, bool)>,
    last_pid: u32,
}

fn covers(slot: usize) -> BTreeSet<&'static str> {
    TARGETS.iter().filter(|target| target.slot == slot).flat_map(|target| target.covers).copied().collect()
}

fn overlap(one: usize, other: usize) -> bool {
    !covers(one).is_disjoint(&covers(other))
}

fn is_name(slot: usize) -> bool {
    TARGETS.iter().any(|target| target.slot == slot && target.text.starts_with("name:"))
}

impl Model {
    /// The agent's process; a new one if the last has died.
    pub(super) fn process(&mut self, agent: usize) -> u32 {
        if !self.lives(agent) {
            self.last_pid += 1;
            self.processes.insert(agent, (self.last_pid, true));
        }
        self.processes[&agent].0
    }

    fn lives(&self, agent: usize) -> bool {
        self.processes.get(&agent).is_some_and(|(_, lives)| *lives)
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now += millis;
        let now = self.now;
        self.locks.retain(|lock| now < lock.expires || (lock.supervised && !AGENTS[lock.agent].is_abroad));
    }

    /// The pid that has died. Of an agent abroad, nobody knows.
    pub(super) fn die(&mut self, agent: usize) -> Option<u32> {
        if AGENTS[agent].is_abroad || !self.lives(agent) {
            return None;
        }
        let (pid, lives) = self.processes.get_mut(&agent)?;
        *lives = false;
        self.locks.retain(|lock| lock.pid != *pid);
        Some(*pid)
    }

    pub(super) fn sweep(&mut self) {
        for lock in &mut self.locks {
            if lock.expires <= self.now {
                lock.expires = self.now + lock.ttl;
            }
        }
    }

    pub(super) fn conflicts(&self, agent: usize, wants: &[Wanted]) -> BTreeSet<(usize, usize)> {
        let is_in_the_way = |lock: &Held, wanted: &Wanted| {
            let slot = TARGETS[wanted.target].slot;
            let are_two = lock.agent != agent || is_name(slot);
            are_two && (lock.exclusive || wanted.exclusive) && overlap(lock.slot, slot)
        };
        let in_the_way =
            self.locks.iter().filter(|lock| wants.iter().any(|wanted| is_in_the_way(lock, wanted)));
        in_the_way.map(|lock| (lock.slot, lock.agent)).collect()
    }

    pub(super) fn reserve(&mut self, agent: usize, wants: &[Wanted], ttl: u64) -> Answer {
        let conflicts = self.conflicts(agent, wants);
        if !conflicts.is_empty() {
            return Answer::Conflicts(conflicts);
        }
        let expires = self.now + ttl;
        for wanted in wants {
            let slot = TARGETS[wanted.target].slot;
            match self.own(agent, slot) {
                Some(lock) => {
                    lock.exclusive |= wanted.exclusive;
                    lock.ttl = lock.ttl.max(ttl);
                    lock.expires = lock.expires.max(expires);
                }
                None => self.locks.push(Held {
                    slot,
                    agent,
                    exclusive: wanted.exclusive,
                    pid: self.processes[&agent].0,
                    supervised: AGENTS[agent].supervised,
                    ttl,
                    expires,
                }),
            }
        }
        Answer::Granted(wants.iter().map(|wanted| TARGETS[wanted.target].slot).collect())
    }

    fn own(&mut self, agent: usize, slot: usize) -> Option<&mut Held> {
        self.locks.iter_mut().find(|lock| (lock.agent, lock.slot) == (agent, slot))
    }

    /// The slots meant, if the agent holds them all; those that it does not hold otherwise.
    fn select(&mut self, agent: usize, targets: &[usize]) -> Result<BTreeSet<usize>, BTreeSet<usize>> {
        if targets.is_empty() {
            let own = self.locks.iter().filter(|lock| lock.agent == agent && !is_name(lock.slot));
            return Ok(own.map(|lock| lock.slot).collect());
        }
        let slots: BTreeSet<usize> = targets.iter().map(|target| TARGETS[*target].slot).collect();
        let (held, missing): (BTreeSet<_>, BTreeSet<_>) =
            slots.into_iter().partition(|slot| self.own(agent, *slot).is_some());
        if missing.is_empty() { Ok(held) } else { Err(missing) }
    }

    pub(super) fn release(&mut self, agent: usize, targets: &[usize]) -> Answer {
        if !self.processes.contains_key(&agent) {
            return Answer::Unknown;
        }
        let slots = match self.select(agent, targets) {
            Ok(slots) => slots,
            Err(missing) => {
                let foreign = self.locks.iter().filter(|lock| lock.exclusive && missing.contains(&lock.slot));
                let foreign: BTreeSet<_> = foreign.map(|lock| (lock.slot, lock.agent)).collect();
                if !foreign.is_empty() {
                    return Answer::Conflicts(foreign);
                }
                let all = targets.iter().map(|target| TARGETS[*target].slot);
                all.filter(|slot| !missing.contains(slot)).collect()
            }
        };
        self.locks.retain(|lock| lock.agent != agent || !slots.contains(&lock.slot));
        Answer::Granted(slots)
    }

    pub(super) fn renew(&mut self, agent: usize, targets: &[usize], ttl: Option<u64>) -> Answer {
        if !self.processes.contains_key(&agent) {
            return Answer::Unknown;
        }
        let Ok(slots) = self.select(agent, targets) else { return Answer::NotHeld };
        let now = self.now;
        for slot in &slots {
            let lock = self.own(agent, *slot).expect("it was selected");
            lock.ttl = ttl.unwrap_or(lock.ttl);
            lock.expires = now + lock.ttl;
        }
        Answer::Granted(slots)
    }

    pub(super) fn transfer(&mut self, from: usize, to: usize, targets: &[usize]) -> Answer {
        if !self.processes.contains_key(&from) || !self.processes.contains_key(&to) {
            return Answer::Unknown;
        }
        if !self.lives(to) {
            return Answer::Gone;
        }
        let Ok(slots) = self.select(from, targets) else { return Answer::NotHeld };
        let of_from = |lock: &&Held| lock.agent == from;
        let (moved, kept): (Vec<&Held>, Vec<&Held>) =
            self.locks.iter().filter(of_from).partition(|lock| slots.contains(&lock.slot));
        let excludes =
            |one: &Held, other: &Held| (one.exclusive || other.exclusive) && overlap(one.slot, other.slot);
        if from != to && moved.iter().any(|moved| kept.iter().any(|kept| excludes(moved, kept))) {
            return Answer::StillHeld;
        }
        if from != to {
            self.locks.retain(|lock| lock.agent != to || !slots.contains(&lock.slot));
        }
        let (pid, now) = (self.processes[&to].0, self.now);
        for slot in &slots {
            let lock = self.own(from, *slot).expect("it was selected");
            (lock.agent, lock.pid, lock.supervised) = (to, pid, AGENTS[to].supervised);
            lock.expires = now + lock.ttl;
        }
        Answer::Granted(slots)
    }
}
