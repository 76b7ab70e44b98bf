//! What can be locked, and when two claims exclude each other.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::key::{KeyError, write_name};
use crate::pattern::{has_meta, is_above};
use crate::{AgentId, Key, LockName, Mode, Pattern, PatternError, Scope};

/// Something that can be locked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// One file, which need not exist.
    File(Key),
    /// Every file that matches, existing or not.
    Pattern(Pattern),
    /// A name that stands for no file, such as the test mutex.
    Name(LockName),
}

impl Target {
    /// The bytes that identify the target among those of its kind.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::File(key) => key.as_bytes(),
            Self::Pattern(pattern) => pattern.text(),
            Self::Name(name) => name.as_str().as_bytes(),
        }
    }

    /// The file, if it is one.
    pub fn file(&self) -> Option<&Key> {
        match self {
            Self::File(key) => Some(key),
            Self::Pattern(_) | Self::Name(_) => None,
        }
    }

    /// Whether something can be both.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(a), Self::File(b)) => a == b,
            (Self::File(file), Self::Pattern(pattern)) | (Self::Pattern(pattern), Self::File(file)) => {
                pattern.matches(file.as_bytes())
            }
            (Self::Pattern(a), Self::Pattern(b)) => a.overlaps(b),
            (Self::Name(a), Self::Name(b)) => a == b,
            (Self::Name(_), _) | (_, Self::Name(_)) => false,
        }
    }

    /// Whether one of the two is a file in the place of a directory that the other one needs: `gen` and `gen/a`, `gen` and
    /// `gen/**`. A link there would lead elsewhere, and anything else would keep the other one from being made.
    pub fn displaces(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(a), Self::File(b)) => {
                is_above(a.as_bytes(), b.as_bytes()) || is_above(b.as_bytes(), a.as_bytes())
            }
            (Self::File(file), Self::Pattern(pattern)) | (Self::Pattern(pattern), Self::File(file)) => {
                pattern.names_directory(file.as_bytes())
            }
            (Self::Pattern(_), Self::Pattern(_)) | (Self::Name(_), _) | (_, Self::Name(_)) => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.as_bytes())
    }
}

/// A wish to hold a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    pub target: Target,
    /// Other names of the file, if it has several hard links.
    pub aliases: Vec<Key>,
    pub mode: Mode,
}

impl Want {
    pub fn claim<'a>(&'a self, agent: &'a AgentId) -> Claim<'a> {
        Claim { target: &self.target, aliases: &self.aliases, mode: self.mode, agent }
    }
}

/// What a want and a held lock have in common: the side of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    pub target: &'a Target,
    pub aliases: &'a [Key],
    pub mode: Mode,
    pub agent: &'a AgentId,
}

impl Claim<'_> {
    /// The rule that all of mala rests on: two agents, targets that overlap or that cannot both be there, and not both merely
    /// sharing. A name is held by one process for one command, so there even an agent excludes itself.
    pub fn excludes(&self, other: &Claim<'_>) -> bool {
        let are_two = self.agent != other.agent || matches!(self.target, Target::Name(_));
        let meets = |mine: &Target, theirs: &Target| mine.overlaps(theirs) || mine.displaces(theirs);
        are_two && self.mode.excludes(other.mode) && self.any_names(other, meets)
    }

    /// Whether some file or name is claimed by both.
    pub fn overlaps(&self, other: &Claim<'_>) -> bool {
        self.any_names(other, Target::overlaps)
    }

    fn any_names(&self, other: &Claim<'_>, is_so: impl Fn(&Target, &Target) -> bool) -> bool {
        self.names().any(|mine| other.names().any(|theirs| is_so(&mine, &theirs)))
    }

    fn names(&self) -> impl Iterator<Item = Cow<'_, Target>> {
        let aliases = self.aliases.iter().map(|key| Cow::Owned(Target::File(key.clone())));
        std::iter::once(Cow::Borrowed(self.target)).chain(aliases)
    }
}

