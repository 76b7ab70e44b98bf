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

/// The line by which mala knows its own.
pub(super) fn mark(hook: Hook) -> String {
    format!("# mala: {}", hook.name())
}

/// What is installed. Without mala, people may commit, with a word of warning; agents may not.
pub fn script(hook: Hook) -> String {
    let (mark, name, command) = (mark(hook), hook.name(), hook.command());
    format!(
        r#"#!/bin/sh
{mark}
# Installed by `mala init`; `mala init --undo` takes it back. The hook that was here before, if any, is called first:
# {name}.before-mala, beside this file.

before="$0.before-mala"
if [ -x "$before" ]; then
    "$before" "$@" || exit $?
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
