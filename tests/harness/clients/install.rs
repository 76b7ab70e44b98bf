//! Brings the clients at the versions that `tests/clients/package-lock.json` pins or, with `MALA_TEST_CLIENTS=newest`, at the newest
//! ones that the registry has.
//!
//! They are installed once by npm, from whichever registry the user has set up, into a folder named after the pins.
//! A folder that is there is whole: it gets its name only after npm has succeeded.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::client::Kind;

const MANIFEST: &str = include_str!("../../clients/package.json");
const PINS: &str = include_str!("../../clients/package-lock.json");

/// Says which versions are wanted.
const WHICH: &str = "MALA_TEST_CLIENTS";

/// The clients, ready to be started.
#[derive(Debug)]
pub struct Installed {
    claude: PathBuf,
    codex: PathBuf,
    gemini: PathBuf,
    /// There is a package for Linux on x86 among the pins, and no other.
    opencode: Option<PathBuf>,
}

/// Why the clients cannot be had.
#[derive(Debug, Error)]
pub enum Missing {
    #[error("npm cannot be started (it comes with node)")]
    Npm(#[source] io::Error),
    #[error("npm failed: {0}")]
    Install(String),
    #[error("{WHICH} is `newest` or not set, but not `{0}`")]
    Which(String),
    #[error("no folder for them at {place}")]
    Folder { place: PathBuf, source: io::Error },
    #[error("the package has no program for this system: {0}")]
    Program(PathBuf),
}

impl Installed {
    /// The clients, installed below `cache` if they are not there yet.
    ///
    /// Without them (no npm, no network) this says so past the test runner and returns nothing, so that the test can
    /// end; on CI, where `CI=true`, it fails the test instead.
    pub fn or_skip(cache: &Path) -> Option<&'static Self> {
        static INSTALLED: OnceLock<Result<Installed, Missing>> = OnceLock::new();
        match INSTALLED.get_or_init(|| Self::install(cache)) {
            Ok(installed) => Some(installed),
            Err(missing) => {
                crate::skip(&format!("real clients: {missing}"));
                None
            }
        }
    }

    /// Installs the clients below `cache`. Processes that come at the same time wait for the first.
    pub fn install(cache: &Path) -> Result<Self, Missing> {
        let wanted = Wanted::chosen()?;
        let folder = cache.join("clients").join(wanted.name());
        let at = |place: &Path| {
            let place = place.to_owned();
            move |source| Missing::Folder { place, source }
        };
        fs::create_dir_all(folder.parent().unwrap_or(cache)).map_err(at(&folder))?;
        let turn = folder.with_extension("lock");
        let turn = File::create(&turn).and_then(|file| file.lock().map(|()| file)).map_err(at(&turn))?;
        if !folder.is_dir() {
            let unfinished = folder.with_extension("unfinished");
            let _ = fs::remove_dir_all(&unfinished);
            fs::create_dir(&unfinished).map_err(at(&unfinished))?;
            wanted.install(&unfinished)?;
            fs::rename(&unfinished, &folder).map_err(at(&folder))?;
        }
        drop(turn);
        Self::find(&folder.join("node_modules"))
    }

    /// The programs themselves rather than the scripts that start them: one process less in every tree.
    fn find(modules: &Path) -> Result<Self, Missing> {
        let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let claude = ["", "-musl"]
            .map(|libc| modules.join(format!("@anthropic-ai/claude-code-{system}-{machine}{libc}/claude")))
            .into_iter()
            .max_by_key(|path| path.is_file())
            .unwrap_or_default();
        let (vendor, triple) = match (system, machine) {
            ("darwin", "arm64") => ("codex-darwin-arm64", "aarch64-apple-darwin"),
            ("darwin", _) => ("codex-darwin-x64", "x86_64-apple-darwin"),
            (_, "arm64") => ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
            _ => ("codex-linux-x64", "x86_64-unknown-linux-musl"),
        };
        let codex = modules.join("@openai").join(vendor).join("vendor").join(triple).join("bin/codex");
        let gemini = modules.join("@google/gemini-cli/bundle/gemini.js");
        for program in [&claude, &codex, &gemini] {
            if !program.is_file() {
                return Err(Missing::Program(program.clone()));
            }
        }
        let opencode = modules.join("opencode-linux-x64-baseline/bin/opencode");
        let opencode = Some(opencode).filter(|program| program.is_file());
        if opencode.is_none() && (system, machine) == ("linux", "x64") {
            return Err(Missing::Program(modules.join("opencode-linux-x64-baseline")));
        }
        Ok(Self { claude, codex, gemini, opencode })
    }

