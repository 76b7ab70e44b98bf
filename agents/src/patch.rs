//! The files that a patch names.

use thiserror::Error;

use crate::intent::MAX_PATHS;

/// Why the files of a patch are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PatchError {
    #[error("it names no file")]
    NoFile,
    #[error("it names a file that is empty")]
    EmptyName,
    #[error("it names more than {MAX_PATHS} files: make several of it")]
    TooManyFiles,
}

/// How a patch names what it does to files.
const CHANGING: &[&str] = &["*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"];

/// Those that leave nothing of what the file held.
const REPLACING: &[&str] = &["*** Add File:", "*** Delete File:", "*** Move to:"];

/// The files that an `apply_patch` text adds, changes, deletes, or moves to.
pub fn paths(text: &str) -> Result<Vec<String>, PatchError> {
    let paths = named(text, CHANGING);
    if paths.iter().any(String::is_empty) {
        return Err(PatchError::EmptyName);
    }
    if paths.len() > MAX_PATHS {
        return Err(PatchError::TooManyFiles);
    }
    if paths.is_empty() { Err(PatchError::NoFile) } else { Ok(paths) }
}

/// The files of which such a text leaves nothing: new ones, which may be there already, deleted ones, and those that another is
/// moved onto.
pub(crate) fn replaced_paths(text: &str) -> Vec<String> {
    named(text, REPLACING)
}

/// The files that stand behind these headers.
fn named(text: &str, headers: &[&str]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let Some(path) = headers.iter().find_map(|header| line.strip_prefix(header)) else { continue };
        let path = path.trim();
        // A patch that names more than that is refused.
        if paths.len() <= MAX_PATHS && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// The files that a unified diff names, the first `strip` folders taken off each, as `patch -p` does.
pub(crate) fn unified_paths(text: &str, strip: usize) -> Vec<String> {
    const HEADERS: [&str; 6] = ["--- ", "+++ ", "rename from ", "rename to ", "copy to ", "Index: "];
    let mut paths: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some(header) = HEADERS.iter().find(|header| line.starts_with(**header)) else { continue };
        // Behind a tab stands a time.
        let name = line[header.len()..].split('\t').next().unwrap_or_default().trim();
        if name.is_empty() || name == "/dev/null" {
            continue;
        }
        let strip = if header.contains("name") || header.contains("copy") { 0 } else { strip };
        let path = name.splitn(strip + 1, '/').last().unwrap_or(name);
        // A command that writes more than that is refused.
        if paths.len() <= MAX_PATHS && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_patch_is_found_also_both_names_of_a_moved_one() {
        let text = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** Update File: a/b.rs\n*** Move to: a/c.rs\n@@\n-x\n+y\n\
                    *** Delete File: old name.txt\n*** End Patch\n";
        assert_eq!(paths(text).unwrap(), ["new.txt", "a/b.rs", "a/c.rs", "old name.txt"]);
    }

    #[test]
    fn content_that_looks_like_a_header_is_not_one() {
        let text =
            "*** Begin Patch\n*** Update File: a\n@@\n+*** Delete File: b\n-*** Add File: c\n*** End Patch";
        assert_eq!(paths(text).unwrap(), ["a"]);
    }

    #[test]
    fn a_patch_without_files_is_an_error() {
        assert_eq!(paths("*** Begin Patch\n*** End Patch"), Err(PatchError::NoFile));
        assert_eq!(paths("*** Add File:   \n"), Err(PatchError::EmptyName));
    }

    #[test]
    fn a_diff_names_its_files_without_the_stripped_folders() {
        let diff =
            "--- a/src/x.rs\t2020-01-01\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/new.rs\n";
        assert_eq!(unified_paths(diff, 1), ["src/x.rs", "new.rs"]);
        assert_eq!(unified_paths("rename from p/q\nrename to p/r\n", 1), ["p/q", "p/r"]);
    }
}
