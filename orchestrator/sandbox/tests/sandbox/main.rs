//! Real processes in the sandbox: what must fail, what must work, and how a tree ends.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like the tests themselves")]

mod attacks;
mod honest;
mod life;
mod world;
