//! One value as it was given by a layer, and how it is read as the type a setting wants.
//!
//! A file gives typed TOML values and must use the right type. Variables and arguments give text. Ranges are not
//! checked here: they belong to the setting.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use mala_core::{CommandPattern, CommandPatternError, NameError, Pattern, PatternError};
use thiserror::Error;
use toml::de::{DeInteger, DeValue};

use crate::duration::{DurationError, parse_duration};
use crate::size::{SizeError, parse_size};
use crate::variables::ShareTemplate;

/// Why a value cannot be used. The legal values are in the help of the [`Problem`](crate::Problem).
#[derive(Debug, Error)]
pub enum ValueError {
    /// A TOML value of the wrong type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What the setting wants, in words.
        expected: &'static str,
        /// The TOML type that is there.
        found: &'static str,
    },
    /// Text that is not a duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// Text that is not a size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Text that is not a number of the right sort.
    #[error("`{text}` is not {expected}")]
    NotANumber {
        /// What was written.
        text: String,
        /// What the setting wants, in words.
        expected: &'static str,
    },
    /// Text that is none of the words a setting knows.
    #[error("`{text}` is not {expected}")]
    NotAWord {
        /// What was written.
        text: String,
        /// What the setting wants, in words.
        expected: &'static str,
    },
    /// Well formed but not allowed.
    #[error("`{text}` is out of range")]
    OutOfRange {
        /// What was written.
        text: String,
    },
    /// A text that is no beginning of a command line.
    #[error("`{text}` is not a command: {reason}")]
    NotACommand {
        /// What was written.
        text: String,
        /// What is wrong with it.
        reason: CommandPatternError,
    },
    /// A command that is equivalent to no other one.
    #[error("`{text}` stands alone; name at least two commands that test the same")]
    Alone {
        /// What was written.
        text: String,
    },
    /// A text that is no pattern of files inside the repository.
    #[error(transparent)]
    NotAPattern(#[from] PatternError),
    /// A pattern where one folder has to be named.
    #[error("`{text}` is a pattern, not a folder")]
    NotAFolder {
        /// What was written.
        text: String,
    },
    /// A text that does not name several files of one directory.
    #[error("`{text}` is not a group: two or more names of files, without `/`, separated by spaces")]
    NotAGroup {
        /// What was written.
        text: String,
    },
    /// A text without what it needs.
    #[error("`{text}` does not contain `{needs}`")]
    Lacks {
        /// What was written.
        text: String,
        /// What it needs.
        needs: &'static str,
    },
    /// A text with a part that nobody can fill in.
    #[error(
        "`{text}` cannot be filled in: there is only `{{slot}}` and `{{port_base}}`, and `{{{{` is a brace"
    )]
    NotATemplate {
        /// What was written.
        text: String,
    },
    /// A variable that cannot be called so.
    #[error("`{text}` cannot be set: letters, digits and `_`, and not beginning with `MALA_`")]
    NotAVariable {
        /// What was written.
        text: String,
    },
    /// A table that cannot be called so.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A variable whose bytes are not text.
    #[error("`{text}` is not valid UTF-8")]
    NotUtf8 {
        /// What was written, as far as it can be shown.
        text: String,
    },
}

/// What may be spent: nothing up to more than anybody wants to.
pub(crate) const MONEY: RangeInclusive<f64> = 0.0..=1_000_000.0;

const DURATION: &str = "a duration in quotes";
const SIZE: &str = "a size in quotes";
const NUMBER: &str = "a number";
const WHOLE_NUMBER: &str = "a whole number";
const SWITCH: &str = "true or false";
const TEXT: &str = "text in quotes";
const TEXTS: &str = "a list of texts in quotes";
const GROUPS: &str = "a list of lists of commands in quotes";
const WORD: &str = "one of the words in quotes";

/// A value before anybody knows whether it fits.
#[derive(Debug)]
pub(crate) enum Given<'a> {
    /// From a file.
    Toml(&'a DeValue<'a>),
    /// From a variable or an argument.
    Text(&'a str),
}

