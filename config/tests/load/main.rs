//! What a person gets from `Settings::load`: which layer wins, and what they read when something is wrong.

mod errors;
mod layers;
mod unknown;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use mala_config::{ConfigError, Loaded, Override, Settings, Sources};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use tempfile::TempDir;

/// A folder with the files of one test, and what is given besides them.
struct World {
    dir: TempDir,
    sources: Sources,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder"), sources: Sources::default() }
    }

    fn repo(text: &str) -> Self {
        Self::new().repo_file(text)
    }

    fn user_file(mut self, text: &str) -> Self {
        self.sources.user_file = Some(self.write("user.toml", text.as_bytes()));
        self
    }

    fn repo_file(mut self, text: &str) -> Self {
        self.sources.repo_file = Some(self.write("mala.toml", text.as_bytes()));
        self
    }

    fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.sources.env.push((OsString::from(name), value.as_ref().to_owned()));
        self
    }

    fn argument(mut self, key: &str, value: &str) -> Self {
        let typed = format!("--{} {value}", key.rsplit('.').next().unwrap_or(key));
        self.sources.overrides.push(Override { key: key.to_owned(), value: value.to_owned(), typed });
        self
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).expect("a writable temporary folder");
        path
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        Settings::load(&self.sources)
    }

    fn loaded(&self) -> Loaded {
        self.load().expect("legal settings")
    }

    /// The error as a terminal shows it.
    fn error(&self) -> String {
        self.rendered(&self.load().expect_err("illegal settings"))
    }

    /// The warnings as a terminal shows them.
    fn warnings(&self) -> String {
        self.loaded().warnings.iter().map(|warning| self.rendered(warning)).collect()
    }

    /// Every setting with its origin, one in a line.
    fn listing(&self) -> String {
        let loaded = self.loaded();
        let lines: Vec<String> = loaded
            .entries()
            .map(|entry| format!("{} = {}  # {}", entry.key, entry.value, entry.origin))
            .collect();
        self.without_dir(&lines.join("\n"))
    }

    fn rendered(&self, diagnostic: &dyn Diagnostic) -> String {
        let handler =
            GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_wrap_lines(false);
        let mut report = String::new();
        handler.render_report(&mut report, diagnostic).expect("writing to a string");
        let lines: Vec<&str> = report.lines().map(str::trim_end).collect();
        self.without_dir(&format!("{}\n", lines.join("\n")))
    }

    fn without_dir(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir.path().display()), "")
    }
}
