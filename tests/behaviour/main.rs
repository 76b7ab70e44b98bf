//! Behaviour of mala, told as sentences.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod arrows;
mod cli;
mod docs;
mod exec;
mod programs;
mod store;