impl Given<'_> {
    pub(crate) fn duration(&self) -> Result<Duration, ValueError> {
        match self {
            Self::Text(text) => Ok(parse_duration(text)?),
            Self::Toml(DeValue::String(text)) => Ok(parse_duration(text)?),
            Self::Toml(other) => Err(ValueError::wrong_type(DURATION, other)),
        }
    }

    /// In bytes. Nothing is zero.
    pub(crate) fn size(&self) -> Result<u64, ValueError> {
        match self {
            Self::Text(text) => Ok(parse_size(text)?),
            Self::Toml(DeValue::String(text)) => Ok(parse_size(text)?),
            Self::Toml(other) => Err(ValueError::wrong_type(SIZE, other)),
        }
    }

    /// Whole numbers are numbers too: `waited_share = 1` is fine.
    pub(crate) fn fraction(&self) -> Result<f64, ValueError> {
        let parsed = match self {
            Self::Text(text) => text.parse().ok(),
            Self::Toml(DeValue::Float(float)) => float.as_str().parse().ok(),
            Self::Toml(DeValue::Integer(integer)) => whole(integer).map(|wide| wide as f64),
            Self::Toml(other) => return Err(ValueError::wrong_type(NUMBER, other)),
        };
        parsed.ok_or_else(|| self.not_a_number(NUMBER))
    }

    pub(crate) fn count(&self) -> Result<u64, ValueError> {
        let parsed = match self {
            Self::Text(text) => text.parse().ok(),
            Self::Toml(DeValue::Integer(integer)) => whole(integer),
            Self::Toml(other) => return Err(ValueError::wrong_type(WHOLE_NUMBER, other)),
        };
        let wide = parsed.ok_or_else(|| self.not_a_number(WHOLE_NUMBER))?;
        u64::try_from(wide).map_err(|_| ValueError::OutOfRange { text: self.to_string() })
    }

    pub(crate) fn switch(&self) -> Result<bool, ValueError> {
        match self {
            Self::Text("true") => Ok(true),
            Self::Text("false") => Ok(false),
            Self::Text(text) => Err(ValueError::NotAWord { text: (*text).to_owned(), expected: SWITCH }),
            Self::Toml(DeValue::Boolean(switch)) => Ok(*switch),
            Self::Toml(other) => Err(ValueError::wrong_type(SWITCH, other)),
        }
    }

    /// One of a few words, each of which has a meaning.
    pub(crate) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, ValueError> {
        let text: &str = match self {
            Self::Text(text) => text,
            Self::Toml(DeValue::String(text)) => text,
            Self::Toml(other) => return Err(ValueError::wrong_type(WORD, other)),
        };
        let found = words.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| ValueError::NotAWord { text: text.to_owned(), expected: WORD })
    }

    pub(crate) fn text(&self) -> Result<String, ValueError> {
        match self {
            Self::Text(text) => Ok((*text).to_owned()),
            Self::Toml(DeValue::String(text)) => Ok(text.to_string()),
            Self::Toml(other) => Err(ValueError::wrong_type(TEXT, other)),
        }
    }

    /// In a variable, the entries are separated by commas.
    pub(crate) fn texts(&self) -> Result<Vec<String>, ValueError> {
        match self {
            Self::Text(text) => {
                let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
                Ok(entries.map(str::to_owned).collect())
            }
            Self::Toml(DeValue::Array(entries)) => {
                entries.iter().map(|entry| Given::Toml(entry.get_ref()).text()).collect()
            }
            Self::Toml(other) => Err(ValueError::wrong_type(TEXTS, other)),
        }
    }

    /// Patterns of files, which never lead out of the repository.
    pub(crate) fn patterns(&self) -> Result<Vec<String>, ValueError> {
        let texts = self.texts()?;
        for text in &texts {
            Pattern::parse(text.as_bytes())?;
        }
        Ok(texts)
    }

    /// Folders inside the repository.
    pub(crate) fn folders(&self) -> Result<Vec<String>, ValueError> {
        let texts = self.texts()?;
        for text in &texts {
            if !Pattern::parse(text.as_bytes())?.is_literal() {
                return Err(ValueError::NotAFolder { text: text.clone() });
            }
        }
        Ok(texts)
    }

    /// Names of files that belong together, separated by spaces.
    pub(crate) fn groups(&self) -> Result<Vec<String>, ValueError> {
        let texts = self.texts()?;
        let is_none = |text: &&String| {
            let names: Vec<&str> = text.split_whitespace().collect();
            names.len() < 2 || names.iter().any(|name| name.contains('/') || matches!(*name, "." | ".."))
        };
        match texts.iter().find(is_none) {
            Some(text) => Err(ValueError::NotAGroup { text: text.clone() }),
            None => Ok(texts),
        }
    }

    /// An amount of money, which is never negative.
    pub(crate) fn money(&self) -> Result<f64, ValueError> {
        let amount = self.fraction()?;
        if !MONEY.contains(&amount) {
            return Err(ValueError::OutOfRange { text: self.to_string() });
        }
        Ok(amount)
    }

    pub(crate) fn commands(&self) -> Result<Vec<CommandPattern>, ValueError> {
        parse_commands(self.texts()?)
    }

    /// Commands with parts to be filled in.
    pub(crate) fn templates(&self) -> Result<Vec<ShareTemplate>, ValueError> {
        self.texts()?.iter().map(|text| ShareTemplate::parse(text)).collect()
    }

    /// Commands that mean the same, at least two of them in a group. In a variable, `=` stands between the commands of one.
    pub(crate) fn command_groups(&self) -> Result<Vec<Vec<CommandPattern>>, ValueError> {
        let groups: Vec<Vec<String>> = match self {
            // An option such as `--cov=src` is one word; what separates commands stands alone.
            Self::Text(_) => {
                let split = |group: &String| group.split(" = ").map(str::to_owned).collect();
                self.texts()?.iter().map(split).collect()
            }
            Self::Toml(DeValue::Array(groups)) => {
                let texts = |group: &DeValue<'_>| match group {
                    DeValue::Array(_) => Given::Toml(group).texts(),
                    other => Err(ValueError::wrong_type(GROUPS, other)),
                };
                groups.iter().map(|group| texts(group.get_ref())).collect::<Result<_, _>>()?
            }
            Self::Toml(other) => return Err(ValueError::wrong_type(GROUPS, other)),
        };
        let group = |texts: Vec<String>| match texts.as_slice() {
            [] | [_] => Err(ValueError::Alone { text: texts.concat() }),
            _ => parse_commands(texts),
        };
        groups.into_iter().map(group).collect()
    }

    fn not_a_number(&self, expected: &'static str) -> ValueError {
        ValueError::NotANumber { text: self.to_string(), expected }
    }
}

