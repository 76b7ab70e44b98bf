//! A log of its own for each test.

use std::fs;
use std::path::{Path, PathBuf};

use mala_logs::chain::{Broken, ChainError, ChainWriter, Verified, verify};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) who: String,
    pub(crate) number: u64,
}

impl Record {
    pub(crate) fn new(who: &str, number: u64) -> Self {
        Self { who: who.to_owned(), number }
    }
}

pub(crate) struct World {
    folder: TempDir,
    full: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::full_at(u64::MAX)
    }

    /// With files that are full at some bytes.
    pub(crate) fn full_at(full: u64) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), full }
    }

    /// A log with some lines of `otter`, from 1.
    pub(crate) fn with_lines(lines: u64) -> Self {
        let world = Self::new();
        world.append(1..=lines);
        world
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.file("evidence.jsonl")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn writer(&self) -> ChainWriter {
        ChainWriter::open_with(&self.log(), self.full).unwrap()
    }

    pub(crate) fn append(&self, numbers: impl IntoIterator<Item = u64>) {
        let mut writer = self.writer();
        for number in numbers {
            writer.append(&Record::new("otter", number)).unwrap();
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.log()).unwrap().lines().map(str::to_owned).collect()
    }

    pub(crate) fn put_lines(&self, lines: &[String]) {
        fs::write(self.log(), lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }

    pub(crate) fn verified(&self) -> Verified {
        verify(&self.log()).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn broken(&self) -> Broken {
        match verify(&self.log()) {
            Err(ChainError::Broken(broken)) => broken,
            other => panic!("not broken: {other:?}"),
        }
    }

    /// What a person is told, with the folder left out.
    pub(crate) fn words(&self) -> String {
        self.broken().to_string().replace(&format!("{}/", self.folder().display()), "")
    }

    /// The names of the log's files.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
