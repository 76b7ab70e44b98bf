//! Commands that are programs of their own: `git lfs` starts `git-lfs`. What such a program does is judged as it does it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use mala_sandbox::Start;

/// True if git, when it starts, finds another program for the command `name`. Git's own commands have such names too, for git itself.
pub(super) fn is_another(name: &str, start: &Start<'_>) -> bool {
    let named = |variable: &str| start.variable(variable).map(OsStr::to_owned);
    let own = named("GIT_EXEC_PATH").map(PathBuf::from).or_else(|| exec_path().cloned());
    let path = named("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = own.into_iter().chain(std::env::split_paths(&path)).collect();
    let identities = |name: &str| -> Vec<(u64, u64)> {
        let files = directories.iter().filter_map(|directory| fs::metadata(directory.join(name)).ok());
        files.map(|file| (file.dev(), file.ino())).collect()
    };
    let git = identities("git");
    identities(&format!("git-{name}")).first().is_some_and(|found| !git.contains(found))
}

/// Where git has its own programs. Asked of the supervisor's git, once.
fn exec_path() -> Option<&'static PathBuf> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| {
        let output = mala_git::command().arg("--exec-path").output().ok()?;
        Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end()))
    })
    .as_ref()
}
