//! Prompts: the built-in ones, unless the repository or the user brings others.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mala_agents::start::prompt::{Template, Which};
use mala_core::Scope;
use mala_core::file::{SETTINGS, read_small_text};
use mala_engine::Prompts;

use crate::error::CliError;

/// Where a repository keeps prompts of its own.
const REPOSITORY: &str = ".mala/prompts";

/// The prompts in use: `.mala/prompts/NAME.md` of the repository, then `prompts/NAME.md` beside the user's settings.
pub(crate) fn load(scope: &Scope, user_file: Option<&Path>) -> Result<Prompts, CliError> {
    let user = user_file.and_then(Path::parent).map(|folder| folder.join("prompts"));
    let folders: Vec<PathBuf> = std::iter::once(scope.root().join(REPOSITORY)).chain(user).collect();
    let one = |which: Which| -> Result<Template, CliError> {
        for folder in &folders {
            let path = folder.join(which.file());
            match read_small_text(&path, SETTINGS) {
                Ok(text) => {
                    return Template::parse(which, &text)
                        .map_err(|error| CliError::usage(format!("`{}`: {error}", path.display())));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(CliError::usage(format!("cannot read `{}`: {error}", path.display())));
                }
            }
        }
        Ok(Template::built_in(which))
    };
    Ok(Prompts { task: one(Which::Task)?, retry: one(Which::Retry)?, resume: one(Which::Continue)? })
}
