//! mala in git's own hooks: installing them, taking them back, and what they check.
//!
//! A hook that is there already keeps working: it is kept in a directory beside git's, under its own name (see `kept`), and
//! called first, with the same arguments and input. Programs that put their hooks in the place of mala's (husky, lefthook,
//! pre-commit) get the same: [`repair`]. Taking mala's hooks back puts everything where it would be without mala. Only
//! directories of this repository are touched; one that several repositories share is not.

mod install;
mod judge;
mod kept;
mod manager;
mod script;

pub use self::install::{
    ChainedHook, Done, HooksError, Installed, Repair, chained, install, installed, is_outdated, repair,
    replaced, undo, used_by,
};
pub use self::judge::{MessageProblem, commit_msg, pre_commit};
pub use self::manager::HookManager;
pub use self::script::{Hook, PROBE_ANSWER, PROBE_EXIT_CODE, PROBE_VARIABLE, script};

/// What the kept hooks of the repository's own hooks directory lie in, within git's directory.
pub const KEPT_DIRECTORY: &str = "hooks.before-mala";
