//! A checkout with issues of the stand-in for `br` and `bd`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use mala_core::IssueId;
use mala_issues::{Beads, IssueSource, Limits, Tracker};
use tempfile::TempDir;

use crate::contract::{NewIssue, Seed};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fake-tracker");

#[derive(Debug)]
pub(crate) struct StandIn {
    kind: Tracker,
    dir: TempDir,
}

impl StandIn {
    pub(crate) fn new(kind: Tracker) -> Self {
        let tracker = Self { kind, dir: TempDir::new().unwrap() };
        fs::create_dir_all(tracker.root().join(".beads")).unwrap();
        symlink(PROGRAM, tracker.program()).unwrap();
        tracker
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("checkout")
    }

    /// It behaves like the tracker whose name it has.
    pub(crate) fn program(&self) -> PathBuf {
        self.dir.path().join(self.kind.program())
    }

    /// Writes a file that the stand-in looks at.
    pub(crate) fn set(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root().join(".beads").join(name)
    }

    pub(crate) fn source(&self, limits: Limits) -> Beads {
        Beads::new(self.kind, self.program(), self.root(), limits)
    }
}

/// The options that make a tracker create this issue. `link` writes a dependency.
pub(crate) fn create(issue: &NewIssue<'_>, link: impl Fn(&IssueId) -> String) -> Vec<String> {
    let mut args = vec!["create".to_owned(), "--json".to_owned()];
    args.push(format!("--title={}", issue.title));
    args.push(format!("--description={}", issue.description));
    args.push(format!("--type={}", issue.kind));
    args.push(format!("--priority={}", issue.priority.number()));
    args.extend(issue.needs.iter().map(|id| format!("--deps={}", link(id))));
    args
}

pub(crate) fn run(program: &Path, root: &Path, args: &[String]) -> String {
    let output = Command::new(program).args(args).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Seed for StandIn {
    fn add(&self, issue: &NewIssue<'_>) -> IssueId {
        run(&self.program(), &self.root(), &create(issue, IssueId::to_string));
        let stored: serde_json::Value = serde_json::from_str(&self.get("issues.json")).unwrap();
        IssueId::new(stored.as_array().unwrap().last().unwrap()["id"].as_str().unwrap()).unwrap()
    }

    fn rival(&self) -> Box<dyn IssueSource> {
        Box::new(self.source(Limits::default()))
    }
}
