//! Behaviour of mala, told as sentences.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod arrows;
mod cli;
mod clients;
mod corpus;
mod docs;
mod exec;
mod gate;
mod honest;
mod hook_managers;
mod hooks;
mod mcp;
mod negotiation;
mod programs;
mod run;
mod store;
mod texts;
mod trackers;
mod turns;
