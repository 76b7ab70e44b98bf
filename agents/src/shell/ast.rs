//! What a command line says, before anything is expanded.

use std::ops::Range;

/// A whole text: its commands, and the documents they refer to.
#[derive(Debug, Clone, Default)]
pub(super) struct Script {
    pub(super) list: List,
    pub(super) docs: Vec<Word>,
}

/// Commands that run one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct List {
    pub(super) chains: Vec<Chain>,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) links: Vec<(Joint, Pipeline)>,
    pub(super) background: bool,
}

/// How a pipeline hangs on the one before it. The first of a chain is joined by [`Joint::And`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    And,
    Or,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pipeline {
    pub(super) commands: Vec<Command>,
}

#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) kind: Kind,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Simple(Simple),
    /// `{ ...; }`: runs in this shell.
    Group(List),
    /// `( ... )`: runs in a shell of its own.
    Subshell(List),
    /// The parts of `if`, `while`, `until`, `case`: each may run, or not, or often.
    Maybe {
        words: Vec<Word>,
        parts: Vec<List>,
    },
    /// `for name in items`; without items, the shell's own arguments.
    For {
        name: String,
        items: Option<Vec<Word>>,
        body: List,
    },
    Function {
        name: String,
        body: Box<Command>,
    },
    /// `[[ ... ]]` and `(( ... ))`
    Test(Vec<Word>),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Simple {
    pub(super) assigns: Vec<Assign>,
    pub(super) words: Vec<Word>,
}

#[derive(Debug, Clone)]
pub(super) struct Assign {
    pub(super) name: String,
    pub(super) value: Word,
    pub(super) kind: AssignKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AssignKind {
    /// `name=value`
    Plain,
    /// `name+=value`, `name=(...)`
    Other,
    /// `name[...]=value`: the shell evaluates the index.
    Indexed,
}

#[derive(Debug, Clone)]
pub(super) struct Redirect {
    pub(super) kind: RedirectKind,
    pub(super) target: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectKind {
    /// `<`
    Read,
    /// `>`, `>>`, `>|`, `&>`, `&>>`, `<>`
    Write,
    /// `>&`: a descriptor, or a file.
    Duplicate,
    /// `<<<`
    HereString,
    /// `<<`: the text is among the script's `docs`.
    HereDoc { doc: usize },
}

/// One word as typed.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
    /// Where it stands in the text that was given to the parser, if it stands there as it is.
    pub(super) span: Option<Range<usize>>,
}

#[derive(Debug, Clone)]
pub(super) enum Part {
    /// Not quoted: wildcards, braces and `~` have their meaning.
    Bare(String),
    Quoted(String),
    Variable {
        name: String,
        quoted: bool,
    },
    /// `$(...)` or backticks; the value is not known, what runs is.
    Command {
        list: List,
        quoted: bool,
    },
    /// `<(...)`, `>(...)`
    Process(List),
    /// An expansion whose value is not known; the words inside it may run commands.
    Opaque {
        inside: Vec<Word>,
        effect: Effect,
        quoted: bool,
    },
    /// `$((...))`, `((...))`
    Arithmetic {
        inside: Vec<Part>,
        quoted: bool,
    },
}

/// What an expansion does beside having a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// It may set a variable or evaluate the value of one.
    Unknown,
}

impl Word {
    /// The text, if the word is nothing but unquoted text.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Bare(text)] => Some(text),
            _ => None,
        }
    }
}
