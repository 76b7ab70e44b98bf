//! Everything of mala that speaks git.
//!
//! [`Repo`] asks and changes a repository through the git program: never through a shell, never with an environment that the
//! caller could bend, and without believing replace refs, grafts or settings that hide changes. On top of it: commits of
//! exactly one agent's files through a private index ([`commit`]), a checkout of mala's own for running commands ([`slot`]),
//! candidates put on a branch together with the checkout that has it ([`landing`]), and an agent's uncommitted work saved to a
//! ref and taken out of the checkout ([`salvage`]).
//!
//! Who owns a file is asked of the lock store through the port [`Ownership`]. Nothing here opens the store, prints or reads
//! settings.

mod branch;
mod call;
pub mod candidate;
pub mod commit;
pub mod config_file;
mod content;
mod history;
mod index_file;
mod index_lock;
mod inner;
pub mod landing;
mod object_reader;
mod objects;
mod owned_directory;
mod ownership;
mod path;
mod proposal;
mod repo;
mod retry;
pub mod salvage;
pub mod saved_work;
pub mod slot;
mod status;
mod tree_diff;
mod unfit;

pub use call::{GitError, STARTED_WITH, command, program, settings_from, started_with};
pub use content::Content;
pub use history::{Commit, FileChange, TreeEntry};
pub use index_lock::IndexLockError;
pub use object_reader::close_object_readers;
pub use owned_directory::{OwnedDirectory, left_behind};
pub use ownership::{
    Holder, OwnChangesError, Ownership, OwnershipError, Standing, TestEvents, own_changes, standing,
};
pub use path::RepoPath;
pub use proposal::{Checkout, Proposal};
pub use repo::{Head, Oid, Repo};
pub use retry::Git;
pub use status::{Change, Entry, Kind, State, Status};
pub use unfit::Unfit;
