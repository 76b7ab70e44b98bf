//! Time and death on command.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mala_core::ports::{Clock, Liveness};
use mala_core::{Life, Owner, Timestamp};

/// A clock that stands still until it is moved. Clones show the same time.
#[derive(Debug, Clone)]
pub struct TestClock {
    wall: Arc<AtomicI64>,
    uptime: Arc<AtomicI64>,
}

impl Default for TestClock {
    fn default() -> Self {
        let clock = |millis| Arc::new(AtomicI64::new(millis));
        Self { wall: clock(1_800_000_000_000), uptime: clock(1_000_000) }
    }
}

impl TestClock {
    pub fn advance(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).expect("tests move time by little");
        self.wall.fetch_add(millis, Ordering::SeqCst);
        self.uptime.fetch_add(millis, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock. Suspend for so long looks the same.
    pub fn step_hours(&self, hours: i64) {
        self.wall.fetch_add(hours * 3_600_000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.uptime.load(Ordering::SeqCst).try_into().expect("time goes forward"))
    }
}

/// Processes that live until they are said to be dead. Clones know the same.
#[derive(Debug, Clone, Default)]
pub struct TestLiveness(Arc<Mutex<HashMap<u32, Life>>>);

impl TestLiveness {
    /// A process that does not exist anywhere but here.
    pub fn owner(pid: u32) -> Owner {
        Owner { host: "test".into(), boot_id: "test".into(), pid, start_time: 1, node: None }
    }

    pub fn set(&self, pid: u32, life: Life) {
        self.0.lock().expect("no test panics while it holds this").insert(pid, life);
    }
}

impl Liveness for TestLiveness {
    fn of(&self, owner: &Owner) -> Life {
        *self.0.lock().expect("no test panics while it holds this").get(&owner.pid).unwrap_or(&Life::Alive)
    }
}
