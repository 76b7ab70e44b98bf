//! Names that people and agents choose: of agents, issues, runs and named locks.
//!
//! A name is shown in terminals, logs and commit messages, so it is one short line of printable text. Anything
//! else is refused when it enters, which is why no later code has to quote or escape a name.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 200;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("the {what} is empty: give it at least one character")]
    Empty { what: &'static str },
    #[error("the {what} has {len} bytes: at most {MAX_NAME} are allowed")]
    TooLong { what: &'static str, len: usize },
    #[error(
        "the {what} `{shown}` contains the control character U+{code:04X}: use printable characters on one line"
    )]
    Control { what: &'static str, shown: String, code: u32 },
    #[error("the {what} `{text}` begins with `-`, as options do: begin it with a letter or a digit")]
    Dash { what: &'static str, text: String },
    #[error("the {what} `{text}` starts or ends with a blank: remove it")]
    Blank { what: &'static str, text: String },
}

fn validate(what: &'static str, text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { what });
    }
    if text.len() > MAX_NAME {
        return Err(NameError::TooLong { what, len: text.len() });
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(NameError::Control {
            what,
            shown: text.escape_debug().to_string(),
            code: control.into(),
        });
    }
    if text.trim() != text {
        return Err(NameError::Blank { what, text: text.to_owned() });
    }
    Ok(())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                validate($what, &text)?;
                Ok(Self(text))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }
    )*};
}

names! {
    /// One working session. Unique within a scope.
    AgentId = "agent name";
    /// An issue, in whatever form its tracker writes ids.
    IssueId = "issue id";
    /// One `mala run`.
    RunId = "run id";
    /// Somebody at a keyboard.
    PersonId = "person's name";
    /// A tracker's own word: a status, a kind or a label.
    IssueWord = "word";
    /// What messages belong together: an issue's id, or anything.
    ThreadId = "thread";
    /// A lock on something that is not a file, such as `test`.
    LockName = "lock name";
}

impl AgentId {
    /// In whose name nothing is ever held: who asks in it finds every hold to be another's.
    pub fn nobody() -> Self {
        Self("nobody-in-particular".to_owned())
    }
}

impl IssueId {
    /// An id that is given now. It becomes a word of command lines, so it must not look like an option.
    pub fn given(text: impl Into<String>) -> Result<Self, NameError> {
        let id = Self::new(text)?;
        match id.0.starts_with('-') {
            true => Err(NameError::Dash { what: "issue id", text: id.0 }),
            false => Ok(id),
        }
    }
}

impl LockName {
    /// The mutex that test commands take turns under.
    pub fn test() -> Self {
        Self("test".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_lines_are_names() {
        for text in ["a", "claude-4242", "Ünïcödé agent", "$(rm -rf /)", "'quoted\"", "🦀"] {
            assert_eq!(AgentId::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_cannot_be_shown_on_one_line_is_refused_by_name() {
        let message = |text: &str| AgentId::new(text).unwrap_err().to_string();
        assert_eq!(message(""), "the agent name is empty: give it at least one character");
        assert_eq!(
            message("a\nb"),
            "the agent name `a\\nb` contains the control character U+000A: use printable characters on one line"
        );
        assert!(message("nul\0").contains("U+0000"));
        assert!(message(" a").contains("starts or ends with a blank"));
        assert!(message(&"x".repeat(201)).contains("201 bytes"));
    }
}
