//! Variables that change nothing about what a command does to files.

use super::expand::{Arg, Known};

/// Looked at by programs, for colours, language and size.
const FOR_PROGRAMS: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
    "CI",
    "COLORTERM",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "RUST_BACKTRACE",
    "CARGO_TERM_COLOR",
];

/// Programs start what these name, unless it is one of [`NOTHING`].
const STARTED: &[&str] = &[
    "PAGER",
    "GIT_PAGER",
    "GH_PAGER",
    "MANPAGER",
    "BAT_PAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
];

const NOTHING: &[&str] = &["", "cat", "true", ":"];

/// Names that mean nothing to shells and programs.
const FOR_NOTHING: &[&str] = &[
    "BASE", "BRANCH", "COMMIT", "COUNT", "DEST", "DIR", "DST", "FILE", "FILES", "ID", "ISSUE", "MSG", "NAME",
    "OUT", "REPO", "ROOT", "SHA", "SRC", "TARGET", "URL", "VERSION",
];

/// Lower case as well, and yet zsh's own.
const OF_ZSH: &[&str] = &[
    "aliases",
    "argv",
    "builtins",
    "cdpath",
    "commands",
    "dirstack",
    "fignore",
    "fpath",
    "functions",
    "galiases",
    "histchars",
    "mailpath",
    "manpath",
    "module_path",
    "nameddirs",
    "options",
    "parameters",
    "path",
    "prompt",
    "psvar",
    "saliases",
    "signals",
    "status",
    "userdirs",
    "watch",
];

/// Functions that shells call by themselves; zsh's traps are functions, too.
const CALLED_BY_SHELL: &[&str] = &[
    "chpwd",
    "command_not_found_handle",
    "command_not_found_handler",
    "periodic",
    "precmd",
    "preexec",
    "zshaddhistory",
    "zshexit",
];

/// True if a function of this name runs without being named again.
pub(super) fn is_called_by_shell(name: &str) -> bool {
    name.starts_with("TRAP") || CALLED_BY_SHELL.contains(&name)
}

/// True if programs may see this variable.
pub(super) fn is_harmless_for_programs(name: &str, value: &Arg) -> bool {
    let starts_nothing = || value.known == Known::All && NOTHING.contains(&value.text.as_str());
    FOR_PROGRAMS.contains(&name) || name.starts_with("LC_") || (STARTED.contains(&name) && starts_nothing())
}

/// True if the shell may have this variable. Programs see it only if it has been theirs before.
pub(super) fn is_harmless_for_shell(name: &str, value: &Arg) -> bool {
    // The environment's names are upper case, by convention (POSIX, Base Definitions 8.1).
    let is_private = name.bytes().any(|byte| byte.is_ascii_lowercase()) && !OF_ZSH.contains(&name);
    is_private || name.len() == 1 || FOR_NOTHING.contains(&name) || is_harmless_for_programs(name, value)
}

/// True if it is nothing but a name. Elsewhere than in `name=value`, shells run what stands between the brackets of an index.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|char: char| char.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
