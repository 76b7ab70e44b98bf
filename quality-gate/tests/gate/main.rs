//! The gate on real repositories.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod chained;
mod commit;
mod evidence;
mod git;
mod hooks;
mod retention;
mod rules;
mod runner;
mod transcript;
mod world;
