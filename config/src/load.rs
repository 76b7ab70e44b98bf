//! The entry point: which layers there are, and what comes out of them.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::ConfigError;
use crate::key::Key;
use crate::place::Origin;
use crate::resolver::Resolver;
use crate::settings::Settings;
use crate::warning::Warning;

/// What the caller found outside. Everything may be missing: then the defaults hold.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file of the user, see [`user_file`](crate::user_file). It need not exist.
    pub user_file: Option<PathBuf>,
    /// `mala.toml` of the repository. It need not exist.
    pub repo_file: Option<PathBuf>,
    /// The environment; variables that are no settings do no harm.
    pub env: Vec<(OsString, OsString)>,
    /// Settings given as arguments; a later one wins.
    pub overrides: Vec<Override>,
}

/// A setting given as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The setting, such as `lock.ttl`.
    pub key: String,
    /// Its value, such as `10m`.
    pub value: String,
    /// The argument as it was typed, for messages.
    pub typed: String,
}

/// Usable settings, and how they came about.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub settings: Settings,
    /// What was ignored.
    pub warnings: Vec<Warning>,
    pub(crate) origins: Vec<Origin>,
}

/// One line of a listing of all settings.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The setting.
    pub key: Key,
    /// Its value, as it would be written in `mala.toml`.
    pub value: String,
    /// The same as it would be typed in a variable or an argument.
    pub plain: String,
    /// The value that it has unless somebody says otherwise, as it would be written in `mala.toml`.
    pub default: String,
    /// Who set it.
    pub origin: &'a Origin,
}

impl Settings {
    /// Resolves all settings. Either every given value is legal, or all that are not are reported.
    pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
        let mut resolver = Resolver::with_defaults();
        resolver.file(sources.user_file.as_deref(), Origin::UserFile);
        resolver.file(sources.repo_file.as_deref(), Origin::RepoFile);
        resolver.environment(&sources.env);
        resolver.arguments(&sources.overrides);
        resolver.finish()
    }
}

/// The embedded defaults.
impl Default for Settings {
    fn default() -> Self {
        Resolver::with_defaults().settings()
    }
}

impl Loaded {
    /// Every setting with its value and its origin, in the order of the documentation.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let defaults = Settings::default();
        Key::all().map(move |key| Entry {
            key,
            value: key.setting().toml(&self.settings),
            plain: key.setting().plain(&self.settings),
            default: key.setting().toml(&defaults),
            origin: &self.origins[key.index()],
        })
    }
}
