//! Repositories inside the checkout: submodules, and what somebody has cloned there.
//!
//! Their settings may be anybody's, and settings name programs that git runs. So git never works in there with them: it
//! works on their index, objects and files with the settings of the checkout around them. Only where these lie is asked
//! of the inner repository itself (`git rev-parse`, which runs nothing).

use std::fs;
use std::path::{Path, PathBuf};

use crate::call::{Call, nul_parts};
use crate::{Oid, Repo, RepoPath};

/// Repositories in repositories in repositories: whatever lies deeper counts as changed.
const DEEPEST: u32 = 8;

/// A repository inside the checkout.
#[derive(Debug)]
pub(crate) struct Inner {
    folder: PathBuf,
    index: PathBuf,
    objects: PathBuf,
    pub(crate) head: Oid,
}

impl Inner {
    /// The repository whose top is `folder`. Nothing if there is none, or one without a commit.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        fs::symlink_metadata(folder.join(".git")).ok()?;
        let asked = Call::judging(folder, &[]).args(["rev-parse", "--path-format=absolute"]);
        let places = asked.args(["--git-path", "index", "--git-path", "objects", "HEAD"]).output().ok()?;
        let lines: Vec<&[u8]> = places.strip_suffix(b"\n")?.split(|byte| *byte == b'\n').collect();
        let [index, objects, head] = *lines.as_slice() else { return None };
        let path = |bytes: &[u8]| RepoPath::from_bytes(bytes).as_path().to_owned();
        let (index, objects) = (path(index), path(objects));
        Some(Self { folder: folder.to_owned(), index, objects, head: Oid::from_bytes(head)? })
    }

    /// True if its files are those of its last commit, with nothing new, also in the repositories inside of it.
    pub(crate) fn is_clean(&self, around: &Repo) -> bool {
        self.is_clean_below(around, DEEPEST)
    }

    fn is_clean_below(&self, around: &Repo, depth: u32) -> bool {
        let diff = ["--quiet", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];
        let is_same = self.git(around, "diff").args(diff).arg(&self.head).arg("--").answer();
        if !is_same.unwrap_or(false) {
            return false;
        }
        let new = self.git(around, "ls-files").args(["--others", "--exclude-standard", "-z"]).output();
        if !new.is_ok_and(|new| new.is_empty()) {
            return false;
        }
        let Ok(files) = self.git(around, "ls-files").args(["--stage", "-z"]).output() else { return false };
        let links = nul_parts(&files).filter_map(|line| line.strip_prefix(b"160000 "));
        let paths = links.filter_map(|line| line.splitn(2, |byte| *byte == b'\t').nth(1));
        paths.map(|path| RepoPath::from_bytes(path).within(&self.folder)).all(|folder| {
            Self::at(&folder).is_none_or(|inner| depth > 0 && inner.is_clean_below(around, depth - 1))
        })
    }

    /// Git on this repository, with the settings of the one around it.
    fn git(&self, around: &Repo, command: &str) -> Call {
        Call::judging(&self.folder, &[])
            .env("GIT_DIR", around.scope().git_dir())
            .env("GIT_WORK_TREE", &self.folder)
            .env("GIT_OBJECT_DIRECTORY", &self.objects)
            .index(&self.index)
            .arg(command)
    }
}
