//! What git's commands write besides objects.
//!
//! One table has every command with all that it can write, and [`writes`] says what a command line with these options does. A
//! command that is not in the table may write everything.

use std::path::Path;

use super::call::Call;
use super::rules::{asks_for_help, commit_flags, names_files};

/// A part of a repository, or of what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Branches, tags and other refs.
    Refs,
    /// The branch that the checkout is on gets another commit, for which git runs the hooks that guard commits.
    Branch,
    /// Which branch the checkout is on.
    Head,
    Index,
    /// Files of the checkout.
    Files,
    /// The repository's settings.
    Config,
    Hooks,
    /// Other checkouts of the repository, or the list of them.
    Worktrees,
    /// Other repositories, for which git runs the hook that guards what is pushed.
    Remote,
}

use Part::{Branch, Config, Files, Head, Hooks, Index, Refs, Remote, Worktrees};

/// Whatever an unknown command may do.
const ALL: &[Part] = &[Refs, Branch, Head, Index, Files, Config, Hooks, Worktrees, Remote];

/// All commands of git, those in plumbing, in `contrib` and of later versions included, by what they can write.
const COMMANDS: &[(&[Part], &[&str])] = &[
    // Objects, files that are named to them, and things of their own in git's directory.
    (
        &[],
        &[
            "annotate",
            "archive",
            "backfill",
            "blame",
            "bugreport",
            "bundle",
            "cat-file",
            "check-attr",
            "check-ignore",
            "check-mailmap",
            "check-ref-format",
            "cherry",
            "clone",
            "column",
            "commit-graph",
            "commit-tree",
            "count-objects",
            "credential",
            "credential-cache",
            "credential-cache--daemon",
            "credential-store",
            "cvsserver",
            "daemon",
            "describe",
            "diagnose",
            "diff",
            "diff-files",
            "diff-index",
            "diff-pairs",
            "diff-tree",
            "difftool",
            "difftool--helper",
            "fast-export",
            "fetch-pack",
            "fmt-merge-msg",
            "for-each-ref",
            "for-each-repo",
            "format-patch",
            "fsck",
            "fsck-objects",
            "fsmonitor--daemon",
            "get-tar-commit-id",
            "gitk",
            "gitweb",
            "grep",
            "hash-object",
            "help",
            "http-backend",
            "http-fetch",
            "imap-send",
            "index-pack",
            "instaweb",
            "interpret-trailers",
            "last-modified",
            "log",
            "ls-files",
            "ls-remote",
            "ls-tree",
            "mailinfo",
            "mailsplit",
            "merge-base",
            "merge-file",
            "merge-tree",
            "mktag",
            "mktree",
            "multi-pack-index",
            "name-rev",
            "pack-objects",
            "pack-redundant",
            "patch-id",
            "pickaxe",
            "prune",
            "prune-packed",
            "range-diff",
            "remote-ext",
            "remote-fd",
            "remote-ftp",
            "remote-ftps",
            "remote-http",
            "remote-https",
            "repack",
            "repo",
            "replay",
            "request-pull",
            "rerere",
            "rev-list",
            "rev-parse",
            "send-email",
            "sh-i18n",
            "sh-i18n--envsubst",
            "sh-setup",
            "shell",
            "shortlog",
            "show",
            "show-branch",
            "show-index",
            "show-ref",
            "status",
            "stripspace",
            "unpack-file",
            "unpack-objects",
            "update-server-info",
            "upload-archive",
            "upload-archive--writer",
            "upload-pack",
            "var",
            "verify-commit",
            "verify-pack",
            "verify-tag",
            "version",
            "web--browse",
            "whatchanged",
            "write-tree",
        ],
    ),
    (
        &[Refs],
        &[
            "fast-import",
            "gc",
            "notes",
            "pack-refs",
            "receive-pack",
            "reflog",
            "refs",
            "replace",
            "tag",
            "update-ref",
        ],
    ),
    (&[Refs, Config], &["fetch", "maintenance", "remote", "scalar"]),
    (&[Refs, Head, Config], &["branch"]),
    (&[Head], &["symbolic-ref"]),
    (&[Remote], &["http-push", "send-pack"]),
    (&[Remote, Config], &["push"]),
    (&[Config], &["config"]),
    (&[Config, Hooks], &["init", "init-db"]),
    (&[Hooks], &["hook"]),
    (&[Index], &["add", "read-tree", "stage", "update-index"]),
    (&[Files], &["checkout--worker", "checkout-index", "clean", "merge-one-file", "mergetool"]),
    (
        &[Index, Files],
        &[
            "apply",
            "merge-index",
            "merge-octopus",
            "merge-ours",
            "merge-recursive",
            "merge-recursive-ours",
            "merge-recursive-theirs",
            "merge-resolve",
            "merge-subtree",
            "mv",
            "restore",
            "rm",
        ],
    ),
    (&[Index, Files, Refs], &["stash"]),
    (&[Index, Files, Config], &["sparse-checkout", "submodule", "submodule--helper"]),
    (&[Index, Files, Head, Refs, Config], &["checkout", "switch"]),
    (&[Branch, Index], &["citool", "commit", "gui"]),
    (
        &[Branch, Index, Files],
        &["am", "cherry-pick", "cvsexportcommit", "merge", "quiltimport", "reset", "revert", "subtree"],
    ),
    (&[Branch, Index, Files, Refs, Config], &["pull"]),
    (&[Branch, Index, Files, Head, Refs], &["bisect", "filter-branch", "filter-repo", "history", "rebase"]),
    (&[Branch, Index, Files, Head, Refs, Config], &["archimport", "cvsimport", "p4", "svn"]),
    (&[Worktrees, Refs, Config], &["worktree"]),
];

