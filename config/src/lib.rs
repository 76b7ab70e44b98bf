//! The settings of mala: `mala.toml` and everything that may override it.
//!
//! This crate owns the list of settings, their defaults and legal values, the order of the layers, and the
//! messages a person reads when a value is wrong. The caller owns the outside world: it says which files to read
//! and hands over the environment and the arguments. Nothing here prints, and nothing is decided silently: a bad
//! value is an error that shows where it was written, an unknown name is a warning.
//!
//! Layers, lowest first: the embedded [`DEFAULTS`], the user file (see [`user_file`]), the file of the
//! repository, the environment, the arguments.
//!
//! To add a setting: its field in `settings.rs`, its line in `table.rs`, its entry in `defaults.toml`; the compiler
//! and the tests ask for whatever is forgotten.

mod duration;
mod error;
mod file;
mod key;
mod load;
mod new_file;
mod place;
mod preset;
mod price;
mod proposal;
mod resolver;
mod settings;
mod size;
mod suggest;
mod table;
mod tables;
mod user_file;
mod value;
mod variables;
mod warning;

pub use duration::{DurationError, format_duration, parse_duration};
pub use error::{ConfigError, Problem};
pub use key::Key;
pub use load::{Entry, Loaded, Override, Sources};
pub use new_file::{render_new_file, with_preset};
pub use place::{Origin, Place};
pub use preset::{Preset, Setup, SetupCommand};
pub use price::{Price, Prices};
pub use proposal::{Proposal, ProposedCommand};
pub use settings::{
    AskSettings, Cold, EmptyRun, EnforcementSettings, GateSettings, HealthSettings, Hold, IssueSettings,
    KeepSettings, Land, LockSettings, NoChange, NotifySettings, ProjectSettings, QueueSettings,
    RetainSettings, RunSettings, Settings, Source, StatusSettings, TakeAdded, TestSettings,
    TranscriptSettings, Unlocked, ValidateSettings,
};
pub use size::{SizeError, format_size, parse_size};
pub use tables::{AgentKind, AgentTable, MutexTable, PromptBy};
pub use user_file::{user_file, user_state_dir};
pub use value::ValueError;
pub use variables::{Share, ShareTemplate, Variables};
pub use warning::Warning;

/// Layer zero and the documentation of every setting: a complete, commented `mala.toml`.
pub const DEFAULTS: &str = include_str!("defaults.toml");
