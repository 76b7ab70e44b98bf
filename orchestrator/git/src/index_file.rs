//! What two versions of git's index say differently about which paths.
//!
//! Asked for every index that an agent's git puts in place, so the files are read here rather than by two more gits. The format
//! is git's own, `gitformat-index(5)`. What this does not read (a split or a sparse index, later versions) git is asked about.
//! Times and sizes by which git knows files again say nothing about a path.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::Path;

use mala_core::file::read_small;

use crate::call::nul_parts;
use crate::retry::Git;
use crate::{GitError, Repo, RepoPath};

const MAX_INDEX_BYTES: u64 = 1 << 30;
/// Of SHA-1 and SHA-256. The index does not say which it is, but it only has an end with the right one.
const HASH_LENGTHS: [usize; 2] = [20, 32];
/// What comes before the hash in an entry: times, place and size of the file, with its mode at [`MODE`].
const STAT_BYTES: usize = 40;
const MODE: std::ops::Range<usize> = 24..28;
/// Extensions that say that entries are in another file, or that one entry stands for a directory.
const UNREAD_EXTENSIONS: [&[u8]; 2] = [b"link", b"sdir"];

const EXTENDED: u16 = 1 << 14;
/// `assume-unchanged` and the stage.
const TELLING: u16 = 0b1011 << 12;
/// `skip-worktree` and `intent-to-add`.
const TELLING_EXTENDED: u16 = 0b11 << 13;

/// One entry: its path, and all else that it says about it.
type Entry = (Vec<u8>, Vec<u8>);

impl Repo {
    /// The paths about which the index at `after` says something else than the one at `before`. What is not there is empty.
    pub fn changed_entries(&self, before: &Path, after: &Path) -> Result<Vec<RepoPath>, GitError> {
        let read = match (entries_of(before)?, entries_of(after)?) {
            (Some(before), Some(after)) => (before, after),
            _ => (self.listed_entries(before)?, self.listed_entries(after)?),
        };
        Ok(differing(&read.0, &read.1))
    }

    /// The entries as git lists them.
    fn listed_entries(&self, index: &Path) -> Result<Vec<Entry>, GitError> {
        if is_absent(index) {
            return Ok(Vec::new());
        }
        let listed = Git::with_index(self.root(), index).run(&["ls-files", "-v", "--stage", "-z"], b"")?;
        let mut entries: Vec<Entry> = nul_parts(&listed)
            .map(|line| {
                let tab = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
                (line.get(tab + 1..).unwrap_or_default().to_vec(), line[..tab].to_vec())
            })
            .collect();
        entries.sort_unstable();
        Ok(entries)
    }
}

fn is_absent(index: &Path) -> bool {
    fs::symlink_metadata(index).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The entries of an index, if it is read here.
fn entries_of(index: &Path) -> Result<Option<Vec<Entry>>, GitError> {
    if is_absent(index) {
        return Ok(Some(Vec::new()));
    }
    let failed = |source| GitError::Index { path: index.to_owned(), source };
    let bytes = read_small(index, MAX_INDEX_BYTES).map_err(failed)?;
    Ok(HASH_LENGTHS.into_iter().find_map(|hash| parsed(&bytes, hash)))
}

/// The entries of an index whose object names have this length, in order. None if it is not one, or not read here.
fn parsed(bytes: &[u8], hash: usize) -> Option<Vec<Entry>> {
    let rest = bytes.strip_prefix(b"DIRC")?;
    let version = number(rest.get(..4)?)?;
    let count = number(rest.get(4..8)?)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut entries: Vec<Entry> = Vec::with_capacity((count as usize).min(bytes.len() / STAT_BYTES));
    let mut at = 12;
    for _ in 0..count {
        let previous = entries.last().map_or(&[][..], |(path, _)| path);
        let (entry, length) = entry(bytes.get(at..)?, hash, version, previous)?;
        if entries.last().is_some_and(|last| last.0 > entry.0) {
            return None;
        }
        entries.push(entry);
        at += length;
    }
    ends_after_extensions(bytes.get(at..)?, hash).then_some(entries)
}

fn entry(bytes: &[u8], hash: usize, version: u32, previous: &[u8]) -> Option<(Entry, usize)> {
    let named = STAT_BYTES + hash;
    let flags = short(bytes.get(named..named + 2)?)?;
    let mut head = named + 2;
    let mut more = 0;
    if flags & EXTENDED != 0 {
        more = short(bytes.get(head..head + 2)?)?;
        head += 2;
    }
    let mut said = [bytes.get(MODE)?, bytes.get(STAT_BYTES..named)?].concat();
    said.extend((flags & TELLING).to_be_bytes());
    said.extend((more & TELLING_EXTENDED).to_be_bytes());
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
    (length <= bytes.len()).then(|| (([kept, name].concat(), said), length))
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
fn differing(before: &[Entry], after: &[Entry]) -> Vec<RepoPath> {
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
        if let Some((path, _)) = entry
            && paths.last().is_none_or(|last| last.as_bytes() != path)
        {
            paths.push(RepoPath::from_bytes(path.clone()));
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
