//! The crate as the command line uses it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod corpus;
mod generated;
mod payloads;
mod plugin;
