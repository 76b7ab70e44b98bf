//! A few agents around one store, with time and death on command.

use std::time::Duration;

use mala_core::{Ask, AskState, Fence, Life, Lock, Urgency};
use mala_store::{AskRequest, Authority, Changes, Guard, Notice, Party, Request, Store};

use crate::fakes::{TestClock, TestLiveness};
use crate::terse::granted;
use crate::{World, agent, party, want, wants};

/// A day: no lease ends in a test that does not want it to.
const TTL: Duration = Duration::from_secs(86_400);
/// How long a holder has to answer.
pub const DUE_IN: Duration = Duration::from_secs(600);
/// How long a holder must be idle before anything can be taken from it.
pub const IDLE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Table {
    pub world: World,
    pub store: Store,
    pub clock: TestClock,
    pub liveness: TestLiveness,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    pub fn new() -> Self {
        let (world, clock, liveness) = (World::in_memory(), TestClock::default(), TestLiveness::default());
        let store = world.store().with_clock(clock.clone()).with_liveness(liveness.clone());
        Self { world, store, clock, liveness }
    }

    /// Another process's view of the same store.
    pub fn another_store(&self) -> Store {
        self.world.store().with_clock(self.clock.clone()).with_liveness(self.liveness.clone())
    }

    /// An agent whose process is called by the first letter of its name.
    pub fn party(name: &str) -> Party {
        let pid = u32::from(*name.as_bytes().first().expect("agents have names"));
        Party { owner: TestLiveness::owner(pid), ..party(name) }
    }

    pub fn kill(&self, name: &str) {
        self.liveness.set(Self::party(name).owner.pid, Life::Dead);
    }

    pub fn join(&mut self, name: &str) {
        self.store.register(&Self::party(name)).expect("the store works");
    }

    pub fn take(&mut self, name: &str, texts: &[&str]) -> Vec<Lock> {
        granted(self.store.reserve(&request(name, texts)).expect("the store works"))
    }

    /// Asks for what one agent holds.
    pub fn ask(&mut self, name: &str, text: &str) -> Ask {
        let mut asks = self.store.ask(&ask_request(name, text)).expect("somebody else holds it");
        assert_eq!(asks.len(), 1, "{asks:?}");
        asks.remove(0)
    }

    pub fn state(&mut self, ask: &Ask) -> AskState {
        let all = mala_store::AskFilter { ended: true, ..Default::default() };
        let asks = self.store.asks(&all).expect("the store works");
        asks.into_iter().find(|known| known.id == ask.id).expect("asks stay").state
    }

    pub fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Everything the agent should hear, in few words.
    pub fn hears(&mut self, name: &str) -> Vec<String> {
        let notices = self.store.take_notices(&agent(name)).expect("the store works");
        notices.iter().map(in_few_words).collect()
    }
}

fn in_few_words(notice: &Notice) -> String {
    match notice {
        Notice::LockOfYours(ask) => format!("{} asks for {}: {}", ask.asker, ask.want.target, ask.state),
        Notice::AskOfYours(ask) => format!("my ask for {}: {}", ask.want.target, ask.state),
        Notice::Message(letter) => format!("{}: {}", letter.message.from, letter.message.body.as_str()),
        Notice::WritesRefused { files, more } => format!("{} refused, {more} more", files.len()),
    }
}

pub fn request(name: &str, texts: &[&str]) -> Request {
    Request { party: Table::party(name), wants: wants(texts), ttl: TTL, reason: None }
}

pub fn ask_request(name: &str, text: &str) -> AskRequest {
    AskRequest {
        party: Table::party(name),
        want: want(text),
        ttl: TTL,
        why: "to finish".into(),
        urgency: Urgency::Normal,
        due_in: DUE_IN,
    }
}

/// The rules, for the lock as the ask knows it.
pub fn guard(ask: &Ask) -> Guard {
    Guard {
        lock: ask.lock.clone(),
        fence: ask.fence,
        idle: IDLE,
        changes: Changes::None,
        authority: Authority::Rules,
        saved: None,
    }
}

/// A guard that has seen an older lock.
pub fn stale(guard: Guard) -> Guard {
    Guard { fence: Fence(guard.fence.0 - 1), ..guard }
}
