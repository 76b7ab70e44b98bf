//! The `mala.toml` that `mala init` writes into a repository.
//!
//! Short on purpose: the preset, and as comments the few things that people change. Every default in it is taken from the
//! defaults themselves, so it cannot say anything else than they do.

use crate::key::Key;
use crate::preset::Preset;
use crate::settings::Settings;

/// What people change, with what it means.
const OFTEN_CHANGED: &[(&str, &str)] = &[
    ("test.commands", "More commands that take turns: one at a time in this checkout."),
    (
        "validate.commands",
        "Commands that must have passed on exactly what is committed. Empty: those of the preset.",
    ),
    ("gate.issue_pattern", "How a commit message names its issue; `<id>` stands for the id."),
    ("run.max_agents", "How many agents `mala run` starts at the same time."),
    (
        "run.profile",
        "Which agent `mala run` starts: claude, codex, gemini, opencode, or one of your own `[agents.NAME]`.",
    ),
];

/// A commented `mala.toml` for a project of this kind, in which only the preset is set.
pub fn render_new_file(preset: Preset) -> String {
    let mut settings = Settings::default();
    settings.project.preset = preset;
    let mut text = format!(
        "# Settings of mala for this repository. Everything that is left out has its default;\n\
         # all settings are described in config/src/defaults.toml of mala.\n\n\
         [project]\n{}preset = \"{}\"\n",
        about(&settings),
        preset.name()
    );
    for (dotted, meaning) in OFTEN_CHANGED {
        let key = Key::find(dotted).expect("a test finds every one");
        let section = format!("[{}]", key.section());
        if !text.lines().any(|line| line == section) {
            text.push_str(&format!("\n{section}\n"));
        }
        text.push_str(&format!("# {meaning}\n# {} = {}\n", key.name(), key.setting().toml(&settings)));
    }
    text
}

/// What the preset brings along, as comments.
fn about(settings: &Settings) -> String {
    let guarded: Vec<String> = settings.guarded().iter().map(|(_, command)| command.to_string()).collect();
    let required: Vec<String> = settings.required().iter().map(ToString::to_string).collect();
    let mut text = String::from("# What kind of project this is: none, python-uv, rust, node or go.\n");
    if guarded.is_empty() {
        text.push_str("# It brings no commands along; name yours below.\n");
        return text;
    }
    text.push_str(&paragraph("Takes turns", &guarded));
    text.push_str(&paragraph("Required of a commit", &required));
    text
}

/// `# title: a, b, c.`, in lines that fit a terminal.
fn paragraph(title: &str, items: &[String]) -> String {
    let mut items: Vec<&str> = items.iter().map(String::as_str).collect();
    let mut seen = std::collections::HashSet::new();
    items.retain(|item| seen.insert(*item));
    let mut text = format!("# {title}:");
    let mut width = text.len();
    for (index, item) in items.iter().enumerate() {
        let end = if index + 1 == items.len() { "." } else { "," };
        if width + item.len() + 2 > 100 {
            text.push_str("\n#  ");
            width = 3;
        }
        text.push_str(&format!(" {item}{end}"));
        width += item.len() + 2;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_short_and_says_what_the_preset_brings() {
        insta::assert_snapshot!(render_new_file(Preset::Rust), @r#"
        # Settings of mala for this repository. Everything that is left out has its default;
        # all settings are described in config/src/defaults.toml of mala.

        [project]
        # What kind of project this is: none, python-uv, rust, node or go.
        # Takes turns: cargo test, cargo nextest, cargo clippy, cargo bench, cargo fmt.
        # Required of a commit: cargo test, cargo clippy.
        preset = "rust"

        [test]
        # More commands that take turns: one at a time in this checkout.
        # commands = []

        [validate]
        # Commands that must have passed on exactly what is committed. Empty: those of the preset.
        # commands = []

        [gate]
        # How a commit message names its issue; `<id>` stands for the id.
        # issue_pattern = "bd-<id>"

        [run]
        # How many agents `mala run` starts at the same time.
        # max_agents = 4
        # Which agent `mala run` starts: claude, codex, gemini, opencode, or one of your own `[agents.NAME]`.
        # profile = "claude"
        "#);
    }

    #[test]
    fn a_new_file_of_no_preset_says_that_commands_have_to_be_named() {
        let text = render_new_file(Preset::None);
        assert!(text.contains("\npreset = \"none\"\n") && text.contains("name yours below"), "{text}");
    }
}
