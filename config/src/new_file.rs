//! The `mala.toml` that `mala init` writes into a repository.
//!
//! Short on purpose: the preset, and as comments the few things that people change. Every default in it is taken from the
//! defaults themselves, so it cannot say anything else than they do.

use crate::key::Key;
use mala_core::CommandPattern;
use toml::de::DeTable;

use crate::preset::Preset;
use crate::proposal::Proposal;
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

/// A commented `mala.toml` in which only the preset is set and, where they are not the preset's own, required commands and setup.
pub fn render_new_file(proposal: &Proposal) -> String {
    let preset = proposal.preset;
    let mut settings = Settings::default();
    settings.project.preset = preset;
    settings.validate.commands = proposal.own_commands();
    settings.queue.setup.clone_from(&proposal.setup);
    let mut text = format!(
        "# Settings of mala for this repository. Everything that is left out has its default;\n\
         # all settings, and what each one is for: mala config, mala config explain KEY\n\n\
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
        let is_set = *dotted == "validate.commands" && !settings.validate.commands.is_empty();
        let mark = if is_set { "" } else { "# " };
        text.push_str(&format!("# {meaning}\n{mark}{} = {}\n", key.name(), key.setting().toml(&settings)));
    }
    if !proposal.setup.is_empty() {
        let setup = list(&proposal.setup);
        text.push_str(&format!(
            "\n[queue]\n# What prepares a checkout for the required commands.\nsetup = {setup}\n"
        ));
    }
    text
}

fn list(commands: &[CommandPattern]) -> String {
    let quoted: Vec<String> = commands.iter().map(|command| format!("\"{command}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

/// The settings `text` with another preset: only its line changes, or is added. Nothing if that is up to a person.
pub fn with_preset(text: &str, preset: Preset) -> Option<String> {
    let line = format!("preset = \"{}\"", preset.name());
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.iter().position(|line| line.trim() == "[project]") {
        None => lines.extend([String::new(), "[project]".to_owned(), line]),
        Some(at) => {
            let is_section = |line: &String| line.trim_start().starts_with('[');
            let end = lines[at + 1..].iter().position(is_section).map_or(lines.len(), |end| at + 1 + end);
            let is_preset = |line: &String| {
                line.trim_start()
                    .strip_prefix("preset")
                    .is_some_and(|rest| rest.trim_start().starts_with('='))
            };
            match lines[at + 1..end].iter().position(is_preset) {
                Some(old) => lines[at + 1 + old] = line,
                None => lines.insert(at + 1, line),
            }
        }
    }
    let changed = lines.join("\n") + "\n";
    // What was written in another way than by lines does not say this now.
    let table = DeTable::parse(&changed).ok()?.into_inner();
    let set = table.get("project")?.get_ref().as_table()?.get("preset")?.get_ref().as_str();
    (set == Some(preset.name())).then_some(changed)
}

/// What the preset brings along, as comments.
fn about(settings: &Settings) -> String {
    let guarded: Vec<String> = settings.guarded().iter().map(|(_, command)| command.to_string()).collect();
    let required: Vec<String> = settings.required().iter().map(ToString::to_string).collect();
    let mut text =
        String::from("# What kind of project this is: none, python, python-uv, rust, node or go.\n");
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
    use crate::proposal::ProposedCommand;

    #[test]
    fn a_new_file_is_short_and_says_what_the_preset_brings() {
        insta::assert_snapshot!(render_new_file(&Proposal::for_preset(Preset::Rust)), @r#"
        # Settings of mala for this repository. Everything that is left out has its default;
        # all settings, and what each one is for: mala config, mala config explain KEY

        [project]
        # What kind of project this is: none, python, python-uv, rust, node or go.
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
        let text = render_new_file(&Proposal::for_preset(Preset::None));
        assert!(text.contains("\npreset = \"none\"\n") && text.contains("name yours below"), "{text}");
    }

    #[test]
    fn commands_that_are_not_the_presets_are_written_down() {
        let command = |line: &str| line.parse::<CommandPattern>().unwrap();
        let mut proposal = Proposal::for_preset(Preset::Node);
        let because = String::new();
        proposal.commands =
            vec![ProposedCommand { command: command("cd web && npm test"), because, program: None }];
        proposal.setup = vec![command("cd web && npm ci")];
        let text = render_new_file(&proposal);
        assert!(text.contains("\ncommands = [\"cd web && npm test\"]\n"), "{text}");
        assert!(text.ends_with("\nsetup = [\"cd web && npm ci\"]\n"), "{text}");
    }

    #[test]
    fn a_preset_is_changed_in_its_line_and_added_where_there_is_none() {
        let change = |text: &str| with_preset(text, Preset::Go);
        assert_eq!(
            change("# mine\n[project]\n# kind\npreset = \"rust\"\n[lock]\nttl = \"1h\"\n").unwrap(),
            "# mine\n[project]\n# kind\npreset = \"go\"\n[lock]\nttl = \"1h\"\n"
        );
        assert_eq!(change("[project]\n[lock]\n").unwrap(), "[project]\npreset = \"go\"\n[lock]\n");
        assert_eq!(
            change("[lock]\nttl = \"1h\"\n").unwrap(),
            "[lock]\nttl = \"1h\"\n\n[project]\npreset = \"go\"\n"
        );
        assert_eq!(change("project = { preset = \"rust\" }\n"), None, "it would be named twice");
    }
}
