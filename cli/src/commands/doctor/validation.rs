//! Whether work can be proven here.

use mala_config::{Settings, format_size};
use mala_core::Scope;
use mala_engine::Profiles;
use mala_git::Repo;
use mala_landing::{Requirements, last_verdict, slots_in_use};

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
    let missing = requirements.missing_programs(scope.root());
    if !missing.is_empty() {
        return missing_programs(&missing);
    }
    let commands = requirements.commands().join(", ");
    match verdict_on_head(scope, &requirements) {
        Ok(Some((commit, true))) => Check::ok(NAME, format!("{commands}; {commit} has passed")),
        Ok(Some((commit, false))) => warn(
            &format!("{commands}; the branch is red: {commit} has failed"),
            "see what failed: mala logs list; only work that makes it green lands",
        ),
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

/// Every program that a required command cannot do without, and where it was looked for. No run could land anything.
fn missing_programs(missing: &[(String, String)]) -> Check {
    let named: Vec<String> =
        missing.iter().map(|(command, program)| format!("`{command}` needs `{program}`")).collect();
    let path = std::env::var("PATH").unwrap_or_default();
    Check {
        name: NAME,
        status: Verdict::Fail,
        detail: format!("required programs are missing: {}; looked for in {path}", named.join(", ")),
        fix: Some("install them, or name other commands in [validate] of mala.toml".to_owned()),
    }
}

/// The last commit, and whether its tree has passed all required commands, as far as that is known.
fn verdict_on_head(scope: &Scope, requirements: &Requirements) -> Result<Option<(String, bool)>, CliError> {
    let repo = Repo::new(scope.clone());
    let Some(head) = repo.resolve("HEAD")? else { return Ok(None) };
    let tree = repo.commit(&head)?.tree;
    let verdict = last_verdict(&repo, requirements, &tree).map_err(CliError::failed)?;
    Ok(verdict.map(|is_green| (head.short().to_owned(), is_green)))
}

/// The client that `mala run` starts unless it is told otherwise.
pub(super) fn client(settings: &Settings) -> Check {
    const NAME: &str = "default client";
    let profile = &settings.run.profile;
    match Profiles::load(settings, None).and_then(|profiles| profiles.check()) {
        Ok(program) => Check::ok(NAME, format!("`{profile}` starts {}", program.display())),
        Err(error) => {
            let mut check = Check::fail(NAME, error);
            check.status = Verdict::Warn;
            check
        }
    }
}
