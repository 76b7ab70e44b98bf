//! What a `git commit` takes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use path_clean::PathClean;

use super::call::Call;
use super::rules::{asks_for_help, commit_flags};

/// What one `git commit` takes, by its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    takes: Takes,
    /// `-C`, in order.
    folders: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Takes {
    Staged,
    /// `--all`, or paths that these rules do not see through.
    All,
    /// Paths alone, or with `--include` besides what is staged.
    Only(Vec<PathBuf>),
    Include(Vec<PathBuf>),
}

/// What the command `args`, `git` itself first, would commit. None if it commits nothing.
pub fn committed(args: &[OsString]) -> Option<Commit> {
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    let call = Call::read(&args).filter(|call| call.verb == "commit" && !asks_for_help(call))?;
    let flags = commit_flags(call.rest);
    let has = |short: &str, long: &str, shortest: usize| {
        flags.iter().any(|flag| *flag == short || (flag.len() >= shortest && long.starts_with(flag)))
    };
    if has("--dry-run", "--dry-run", "--dr".len()) {
        return None;
    }
    let is_plain = |path: &str| !path.starts_with(':') && !path.contains(['*', '?', '[', '\\']);
    let paths: Vec<&str> = call.behind_dashes().unwrap_or_default().to_vec();
    let operands = flags.iter().copied().filter(|flag| !flag.starts_with('-') && !paths.contains(flag));
    let paths: Vec<&str> = operands.chain(paths.iter().copied()).collect();
    let is_unclear = call.rest.iter().any(|arg| arg.starts_with("--pathspec-f"));
    let named = || paths.iter().map(PathBuf::from).collect();
    let takes = match () {
        () if has("-a", "--all", "--al".len()) || is_unclear => Takes::All,
        () if paths.is_empty() => Takes::Staged,
        () if !paths.iter().all(|path| is_plain(path)) => Takes::All,
        () if has("-i", "--include", "--i".len()) => Takes::Include(named()),
        () => Takes::Only(named()),
    };
    Some(Commit { takes, folders: call.folders.iter().map(PathBuf::from).collect() })
}

impl Commit {
    pub fn takes_staged(&self) -> bool {
        !matches!(self.takes, Takes::Only(_))
    }

    pub fn takes_unstaged(&self) -> bool {
        self.takes != Takes::Staged
    }

    /// True if a change of `file`, absolute, is taken although it is not staged, by a git that starts in `folder`.
    pub fn names(&self, folder: &Path, file: &Path) -> bool {
        let folder = self.folders.iter().fold(folder.to_path_buf(), |at, folder| at.join(folder));
        match &self.takes {
            Takes::Staged => false,
            Takes::All => true,
            Takes::Only(paths) | Takes::Include(paths) => {
                paths.iter().any(|path| file.starts_with(folder.join(path).clean()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(line: &str) -> Option<Commit> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        committed(&args)
    }

    #[test]
    fn what_a_commit_takes_is_told_by_its_arguments() {
        let file = Path::new("/repo/src/a.rs");
        // The folder, whether what is staged is taken, and whether an unstaged change of the file is.
        for (line, staged, unstaged) in [
            ("git commit -m x", true, false),
            ("git commit -m x --allow-empty", true, false),
            ("git commit -am x", true, true),
            ("git commit --all -m -", true, true),
            ("git commit -m x a.rs", false, true),
            ("git commit -m x -- a.rs", false, true),
            ("git commit -o -m x -- ../src", false, true),
            ("git commit -m x b.rs", false, false),
            ("git commit -i -m x b.rs", true, false),
            ("git commit -im x a.rs", true, true),
            ("git commit -m x *.rs", true, true),
            ("git commit -m x :/", true, true),
            ("git commit --pathspec-from-file=list -m x", true, true),
            ("git -C .. commit -m x src/a.rs", false, true),
            ("git -C .. commit -m x a.rs", false, false),
        ] {
            let commit = commit(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(commit.takes_staged(), staged, "{line}");
            assert_eq!(
                commit.takes_unstaged() && commit.names(Path::new("/repo/src"), file),
                unstaged,
                "{line}"
            );
        }
        for line in ["git add a.rs", "git commit --dry-run", "git commit -h", "git"] {
            assert_eq!(commit(line), None, "{line}");
        }
    }
}
