//! mala in git's own hooks: installing them, taking them back, and what they check.
//!
//! A hook that is there already keeps working: it is kept beside, under the name `NAME.before-mala`, and called first, with
//! the same arguments and input. Taking mala's hooks back puts it in its place again, byte for byte. Only folders of
//! this repository are touched; one that several repositories share is not.

mod install;
mod judge;
mod script;

pub use self::install::{Done, HooksError, Installed, install, installed, undo, used_by};
pub use self::judge::{MessageProblem, commit_msg, pre_commit};
pub use self::script::{Hook, script};
