//! Ends without code: what an agent may say instead of committing, and how it has to say it.

use std::fmt;

/// How the last line of an agent's last message begins.
pub const MARKER: &str = "MALA-OUTCOME: ";

/// Why there is nothing to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing had to be changed.
    NoChange,
    /// The issue does not apply any more.
    Obsolete,
    /// Somebody has done it already.
    AlreadyComplete,
    /// Only documentation was changed.
    DocsOnly,
}

impl Kind {
    const NAMES: &[(&str, Self)] = &[
        ("no-change", Self::NoChange),
        ("obsolete", Self::Obsolete),
        ("already-complete", Self::AlreadyComplete),
        ("docs-only", Self::DocsOnly),
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| *name);
        f.write_str(name)
    }
}

/// What an agent declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub kind: Kind,
    pub reason: String,
}

impl Outcome {
    /// Reads `MALA-OUTCOME: KIND: REASON`, which must be the whole last line. Anything else, a quotation or a mention in
    /// a sentence, is no outcome.
    pub fn read(final_message: &str) -> Option<Self> {
        let last = final_message.trim_end_matches(['\n', '\r']).lines().next_back()?;
        let (kind, reason) = last.strip_prefix(MARKER)?.split_once(": ")?;
        let (_, kind) = Kind::NAMES.iter().find(|(name, _)| *name == kind)?;
        let reason = reason.trim();
        (!reason.is_empty()).then(|| Self { kind: *kind, reason: reason.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_in_its_exact_form_is_an_outcome() {
        let outcome =
            Outcome::read("I looked.\n\nMALA-OUTCOME: no-change: the bug is not in this code\n").unwrap();
        assert_eq!(outcome.kind, Kind::NoChange);
        assert_eq!(outcome.reason, "the bug is not in this code");
        for (name, kind) in Kind::NAMES {
            let outcome = Outcome::read(&format!("MALA-OUTCOME: {name}: x: y")).unwrap();
            assert_eq!((outcome.kind, outcome.reason.as_str()), (*kind, "x: y"));
            assert_eq!(kind.to_string(), *name);
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in [
            "",
            "MALA-OUTCOME: no-change",
            "MALA-OUTCOME: no-change: ",
            "MALA-OUTCOME:no-change: x",
            "MALA-OUTCOME: nochange: x",
            "MALA-OUTCOME: No-Change: x",
            "mala-outcome: no-change: x",
            " MALA-OUTCOME: no-change: x",
            "> MALA-OUTCOME: no-change: x",
            "`MALA-OUTCOME: no-change: x`",
            "I will not say MALA-OUTCOME: no-change: x",
            "MALA-OUTCOME: no-change: x\nBut then I changed it.",
            "MALA-OUTCOME: no-change: x\n```",
        ] {
            assert_eq!(Outcome::read(text), None, "{text:?}");
        }
    }
}
