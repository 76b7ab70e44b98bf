//! What a validation proves: real git, real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod audits;
mod faults;
mod freed;
mod queue;
mod several;
mod slot_tests;
mod slots;
mod validations;
mod world;
