//! Whether work can be proven here.

use mala_config::Settings;
use mala_core::Scope;
use mala_git::Repo;
use mala_landing::{Requirements, earlier_pass};

use super::{Check, Verdict};
use crate::error::CliError;

const NAME: &str = "validation";

/// Something is required, its programs are there, and whether the branch is known to be green.
pub(super) fn check(scope: &Scope, settings: &Settings) -> Check {
    let requirements = Requirements::of(settings);
    if requirements.is_empty() {
        return warn(
            "no command is required, so nothing is proven",
            "name some in mala.toml: [validate] commands = [\"cargo test\"], or choose a preset",
        );
    }
    if let Some(program) = requirements.missing_program() {
        let detail = format!("`{program}` is required of every commit and is not in PATH");
        return warn(&detail, "install it, or name other commands in [validate] of mala.toml");
    }
    let commands = requirements.commands().join(", ");
    match green_commit(scope, &requirements) {
        Ok(Some(commit)) => Check::ok(NAME, format!("{commands}; {commit} has passed")),
        Ok(None) => Check::ok(NAME, format!("{commands}; the last commit has not been validated yet")),
        Err(error) => Check::fail(NAME, error),
    }
}

fn warn(detail: &str, fix: &str) -> Check {
    Check { name: NAME, status: Verdict::Warn, detail: detail.to_owned(), fix: Some(fix.to_owned()) }
}

/// The last commit, if its tree has passed all required commands.
fn green_commit(scope: &Scope, requirements: &Requirements) -> Result<Option<String>, CliError> {
    let repo = Repo::new(scope.clone());
    let Some(head) = repo.resolve("HEAD")? else { return Ok(None) };
    let tree = repo.commit(&head)?.tree;
    let passed = earlier_pass(&repo, requirements, &tree).map_err(CliError::failed)?;
    Ok(passed.map(|_| head.short().to_owned()))
}
