//! Whether a command line really is a required command.

use std::path::Path;

use mala_core::CommandPattern;

use super::Breadth;
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

/// Why a command line that begins like the required one is not it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lacking {
    /// This option makes it do nothing.
    Hollow(String),
    /// It ran in another folder.
    Elsewhere,
    /// It ran only a part.
    Narrowed,
}

/// Nothing if it is the required command; `None` outside if it is another command altogether.
pub(super) fn judge(
    pattern: &CommandPattern,
    evidence: &Evidence,
    root: &Path,
    breadth: Breadth,
) -> Option<Option<Lacking>> {
    if !pattern.matches(&evidence.argv) {
        return None;
    }
    let folder = evidence.folder();
    let cwd = folder.as_path();
    let hollow = evidence.argv.iter().skip(1).find(|arg| HOLLOW.contains(&arg.as_str()));
    Some(if let Some(option) = hollow {
        Some(Lacking::Hollow(option.clone()))
    } else if !cwd.starts_with(root) {
        Some(Lacking::Elsewhere)
    } else if breadth == Breadth::Whole && (cwd != root || !is_whole(pattern, &evidence.argv)) {
        Some(Lacking::Narrowed)
    } else {
        None
    })
}

/// True if nothing but harmless options was added.
fn is_whole(pattern: &CommandPattern, argv: &[String]) -> bool {
    let is_harmless = |arg: &str| HARMLESS.contains(&arg) || arg.starts_with("--color");
    let plain: Vec<&String> = argv.iter().filter(|arg| !is_harmless(arg)).collect();
    let words = pattern.to_string().split_whitespace().count();
    plain.len() == words && pattern.matches(&plain)
}
