//! Real processes in the sandbox: what must fail, what must work, who waits for a turn, and how a tree ends.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like the tests themselves")]

mod attacks;
mod between;
mod drain;
mod holds;
mod honest;
mod life;
mod links;
mod world;
