//! What git's index says, and about which paths two versions of it say something else.
//!
//! Asked several times for every issue, and for every index that an agent's git puts in place, so the file is read here rather than
//! by one more git. The format is git's own (<https://git-scm.com/docs/index-format>). What this does not read (a split or a
//! sparse index, later versions) git is asked about. Times and sizes by which git knows files again say nothing about a path.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mala_core::file::read_small;

use crate::call::nul_parts;
use crate::{GitError, Oid, Repo, RepoPath, TreeEntry};

const MAX_INDEX_BYTES: u64 = 1 << 30;
/// Of SHA-1 and SHA-256. The index does not say which it is, but it only has an end with the right one.
const HASH_LENGTHS: [usize; 2] = [20, 32];
/// What comes before the hash in an entry: times, place and size of the file, with its mode at [`MODE`].
const STAT_BYTES: usize = 40;
const MODE: std::ops::Range<usize> = 24..28;
/// Extensions that say that entries are in another file, or that one entry stands for a directory.
const UNREAD_EXTENSIONS: [&[u8]; 2] = [b"link", b"sdir"];

const ASSUME_UNCHANGED: u16 = 1 << 15;
const EXTENDED: u16 = 1 << 14;
const STAGE: u16 = 0b11 << 12;
/// Of the flags that an entry has besides, if it is extended.
const SKIP_WORKTREE: u16 = 1 << 14;
const INTENT_TO_ADD: u16 = 1 << 13;

/// What an index says about a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexEntry {
    path: Vec<u8>,
    /// 0, or which side of a conflict it is.
    stage: u8,
    mode: u32,
    oid: Vec<u8>,
    is_assumed_unchanged: bool,
    is_skipped: bool,
    /// Git does not list it, so it counts only where the file itself was read.
    is_intended: bool,
}

impl IndexEntry {
    pub(crate) fn path(&self) -> RepoPath {
        RepoPath::from_bytes(self.path.clone())
    }

    pub(crate) fn is_unmerged(&self) -> bool {
        self.stage != 0
    }

    pub(crate) fn is_submodule(&self) -> bool {
        self.mode == 0o160_000
    }

    /// Git was told to take the file as it is for granted.
    pub(crate) fn is_assumed_unchanged(&self) -> bool {
        self.is_assumed_unchanged
    }

    /// Git was told to leave the file out of the checkout.
    pub(crate) fn is_skipped(&self) -> bool {
        self.is_skipped
    }

    /// As a tree would have it.
    pub(crate) fn tree_entry(&self) -> Option<TreeEntry> {
        let oid = Oid::parse(&hex::encode(&self.oid))?;
        Some(TreeEntry { mode: format!("{:06o}", self.mode), oid })
    }

    /// `tag mode oid stage<TAB>path`, as `git ls-files -v --stage` says it.
    fn listed(line: &[u8]) -> Option<Self> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let fields: Vec<&str> = std::str::from_utf8(&line[..tab]).ok()?.split(' ').collect();
        let [tag, mode, oid, stage] = fields.as_slice() else { return None };
        Some(Self {
            path: line[tab + 1..].to_vec(),
            stage: stage.parse().ok()?,
            mode: u32::from_str_radix(mode, 8).ok()?,
            oid: hex::decode(oid).ok()?,
            is_assumed_unchanged: tag.bytes().all(|byte| byte.is_ascii_lowercase()),
            is_skipped: tag.eq_ignore_ascii_case("s"),
            is_intended: false,
        })
    }
}

impl Repo {
    /// What the index of this checkout says, in git's order.
    pub(crate) fn index_entries(&self) -> Result<Vec<IndexEntry>, GitError> {
        let chosen = self.env.iter().find(|(name, _)| name == "GIT_INDEX_FILE");
        let index = match chosen {
            Some((_, index)) => PathBuf::from(index),
            None => self.git_dir()?.join("index"),
        };
        match entries_of(&index)? {
            Some(entries) => Ok(entries),
            None => self.listed_entries(&index),
        }
    }

    /// The paths about which the index at `after` says something else than the one at `before`. What is not there is empty.
    pub fn changed_entries(&self, before: &Path, after: &Path) -> Result<Vec<RepoPath>, GitError> {
        let read = match (entries_of(before)?, entries_of(after)?) {
            (Some(before), Some(after)) => (before, after),
            _ => (self.listed_entries(before)?, self.listed_entries(after)?),
        };
        Ok(differing(&read.0, &read.1))
    }

    /// The entries as git lists them.
    fn listed_entries(&self, index: &Path) -> Result<Vec<IndexEntry>, GitError> {
        if is_absent(index) {
            return Ok(Vec::new());
        }
        let listed = self.git("ls-files").index(index).args(["-v", "--stage", "-z"]).output()?;
        let entry = |line| IndexEntry::listed(line).ok_or_else(|| GitError::answer("ls-files", line));
        let mut entries: Vec<IndexEntry> = nul_parts(&listed).map(entry).collect::<Result<_, _>>()?;
        entries.sort_unstable();
        Ok(entries)
    }
}