/// What the command can write, whatever its options; none if it is not known.
fn row(verb: &str) -> Option<&'static [Part]> {
    COMMANDS.iter().find(|(_, names)| names.contains(&verb)).map(|(parts, _)| *parts)
}

/// True for git's own commands. Other names may be other programs, or stand for another command line.
pub(crate) fn is_known(verb: &str) -> bool {
    row(verb).is_some()
}

/// What this command line writes. What it merely could write counts where that cannot be told.
pub(crate) fn writes(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool) -> Vec<Part> {
    let all = row(call.verb).unwrap_or(ALL);
    if asks_for_help(call) || only_looks(call) {
        return Vec::new();
    }
    let is_written = |part: &Part| match (call.verb, part) {
        ("branch", Head) => moves_own_branch(call),
        ("branch" | "checkout" | "switch" | "worktree" | "fetch" | "push" | "pull", Config) => {
            writes_tracking(call)
        }
        ("remote", Config) => !call.begins(&["update", "prune", "set-head", "show"]),
        ("maintenance", Config) => call.begins(&["register", "unregister", "start", "stop"]),
        ("submodule" | "submodule--helper", Config) => !call.begins(&["update"]) || call.has(&["--init"]),
        ("init" | "init-db", _) => is_made_here(call, exists),
        ("apply", Index) => call.has(&["--index", "--cached"]),
        ("apply" | "rm", Files) => !call.has(&["--cached"]),
        ("restore", Files) => call.has(&["-W", "--worktree"]) || !call.has(&["-S", "--staged"]),
        ("restore", Index) => call.has(&["-S", "--staged"]),
        ("reset", Files) => call.has(&["--hard", "--merge", "--keep"]),
        ("checkout", Head | Refs) => !names_files(call, exists),
        _ => true,
    };
    all.iter().copied().filter(|part| is_written(part)).collect()
}

/// True if git would run hooks that guard what it makes.
pub(crate) fn runs_hooks(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Branch | Remote | Hooks))
}

