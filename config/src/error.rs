//! What makes settings unusable, and how a person is told.
//!
//! Every message stands alone on one line; rendered as a `miette` diagnostic it also shows the offending text
//! and what would be legal. All problems of all layers are reported together.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::{fmt, io};

use miette::{Diagnostic, LabeledSpan, SourceCode};
use thiserror::Error;

use crate::key::Key;
use crate::place::{Origin, Place};
use crate::settings::Settings;
use crate::suggest;
use crate::value::ValueError;

/// The settings cannot be used. Reads and renders as its first problem, with the others related to it.
#[derive(Debug)]
pub struct ConfigError {
    first: Box<Problem>,
    others: Vec<Problem>,
}

impl ConfigError {
    /// An error if there is any problem.
    pub(crate) fn check(problems: Vec<Problem>) -> Result<(), Self> {
        let mut problems = problems.into_iter();
        match problems.next() {
            Some(first) => Err(Self { first: Box::new(first), others: problems.collect() }),
            None => Ok(()),
        }
    }

    /// Everything that is wrong, lowest layer first.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        std::iter::once(&*self.first).chain(&self.others)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)
    }
}

impl StdError for ConfigError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.first.source()
    }
}

impl Diagnostic for ConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.first.help()
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.first.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.first.labels()
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.others.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

/// One thing that is wrong.
#[derive(Debug, Error)]
pub enum Problem {
    /// A file that is there but cannot be read as text.
    #[error("cannot read the settings in `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that is not TOML.
    #[error("invalid TOML in `{place}`: {message}")]
    Syntax {
        /// The parser's words; its own error would draw the snippet a second time.
        message: String,
        /// Where it gave up.
        place: Place,
    },
    /// A section that is written as a value, such as `lock = 5`.
    #[error("`{section}` in `{place}` is not a section")]
    NotASection {
        /// The section.
        section: String,
        /// Where it is.
        place: Place,
    },
    /// A value that the setting does not accept.
    #[error("bad value for `{key}` in `{origin}`: {reason}")]
    Value {
        /// The setting.
        key: Key,
        /// Where the value is.
        origin: Origin,
        /// What is wrong with it.
        reason: ValueError,
    },
    /// A field of a table that cannot be used.
    #[error("bad value for `{name}` in `{place}`: {reason}")]
    Field {
        /// The field, such as `agents.fast.kind`.
        name: String,
        /// What it takes, in words.
        legal: String,
        /// Where the value is.
        place: Place,
        /// What is wrong with it.
        reason: ValueError,
    },
    /// An argument for a setting that does not exist.
    #[error("unknown setting `{name}` in `{typed}`")]
    UnknownSetting {
        /// The setting.
        name: String,
        /// The argument as it was typed.
        typed: String,
    },
    /// `lock.ttl` is longer than `lock.max_ttl`.
    #[error("`lock.ttl` is {ttl} ({ttl_origin}), longer than `lock.max_ttl`, which is {max} ({max_origin})")]
    TtlOverMax {
        /// The lease.
        ttl: String,
        /// Who set it.
        ttl_origin: Origin,
        /// The longest lease.
        max: String,
        /// Who set that.
        max_origin: Origin,
    },
    /// A model that charges for one half only.
    #[error("the price of `{model}` has no `{missing}`")]
    HalfAPrice {
        /// The model.
        model: String,
        /// The field that is not there.
        missing: &'static str,
    },
}

impl Problem {
    /// Where it is, if it is in a file.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Syntax { place, .. } | Self::NotASection { place, .. } | Self::Field { place, .. } => {
                Some(place)
            }
            Self::Value { origin, .. } => origin.place(),
            Self::TtlOverMax { ttl_origin, max_origin, .. } => ttl_origin.place().or(max_origin.place()),
            Self::Unreadable { .. } | Self::UnknownSetting { .. } | Self::HalfAPrice { .. } => None,
        }
    }
}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = match self {
            Self::Unreadable { .. } => "make it a readable text file, or move it away".to_owned(),
            Self::Syntax { .. } => "correct it there, or move the file away".to_owned(),
            Self::NotASection { section, .. } => format!("write `[{section}]` and its settings below it"),
            Self::Value { key, origin, .. } => value_help(*key, origin),
            Self::Field { name, legal, .. } => format!("`{name}` takes {legal}"),
            Self::UnknownSetting { name, .. } => suggest::setting_help(name),
            Self::TtlOverMax { .. } => "shorten `lock.ttl` or raise `lock.max_ttl`".to_owned(),
            Self::HalfAPrice { model, .. } => {
                format!(
                    "below [price], in dollars for a million tokens: \"{model}\" = {{ input = 2.0, output = 10.0 }}"
                )
            }
        };
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place().map(Place::source_code)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.place().map(|place| place.labels() as Box<_>)
    }
}

/// The legal values, and the default as an example, written the way the value was given.
fn value_help(key: Key, origin: &Origin) -> String {
    let setting = key.setting();
    let defaults = Settings::default();
    let example = match origin {
        Origin::Default | Origin::UserFile(_) | Origin::RepoFile(_) => {
            format!("{} = {}", key.name(), setting.toml(&defaults))
        }
        Origin::Environment(variable) => format!("{variable}={}", setting.plain(&defaults)),
        Origin::Argument(typed) => {
            let (option, _) = typed.split_once([' ', '=']).unwrap_or((typed, ""));
            format!("{option} {}", setting.plain(&defaults))
        }
    };
    format!("`{key}` takes {}, for example `{example}`", setting.legal())
}
