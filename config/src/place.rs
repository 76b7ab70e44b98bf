//! Where a value was written: a place in a file, a variable, an argument.
//!
//! A [`Place`] keeps the text of its file, so that an error found after all layers were read can still show it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{LabeledSpan, NamedSource, SourceCode, SourceSpan};

/// A file that was read: its name as shown to people, and its text.
#[derive(Debug, Clone)]
pub(crate) struct Document(Arc<NamedSource<String>>);

impl Document {
    pub(crate) fn new(name: &str, text: String) -> Self {
        Self(Arc::new(NamedSource::new(name, text)))
    }

    pub(crate) fn text(&self) -> &str {
        self.0.inner()
    }

    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        Place { document: self.clone(), span: span.into() }
    }
}

/// A stretch of a file, shown as `mala.toml:2:7`.
#[derive(Debug, Clone)]
pub struct Place {
    document: Document,
    span: SourceSpan,
}

impl Place {
    /// The file, as the caller named it.
    pub fn file(&self) -> &str {
        self.document.0.name()
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.position().0
    }

    /// The column in bytes, from 1.
    pub fn column(&self) -> usize {
        self.position().1
    }

    /// Counted by miette itself, so that a message and the snippet below it agree.
    fn position(&self) -> (usize, usize) {
        match self.document.0.read_span(&self.span, 0, 0) {
            Ok(contents) => (contents.line() + 1, contents.column() + 1),
            // A span the parser made up lies outside the text; the file is still worth naming.
            Err(_) => (1, 1),
        }
    }

    pub(crate) fn source_code(&self) -> &dyn SourceCode {
        &*self.document.0
    }

    /// Underlines the stretch. Without words: the message above says what is wrong.
    pub(crate) fn labels(&self) -> Box<dyn Iterator<Item = LabeledSpan>> {
        Box::new(std::iter::once(LabeledSpan::new_with_span(None, self.span)))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position();
        write!(f, "{}:{line}:{column}", self.file())
    }
}

/// Which layer gave a setting its value.
#[derive(Debug, Clone)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file of the user.
    UserFile(Place),
    /// The file of the repository.
    RepoFile(Place),
    /// An environment variable, by name.
    Environment(String),
    /// An argument, as it was typed.
    Argument(String),
}

impl Origin {
    /// The place, if the value is from a file.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::UserFile(place) | Self::RepoFile(place) => Some(place),
            Self::Default | Self::Environment(_) | Self::Argument(_) => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::UserFile(place) | Self::RepoFile(place) => place.fmt(f),
            Self::Environment(name) => f.write_str(name),
            Self::Argument(typed) => f.write_str(typed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_and_columns_from_one() {
        let document = Document::new("mala.toml", "[lock]\r\nttl = 5\n".to_owned());
        assert_eq!(document.place(0..6).to_string(), "mala.toml:1:1");
        assert_eq!(document.place(14..15).to_string(), "mala.toml:2:7");
        assert_eq!(document.place(16..16).to_string(), "mala.toml:3:1");
    }
}
