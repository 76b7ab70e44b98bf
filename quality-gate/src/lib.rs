//! What decides whether a commit is accepted: evidence, commit rules, git hooks.
//!
//! Nothing here believes what an agent says. Commands are run and recorded by mala, commits are read from git whatever
//! way they were made (`mala-git`), and who owned a file is asked of the lock store through the port `Ownership`.
//!
//! The crate never prints and never reads settings: `cli` brings both.

mod bases;
pub mod claim;
mod commit;
pub mod evidence;
pub mod hooks;
pub mod judge;
mod range;
pub mod rules;
pub mod runner;
mod store_ownership;
pub mod test_run;
pub mod transcript;
pub mod verdict;

mod serial;

pub use bases::bases_of;
pub use claim::Claim;
pub use commit::{commit, offer};
pub use evidence::{Evidence, EvidenceLog};
pub use judge::{AttemptVerdict, Gate, JudgeError, Judged, Question, attempt_commits};
pub use rules::{ClaimMoment, CommitPlace, GateError, Records, Rules, Subject, check};
pub use store_ownership::StoreOwnership;
pub use test_run::{TestRun, TestRunError};
pub use verdict::{Check, Verdict};
