//! The rules themselves, one per command.

use std::path::Path;

use super::Facts;
use super::call::Call;
use super::table::{self, Part, runs_hooks};
use crate::objection::Objection;

const MINE: &str = "to restore your own: git checkout HEAD -- FILE";
pub(super) const LEAVE: &str = "commit your own and leave it to the person in charge";
pub(super) const COMMIT: &str = "commit your own: mala commit -m 'what changes'";

pub(super) fn judge(call: &Call<'_>, facts: &Facts<'_>) -> Vec<Objection> {
    if asks_for_help(call) {
        return Vec::new();
    }
    let parts = table::writes(call, facts.exists);
    let settings = facts.settings.iter().map(String::as_str).chain(call.config.iter().copied());
    let mut found: Vec<Objection> =
        settings.filter_map(|setting| setting_objection(setting, &parts)).collect();
    found.extend(tree(call, facts.exists).or_else(|| plumbing(call)));
    match call.verb {
        "commit" => found.extend(commit(call)),
        "add" | "stage" => found.extend(add(call)),
        _ => {}
    }
    found
}

pub(super) fn asks_for_help(call: &Call<'_>) -> bool {
    matches!(call.rest, ["-h"] | ["--help", ..])
}

/// Commands that change everybody's files.
fn tree(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool) -> Option<Objection> {
    let refuse = |why, instead| Some(Objection::new(call.typed(), why, instead));
    match call.verb {
        "switch" => refuse("it moves everybody's files", "stay on this branch"),
        "checkout" if !names_files(call, exists) => refuse("it moves everybody's files", MINE),
        "checkout" if names_everything(call) => refuse("it restores everybody's files", MINE),
        "restore" if names_everything(call) => {
            match call.has(&["--staged", "-S"]) && !call.has(&["--worktree", "-W"]) {
                true => refuse("it takes everybody's files out of the index", "git restore --staged -- FILE")
                    .map(Objection::if_foreign_changes),
                false => refuse("it restores everybody's files", MINE),
            }
        }
        "stash" if !call.begins(&["list", "show", "drop", "create"]) => {
            refuse("it takes everybody's changes away", COMMIT)
        }
        "reset" if call.has(&["--soft"]) => {
            refuse("it takes back everybody's commits", "to take back your own last one: mala commit --undo")
        }
        "reset" if !names_files(call, &|_| false) || names_everything(call) => {
            if call.has(&["--hard", "--merge", "--keep"]) {
                refuse(
                    "it undoes everybody's work",
                    "for your own files: git restore --staged --worktree -- FILE",
                )
            } else {
                refuse(
                    "it unstages what others have staged",
                    "for your own files: git restore --staged -- FILE",
                )
            }
        }
        "clean" if !call.has(&["-n", "--dry-run"]) => {
            refuse("it deletes everybody's new files", "delete your own: rm FILE")
        }
        "merge" | "rebase" | "pull" | "cherry-pick" | "revert" | "am" | "bisect"
            if !call.has(&["--abort", "--quit"]) && !call.begins(&["log", "view", "terms"]) =>
        {
            refuse("it changes everybody's files", LEAVE)
        }
        "filter-branch" | "filter-repo" | "sparse-checkout" | "checkout-index" => {
            refuse("it changes everybody's files", LEAVE)
        }
        _ => None,
    }
}

/// Commands that reach behind the scenes.
fn plumbing(call: &Call<'_>) -> Option<Objection> {
    let refuse = |why, instead| Some(Objection::new(call.typed(), why, instead));
    match call.verb {
        "read-tree" | "update-index" => refuse("it changes what everybody has staged", COMMIT),
        "update-ref" => refuse("it moves a branch behind everybody's back", COMMIT),
        "symbolic-ref" if call.operands().len() > 1 || call.has(&["-d", "--delete"]) => {
            refuse("it moves everybody to another branch", "stay on this branch")
        }
        "commit-tree" => refuse("it makes a commit past the hooks that guard it", COMMIT),
        "config" => config(call),
        _ => None,
    }
}

