//! The files of one log: `NAME.jsonl`, which is written to, and `NAME.0001.jsonl`, `NAME.0002.jsonl`... which are full,
//! the oldest first.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

const SUFFIX: &str = ".jsonl";

#[derive(Debug, Clone)]
pub(crate) struct LogFiles {
    folder: PathBuf,
    /// `NAME`.
    stem: OsString,
    active: PathBuf,
}

/// A file that is full.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
}

impl LogFiles {
    /// Nothing if the path does not end in `NAME.jsonl`.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let name = path.file_name()?.as_bytes();
        let stem = name.strip_suffix(SUFFIX.as_bytes()).filter(|stem| !stem.is_empty())?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(Self {
            folder: folder.to_owned(),
            stem: OsStr::from_bytes(stem).to_owned(),
            active: folder.join(OsStr::from_bytes(name)),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that is written to.
    pub(crate) fn active(&self) -> &Path {
        &self.active
    }

    /// `NAME.something`.
    pub(crate) fn beside(&self, something: &str) -> PathBuf {
        let mut name = self.stem.clone();
        name.push(".");
        name.push(something);
        self.folder.join(name)
    }

    pub(crate) fn numbered(&self, number: u32) -> PathBuf {
        self.beside(&format!("{number:04}{SUFFIX}"))
    }

    /// The full files, the oldest first.
    pub(crate) fn finished(&self) -> io::Result<Vec<Finished>> {
        let mut found: Vec<Finished> = self
            .neighbours(|middle| {
                let digits = middle.strip_suffix(SUFFIX).filter(|digits| digits.len() >= 4)?;
                digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
            })?
            .into_iter()
            .map(|(path, number)| Finished { number, path })
            .collect();
        found.sort_by_key(|file| file.number);
        Ok(found)
    }

    /// The files called `NAME.x` for which `keep` makes something of `x`.
    pub(crate) fn neighbours<T>(&self, keep: impl Fn(&str) -> Option<T>) -> io::Result<Vec<(PathBuf, T)>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let rest = name.as_bytes().strip_prefix(self.stem.as_bytes());
            let rest = rest.and_then(|rest| rest.strip_prefix(b"."));
            let kept = rest.and_then(|rest| std::str::from_utf8(rest).ok()).and_then(&keep);
            found.extend(kept.map(|kept| (entry.path(), kept)));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_files_of_this_log_are_found_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "log.10000.jsonl",
            "log.0002.jsonl",
            "log.0001.jsonl",
            "log.jsonl",
            "log.1.jsonl",
            "log.abcd.jsonl",
            "log.head",
            "catalog.0003.jsonl",
            "log.0004.json",
        ];
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let files = LogFiles::new(&folder.path().join("log.jsonl")).unwrap();
        let numbers: Vec<u32> = files.finished().unwrap().iter().map(|file| file.number).collect();
        assert_eq!(numbers, [1, 2, 10_000]);
        assert_eq!(files.numbered(7), folder.path().join("log.0007.jsonl"));
    }

    #[test]
    fn a_name_without_the_ending_is_no_log() {
        for path in ["log.json", ".jsonl", "", "/", "log.jsonl/.."] {
            assert!(LogFiles::new(Path::new(path)).is_none(), "{path}");
        }
        assert_eq!(LogFiles::new(Path::new("log.jsonl")).unwrap().folder(), Path::new("."));
    }
}