/// Why something that was typed names no target.
#[derive(Debug, Error)]
pub enum TargetError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// How to read a path that contains pattern characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A name that exists is that file; otherwise `*`, `?`, `[...]` and `\` make it a pattern.
    Guess,
    /// Every character stands for itself.
    Literal,
}

impl Scope {
    /// What `text`, typed in `cwd`, means. An existing folder means everything below it.
    pub fn want(&self, cwd: &Path, text: &OsStr, mode: Mode, reading: Reading) -> Result<Want, TargetError> {
        let (literal, rest) = match reading {
            Reading::Literal => (PathBuf::from(text), Vec::new()),
            Reading::Guess => split(cwd, text),
        };
        if !rest.is_empty() {
            let base = if literal.as_os_str().is_empty() { Path::new(".") } else { &literal };
            let pattern = self.pattern(&self.key(cwd, base)?, &rest)?;
            if !pattern.is_literal() {
                return Ok(Want { target: Target::Pattern(pattern), aliases: Vec::new(), mode });
            }
            let unescaped = pattern.literal_prefix();
            return Ok(self.file(self.key(self.root(), Path::new(OsStr::from_bytes(&unescaped)))?, mode)?);
        }
        Ok(self.file(self.key(cwd, &literal)?, mode)?)
    }

    /// How a target is typed in the folder `cwd` of this checkout.
    pub fn typed(&self, cwd: &Path, target: &Target) -> Vec<u8> {
        let name = target.as_bytes();
        let Some(folder) = cwd.strip_prefix(self.root()).ok().filter(|_| !matches!(target, Target::Name(_)))
        else {
            return name.to_vec();
        };
        let is_pattern = matches!(target, Target::Pattern(_));
        let mut parts = name.split(|byte| *byte == b'/').peekable();
        let mut folders = folder.iter().map(OsStr::as_bytes).peekable();
        while let (Some(part), Some(folder)) = (parts.peek(), folders.peek())
            && part == folder
            && !(is_pattern && has_meta(part))
        {
            parts.next();
            folders.next();
        }
        let typed: Vec<&[u8]> = folders.map(|_| b"..".as_slice()).chain(parts).collect();
        let typed = typed.join(&b'/');
        match typed.first() {
            None => b".".to_vec(),
            Some(b'-') => [b"./", typed.as_slice()].concat(),
            Some(_) => typed,
        }
    }

    fn file(&self, key: Key, mode: Mode) -> Result<Want, PatternError> {
        if self.is_folder(&key) {
            let target = Target::Pattern(self.pattern(&key, b"**")?);
            return Ok(Want { target, aliases: Vec::new(), mode });
        }
        let aliases = self.hard_links(&key);
        Ok(Want { target: Target::File(key), aliases, mode })
    }

    /// The pattern `rest` below the folder `base`.
    fn pattern(&self, base: &Key, rest: &[u8]) -> Result<Pattern, PatternError> {
        if base.as_bytes().is_empty() {
            return Pattern::parse_typed(&self.fold(rest.to_vec()));
        }
        let mut text = Pattern::literal(base.as_bytes()).text().to_vec();
        text.push(b'/');
        text.extend(self.fold(rest.to_vec()));
        Pattern::parse_typed(&text)
    }
}

/// Splits typed text into a leading path that stands for itself and the rest that is a pattern. Segments such as
/// `[slug]` in `app/[slug]/page.tsx` stand for themselves where they exist under that very name.
fn split(cwd: &Path, text: &OsStr) -> (PathBuf, Vec<u8>) {
    let mut literal = PathBuf::new();
    let mut rest = text.as_bytes();
    while has_meta(rest) {
        let (segment, after) = match rest.iter().position(|b| *b == b'/') {
            Some(slash) => (&rest[..=slash], &rest[slash + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        let next = literal.join(OsStr::from_bytes(segment));
        if has_meta(segment) && cwd.join(&next).symlink_metadata().is_err() {
            return (literal, rest.to_vec());
        }
        literal = next;
        rest = after;
    }
    (literal.join(OsStr::from_bytes(rest)), Vec::new())
}