fn commit(call: &Call<'_>) -> Vec<Objection> {
    let flags = commit_flags(call.rest);
    let mut found = Vec::new();
    // Git takes the beginning of a long option for the whole.
    let has = |short: &str, long: &str, shortest: usize| {
        flags.iter().any(|flag| *flag == short || (flag.len() >= shortest && long.starts_with(flag)))
    };
    if has("-n", "--no-verify", "--no-veri".len()) {
        let why = "it steps around the hooks that guard the commit";
        found.push(Objection::new(call.typed(), why, "commit without it: git commit -- FILE"));
    }
    if has("--amend", "--amend", "--am".len()) {
        let why = "it replaces the last commit, which may be somebody else's by now";
        let instead =
            "make another one: mala commit -m 'what changes'; or take your own back: mala commit --undo";
        found.push(Objection::new(call.typed(), why, instead));
    }
    if has("-a", "--all", "--al".len()) || flags.contains(&".") || flags.contains(&":/") {
        let why = "it takes everybody's changes along";
        found.push(Objection::new(call.typed(), why, COMMIT).if_foreign_changes());
    }
    found
}

/// The options of `git commit`, letters one by one, without the values some of them take; and its operands.
pub(super) fn commit_flags<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    const LONG: &[&str] = &[
        "--message",
        "--file",
        "--template",
        "--author",
        "--date",
        "--reuse-message",
        "--reedit-message",
        "--fixup",
        "--squash",
        "--cleanup",
        "--trailer",
        "--pathspec-from-file",
    ];
    const LETTERS: [&str; 4] = ["-n", "-a", "-o", "-i"];
    let mut flags = Vec::new();
    let mut rest = rest.iter();
    while let Some(arg) = rest.next() {
        if LONG.contains(arg) {
            rest.next();
        } else if *arg == "--" {
            flags.extend(rest.by_ref());
        } else if arg.starts_with("--") || !arg.starts_with('-') {
            flags.push(*arg);
        } else {
            for (at, letter) in arg.char_indices().skip(1) {
                flags.extend(LETTERS.iter().find(|flag| flag.ends_with(letter)));
                if "mFtcC".contains(letter) {
                    if at + 1 == arg.len() {
                        rest.next();
                    }
                    break;
                }
                if "uS".contains(letter) {
                    break;
                }
            }
        }
    }
    flags
}

fn add(call: &Call<'_>) -> Option<Objection> {
    if call.has(&["-n", "--dry-run"]) {
        return None;
    }
    let takes_all =
        call.has(&["-A", "--all", "-u", "--update"]) && paths(call).iter().all(|path| is_all(path));
    (takes_all || names_everything(call)).then(|| {
        let why = "it stages everybody's changes";
        Objection::new(call.typed(), why, "name your own: git add FILE").if_foreign_changes()
    })
}

fn config(call: &Call<'_>) -> Option<Objection> {
    let reads = ["--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch"];
    let operands = call.operands();
    let words: &[&str] = match operands.split_first() {
        Some((&("get" | "list"), _)) => return None,
        Some((&("set" | "unset" | "remove-section" | "rename-section"), rest)) => rest,
        _ if call.has(&reads) => return None,
        _ if operands.len() < 2 && !call.has(&["--unset", "--unset-all"]) => return None,
        _ => &operands,
    };
    let (key, value) = (words.first()?, words.get(1).copied().unwrap_or_default());
    let is_switch = matches!(value, "" | "true" | "false" | "cat");
    if runs_a_program(&key.to_ascii_lowercase()) && !is_switch {
        let why = "git would run it for everybody";
        return Some(Objection::new(call.typed(), why, "set it for one command: git -c KEY=VALUE"));
    }
    setting_objection(key, &[Part::Branch, Part::Config])
        .map(|found| Objection { what: call.typed(), ..found })
}

