//! Which files of the checkout a git command changes.

use super::expand::Arg;
use super::notes::typed;
use super::options::{self, PLAIN, Syntax};
use super::state::State;
use super::walk::{Stdin, Walker};
use super::writers::syntax;
use crate::git::Call;

impl Walker<'_> {
    /// Files that a git command changes in the checkout.
    pub(super) fn git_paths(&mut self, call: &Call<'_>, args: &[Arg], state: &mut State, stdin: &Stdin) {
        let quote = || format!("git {} {}", call.verb, typed(args));
        for arg in args.iter().filter(|arg| arg.text.starts_with("--output=")) {
            self.write(&arg.tail("--output=".len()), state);
        }
        let is_known = HARMLESS_GIT.contains(&call.verb);
        if !is_known && options::read(args, GIT_VALUES).doubtful {
            self.unknown(&quote(), "its arguments are not known");
        }
        match call.verb {
            "commit" => self.plan.commits = true,
            "add" | "stage" | "reset" => self.git_stage(call, args, state),
            "rm" if call.has(&["--cached"]) && !call.has(&["-n", "--dry-run"]) => {
                self.git_stage(call, args, state);
            }
            "rm" if !call.has(&["--cached", "-n", "--dry-run"]) => self.remove(args, state),
            "mv" if !call.has(&["-n", "--dry-run"]) => self.transfer("mv", args, state),
            "checkout" | "restore" => self.git_restore(call, args, state),
            "apply" => match (stdin, options::read(args, PLAIN)) {
                (_, options) if options.has(&["check", "stat", "numstat", "summary"]) => {}
                (Stdin::Text(text), options) if options.operands.iter().all(|arg| arg.is("-")) => {
                    self.diff(text, 1, args, state);
                }
                _ => self.unknown(&quote(), "the files it changes are not known"),
            },
            "archive" | "bundle" | "format-patch" => {
                let options = options::read(args, syntax("o:", &["output", "output-directory"]));
                let is_named = options.has(&["o", "output", "output-directory"]);
                let outputs: Vec<Arg> =
                    options.values(&["o", "output", "output-directory"]).cloned().collect();
                outputs.iter().for_each(|output| self.write(output, state));
                if !is_named && !options.has(&["stdout"]) {
                    self.unknown(&quote(), "the files it makes are not known");
                }
            }
            verb if is_known || JUDGED_GIT.contains(&verb) => {}
            _ => self.unknown(&quote(), "mala does not know what it writes"),
        }
    }

    /// Files whose entries in the index a command changes.
    fn git_stage(&mut self, call: &Call<'_>, args: &[Arg], state: &State) {
        if call.has(&["-n", "--dry-run"]) {
            return;
        }
        let behind = args.iter().position(|arg| arg.is("--")).map(|at| &args[at + 1..]);
        let options = options::read(args, syntax("s:", &["source", "chmod", "pathspec-from-file"]));
        let files: Vec<&Arg> =
            behind.map_or_else(|| options.operands.clone(), |files| files.iter().collect());
        // A commit is named like a file only by accident.
        let is_commit = |arg: &Arg| behind.is_none() && matches!(arg.text.as_str(), "HEAD" | "@");
        files.into_iter().filter(|file| !is_commit(file)).for_each(|file| self.stage(file, state));
    }

    fn git_restore(&mut self, call: &Call<'_>, args: &[Arg], state: &State) {
        let is_index_only =
            call.verb == "restore" && call.has(&["--staged", "-S"]) && !call.has(&["--worktree", "-W"]);
        if is_index_only {
            return self.git_stage(call, args, state);
        }
        let behind = args.iter().position(|arg| arg.is("--")).map(|at| &args[at + 1..]);
        let options = options::read(args, syntax("s:", &["source", "conflict", "pathspec-from-file"]));
        let files: Vec<&Arg> =
            behind.map_or_else(|| options.operands.clone(), |files| files.iter().collect());
        files.into_iter().for_each(|file| self.write_files(file, state));
    }
}

/// Options of git's commands whose value may be anything.
const GIT_VALUES: Syntax =
    syntax("m:F:C:c:t:s:u?S?", &["message", "file", "author", "date", "template", "source", "trailer"]);

/// Git commands that change no file of the checkout, whatever their options.
const HARMLESS_GIT: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "annotate",
    "grep",
    "ls-files",
    "ls-tree",
    "ls-remote",
    "rev-parse",
    "rev-list",
    "describe",
    "shortlog",
    "reflog",
    "cat-file",
    "name-rev",
    "merge-base",
    "for-each-ref",
    "show-ref",
    "fetch",
    "push",
    "remote",
    "tag",
    "branch",
    "help",
    "version",
    "check-ignore",
    "check-attr",
    "count-objects",
    "fsck",
    "whatchanged",
    "range-diff",
    "cherry",
    "var",
    "hash-object",
    "show-branch",
    "diff-tree",
    "diff-index",
    "diff-files",
    "notes",
    "worktree",
    "init",
    "clone",
    "verify-commit",
    "verify-tag",
    "interpret-trailers",
    "gc",
    "maintenance",
    "stripspace",
    "write-tree",
];

/// Git commands whose rules say all there is to say.
const JUDGED_GIT: &[&str] = &[
    "add",
    "stage",
    "stash",
    "reset",
    "clean",
    "merge",
    "rebase",
    "pull",
    "cherry-pick",
    "revert",
    "am",
    "bisect",
    "switch",
    "config",
    "update-ref",
    "symbolic-ref",
    "read-tree",
    "update-index",
    "commit-tree",
    "checkout-index",
    "sparse-checkout",
    "filter-branch",
    "filter-repo",
    "rm",
    "mv",
];
