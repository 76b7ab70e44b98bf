//! One segment of a pattern, and when two of them can be the same name.

use super::chars::{Char, CharSet, Chars};
use super::sequence::{Element, Sequence};

/// What one segment of a pattern says about a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Literal(Box<[u8]>),
    Glob(Glob),
}

/// Tokens, with `*` as the gaps between them.
pub(super) type Glob = Sequence<Token>;

/// What a pattern says about one character.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Token {
    Char(Char),
    Any,
    /// Never empty: the parser refuses a class without members.
    Class(CharSet),
}

/// A borrowed [`Name`], so that a concrete path needs no allocation to be compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum NameRef<'a> {
    Literal(&'a [u8]),
    Glob(&'a Glob),
}

impl Name {
    /// The segment `*`.
    pub(super) fn any() -> Self {
        let mut glob = Glob::new();
        glob.push_gap();
        Self::Glob(glob)
    }

    pub(super) fn as_ref(&self) -> NameRef<'_> {
        match self {
            Self::Literal(bytes) => NameRef::Literal(bytes),
            Self::Glob(glob) => NameRef::Glob(glob),
        }
    }

    pub(super) fn as_literal(&self) -> Option<&[u8]> {
        match self {
            Self::Literal(bytes) => Some(bytes),
            Self::Glob(_) => None,
        }
    }
}

impl NameRef<'_> {
    /// Whether one name can be described by both.
    pub(super) fn meets(self, other: NameRef<'_>) -> bool {
        match (self, other) {
            (NameRef::Literal(a), NameRef::Literal(b)) => a == b,
            (NameRef::Literal(name), NameRef::Glob(glob)) | (NameRef::Glob(glob), NameRef::Literal(name)) => {
                glob_takes(glob, name)
            }
            (NameRef::Glob(a), NameRef::Glob(b)) => b.meets(a.elements(), Token::meets),
        }
    }
}

fn glob_takes(glob: &Glob, name: &[u8]) -> bool {
    // No file has an empty name: it only comes up when the root of the scope is asked about.
    !name.is_empty() && glob.meets(Chars(name).map(Element::Item), |c, token| token.takes(c))
}

impl Token {
    fn takes(&self, c: Char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Any => true,
            Self::Class(set) => set.contains(c),
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Char(c), token) | (token, Self::Char(c)) => token.takes(*c),
            (Self::Class(a), Self::Class(b)) => a.meets(b),
        }
    }
}
