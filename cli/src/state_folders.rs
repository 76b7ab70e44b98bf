//! Folders of mala's state that this user may not write to, such as what root made in somebody's checkout.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mala_core::Scope;
use mala_core::shell::word;
use nix::unistd::{AccessFlags, Uid, User, access};

use crate::error::CliError;
use crate::ui::plain;

/// Fails if there is such a folder, and says what to type.
pub(crate) fn check(scope: &Scope) -> Result<(), CliError> {
    let state = scope.state_dir();
    let flags = AccessFlags::W_OK | AccessFlags::X_OK;
    let denied = folders(&state).into_iter().find(|folder| access(folder, flags).is_err());
    denied.map_or(Ok(()), |folder| Err(not_ours(&folder, &state)))
}

fn folders(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_unstable();
    folders
}

fn not_ours(folder: &Path, state: &Path) -> CliError {
    let owner = fs::metadata(folder).map_or(Uid::effective(), |folder| Uid::from_raw(folder.uid()));
    let (folder, state) = (plain(folder.display()), word(state.as_os_str().as_bytes()));
    if owner == Uid::effective() {
        return CliError::failed(format!("you may not write to `{folder}`"))
            .hint(format!("allow it again: chmod -R u+rwX {state}"));
    }
    CliError::failed(format!("you may not write to `{folder}`, which is {}'s", name(owner)))
        .hint(format!("make it yours again: sudo chown -R {} {state}", name(Uid::effective())))
}

fn name(user: Uid) -> String {
    User::from_uid(user).ok().flatten().map_or_else(|| user.to_string(), |user| plain(user.name).to_string())
}
