//! Other mounts of the same files: a bind mount gives the tree a second name.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount point whose files are also, or only in part, files of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) mounted_at: PathBuf,
    /// The name the same folder or file has otherwise.
    pub(crate) real: PathBuf,
}

#[derive(Debug)]
struct Mount {
    device: String,
    /// The folder of the file system that is mounted.
    source: PathBuf,
    mounted_at: PathBuf,
}

/// Every other name that mounts give to something at, below or above one of `places`.
pub(crate) fn aliases(places: &[&Path]) -> io::Result<Vec<Alias>> {
    Ok(aliases_in(&parse(&fs::read("/proc/self/mountinfo")?), places))
}

fn aliases_in(mounts: &[Mount], places: &[&Path]) -> Vec<Alias> {
    let mut found = Vec::new();
    for place in places {
        // Of the mounts that cover a place, the deepest and latest is the one that shows.
        let Some(home) = mounts
            .iter()
            .filter(|mount| place.starts_with(&mount.mounted_at))
            .max_by_key(|mount| mount.mounted_at.components().count())
        else {
            continue;
        };
        let below = place.strip_prefix(&home.mounted_at).unwrap_or(Path::new(""));
        let inside = home.source.join(below);
        for mount in mounts {
            let shares = inside.starts_with(&mount.source) || mount.source.starts_with(&inside);
            if mount.device != home.device || mount.mounted_at == home.mounted_at || !shares {
                continue;
            }
            let Ok(rest) = mount.source.strip_prefix(&home.source) else { continue };
            let alias =
                Alias { mounted_at: mount.mounted_at.clone(), real: clean(&home.mounted_at.join(rest)) };
            if !found.contains(&alias) {
                found.push(alias);
            }
        }
    }
    found
}

/// `join` with an empty path leaves a slash at the end.
fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}

fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ').skip(2);
            let device = String::from_utf8_lossy(fields.next()?).into_owned();
            Some(Mount { device, source: unescape(fields.next()?), mounted_at: unescape(fields.next()?) })
        })
        .collect()
}

/// Spaces, tabs, newlines and backslashes are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'\\').then(|| tail.get(..3)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "\
22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
24 22 254:0 /home/u/repo /mnt/with\\040space rw - ext4 /dev/vda rw
25 22 254:0 /home/u/repo/src /mnt/src rw - ext4 /dev/vda rw
26 22 254:0 /home /mnt/home rw - ext4 /dev/vda rw
27 22 254:0 /srv /mnt/srv rw - ext4 /dev/vda rw
";

    #[test]
    fn mounts_of_the_tree_its_parts_and_its_ancestors_are_aliases() {
        let alias = |at: &str, real: &str| Alias { mounted_at: at.into(), real: real.into() };
        let found = aliases_in(&parse(INFO.as_bytes()), &[Path::new("/home/u/repo")]);
        let expected = [
            alias("/mnt/with space", "/home/u/repo"),
            alias("/mnt/src", "/home/u/repo/src"),
            alias("/mnt/home", "/home"),
        ];
        assert_eq!(found, expected);
    }
}
