//! The store in few words, for tests that know what must come out.

use mala_core::Lock;
use mala_store::{Cause, EventFilter, Outcome, Refusal, Released, Renewed, Request, Store, Which};

use crate::{agent, ask, wants};

pub trait Terse {
    /// Reserves what must be free.
    fn take(&mut self, name: &str, texts: &[&str]) -> Vec<Lock>;
    fn grant(&mut self, request: &Request) -> Vec<Lock>;
    /// Reserves what must be held by somebody else.
    fn refuse(&mut self, name: &str, texts: &[&str]) -> Refusal;
    /// Releases what is held; says how many that were.
    fn give_back(&mut self, name: &str, texts: &[&str]) -> usize;
    /// Hands over all locks of an agent.
    fn hand_all(&mut self, from: &str, to: &str) -> Vec<Lock>;
    /// Who holds what, as `agent: target`, in path order.
    fn held(&mut self) -> Vec<String>;
    /// Kinds of all events, oldest first.
    fn log(&mut self) -> Vec<String>;
}

impl Terse for Store {
    fn take(&mut self, name: &str, texts: &[&str]) -> Vec<Lock> {
        self.grant(&ask(name, texts))
    }

    fn grant(&mut self, request: &Request) -> Vec<Lock> {
        granted(self.reserve(request).expect("the store works"))
    }

    fn refuse(&mut self, name: &str, texts: &[&str]) -> Refusal {
        refused(self.reserve(&ask(name, texts)).expect("the store works"))
    }

    fn give_back(&mut self, name: &str, texts: &[&str]) -> usize {
        let which = Which::These(wants(texts));
        match self.release(&agent(name), &which).expect("the store works") {
            Released::Done(locks) => locks.len(),
            Released::NotYours(foreign) => panic!("not {name}'s to release: {foreign:?}"),
        }
    }

    fn hand_all(&mut self, from: &str, to: &str) -> Vec<Lock> {
        match self.transfer(&agent(from), &agent(to), &Which::All).expect("the store works") {
            Renewed::Done(locks) => locks,
            Renewed::NotHeld(wants) => panic!("{from} does not hold {wants:?}"),
        }
    }

    fn held(&mut self) -> Vec<String> {
        let locks = self.locks().expect("the store works");
        locks.iter().map(|lock| format!("{}: {}", lock.agent, lock.target)).collect()
    }

    fn log(&mut self) -> Vec<String> {
        let events = self.events(&EventFilter::default()).expect("the store works");
        events.into_iter().map(|event| event.kind).collect()
    }
}

pub fn granted(outcome: Outcome) -> Vec<Lock> {
    match outcome {
        Outcome::Granted(locks) => locks,
        Outcome::Refused(refusal) => panic!("refused: {refusal:?}"),
    }
}

pub fn refused(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Refused(refusal) => refusal,
        Outcome::Granted(locks) => panic!("granted: {locks:?}"),
    }
}

/// The names in the circle that a refusal is about.
pub fn circle(refusal: &Refusal) -> Vec<&str> {
    match &refusal.cause {
        Cause::Deadlock(circle) => circle.iter().map(mala_core::AgentId::as_str).collect(),
        other => panic!("no circle: {other:?}"),
    }
}

/// What a refusal names, as `agent: target`.
pub fn holders(refusal: &Refusal) -> Vec<String> {
    refusal.conflicts.iter().map(|c| format!("{}: {}", c.holder.agent, c.holder.target)).collect()
}
