//! Whether work can be proven here.

use mala_config::{Settings, format_size};
use mala_core::Scope;
use mala_git::Repo;
use mala_landing::{Requirements, earlier_pass, slots_in_use};

use super::{Check, Verdict};
use crate::commands::status::slots_line;
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

/// What the slots take on the disk.
pub(super) fn slots(scope: &Scope, settings: &Settings) -> Check {
    const NAME: &str = "slots";
    let slots = match slots_in_use(scope, settings) {
        Ok(slots) => slots,
        Err(error) => return Check::fail(NAME, CliError::failed(error)),
    };
    let (all, bound) = (slots.iter().map(|slot| slot.size).sum::<u64>(), settings.queue.max_disk);
    let detail = if slots.is_empty() { "none yet".to_owned() } else { slots_line(&slots) };
    if bound > 0 && all > bound {
        let detail = format!("{detail}, more than `queue.max_disk` = \"{}\"", format_size(bound));
        let fix = Some("empty those that nobody uses: mala clean --slots".to_owned());
        return Check { name: NAME, status: Verdict::Warn, detail, fix };
    }
    Check::ok(NAME, detail)
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
