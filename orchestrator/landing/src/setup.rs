//! Dependencies of a slot: installed when a lock file has changed, kept aside for when it changes back.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mala_config::Setup;
use mala_core::Oid;
use mala_gate::runner::Tee;
use mala_git::{Repo, RepoPath};
use sha2::{Digest, Sha256};

use crate::cargo_seed;
use crate::slots::{Placed, at};
use crate::validation::{CommandLine, ValidationError, outputs_of};

/// Directories that installed dependencies lie in, at the top of a tree.
const DEPENDENCIES: &[&str] = &[".venv", "node_modules"];
/// Files that say which dependencies there are, besides those of the preset.
const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "Gemfile.lock",
    "bun.lock",
    "composer.lock",
    "go.sum",
    "mix.lock",
    "package-lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
];
/// How many sets of dependencies a slot keeps aside.
const MAX_KEPT: usize = 3;

/// What is to be done before commands mean anything in a slot.
#[derive(Debug)]
pub(crate) struct Preparation {
    key: String,
    /// Command lines, in order.
    commands: Vec<String>,
}

impl Preparation {
    /// Puts dependencies that fit in their place. Nothing is left to do if there are some.
    pub(crate) fn of(placed: &Placed, tree: &Oid, setup: &Setup) -> Result<Option<Self>, ValidationError> {
        let (dir, root) = (placed.dir(), placed.root());
        cargo_seed::seed(root, &placed.homes().cargo()).map_err(at(dir))?;
        let is_needed = |needs: &Option<String>| needs.as_ref().is_none_or(|file| root.join(file).is_file());
        let commands = setup.commands.iter().filter(|setup| is_needed(&setup.needs));
        let commands: Vec<String> = commands.map(|setup| setup.command.to_string()).collect();
        if commands.is_empty() {
            return Ok(None);
        }
        let key = key(placed, tree, setup, &commands)?;
        let current = fs::read_to_string(key_file(dir)).unwrap_or_default();
        if current == key {
            return Ok(None);
        }
        put_aside(dir, root, &current)?;
        if !take_back(dir, root, &key)? {
            return Ok(Some(Self { key, commands }));
        }
        Self { key, commands }.conclude(placed)?;
        Ok(None)
    }

    /// Runs the commands. A failure is an error that names the command.
    pub(crate) fn run(
        &self,
        repo: &Repo,
        placed: &Placed,
        (deadline, asker): (Instant, Option<BorrowedFd<'_>>),
        tee: &mut Tee<'_>,
    ) -> Result<(), ValidationError> {
        for command in &self.commands {
            let line = CommandLine { command, directory: "", deadline, asker };
            let result = line.run(placed, &outputs_of(repo), tee)?;
            if !result.has_passed() {
                let (command, ending) = (command.clone(), result.ending());
                return Err(ValidationError::Setup { command, ending, log: result.output_log });
            }
        }
        self.conclude(placed)
    }

    fn conclude(&self, placed: &Placed) -> Result<(), ValidationError> {
        let file = key_file(placed.dir());
        fs::write(&file, &self.key).map_err(at(&file))?;
        Ok(forget_old(&placed.dir().join("dependencies"))?)
    }
}

fn key_file(dir: &Path) -> PathBuf {
    dir.join("setup-key")
}

/// True if a file says which dependencies there are, here or in a project further down.
pub(crate) fn is_lock_file(path: &RepoPath, setup: &Setup) -> bool {
    let name = path.as_path().file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| LOCK_FILES.contains(&name))
        || setup.lock_files.iter().any(|known| path.as_path() == Path::new(known))
}

/// Changes with the commands and with every lock file.
fn key(placed: &Placed, tree: &Oid, setup: &Setup, commands: &[String]) -> Result<String, ValidationError> {
    let names = LOCK_FILES.iter().copied().chain(setup.lock_files.iter().map(String::as_str));
    let paths: Vec<RepoPath> = names.map(RepoPath::from_bytes).collect();
    let mut hash = Sha256::new();
    for command in commands {
        hash.update(command.as_bytes());
        hash.update(b"\n");
    }
    for (path, oid) in placed.repo().entries_in(tree, &paths)? {
        hash.update(path.as_bytes());
        hash.update(oid.as_str().as_bytes());
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

/// Moves the dependencies out of the tree, to where `key` finds them again. Without a key they are nobody's.
fn put_aside(dir: &Path, root: &Path, key: &str) -> Result<(), crate::SlotsError> {
    // From here on the tree has none, whatever happens.
    match fs::remove_file(key_file(dir)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(dir)(error)),
        _ => {}
    }
    let aside = dir.join("dependencies").join(if key.is_empty() { "unknown" } else { key });
    for name in DEPENDENCIES.iter().filter(|name| root.join(name).is_dir()) {
        fs::create_dir_all(&aside).map_err(at(&aside))?;
        fs::rename(root.join(name), aside.join(name)).map_err(at(&aside))?;
    }
    if key.is_empty() && aside.is_dir() {
        fs::remove_dir_all(&aside).map_err(at(&aside))?;
    }
    Ok(())
}

/// True if there were dependencies for `key`, and they are back in the tree.
fn take_back(dir: &Path, root: &Path, key: &str) -> Result<bool, crate::SlotsError> {
    let aside = dir.join("dependencies").join(key);
    if !aside.is_dir() {
        return Ok(false);
    }
    for name in DEPENDENCIES.iter().filter(|name| aside.join(name).is_dir()) {
        fs::rename(aside.join(name), root.join(name)).map_err(at(&aside))?;
    }
    fs::remove_dir_all(&aside).map_err(at(&aside))?;
    Ok(true)
}

fn forget_old(parent: &Path) -> Result<(), crate::SlotsError> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut sets: Vec<_> =
        entries.map(|entry| (entry.metadata().and_then(|meta| meta.modified()).ok(), entry.path())).collect();
    sets.sort();
    let surplus = sets.len().saturating_sub(MAX_KEPT);
    sets.iter().take(surplus).try_for_each(|(_, path)| fs::remove_dir_all(path).map_err(at(path)))
}
