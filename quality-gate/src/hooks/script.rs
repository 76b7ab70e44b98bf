//! The text of the hooks.

/// The hooks that mala takes part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    PreCommit,
    CommitMsg,
    PostCommit,
}

impl Hook {
    pub const ALL: [Self; 3] = [Self::PreCommit, Self::CommitMsg, Self::PostCommit];

    /// As git calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreCommit => "pre-commit",
            Self::CommitMsg => "commit-msg",
            Self::PostCommit => "post-commit",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::PreCommit => "mala gate pre-commit ${GIT_INDEX_FILE:+--index \"$GIT_INDEX_FILE\"}",
            Self::CommitMsg => "mala gate commit-msg \"$1\"",
            Self::PostCommit => "mala gate post-commit",
        }
    }
}

/// What is appended to the name of the hooks directory: the directory beside it holds the hooks that were there before.
pub(super) const KEPT_SUFFIX: &str = ".before-mala";

/// Set while `mala doctor` asks what a hook would do. A hook that is asked calls nothing but mala's check of a message, and
/// always fails: no commit ever passes this way.
pub const PROBE_VARIABLE: &str = "MALA_HOOK_PROBE";
/// The exit code of a hook that was asked.
pub const PROBE_EXIT_CODE: i32 = 75;
/// Begins the line that names the earlier hook that would be called.
pub const PROBE_ANSWER: &str = "mala: would first call ";

/// The line by which mala knows its own.
pub(super) fn mark(hook: Hook) -> String {
    format!("# mala: {}", hook.name())
}

/// What is installed. Without mala, people may commit, with a word of warning; agents may not.
///
/// The earlier hook keeps its name and the names around it: husky looks at `basename "$0"`, at the files beside `$0` and at
/// those one directory up.
pub fn script(hook: Hook) -> String {
    let (mark, name, command) = (mark(hook), hook.name(), hook.command());
    let probe_command = if hook == Hook::CommitMsg { command } else { ":" };
    format!(
        r#"#!/bin/sh
{mark}
# Installed by `mala init`; `mala init --undo` takes it back. The hook that was here before, if any, is called first: it
# lies in the directory `hooks{KEPT_SUFFIX}` beside this one (after the name of this directory), under its own name.

mala_hooks="${{0%/*}}"
while [ "$mala_hooks" != "${{mala_hooks%/}}" ]; do mala_hooks="${{mala_hooks%/}}"; done
mala_before="$mala_hooks{KEPT_SUFFIX}/{name}"

if [ -n "${{{PROBE_VARIABLE}:-}}" ]; then
    # `mala doctor` asks what would happen. No commit passes here.
    if [ -x "$mala_before" ]; then echo "{PROBE_ANSWER}$mala_before" >&2; fi
    if command -v mala >/dev/null 2>&1; then {probe_command} </dev/null; else echo "mala: not in PATH" >&2; fi
    exit {PROBE_EXIT_CODE}
fi

if [ -x "$mala_before" ]; then
    "$mala_before" "$@" || exit $?
fi

if command -v mala >/dev/null 2>&1; then
    exec {command} </dev/null
fi
if [ -n "${{MALA_AGENT:-}}${{MALA_SUPERVISOR:-}}" ]; then
    echo "mala: refused: agents share this checkout and mala, which checks their commits, is not in PATH" >&2
    echo "mala: put it there, or ask the person in charge" >&2
    exit 1
fi
echo "mala: not in PATH, so this commit is not checked; to take the hooks back: mala init --undo" >&2
exit 0
"#
    )
}
