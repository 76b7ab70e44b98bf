//! What decides whether a commit is accepted: evidence, commit rules, snapshots, git hooks.
//!
//! Nothing here believes what an agent says. Commands are run and recorded by mala, commits are read from git whatever
//! way they were made, and who owned a file is asked of the lock store through the port [`Ownership`]. Git is called as
//! a program, never through a shell and never with an environment that the caller could bend.
//!
//! The crate never opens the store, never prints and never reads settings: `cli` brings all three.

pub mod commit;
pub mod evidence;
pub mod git;
pub mod hooks;
pub mod ownership;
pub mod path;
pub mod rerun;
pub mod rules;
pub mod runner;
pub mod snapshot;
pub mod transcript;
pub mod verdict;

mod owned_folder;
mod serial;

pub use evidence::{Evidence, EvidenceId, EvidenceLog};
pub use git::{GitError, Oid, Repo};
pub use owned_folder::left_behind;
pub use ownership::{Holder, Ownership, OwnershipError};
pub use path::RepoPath;
pub use rules::{Candidate, GateError, Records, Rules, check};
pub use verdict::{Check, Verdict};
