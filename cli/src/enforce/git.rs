//! Git commands that move the whole tree.
//!
//! In a checkout that several agents share they are wrong even where every single file could be changed: they stop half
//! way, or take others' work along. Each has an alternative that touches only one's own files.

use std::ffi::OsString;
use std::path::Path;

/// Options of `git` itself that take the next argument with them.
const WITH_VALUE: &[&str] =
    &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"];

/// Why this git command must not run in a shared checkout, and what to do instead. `exists` tells whether a path is there.
pub(super) fn objection(args: &[OsString], exists: impl Fn(&Path) -> bool) -> Option<&'static str> {
    let args: Vec<&str> = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or("?")).collect();
    let (verb, rest) = verb(&args)?;
    let has = |options: &[&str]| rest.iter().any(|arg| options.contains(arg));
    if has(&["-h", "--help"]) {
        return None;
    }
    match verb {
        "switch" => Some("it moves everybody's files; stay on this branch"),
        "checkout" if !names_files(rest, exists) => {
            Some("it moves everybody's files; to restore your own: git checkout HEAD -- FILE")
        }
        "stash" if !has(&["list", "show", "drop", "create"]) => {
            Some("it takes everybody's changes away; commit your own: git commit -- FILE")
        }
        "reset" if !names_files(rest, |_| false) => {
            Some("it undoes everybody's work; for your own files: git restore --staged --worktree -- FILE")
        }
        "clean" if !has(&["-n", "--dry-run"]) => {
            Some("it deletes everybody's new files; delete your own: rm FILE")
        }
        "merge" | "rebase" | "pull" | "cherry-pick" | "revert" | "am" if !has(&["--abort", "--quit"]) => {
            Some("it changes everybody's files; commit your own and leave it to the person in charge")
        }
        _ => None,
    }
}

/// The command behind git's own options.
fn verb<'a>(args: &'a [&'a str]) -> Option<(&'a str, &'a [&'a str])> {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        if WITH_VALUE.contains(arg) {
            at += 2;
        } else if arg.starts_with('-') {
            at += 1;
        } else {
            return Some((arg, &args[at + 1..]));
        }
    }
    None
}

/// True if the arguments name files: behind `--`, or nothing but paths that exist.
fn names_files(rest: &[&str], exists: impl Fn(&Path) -> bool) -> bool {
    if let Some(dashes) = rest.iter().position(|arg| *arg == "--") {
        return dashes + 1 < rest.len();
    }
    let mut plain = rest.iter().filter(|arg| !arg.starts_with('-')).peekable();
    plain.peek().is_some() && plain.all(|arg| exists(Path::new(arg)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(line: &str) -> bool {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        objection(&args, |path| path == Path::new("file.txt")).is_some()
    }

    #[test]
    fn commands_that_move_the_tree_are_refused() {
        for line in [
            "git switch other",
            "git checkout other",
            "git checkout -b new",
            "git checkout -f",
            "git checkout other file.txt",
            "git -C sub -c a.b=c checkout other",
            "git --git-dir x --no-pager stash",
            "git stash pop",
            "git stash push -m checkout",
            "git reset",
            "git reset --hard HEAD~1",
            "git reset --soft HEAD~1",
            "git clean -fd",
            "git merge other",
            "git rebase main",
            "git pull",
            "git cherry-pick abc",
        ] {
            assert!(is_refused(line), "{line}");
        }
    }

    #[test]
    fn commands_about_files_or_words_about_commands_are_not() {
        for line in [
            "git",
            "git --version",
            "git status",
            "git add file.txt",
            "git commit -m stash",
            "git log --grep reset",
            "git checkout -- file.txt",
            "git checkout HEAD -- other.txt",
            "git checkout file.txt",
            "git restore file.txt",
            "git reset -- file.txt",
            "git reset HEAD -- file.txt",
            "git stash list",
            "git clean -n",
            "git rebase --abort",
            "git checkout --help",
            "git diff checkout",
        ] {
            assert!(!is_refused(line), "{line}");
        }
    }
}
