//! Writes of a program confined to a few directories, for commands that judge a tree and must change nothing else.
//!
//! The reverse of `landlock.rs`: there everything beside the checkout stays writable, here nothing is but what is named. It
//! needs no supervisor, because nothing is decided while the program runs.
//! See <https://docs.kernel.org/userspace-api/landlock.html>.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope,
};

/// Lets `command`, and all that it starts, write at or below `writable` and nowhere else, and send signals only to what it
/// started itself. Names that do not exist are left out. False where the kernel has no Landlock: then nothing is confined.
///
/// To be called after [`super::tie`], whose keeper must stay free.
pub fn confine(command: &mut Command, writable: &[PathBuf]) -> io::Result<bool> {
    let Some(ruleset) = ruleset(writable).map_err(io::Error::other)? else { return Ok(false) };
    // SAFETY: two system calls with plain numbers, between `fork` and `exec`.
    unsafe {
        command.pre_exec(move || {
            let is_confined = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) == 0;
            if is_confined { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
    Ok(true)
}

/// The rules as the kernel keeps them; nothing if it keeps none.
fn ruleset(writable: &[PathBuf]) -> Result<Option<OwnedFd>, RulesetError> {
    // Older kernels know fewer rights; what they cannot confine stays free.
    let writing = AccessFs::from_write(ABI::V3);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writing)?
        .scope(Scope::Signal)?
        .create()?;
    for path in writable {
        let Ok(fd) = PathFd::new(path) else { continue };
        // Of a file that is no directory only some rights can be granted: the others are dropped.
        ruleset = ruleset.add_rule(PathBeneath::new(fd, writing))?;
    }
    Ok(ruleset.into())
}
