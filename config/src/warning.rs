//! What is odd about the settings without being wrong: names that nobody knows.
//!
//! Only a warning, so that a file written for a newer mala still works with this one.

use std::fmt;

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};
use thiserror::Error;

use crate::place::Place;
use crate::suggest;

/// A name that was ignored.
#[derive(Debug, Clone, Error)]
pub enum Warning {
    /// A section of a file.
    #[error("unknown section `[{name}]` in `{place}` is ignored")]
    Section {
        /// The section.
        name: String,
        /// Where it is.
        place: Place,
    },
    /// A setting in a file.
    #[error("unknown setting `{name}` in `{place}` is ignored")]
    Setting {
        /// The setting, with its section if it is in one.
        name: String,
        /// Where it is.
        place: Place,
    },
    /// A setting by the name that it had once, which still works.
    #[error("`{name}`{} is called `{key}` now", .place.as_ref().map(|place| format!(" in `{place}`")).unwrap_or_default())]
    Renamed {
        /// The name that was used.
        name: String,
        /// The setting.
        key: crate::Key,
        /// Where it is, if it is in a file.
        place: Option<Place>,
    },
    /// A field of a table.
    #[error("unknown field `{name}` in `{place}` is ignored")]
    Field {
        /// The field, with its table.
        name: String,
        /// The fields that such a table has.
        known: &'static [&'static str],
        /// Where it is.
        place: Place,
    },
    /// An environment variable that looks like a setting.
    #[error("unknown variable `{name}` is ignored")]
    Variable {
        /// The variable.
        name: String,
        /// The setting it looks like.
        dotted: String,
    },
}

impl Warning {
    /// Where the name is, if it is in a file.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Section { place, .. } | Self::Setting { place, .. } | Self::Field { place, .. } => {
                Some(place)
            }
            Self::Renamed { place, .. } => place.as_ref(),
            Self::Variable { .. } => None,
        }
    }
}

impl Diagnostic for Warning {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Warning)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = match self {
            Self::Section { name, .. } => suggest::section_help(name),
            Self::Setting { name, .. } => suggest::setting_help(name),
            Self::Renamed { key, .. } => format!("write it as `{}` in `[{}]`", key.name(), key.section()),
            Self::Field { name, known, .. } => suggest::field_help(name, known),
            Self::Variable { dotted, .. } => match suggest::setting(dotted) {
                Some(key) => format!("did you mean `{}`?", key.variable()),
                None => suggest::setting_help(dotted),
            },
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
