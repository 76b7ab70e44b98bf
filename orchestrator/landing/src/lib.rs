//! How work is proven: the required commands, run by mala itself on exactly the tree in question, in a checkout that nobody
//! else touches.
//!
//! A [`Slots`] pool keeps such checkouts from one tree to the next, so that builds are incremental. A [`Validation`] is what the
//! required commands said about one tree; a tree that has passed is remembered and not validated twice. What an agent ran
//! before is for its own benefit: nothing here believes it.
//!
//! Agents of a run and people [`offer`] commits; the [`queue`] stacks them on the branch, validates the very tree that the branch would
//! have, and moves the branch there.

mod cargo_seed;
mod company;
mod disk;
mod empty;
mod environment;
mod not_in_test;
pub mod offer;
mod ports;
pub mod queue;
mod running;
mod setup;
mod share;
mod slot_test;
mod slots;
mod validation;

pub use disk::{SlotUse, shown_size, slots_in_use};
pub use not_in_test::{NotInTest, OthersFile};
pub use running::{RunningCommand, running};
pub use share::{LeasedShare, NoFreePorts};
pub use slot_test::{SlotTest, Work};
pub use slots::{Lease, Placed, Pool, Slots, SlotsError, orphaned_slots, remove_slots, slots_directory};
pub use validation::{
    CommandResult, Requirements, Validate, Validation, ValidationError, earlier_pass, last_green,
    last_verdict, median_validation,
};
