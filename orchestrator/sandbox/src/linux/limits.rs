//! How many files this process may have open. The broker opens files for all processes of a tree, so it needs more than one of them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many as it is allowed to, and gives the limit of before.
pub(crate) fn raise_open_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // If it cannot be raised, it is as it was.
    let _as_before = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before
}

/// Gives this process back what it would have had. Makes system calls only, so it may be called between `fork` and `exec`.
pub(crate) fn set_open_files(limit: Rlimit) {
    let _as_before = setrlimit(Resource::Nofile, limit);
}