    pub fn claude(&self) -> &Path {
        &self.claude
    }

    pub fn codex(&self) -> &Path {
        &self.codex
    }

    /// Opencode, or nothing and a loud word about it where it cannot be had.
    pub fn opencode_or_skip(&self) -> Option<&Path> {
        if self.opencode.is_none() {
            crate::skip("real opencode: its package is for Linux on x86");
        }
        self.opencode.as_deref()
    }

    /// The program of this client, or nothing and a loud word about it where it cannot be had.
    pub fn program_or_skip(&self, kind: Kind) -> Option<&Path> {
        match kind {
            Kind::Claude => Some(&self.claude),
            Kind::Codex => Some(&self.codex),
            Kind::Gemini => Some(&self.gemini),
            Kind::Opencode => self.opencode_or_skip(),
        }
    }

    /// A program for node.
    pub fn gemini(&self) -> &Path {
        &self.gemini
    }
}

/// Which versions of the clients.
struct Wanted {
    /// What npm is told.
    manifest: String,
    /// Every package below, at its version. None for the newest.
    pins: Option<&'static str>,
}

impl Wanted {
    fn chosen() -> Result<Self, Missing> {
        match std::env::var(WHICH) {
            Err(_) => Ok(Self { manifest: MANIFEST.to_owned(), pins: Some(PINS) }),
            Ok(which) if which == "newest" => Self::newest(),
            Ok(other) => Err(Missing::Which(other)),
        }
    }

    /// The newest versions of the registry. Says which they are, past the test runner, and which differ from the pinned ones.
    fn newest() -> Result<Self, Missing> {
        let mut manifest: Value = serde_json::from_str(MANIFEST).expect("the manifest is JSON");
        for group in ["dependencies", "optionalDependencies"] {
            for (package, pinned) in manifest[group].as_object_mut().into_iter().flatten() {
                let answer = npm(Path::new("."), &["view", package, "version", "--json"])?;
                let newest: Value =
                    serde_json::from_str(&answer).map_err(|error| Missing::Install(error.to_string()))?;
                let change = if newest == *pinned { "as pinned" } else { "ANOTHER VERSION THAN PINNED" };
                let _ = writeln!(io::stderr(), "CLIENT: {package} {newest} ({pinned}: {change})");
                *pinned = newest;
            }
        }
        Ok(Self { manifest: manifest.to_string(), pins: None })
    }

    fn name(&self) -> String {
        let digest =
            Sha256::new().chain_update(&self.manifest).chain_update(self.pins.unwrap_or_default()).finalize();
        digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// No package's own install script runs: the programs lie ready in the packages for each system.
    fn install(&self, folder: &Path) -> Result<(), Missing> {
        let files = [("package.json", Some(self.manifest.as_str())), ("package-lock.json", self.pins)];
        for (name, text) in files.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            let place = folder.join(name);
            fs::write(&place, text).map_err(|source| Missing::Folder { place, source })?;
        }
        let install = if self.pins.is_some() { "ci" } else { "install" };
        npm(folder, &[install, "--ignore-scripts", "--no-audit", "--no-fund"]).map(drop)
    }
}

/// What npm says in this folder.
fn npm(folder: &Path, args: &[&str]) -> Result<String, Missing> {
    let done = Command::new("npm").args(args).current_dir(folder).output().map_err(Missing::Npm)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let complaints = String::from_utf8_lossy(&done.stderr).into_owned();
    // What follows is advice about proxies and log files.
    let reason: Vec<&str> = complaints.lines().filter(|line| line.starts_with("npm error")).take(3).collect();
    Err(Missing::Install(reason.join("; ")))
}
