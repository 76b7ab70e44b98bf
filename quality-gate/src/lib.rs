//! What decides whether a commit is accepted: evidence, commit rules, git hooks.
//!
//! Nothing here believes what an agent says. Commands are run and recorded by mala, commits are read from git whatever
//! way they were made (`mala-git`), and who owned a file is asked of the lock store through the port `Ownership`.
//!
//! The crate never opens the store, never prints and never reads settings: `cli` brings all three.

mod commit;
pub mod evidence;
pub mod hooks;
pub mod rerun;
pub mod rules;
pub mod runner;
pub mod transcript;
pub mod verdict;

mod serial;

pub use commit::commit;
pub use evidence::{Evidence, EvidenceLog};
pub use rules::{Candidate, GateError, Records, Rules, check};
pub use verdict::{Check, Verdict};
