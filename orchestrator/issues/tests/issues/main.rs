//! Sources of issues against the programs they speak to.
//!
//! A program stands in for both that behaves as they do (`tests/programs/fake_tracker`): `bd` comes only as a download that
//! a test cannot make. The real `br` (`real_br`) is tested as well.

#![expect(clippy::unwrap_used, reason = "in tests, whatever is unexpected is a failure")]

mod bd;
mod br;
mod contract;
mod detection;
mod faults;
mod real_br;
mod stand_in;