/// Forms of writing commands that only show something.
fn only_looks(call: &Call<'_>) -> bool {
    let operands = call.operands();
    let begins = |words: &[&str]| operands.is_empty() || call.begins(words);
    match call.verb {
        "branch" => {
            let lists = [
                "-l",
                "--list",
                "-a",
                "--all",
                "-r",
                "--remotes",
                "--show-current",
                "--contains",
                "--no-contains",
                "--merged",
                "--no-merged",
                "--points-at",
            ];
            let changes =
                ["-d", "-D", "--delete", "-m", "-M", "--move", "-c", "-C", "--copy", "-u", "-f", "--force"];
            let sets = ["--set-upstream-to", "--unset-upstream", "--edit-description", "-t", "--track"];
            !call.has(&changes) && !call.has(&sets) && (operands.is_empty() || call.has(&lists))
        }
        "tag" => {
            !call.has(&["-d", "--delete", "-f", "--force"])
                && (operands.is_empty() || call.has(&["-l", "--list", "-v", "--verify"]))
        }
        "remote" => begins(&["show", "get-url"]),
        "config" => !writes_config(call),
        "submodule" | "submodule--helper" => begins(&["status", "summary", "foreach"]),
        "stash" => call.begins(&["list", "show", "create"]),
        "worktree" => begins(&["list"]),
        "notes" => begins(&["list", "show", "get-ref"]),
        "reflog" => {
            begins(&["show", "list", "exists"]) || !call.begins(&["expire", "delete", "drop", "write"])
        }
        "refs" => begins(&["list", "exists", "verify"]),
        "replace" => operands.is_empty() || call.has(&["-l", "--list"]),
        "symbolic-ref" => operands.len() < 2 && !call.has(&["-d", "--delete"]),
        "sparse-checkout" => begins(&["list", "check-rules"]),
        "bisect" => call.begins(&["log", "view", "visualize", "terms"]),
        "commit" => commit_flags(call.rest).contains(&"--dry-run"),
        "apply" => call.has(&["--check", "--stat", "--numstat", "--summary"]) && !call.has(&["--apply"]),
        "add" | "stage" | "rm" | "mv" | "clean" | "read-tree" | "push" | "fetch" => {
            call.has(&["-n", "--dry-run"])
        }
        "am" => call.has(&["--show-current-patch"]),
        _ => false,
    }
}

fn writes_config(call: &Call<'_>) -> bool {
    let reads = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--get-color",
        "--get-colorbool",
        "--list",
        "-l",
    ];
    // The user's own, and files that are named: the checkout's are protected by their names.
    let is_elsewhere = call.has(&["--global", "--system", "-f", "--file", "--blob"]);
    let changes = [
        "--unset",
        "--unset-all",
        "--add",
        "--replace-all",
        "--rename-section",
        "--remove-section",
        "-e",
        "--edit",
    ];
    let operands = call.operands();
    let changes = match operands.first() {
        Some(&("get" | "list" | "get-color" | "get-colorbool")) => false,
        Some(&("set" | "unset" | "rename-section" | "remove-section" | "edit")) => true,
        _ => !call.has(&reads) && (operands.len() > 1 || call.has(&changes)),
    };
    changes && !is_elsewhere
}

/// `git branch -m` of the branch that the checkout may be on: git changes `HEAD` then, of every checkout that is on it.
fn moves_own_branch(call: &Call<'_>) -> bool {
    call.has(&["-m", "-M", "--move"])
}

/// True if git notes in its settings what a branch follows.
fn writes_tracking(call: &Call<'_>) -> bool {
    let operands = call.operands();
    // A branch that begins at one of another repository follows it unless that is forbidden.
    let from_remote = |start: Option<&&str>| {
        let start = start.is_some_and(|start| {
            start.contains('/') && !start.starts_with("refs/heads/") && !start.starts_with('.')
        });
        start && !call.has(&["--no-track"])
    };
    match call.verb {
        "branch" => {
            call.has(&[
                "-m",
                "-M",
                "--move",
                "-c",
                "-C",
                "--copy",
                "-u",
                "--set-upstream-to",
                "--unset-upstream",
            ]) || call.has(&["--edit-description", "-t", "--track"])
                || !call.has(&["-d", "-D", "--delete"]) && from_remote(operands.get(1))
        }
        "checkout" | "switch" => {
            let makes = call.has(&["-b", "-B", "-c", "-C", "--create", "--force-create"]);
            call.has(&["-t", "--track"]) || makes && from_remote(operands.get(1))
        }
        "worktree" => {
            call.begins(&["add"])
                && (call.has(&["--track", "--guess-remote"])
                    || call.has(&["-b", "-B"]) && from_remote(operands.get(3)))
        }
        "push" => call.has(&["-u", "--set-upstream"]),
        _ => call.has(&["--set-upstream"]),
    }
}

