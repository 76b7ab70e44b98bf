//! Finding what git does not hold, and choosing what is small enough to be copied.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::call::nul_parts;
use crate::{GitError, Repo, RepoPath};

/// Entries of one directory tree that are looked at; one with more is named and left out.
const MAX_TREE_ENTRIES: usize = 20_000;

/// Directories that a build or a tool makes again, whatever the project's preset is.
const BUILD_DIRECTORIES: [&str; 28] = [
    // Trackers write it all the time, and make it again from what they export.
    ".beads",
    "node_modules",
    "target",
    "build",
    "dist",
    "out",
    "venv",
    ".venv",
    "__pycache__",
    ".cache",
    ".direnv",
    ".eggs",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".terraform",
    ".tox",
    ".turbo",
    "_build",
    "bazel-out",
    "coverage",
    "zig-cache",
];

/// Files that only mean something to the process that writes them, and what git or python makes again.
const LEFT_OUT_SUFFIXES: [&str; 8] = ["-journal", "-wal", "-shm", ".pid", ".sock", ".swp", ".pyc", ".sample"];

/// <https://bford.info/cachedir/>
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// How much is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub file_bytes: u64,
    pub total_bytes: u64,
    pub files: usize,
}

/// What is too large to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oversize {
    pub path: RepoPath,
    /// Of a file; a directory with too many entries has no size.
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Symlink,
    EmptyDirectory,
}

/// One path that git does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unversioned {
    pub(super) path: RepoPath,
    pub(super) kind: Kind,
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) found: Vec<Unversioned>,
    pub(super) oversize: Vec<Oversize>,
}

/// What is copied as a whole or not at all: a file, or the directory of git in a repository, which is worth nothing in part.
struct Unit {
    path: RepoPath,
    bytes: u64,
    is_repository: bool,
    parts: Vec<Unversioned>,
}

impl Limits {
    /// The smallest first, as long as there is room: what people write by hand is small.
    pub(super) fn choose(&self, found: Vec<Unversioned>) -> (Vec<Unversioned>, Vec<Oversize>) {
        let mut units = units(found);
        units.sort_by(|one, other| (one.bytes, &one.path).cmp(&(other.bytes, &other.path)));
        let (mut kept, mut oversize, mut total) = (Vec::new(), Vec::new(), 0_u64);
        for unit in units {
            let fits = (unit.is_repository || unit.bytes <= self.file_bytes)
                && total.saturating_add(unit.bytes) <= self.total_bytes
                && kept.len() + unit.parts.len() <= self.files;
            if fits {
                total += unit.bytes;
                kept.extend(unit.parts);
            } else {
                oversize.push(Oversize { path: unit.path, bytes: Some(unit.bytes) });
            }
        }
        oversize.reverse();
        (kept, oversize)
    }
}

fn units(found: Vec<Unversioned>) -> Vec<Unit> {
    let mut repositories: BTreeMap<RepoPath, Unit> = BTreeMap::new();
    let mut units = Vec::new();
    for unversioned in found {
        let bytes = unversioned.bytes;
        let Some(git_dir) = super::git_dir_of(&unversioned.path) else {
            let path = unversioned.path.clone();
            units.push(Unit { path, bytes, is_repository: false, parts: vec![unversioned] });
            continue;
        };
        let new = || Unit { path: git_dir.clone(), bytes: 0, is_repository: true, parts: Vec::new() };
        let unit = repositories.entry(git_dir.clone()).or_insert_with(new);
        unit.bytes += bytes;
        unit.parts.push(unversioned);
    }
    units.extend(repositories.into_values());
    units
}

pub(super) fn scan(repo: &Repo, build: &[String]) -> Result<Scan, GitError> {
    let mut walk = Walk { repo, build, scan: Scan::default() };
    for (options, rule) in [
        (["--ignored", "--exclude-standard"].as_slice(), Rule::Everything),
        (["--exclude-standard"].as_slice(), Rule::WhatGitLeavesOut),
    ] {
        let listed = repo.git("ls-files").args(["-z", "--others", "--directory"]).args(options).output()?;
        for path in nul_parts(&listed) {
            let (path, is_directory) = match path.strip_suffix(b"/") {
                Some(path) => (path, true),
                None => (path, false),
            };
            let path = RepoPath::from_bytes(path);
            match is_directory {
                true => walk.tree(path, rule),
                false if rule == Rule::Everything => walk.leaf(path),
                // Git's own status has it.
                false => {}
            }
        }
    }
    Ok(walk.scan)
}

