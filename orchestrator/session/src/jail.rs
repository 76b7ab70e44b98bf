//! What an agent's tree is kept in: which parts of the checkout and of git it may never write, and git as it was found before
//! the agent started.

#[cfg(target_os = "linux")]
use std::io;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

use mala_agents::{Client, install};
use mala_core::Scope;
use mala_core::scope::Case;
use mala_gate::hooks::KEPT_DIRECTORY;
use mala_sandbox::{Jail, Support, Unsupported};
use walkdir::WalkDir;

#[cfg(target_os = "linux")]
use crate::frozen::Frozen;

/// Files and folders of a repository that tell git what to run, or where to find them.
const RULING: [&str; 7] =
    ["hooks", KEPT_DIRECTORY, "config", "config.worktree", "info/attributes", "commondir", "gitdir"];
const CGROUPS: &str = "/sys/fs/cgroup";
/// So deep lie submodules of submodules.
const DEEPEST: usize = 12;

/// Whether the kernel can keep the agents of this checkout apart, or why not.
pub fn kernel(scope: &Scope) -> Result<Support, Unsupported> {
    match scope.case() {
        Case::Sensitive => mala_sandbox::probe(),
        Case::Folded => Err(Unsupported::FoldedNames),
    }
}

/// From now on, git works for this process as it does now, whatever agents write into the user's own settings and into folders
/// where programs are looked for.
#[cfg(target_os = "linux")]
pub fn freeze_git() -> io::Result<()> {
    static SETTINGS: OnceLock<Frozen> = OnceLock::new();
    mala_git::program();
    let copy = Frozen::copy_all(&user_settings())?;
    mala_git::settings_from(SETTINGS.get_or_init(|| copy).path.clone());
    Ok(())
}

/// Where git looks for the user's own settings.
#[cfg(target_os = "linux")]
fn user_settings() -> Vec<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(file) = folder("GIT_CONFIG_GLOBAL") {
        return vec![file];
    }
    let home = folder("HOME");
    let other = folder("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    other
        .map(|other| other.join("git/config"))
        .into_iter()
        .chain(home.map(|home| home.join(".gitconfig")))
        .collect()
}

/// The repository, with its worktrees and submodules: git looks into them all, also for people who only ask it for the
/// state of this one.
fn repositories(scope: &Scope) -> Vec<PathBuf> {
    let git_dir = scope.git_dir();
    let is_repository = |folder: &Path| folder.join("HEAD").is_file();
    let inside = ["worktrees", "modules"].map(|name| git_dir.join(name));
    let found = inside.into_iter().filter(|folder| folder.is_dir()).flat_map(|folder| {
        let below = WalkDir::new(folder).max_depth(DEEPEST).into_iter();
        // What a repository keeps by the thousand is in these.
        let is_of_interest = |entry: &walkdir::DirEntry| {
            entry.file_type().is_dir()
                && !matches!(entry.file_name().to_str(), Some("objects" | "refs" | "logs" | "hooks"))
        };
        below.filter_entry(is_of_interest).flatten().map(walkdir::DirEntry::into_path)
    });
    let own = found.filter(|folder| is_repository(folder));
    std::iter::once(git_dir.to_path_buf()).chain(own).collect()
}

/// What says which branch the checkout is on.
pub fn head(scope: &Scope) -> PathBuf {
    let dot_git = scope.root().join(".git");
    // A linked worktree has a file there that tells where the folder is.
    let elsewhere = std::fs::read_to_string(&dot_git).ok().and_then(|text| {
        let folder = text.strip_prefix("gitdir: ")?.trim_end_matches('\n');
        scope.root().join(folder).canonicalize().ok()
    });
    elsewhere.as_deref().unwrap_or(scope.git_dir()).join("HEAD")
}

/// What git tracks in the checkout.
pub fn index_file(scope: &Scope) -> PathBuf {
    head(scope).with_file_name("index")
}

/// What an agent's tree is kept in: the checkout, with everything that could turn others against it out of reach, and
/// `exempt` folders where it does what it likes. What is `reserved` for mala or for people is out of reach as well.
/// `others` are the other checkouts of the repository.
pub fn jail(scope: &Scope, mut exempt: Vec<PathBuf>, reserved: Vec<PathBuf>, others: Vec<PathBuf>) -> Jail {
    let git_dir = scope.git_dir().to_path_buf();
    // Whoever could write these would be without hooks from then on, also where no kernel watches.
    let hooks = Client::ALL.into_iter().flat_map(install::files).map(|name| scope.root().join(name));
    let repositories = repositories(scope);
    // In a submodule it mostly says no branch, so commits move it.
    let heads = repositories.iter().filter(|folder| !folder.starts_with(git_dir.join("modules")));
    let mut protected: Vec<PathBuf> = repositories
        .iter()
        .flat_map(|repository| RULING.map(|name| repository.join(name)))
        .chain(heads.map(|repository| repository.join("HEAD")))
        // They say what is asked of everybody's commits.
        .chain([scope.state_dir(), scope.settings_file()])
        .chain(hooks)
        .collect();
    // Whoever owns a folder there can move any process of the user's, stop it and end it.
    protected.extend(Some(PathBuf::from(CGROUPS)).filter(|folder| folder.is_dir()));
    protected.extend(reserved);
    // A checkout in an ignored directory is no ignored file.
    exempt.retain(|directory| !others.iter().any(|other| other.starts_with(directory)));
    // What is in there has its name from its content, or is a history of names, and is nobody's.
    exempt.extend(["objects", "logs"].map(|name| git_dir.join(name)));
    let spares = Some(spares(scope));
    Jail { root: scope.root().to_path_buf(), git_dir, protected, closed: others, exempt, spares }
}

/// Where the folders are that the kernel tier makes in advance.
pub fn spares(scope: &Scope) -> PathBuf {
    scope.state_dir().join("spares")
}