/// `git init` makes a repository again that is there, with its settings and hooks.
fn is_made_here(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool) -> bool {
    match call.operands().last() {
        Some(directory) => exists(&Path::new(directory).join(".git")),
        None => exists(Path::new(".git")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn written(line: &str) -> Vec<Part> {
        let args: Vec<&str> = line.split_whitespace().skip(1).collect();
        writes(&Call::read(&args).unwrap(), &|path| {
            path == Path::new("file.txt") || path == Path::new(".git")
        })
    }

    #[test]
    fn every_command_of_the_installed_git_is_in_the_table_once() {
        let output = Command::new("git").arg("--list-cmds=builtins,main").output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        assert!(listed.lines().count() > 100, "{listed}");
        let unknown: Vec<&str> = listed.lines().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let mut names: Vec<&str> = COMMANDS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_help_lists_is_known_too() {
        let output = Command::new("git").args(["help", "-a"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let commands = text.split("User-facing repository").next().unwrap();
        let names = commands.lines().filter_map(|line| line.strip_prefix("   ")?.split_whitespace().next());
        let unknown: Vec<&str> = names.filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn forms_that_only_look_write_nothing() {
        for line in [
            "git status --porcelain",
            "git log -1",
            "git diff",
            "git rev-parse HEAD",
            "git ls-files",
            "git remote",
            "git remote -v",
            "git remote get-url origin",
            "git branch",
            "git branch -a",
            "git branch --show-current",
            "git branch --list x*",
            "git branch --contains abc",
            "git tag",
            "git tag -l v*",
            "git stash list",
            "git worktree list",
            "git config user.name",
            "git config --get user.name",
            "git config list",
            "git config --global user.name x",
            "git symbolic-ref HEAD",
            "git commit --dry-run",
            "git add -n .",
            "git reflog",
            "git reflog show main",
            "git submodule status",
            "git rebase --help",
        ] {
            assert_eq!(written(line), [], "{line}");
        }
    }

    #[test]
    fn what_is_written_depends_on_the_options() {
        for (line, parts) in [
            ("git branch topic", &[Refs][..]),
            ("git branch topic main", &[Refs]),
            ("git branch -d topic", &[Refs]),
            ("git branch topic origin/main", &[Refs, Config]),
            ("git branch --no-track topic origin/main", &[Refs]),
            ("git branch -m topic other", &[Refs, Head, Config]),
            ("git branch -c topic other", &[Refs, Config]),
            ("git push", &[Remote]),
            ("git push -u origin HEAD", &[Remote, Config]),
            ("git remote add x y", &[Refs, Config]),
            ("git remote update", &[Refs]),
            ("git config user.name x", &[Config]),
            ("git config --unset user.name", &[Config]),
            ("git config set user.name x", &[Config]),
            ("git init", &[Config, Hooks]),
            ("git init elsewhere", &[]),
            ("git checkout file.txt", &[Index, Files]),
            ("git checkout other", &[Index, Files, Head, Refs]),
            ("git restore file.txt", &[Files]),
            ("git restore --staged file.txt", &[Index]),
            ("git rm --cached file.txt", &[Index]),
            ("git apply x.patch", &[Files]),
            ("git apply --cached x.patch", &[Index]),
            ("git worktree add ../x", &[Worktrees, Refs]),
            ("git submodule update", &[Index, Files]),
            ("git submodule update --init", &[Index, Files, Config]),
            ("git no-such-command", ALL),
        ] {
            assert_eq!(written(line), parts, "{line}");
        }
    }
}
