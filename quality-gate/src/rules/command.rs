//! Whether a command line really is a required command.

use std::path::Path;

use mala_core::CommandPattern;

use crate::Evidence;

/// Options that make a test runner do something else than run tests.
const HOLLOW: &[&str] = &[
    "--version",
    "-V",
    "--help",
    "-h",
    "--collect-only",
    "--co",
    "--no-run",
    "--list",
    "--dry-run",
    "--setup-only",
    "--setup-plan",
    "--fixtures",
    "--markers",
    "--listTests",
    "--showConfig",
    "--passWithNoTests",
    "--print-config",
    "--exit-zero",
];

/// Options that change what is shown, not what is run.
const HARMLESS: &[&str] =
    &["-q", "--quiet", "-v", "-vv", "--verbose", "--locked", "--offline", "--frozen", "--no-color"];

/// What runs a command as it is.
const WRAPPERS: &[&str] = &["uv run python -m", "uv run", "poetry run", "python3 -m", "python -m"];
/// Commands with several names.
const SYNONYMS: &[&[&str]] = &[&["npm test", "npm t", "npm run test"], &["cargo test", "cargo t"]];

/// All ways to write a required command that mean the same, as it is written first.
pub(super) fn forms(pattern: &CommandPattern, equivalents: &[Vec<CommandPattern>]) -> Vec<CommandPattern> {
    let mut forms = spellings(pattern);
    let is_meant = |group: &&Vec<CommandPattern>| group.iter().any(|member| forms.contains(member));
    let others: Vec<_> =
        equivalents.iter().filter(is_meant).flatten().filter(|member| !forms.contains(member)).collect();
    let spelled = others.into_iter().flat_map(spellings).collect::<Vec<_>>();
    forms.extend(spelled);
    forms
}

/// All ways to write a command that any project knows.
fn spellings(pattern: &CommandPattern) -> Vec<CommandPattern> {
    let text = pattern.line();
    let core =
        WRAPPERS.iter().find_map(|wrapper| text.strip_prefix(wrapper)?.strip_prefix(' ')).unwrap_or(&text);
    let synonyms = SYNONYMS.iter().find(|names| names.contains(&core)).copied().unwrap_or_default();
    let names = std::iter::once(core).chain(synonyms.iter().copied());
    let wrapped = names.flat_map(|name| {
        let wrapped = WRAPPERS.iter().map(move |wrapper| format!("{wrapper} {name}"));
        std::iter::once(name.to_owned()).chain(wrapped)
    });
    let others = wrapped.filter(|form| *form != text).filter_map(|form| form.parse().ok());
    std::iter::once(pattern.clone()).chain(others).collect()
}

/// Why a command line that begins like the required one is not it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lacking {
    /// This option makes it do nothing.
    Hollow(String),
    /// It ran in another folder.
    Elsewhere,
    /// It ran only a part, or where the command means something else.
    Narrowed,
}

/// Nothing if it is the required command; `None` outside if it is another command altogether.
pub(super) fn judge(
    forms: &[CommandPattern],
    evidence: &Evidence,
    root: &Path,
    directory: &Path,
) -> Option<Option<Lacking>> {
    let pattern = forms.iter().find(|form| form.matches(&evidence.argv))?;
    let folder = evidence.folder();
    let cwd = folder.as_path();
    let hollow = evidence.argv.iter().skip(1).find(|arg| HOLLOW.contains(&arg.as_str()));
    Some(if let Some(option) = hollow {
        Some(Lacking::Hollow(option.clone()))
    } else if !cwd.starts_with(root) {
        Some(Lacking::Elsewhere)
    } else if cwd != directory || !is_whole(pattern, &evidence.argv) {
        Some(Lacking::Narrowed)
    } else {
        None
    })
}

/// True if nothing but harmless options was added.
fn is_whole(pattern: &CommandPattern, argv: &[String]) -> bool {
    let is_harmless = |arg: &str| HARMLESS.contains(&arg) || arg.starts_with("--color");
    let plain: Vec<&String> = argv.iter().filter(|arg| !is_harmless(arg)).collect();
    let words = pattern.line().split(' ').count();
    plain.len() == words && pattern.matches(&plain)
}
