//! Places that keep agents apart. Whoever writes there by hand could switch mala off, for himself or for everybody.

use std::path::{Component, Path};

use mala_core::scope::{PEOPLE_FOLDER, SETTINGS_FILE};
use path_clean::PathClean;

use crate::objection::Objection;

/// Why nobody may write to `path` by hand, if it is such a place. Looks at names only; no link is resolved.
pub fn objection(path: &Path) -> Option<Objection> {
    // A detour (`a/../b`) does not help, whether its folders are links or not.
    by_names(path).or_else(|| by_names(&path.clean()))
}

fn by_names(path: &Path) -> Option<Objection> {
    let names: Vec<&str> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_str().unwrap_or("?")),
            _ => None,
        })
        .collect();
    let refuse = |why, instead| Some(Objection::new(path.display().to_string(), why, instead));
    if let Some(at) = names.iter().position(|name| name.eq_ignore_ascii_case(".git")) {
        return match &names[at + 1..] {
            [] => refuse("it is everybody's repository", "leave it alone"),
            ["index.lock", ..] => refuse("another git command is at work", "wait a moment and try again"),
            ["hooks", ..] => refuse("git's hooks guard everybody's commits", "leave them alone"),
            _ => refuse("git's own files belong to everybody", "use git commands on your own files"),
        };
    }
    let instead = "leave it alone, or ask the person in charge";
    if names.last() == Some(&SETTINGS_FILE) {
        return refuse("it says what is asked of everybody's commits", instead);
    }
    if names.contains(&PEOPLE_FOLDER) {
        let why = "it says how everybody works here";
        return refuse(why, instead).map(Objection::in_run);
    }
    let settings = "the hooks in it guard everybody's files";
    names.windows(2).enumerate().find_map(|(at, pair)| {
        let is_last = at + 2 == names.len();
        let is_settings = match pair {
            [".claude", name] => is_last && name.starts_with("settings") && name.ends_with(".json"),
            [".codex", name] => is_last && matches!(*name, "hooks.json" | "config.toml"),
            [".gemini", "settings.json"] => is_last,
            [".opencode", "plugin" | "plugins"] => true,
            _ => false,
        };
        is_settings.then(|| refuse(settings, instead)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_and_settings_are_protected_wherever_they_are() {
        for path in [
            "/w/.git/hooks/pre-commit",
            "/w/.git/config",
            "/w/.git/mala/state.db",
            "/w/.git/index.lock",
            "/w/sub/.git",
            "/w/.claude/settings.json",
            "/home/u/.claude/settings.json",
            "/w/.claude/settings.local.json",
            "/w/.codex/hooks.json",
            "/w/.codex/config.toml",
            "/w/.gemini/settings.json",
            "/w/.opencode/plugin/mala.js",
            "/w/.opencode/plugins/other.ts",
            "/w/.claude/commands/../settings.json",
            "/w/mala.toml",
        ] {
            assert!(objection(Path::new(path)).is_some(), "{path}");
        }
    }

    #[test]
    fn what_people_say_to_agents_is_out_of_a_runs_reach() {
        for path in ["/w/.mala", "/w/.mala/prompts/task.md", "/w/src/../.mala/x"] {
            let found = objection(Path::new(path)).unwrap();
            assert_eq!(found.when, crate::When::InRun, "{path}");
        }
        assert!(objection(Path::new("/w/.malaise/x")).is_none());
    }

    #[test]
    fn files_with_similar_names_are_not() {
        for path in [
            "/w/.gitignore",
            "/w/.github/hooks",
            "/w/git/hooks/pre-commit",
            "/w/.claude/commands/fix.md",
            "/w/.claude/settings/readme.md",
            "/w/settings.json",
            "/w/mala.toml.md",
            "/w/.opencode/agent/a.md",
        ] {
            assert!(objection(Path::new(path)).is_none(), "{path}");
        }
    }
}