/// Settings that lead a git that writes these parts past the hooks or elsewhere, or give a command another name.
fn setting_objection(setting: &str, parts: &[Part]) -> Option<Objection> {
    let key = setting.split('=').next().unwrap_or(setting).to_ascii_lowercase();
    let why = match key.as_str() {
        "core.hookspath" if runs_hooks(parts) => "it steps around the hooks that guard commits",
        _ if key.starts_with("hook.") && runs_hooks(parts) => "it steps around the hooks that guard commits",
        _ if parts.is_empty() => return None,
        "core.worktree" | "core.bare" | "core.gitproxy" | "include.path" => "it changes git for everybody",
        "core.fsmonitor" | "core.sshcommand" | "core.editor" | "sequence.editor" => return None,
        _ if key.starts_with("alias.") && parts.contains(&Part::Config) => {
            "another name hides what a command does"
        }
        // To switch a filter off for one command is what Git LFS does all the time.
        _ if key.starts_with("filter.") && setting.ends_with('=') => return None,
        _ if key.starts_with("includeif.") || key.starts_with("filter.") => "it changes git for everybody",
        _ => return None,
    };
    let instead = if parts.contains(&Part::Branch) { COMMIT } else { "run the plain git command" };
    Some(Objection::new(format!("git -c {setting}"), why, instead))
}

/// True if git does what it always does with `setting` (`key=value`) for one command.
pub(crate) fn is_harmless_setting(setting: &str) -> bool {
    const PREFIXES: &[&str] =
        &["color.", "advice.", "column.", "log.", "status.", "user.", "blame.", "grep."];
    const KEYS: &[&str] = &[
        "core.quotepath",
        "core.abbrev",
        "core.pager",
        "diff.noprefix",
        "diff.mnemonicprefix",
        "diff.renames",
        "diff.algorithm",
        "diff.context",
        "init.defaultbranch",
        "safe.directory",
        "commit.gpgsign",
        "tag.gpgsign",
        "protocol.version",
        "pull.rebase",
        "merge.conflictstyle",
    ];
    let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
    let key = key.to_ascii_lowercase();
    let starts_nothing = matches!(value, "" | "false" | "cat");
    let is_pager = key == "core.pager" || key.starts_with("pager.");
    let is_known = PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || KEYS.contains(&key.as_str());
    if is_pager { starts_nothing } else { is_known || (key == "core.fsmonitor" && starts_nothing) }
}

/// True if git runs what this setting says when it only looks at something.
fn runs_a_program(key: &str) -> bool {
    let is_part = |prefix: &str, suffix: &str| key.starts_with(prefix) && key.ends_with(suffix);
    matches!(
        key,
        "core.fsmonitor" | "core.pager" | "core.sshcommand" | "diff.external" | "interactive.difffilter"
    ) || key.starts_with("pager.")
        || is_part("diff.", ".command")
        || is_part("diff.", ".textconv")
        || is_part("merge.", ".driver")
        || is_part("remote.", ".uploadpack")
}

/// True if the arguments name files: behind `--`, or nothing but paths that exist.
pub(super) fn names_files(call: &Call<'_>, exists: &dyn Fn(&Path) -> bool) -> bool {
    if let Some(behind) = call.behind_dashes() {
        return !behind.is_empty();
    }
    let operands = call.operands();
    !operands.is_empty() && operands.iter().all(|arg| exists(Path::new(arg)))
}

/// The paths: behind `--`, else every operand.
fn paths<'a>(call: &Call<'a>) -> Vec<&'a str> {
    call.behind_dashes().map_or_else(|| call.operands(), <[&str]>::to_vec)
}

fn names_everything(call: &Call<'_>) -> bool {
    paths(call).iter().any(|path| is_all(path))
}

/// True if the path means all files here or in the checkout.
fn is_all(path: &str) -> bool {
    matches!(path, "." | "./" | ":/" | ":" | "*" | ":/*" | "./*" | "**" | ".." | "../" | "/")
        || path.starts_with(":(top)")
}