fn parse_commands(texts: Vec<String>) -> Result<Vec<CommandPattern>, ValueError> {
    let parse = |text: String| match text.parse() {
        Ok(pattern) => Ok(pattern),
        Err(reason) => Err(ValueError::NotACommand { text, reason }),
    };
    texts.into_iter().map(parse).collect()
}

/// What was written, as an error repeats it. Only scalars that parsed get this far.
impl fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Toml(DeValue::String(text)) => f.write_str(text),
            Self::Toml(DeValue::Integer(integer)) => integer.fmt(f),
            Self::Toml(DeValue::Float(float)) => float.fmt(f),
            Self::Toml(other) => f.write_str(other.type_str()),
        }
    }
}

/// Read wide, so that a negative number is out of range and not a riddle.
fn whole(integer: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

impl ValueError {
    pub(crate) fn wrong_type(expected: &'static str, found: &DeValue<'_>) -> Self {
        Self::WrongType { expected, found: found.type_str() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> DeValue<'_> {
        DeValue::parse(text).unwrap().into_inner()
    }

    #[test]
    fn numbers_are_read_in_every_toml_spelling() {
        assert_eq!(Given::Toml(&toml("0x14")).count().unwrap(), 20);
        assert_eq!(Given::Toml(&toml("1_000")).count().unwrap(), 1000);
        assert_eq!(Given::Toml(&toml("+5")).count().unwrap(), 5);
        assert_eq!(Given::Toml(&toml("0x10")).fraction().unwrap(), 16.0);
        assert_eq!(Given::Toml(&toml("5e-2")).fraction().unwrap(), 0.05);
    }

    #[test]
    fn a_file_must_use_the_right_type() {
        let wrong = |result: Result<(), ValueError>| result.unwrap_err().to_string();
        let thirty = toml("30");
        let quoted = toml("\"30\"");
        insta::assert_snapshot!(wrong(Given::Toml(&thirty).duration().map(drop)), @"expected a duration in quotes, found integer");
        insta::assert_snapshot!(wrong(Given::Toml(&quoted).count().map(drop)), @"expected a whole number, found string");
        insta::assert_snapshot!(wrong(Given::Toml(&quoted).fraction().map(drop)), @"expected a number, found string");
        insta::assert_snapshot!(wrong(Given::Toml(&toml("2.5")).count().map(drop)), @"expected a whole number, found float");
    }

    #[test]
    fn switches_and_words_are_taken_literally() {
        assert!(Given::Text("true").switch().unwrap() && !Given::Toml(&toml("false")).switch().unwrap());
        insta::assert_snapshot!(Given::Text("yes").switch().unwrap_err(), @"`yes` is not true or false");
        insta::assert_snapshot!(Given::Toml(&toml("1")).switch().unwrap_err(), @"expected true or false, found integer");
        let words = [("a", 1), ("b", 2)];
        assert_eq!(Given::Text("b").choice(&words).unwrap(), 2);
        insta::assert_snapshot!(Given::Toml(&toml("\"c\"")).choice(&words).unwrap_err(), @"`c` is not one of the words in quotes");
        insta::assert_snapshot!(Given::Toml(&toml("1")).choice(&words).unwrap_err(), @"expected one of the words in quotes, found integer");
    }

    #[test]
    fn a_group_names_two_files_or_more_of_one_directory() {
        assert_eq!(Given::Text("a.toml a.lock, x y z").groups().unwrap(), ["a.toml a.lock", "x y z"]);
        insta::assert_snapshot!(Given::Text("alone").groups().unwrap_err(), @"`alone` is not a group: two or more names of files, without `/`, separated by spaces");
        assert!(Given::Text("a dir/b").groups().is_err() && Given::Text("a ..").groups().is_err());
    }

    #[test]
    fn text_must_be_a_number_and_negative_is_out_of_range() {
        let wrong = |text: &str| Given::Text(text).count().unwrap_err().to_string();
        insta::assert_snapshot!(wrong("many"), @"`many` is not a whole number");
        insta::assert_snapshot!(wrong("-5"), @"`-5` is out of range");
        insta::assert_snapshot!(Given::Text("").fraction().unwrap_err(), @"`` is not a number");
    }
}