/// What of a directory counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Git ignores it, or it belongs to another repository.
    Everything,
    /// Plain untracked files are saved with git's own means; repositories and empty directories are not.
    WhatGitLeavesOut,
}

struct Walk<'a> {
    repo: &'a Repo,
    build: &'a [String],
    scan: Scan,
}

impl Walk<'_> {
    fn tree(&mut self, top: RepoPath, rule: Rule) {
        let before = self.scan.found.len();
        let mut visited = 0;
        let mut pending = vec![(top.clone(), rule)];
        while let Some((directory, rule)) = pending.pop() {
            if self.is_left_out(&directory) {
                continue;
            }
            let place = directory.within(self.repo.root());
            let rule = match is_repository(&place) {
                Repository::None => rule,
                Repository::Own => Rule::Everything,
                // A worktree or a submodule: its files are another checkout's.
                Repository::Elsewhere => continue,
            };
            // One that cannot be read is nobody's to save.
            let Ok(entries) = fs::read_dir(&place) else { continue };
            let mut is_empty = true;
            for entry in entries.flatten() {
                is_empty = false;
                visited += 1;
                if visited > MAX_TREE_ENTRIES {
                    self.scan.found.truncate(before);
                    self.scan.oversize.push(Oversize { path: top, bytes: None });
                    return;
                }
                let path = child(&directory, &entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => pending.push((path, rule)),
                    Ok(_) if rule == Rule::Everything => self.leaf(path),
                    _ => {}
                }
            }
            if is_empty {
                self.scan.found.push(Unversioned { path: directory, kind: Kind::EmptyDirectory, bytes: 0 });
            }
        }
    }

    fn leaf(&mut self, path: RepoPath) {
        let Ok(found) = path.within(self.repo.root()).symlink_metadata() else { return };
        let kind = match found.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_symlink() => Kind::Symlink,
            _ => return,
        };
        let is_left_out = LEFT_OUT_SUFFIXES.iter().any(|suffix| path.as_bytes().ends_with(suffix.as_bytes()));
        if !is_left_out {
            let bytes = if kind == Kind::File { found.len() } else { 0 };
            self.scan.found.push(Unversioned { path, kind, bytes });
        }
    }

    fn is_left_out(&self, directory: &RepoPath) -> bool {
        let is_apart = self.repo.apart.iter().any(|apart| directory.is_within(apart));
        // A branch may have such a name.
        is_apart || (super::git_dir_of(directory).is_none() && self.is_build_directory(directory))
    }

    fn is_build_directory(&self, directory: &RepoPath) -> bool {
        let place = directory.within(self.repo.root());
        let Some(name) = place.file_name().and_then(|name| name.to_str()) else { return false };
        let is_configured = self.build.iter().any(|build| match build.strip_prefix('/') {
            Some(path) => directory.as_bytes() == path.trim_end_matches('/').as_bytes(),
            None => build == name,
        });
        is_configured || BUILD_DIRECTORIES.contains(&name) || place.join(CACHE_TAG).is_file()
    }
}

enum Repository {
    None,
    Own,
    Elsewhere,
}

fn is_repository(place: &Path) -> Repository {
    match place.join(".git").symlink_metadata() {
        Ok(found) if found.is_dir() => Repository::Own,
        Ok(_) => Repository::Elsewhere,
        Err(_) => Repository::None,
    }
}

fn child(directory: &RepoPath, name: &std::ffi::OsStr) -> RepoPath {
    let mut path = directory.as_bytes().to_vec();
    path.push(b'/');
    path.extend_from_slice(name.as_encoded_bytes());
    RepoPath::from_bytes(path)
}
