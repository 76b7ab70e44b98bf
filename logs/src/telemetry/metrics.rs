//! What is counted and measured.

use std::sync::OnceLock;
use std::time::Duration;

use mala_core::LockName;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::OURS;

/// Waits last from milliseconds to the better part of an hour.
const SECONDS: [f64; 14] =
    [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1200.0, 2400.0, 3600.0];

static INSTRUMENTS: OnceLock<Instruments> = OnceLock::new();

#[derive(Debug)]
struct Instruments {
    lock_tries: Counter<u64>,
    lock_waits: Counter<u64>,
    lock_wait: Histogram<f64>,
    mutex_wait: Histogram<f64>,
    mutex_hold: Histogram<f64>,
    gate_results: Counter<u64>,
}

impl Instruments {
    fn new(meter: &Meter) -> Self {
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        let seconds = |name: &'static str, about: &'static str| {
            let histogram = meter.f64_histogram(name).with_description(about).with_unit("s");
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        Self {
            lock_tries: counter("mala.lock.tries", "requests for locks"),
            lock_waits: counter("mala.lock.waits", "requests that waited for a lock"),
            lock_wait: seconds("mala.lock.wait", "how long requests waited for a lock"),
            mutex_wait: seconds("mala.mutex.wait", "how long guarded commands waited for their turn"),
            mutex_hold: seconds("mala.mutex.hold", "how long guarded commands ran"),
            gate_results: counter("mala.gate.results", "verdicts of the gate"),
        }
    }
}

pub(super) fn install(provider: &SdkMeterProvider) {
    // A second time in one process changes nothing: instruments are for the whole of it.
    let _ = INSTRUMENTS.set(Instruments::new(&provider.meter(OURS)));
}

/// What came of a request for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockResult {
    Granted,
    Refused,
}

impl From<bool> for LockResult {
    fn from(is_granted: bool) -> Self {
        if is_granted { Self::Granted } else { Self::Refused }
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    Granted,
    TimedOut,
    Deadlock,
}

/// What the gate said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateResult {
    Pass,
    Fail,
}

/// Counts and measures, if anybody wants to know; else it does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Metrics(Option<&'static Instruments>);

/// The metrics of this process.
pub fn metrics() -> Metrics {
    Metrics(INSTRUMENTS.get())
}

impl Metrics {
    /// Somebody asked for locks.
    pub fn lock_try(self, result: LockResult) {
        let result = match result {
            LockResult::Granted => "granted",
            LockResult::Refused => "refused",
        };
        if let Some(instruments) = self.0 {
            instruments.lock_tries.add(1, &[KeyValue::new("result", result)]);
        }
    }

    /// Somebody waited for a lock.
    pub fn lock_wait(self, waited: Duration, result: WaitResult) {
        let result = match result {
            WaitResult::Granted => "granted",
            WaitResult::TimedOut => "timed_out",
            WaitResult::Deadlock => "deadlock",
        };
        if let Some(instruments) = self.0 {
            let attributes = [KeyValue::new("result", result)];
            instruments.lock_waits.add(1, &attributes);
            instruments.lock_wait.record(waited.as_secs_f64(), &attributes);
        }
    }

    /// A guarded command waited for its turn.
    pub fn mutex_wait(self, mutex: &LockName, waited: Duration) {
        if let Some(instruments) = self.0 {
            instruments.mutex_wait.record(waited.as_secs_f64(), &[of(mutex)]);
        }
    }

    /// A guarded command had its turn.
    pub fn mutex_hold(self, mutex: &LockName, held: Duration) {
        if let Some(instruments) = self.0 {
            instruments.mutex_hold.record(held.as_secs_f64(), &[of(mutex)]);
        }
    }

    /// The gate judged a commit.
    pub fn gate_result(self, result: GateResult) {
        let result = match result {
            GateResult::Pass => "pass",
            GateResult::Fail => "fail",
        };
        if let Some(instruments) = self.0 {
            instruments.gate_results.add(1, &[KeyValue::new("result", result)]);
        }
    }
}

fn of(mutex: &LockName) -> KeyValue {
    KeyValue::new("mutex", mutex.to_string())
}
