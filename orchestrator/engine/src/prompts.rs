//! Prompts: the built-in ones, unless the repository or the user brings others.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mala_agents::start::prompt::{Template, Which};
use mala_core::Scope;
use mala_core::file::{SETTINGS, read_small_text};

use crate::error::{EngineError, Result};
use crate::options::Prompts;

/// Where a repository keeps prompts of its own.
const REPOSITORY_PROMPTS: &str = ".mala/prompts";

impl Prompts {
    /// The prompts in use: `.mala/prompts/NAME.md` of the repository, then `prompts/NAME.md` beside the user's settings.
    pub fn load(scope: &Scope, user_file: Option<&Path>) -> Result<Self> {
        let user = user_file.and_then(Path::parent).map(|directory| directory.join("prompts"));
        let directories: Vec<PathBuf> =
            std::iter::once(scope.root().join(REPOSITORY_PROMPTS)).chain(user).collect();
        let one = |which: Which| -> Result<Template> {
            for directory in &directories {
                let path = directory.join(which.file());
                let shown = || path.display().to_string();
                match read_small_text(&path, SETTINGS) {
                    Ok(text) => {
                        return Template::parse(which, &text)
                            .map_err(|why| EngineError::BadPrompt { path: shown(), why });
                    }
                    Err(why) if why.kind() == ErrorKind::NotFound => {}
                    Err(why) => return Err(EngineError::UnreadablePrompt { path: shown(), why }),
                }
            }
            Ok(Template::built_in(which))
        };
        Ok(Self { task: one(Which::Task)?, retry: one(Which::Retry)?, resume: one(Which::Continue)? })
    }
}