fn is_absent(index: &Path) -> bool {
    fs::symlink_metadata(index).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The entries of an index, if it is read here.
fn entries_of(index: &Path) -> Result<Option<Vec<IndexEntry>>, GitError> {
    if is_absent(index) {
        return Ok(Some(Vec::new()));
    }
    let failed = |source| GitError::Index { path: index.to_owned(), source };
    let bytes = read_small(index, MAX_INDEX_BYTES).map_err(failed)?;
    Ok(HASH_LENGTHS.into_iter().find_map(|hash| parsed(&bytes, hash)))
}

/// The entries of an index whose object names have this length, in order. None if it is not one, or not read here.
fn parsed(bytes: &[u8], hash: usize) -> Option<Vec<IndexEntry>> {
    let rest = bytes.strip_prefix(b"DIRC")?;
    let version = number(rest.get(..4)?)?;
    let count = number(rest.get(4..8)?)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut entries: Vec<IndexEntry> = Vec::with_capacity((count as usize).min(bytes.len() / STAT_BYTES));
    let mut at = 12;
    for _ in 0..count {
        let previous = entries.last().map_or(&[][..], |entry| &entry.path);
        let (entry, length) = entry(bytes.get(at..)?, hash, version, previous)?;
        if entries.last().is_some_and(|last| last.path > entry.path) {
            return None;
        }
        entries.push(entry);
        at += length;
    }
    ends_after_extensions(bytes.get(at..)?, hash).then_some(entries)
}

fn entry(bytes: &[u8], hash: usize, version: u32, previous: &[u8]) -> Option<(IndexEntry, usize)> {
    let named = STAT_BYTES + hash;
    let flags = short(bytes.get(named..named + 2)?)?;
    let mut head = named + 2;
    let mut more = 0;
    if flags & EXTENDED != 0 {
        more = short(bytes.get(head..head + 2)?)?;
        head += 2;
    }
    let (kept, start) = match version {
        4 => {
            let (dropped, length) = offset(bytes.get(head..)?)?;
            (previous.get(..previous.len().checked_sub(dropped)?)?, head + length)
        }
        _ => (&[][..], head),
    };
    let name = bytes.get(start..)?;
    let name = &name[..name.iter().position(|byte| *byte == 0)?];
    let end = start + name.len() + 1;
    // Up to version 3, entries begin at multiples of eight bytes.
    let length = if version == 4 { end } else { end.next_multiple_of(8) };
    let entry = IndexEntry {
        path: [kept, name].concat(),
        stage: u8::try_from((flags & STAGE) >> STAGE.trailing_zeros()).ok()?,
        mode: number(bytes.get(MODE)?)?,
        oid: bytes.get(STAT_BYTES..named)?.to_vec(),
        is_assumed_unchanged: flags & ASSUME_UNCHANGED != 0,
        is_skipped: more & SKIP_WORKTREE != 0,
        is_intended: more & INTENT_TO_ADD != 0,
    };
    (length <= bytes.len()).then_some((entry, length))
}

/// A number as git writes offsets, and how many bytes it takes (`decode_varint` in git's `varint.c`).
fn offset(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value: usize = 0;
    for (at, byte) in bytes.iter().enumerate().take(8) {
        value = value << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value += 1;
    }
    None
}

fn ends_after_extensions(mut bytes: &[u8], hash: usize) -> bool {
    while bytes.len() > hash {
        let (Some(name), Some(length)) = (bytes.get(..4), bytes.get(4..8).and_then(number)) else {
            return false;
        };
        let Some(rest) = bytes.get(8 + length as usize..) else { return false };
        if UNREAD_EXTENSIONS.contains(&name) {
            return false;
        }
        bytes = rest;
    }
    bytes.len() == hash
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn short(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// The paths of which not all entries are the same. Both lists are in the order of their paths.
fn differing(before: &[IndexEntry], after: &[IndexEntry]) -> Vec<RepoPath> {
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    let mut paths: Vec<RepoPath> = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return paths,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.cmp(new),
        };
        let entry = match order {
            Ordering::Less => old.next(),
            Ordering::Greater => new.next(),
            Ordering::Equal => {
                old.next();
                new.next();
                None
            }
        };
        if let Some(entry) = entry
            && paths.last().is_none_or(|last| last.as_bytes() != entry.path)
        {
            paths.push(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use mala_core::Scope;

    use super::*;

    struct World(tempfile::TempDir);

    impl World {
        fn new(format: &str) -> Self {
            let world = Self(tempfile::tempdir().unwrap());
            world.sh(&format!(
                "git init -q --object-format={format}; mkdir -p d/e; echo 1 > a; echo 1 > d/b; echo 1 > d/e/c; git add ."
            ));
            world
        }

        fn sh(&self, script: &str) {
            let mut sh = Command::new("sh");
            sh.args(["-ec", script]).current_dir(self.0.path()).env("HOME", self.0.path());
            sh.env("GIT_CONFIG_NOSYSTEM", "1");
            assert!(sh.status().unwrap().success(), "{script}");
        }

        /// What a script changes of the index.
        fn changed_by(&self, script: &str) -> Vec<String> {
            let (index, before) = (self.0.path().join(".git/index"), self.0.path().join(".git/before"));
            fs::copy(&index, &before).unwrap();
            self.sh(script);
            let repo = Repo::new(Scope::discover(self.0.path()).unwrap());
            let changed = repo.changed_entries(&before, &index).unwrap();
            changed.iter().map(RepoPath::to_text).collect()
        }
    }

    #[test]
    fn paths_whose_entries_differ_are_named_and_no_others() {
        for (format, version) in [("sha1", 2), ("sha1", 3), ("sha1", 4), ("sha256", 2), ("sha256", 4)] {
            let world = World::new(format);
            world.sh(&format!("git update-index --index-version {version}"));
            for (script, changed) in [
                ("touch -d @1 a; git update-index --refresh", &[][..]),
                ("echo 2 > d/b; git add d/b", &["d/b"]),
                ("echo 2 > d/new; git add d/new; git rm -q --cached a", &["a", "d/new"]),
                ("git add a; chmod +x a; git add a", &["a"]),
                ("git update-index --assume-unchanged d/e/c", &["d/e/c"]),
                ("git update-index --skip-worktree d/b", &["d/b"]),
                ("echo x > later; git add -N later", &["later"]),
                ("git read-tree --empty", &["a", "d/b", "d/e/c", "d/new", "later"]),
            ] {
                assert_eq!(world.changed_by(script), changed, "{format}, version {version}: {script}");
            }
        }
    }

    #[test]
    fn an_index_is_read_as_git_lists_it() {
        let world = World::new("sha1");
        world.sh("git update-index --assume-unchanged a; git update-index --skip-worktree d/b; chmod +x d/e/c; git add d/e/c; ln -s a link; git add link");
        world.sh("h=$(git hash-object a); printf '100644 %s 1\\tz\\n100755 %s 2\\tz\\n' $h $h | git update-index --index-info");
        let repo = Repo::new(Scope::discover(world.0.path()).unwrap());
        let read = repo.index_entries().unwrap();
        assert_eq!(read, repo.listed_entries(&world.0.path().join(".git/index")).unwrap());
        let told: Vec<_> = read
            .iter()
            .map(|entry| {
                (entry.path().to_text(), entry.is_assumed_unchanged(), entry.is_skipped(), entry.stage)
            })
            .collect();
        let expected = [
            ("a", true, false, 0),
            ("d/b", false, true, 0),
            ("d/e/c", false, false, 0),
            ("link", false, false, 0),
            ("z", false, false, 1),
            ("z", false, false, 2),
        ];
        assert_eq!(
            told,
            expected.map(|(path, assumed, skipped, stage)| (path.to_owned(), assumed, skipped, stage))
        );
        assert_eq!(read[2].tree_entry().unwrap().mode, "100755");
    }

    #[test]
    fn what_is_in_another_file_is_found_by_git() {
        let world = World::new("sha1");
        world.sh("git update-index --split-index");
        assert_eq!(world.changed_by("echo 2 > d/b; git add d/b"), ["d/b"]);
        assert_eq!(world.changed_by("git update-index --no-split-index"), [""; 0]);
    }

    #[test]
    fn stages_of_a_conflict_are_entries_of_one_path() {
        let world = World::new("sha1");
        let script = "h=$(git hash-object a); printf '0 0000000000000000000000000000000000000000\\ta\\n100644 %s 1\\ta\\n100644 %s 2\\ta\\n' $h $h | git update-index --index-info";
        assert_eq!(world.changed_by(script), ["a"]);
        assert_eq!(world.changed_by("git add a"), ["a"]);
    }

    #[test]
    fn what_is_no_index_is_an_error_and_what_is_not_there_is_empty() {
        let world = World::new("sha1");
        let repo = Repo::new(Scope::discover(world.0.path()).unwrap());
        let (index, none) = (world.0.path().join(".git/index"), world.0.path().join("none"));
        let all = repo.changed_entries(&none, &index).unwrap();
        assert_eq!(all.iter().map(RepoPath::to_text).collect::<Vec<_>>(), ["a", "d/b", "d/e/c"]);
        fs::write(&none, "DIRC nothing of the kind").unwrap();
        repo.changed_entries(&none, &index).unwrap_err();
    }
}
