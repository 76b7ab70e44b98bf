//! What git tracks, as far as a quick look at its index tells.
//!
//! In the versions that git writes unless it is told otherwise, the index holds the names of all tracked files as they are.
//! So what is not found in it by its name is not tracked. Git needs several times as long to say so, because it
//! reads the index to understand it.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mala_core::file::open_regular;
use memchr::memmem::Finder;

/// What an index begins with: in these versions, names stand there as they are.
const PLAIN: [&[u8]; 2] = [b"DIRC\0\0\0\x02", b"DIRC\0\0\0\x03"];
/// With this in it, there may be names in another file.
const ELSEWHERE: &[u8] = b"link\0";
const CHUNK: usize = 64 << 10;

/// Of each of these paths, whether it is certain that neither it nor anything below it is tracked.
pub(super) fn are_untracked(index: &Path, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
    let file = match open_regular(index) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![true; paths.len()]),
        file => file?,
    };
    are_unnamed(file, paths)
}

fn are_unnamed(mut index: impl Read, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
    let names: Vec<Finder<'_>> = paths.iter().map(|path| Finder::new(path.as_os_str().as_bytes())).collect();
    let longest = names.iter().map(|name| name.needle().len()).max().unwrap_or(0).max(ELSEWHERE.len());
    let elsewhere = Finder::new(ELSEWHERE);
    let mut are_unnamed = vec![true; paths.len()];
    // The end of what was looked at stays for the next look: a name, and what follows it, may go on there.
    let (mut chunk, mut filled, mut is_first) = (vec![0; CHUNK + longest], 0, true);
    loop {
        let length = read_full(&mut index, &mut chunk[filled..])?;
        let bytes = &chunk[..filled + length];
        let is_plain = !is_first || PLAIN.iter().any(|beginning| bytes.starts_with(beginning));
        if !is_plain || elsewhere.find(bytes).is_some() {
            return Ok(vec![false; paths.len()]);
        }
        for (name, is_unnamed) in names.iter().zip(&mut are_unnamed) {
            *is_unnamed = *is_unnamed && !is_named(bytes, name);
        }
        if bytes.len() < chunk.len() {
            return Ok(are_unnamed);
        }
        let kept = chunk.len() - longest;
        chunk.copy_within(kept.., 0);
        (filled, is_first) = (longest, false);
    }
}

/// True if a path may stand there that is this one or goes on below it.
fn is_named(bytes: &[u8], name: &Finder<'_>) -> bool {
    let ends = |start| bytes.get(start + name.needle().len()).is_some_and(|next| matches!(next, b'/' | 0));
    name.find_iter(bytes).any(ends)
}

/// Fills the buffer, unless there is less.
fn read_full(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match from.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn git(root: &Path, script: &str) {
        let mut sh = Command::new("sh");
        sh.args(["-ec", script]).current_dir(root).env("HOME", root).env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(sh.status().unwrap().success(), "{script}");
    }

    const PATHS: [&str; 7] = ["target", "a/target", "build", "vendor", "once", "src", "deep/er"];

    fn untracked(root: &Path) -> Vec<bool> {
        are_untracked(&root.join(".git/index"), &PATHS.map(PathBuf::from)).unwrap()
    }

    #[test]
    fn what_is_tracked_is_never_called_untracked() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, "git init -q");
        assert_eq!(untracked(root), [true; 7], "there is no index yet");
        git(
            root,
            "mkdir -p src deep/er; touch build.rs src/build.rs deep/er/x deep/erratic targets once; git add .",
        );
        let commit = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m x";
        git(
            root,
            &format!(
                "git init -q vendor; (cd vendor; {commit}); git add vendor 2>/dev/null; rm once; mkdir once"
            ),
        );
        let expected = [true, true, true, false, false, false, false];
        assert_eq!(untracked(root), expected, "a submodule, and a file where a folder is now, are tracked");
        for version in [3, 4] {
            git(root, &format!("git update-index --index-version {version}"));
            let plain = fs::read(root.join(".git/index")).unwrap()[7] != 4;
            assert_eq!(untracked(root), if plain { expected } else { [false; 7] }, "version {version}");
        }
        git(root, "git update-index --index-version 2; git update-index --split-index");
        assert_eq!(untracked(root), [false; 7], "names are in another file");
    }

    #[test]
    fn names_are_found_wherever_a_piece_ends() {
        let paths = ["target", "a much longer name than that"].map(PathBuf::from);
        for place in CHUNK - 40..CHUNK + 80 {
            for (which, path) in paths.iter().enumerate() {
                for ending in [&b"/x\0"[..], b"\0"] {
                    let mut index = [PLAIN[0], &vec![b'.'; place]].concat();
                    index.extend([path.as_os_str().as_bytes(), ending].concat());
                    let mut expected = [true; 2];
                    expected[which] = false;
                    assert_eq!(are_unnamed(&index[..], &paths).unwrap(), expected, "at {place}");
                }
            }
            let index = [PLAIN[0], &vec![b'.'; place], b"link\0"].concat();
            assert_eq!(are_unnamed(&index[..], &paths).unwrap(), [false; 2], "at {place}");
        }
        assert_eq!(are_unnamed(&b"DIRC"[..], &paths).unwrap(), [false; 2], "no index");
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        are_untracked(dir.path(), &[PathBuf::from("x")]).unwrap_err();
    }
}
