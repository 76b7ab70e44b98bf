//! Brings husky, lefthook and pre-commit, by their own package managers, at the versions that `tests/hook-managers` pins.
//!
//! They are installed once, into a directory named after the pins, which gets its name only after everything has succeeded.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

const MANIFEST: &str = include_str!("../hook-managers/package.json");
const PINS: &str = include_str!("../hook-managers/package-lock.json");
const REQUIREMENTS: &str = include_str!("../hook-managers/requirements.txt");

/// The programs, ready to be started.
#[derive(Debug)]
pub struct HookManagers {
    /// husky and lefthook, as npm installs them into a project.
    pub node_modules: PathBuf,
    pub pre_commit: PathBuf,
}

impl HookManagers {
    /// The programs, installed below `cache` if they are not there yet. Without npm, Python or a network this says so past
    /// the test runner and returns nothing; on CI it fails the test instead.
    pub fn or_skip(cache: &Path) -> Option<&'static Self> {
        static INSTALLED: OnceLock<Result<HookManagers, String>> = OnceLock::new();
        match INSTALLED.get_or_init(|| Self::install(cache)) {
            Ok(installed) => Some(installed),
            Err(missing) => {
                crate::skip(&format!("real husky, lefthook and pre-commit: {missing}"));
                None
            }
        }
    }

    fn install(cache: &Path) -> Result<Self, String> {
        let directory = cache.join("hook-managers").join(fingerprint());
        let installed = Self {
            node_modules: directory.join("node_modules"),
            pre_commit: directory.join("venv/bin/pre-commit"),
        };
        fs::create_dir_all(&directory).map_err(in_words(&directory))?;
        let lock = directory.with_extension("lock");
        let turn =
            File::create(&lock).and_then(|file| file.lock().map(|()| file)).map_err(in_words(&lock))?;
        let done = directory.join("done");
        if !done.is_file() {
            for (name, text) in
                [("package.json", MANIFEST), ("package-lock.json", PINS), ("requirements.txt", REQUIREMENTS)]
            {
                fs::write(directory.join(name), text).map_err(in_words(&directory))?;
            }
            run(&directory, "npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
            // A virtual environment knows its own path, so it is made where it stays.
            run(&directory, "python3", &["-m", "venv", "--clear", "venv"])?;
            run(&directory, "venv/bin/pip", &["install", "--quiet", "-r", "requirements.txt"])?;
            fs::write(&done, "").map_err(in_words(&done))?;
        }
        drop(turn);
        Ok(installed)
    }
}

fn fingerprint() -> String {
    let digest =
        Sha256::new().chain_update(MANIFEST).chain_update(PINS).chain_update(REQUIREMENTS).finalize();
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn run(directory: &Path, program: &str, args: &[&str]) -> Result<(), String> {
    let path = if program.contains('/') { directory.join(program) } else { PathBuf::from(program) };
    let out = Command::new(path).args(args).current_dir(directory).output();
    let out = out.map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    // What follows is advice.
    let errors: Vec<&str> =
        said.lines().filter(|line| line.to_lowercase().contains("error")).take(5).collect();
    Err(format!("`{program} {}` failed: {}", args.join(" "), errors.join("; ")))
}

fn in_words(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("cannot use `{}`: {error}", path.display())
}
