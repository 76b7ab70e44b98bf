//! Commands that are known by how they begin: `cargo test`, `pytest`, `python -m pytest`.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

use thiserror::Error;

/// The beginning of a command line: a program, without its folder, and the words that follow it.
///
/// Options between the words do not matter, so `cargo test` also means `cargo +nightly --quiet test -p core`. A program
/// also answers to its name with a version behind it: `python` means `python3` and `python3.12` too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommandPattern {
    program: String,
    words: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandPatternError {
    #[error("it is empty; write a program and its first words, such as `cargo test`")]
    Empty,
    #[error("`{0}` has a folder; name the program alone, such as `pytest`")]
    Folder(String),
    #[error("`{0}` is for a shell; write plain words, such as `cargo test`")]
    Shell(String),
}

impl CommandPattern {
    /// True if the command line `args`, the program first, begins like this.
    pub fn matches<S: AsRef<OsStr>>(&self, args: &[S]) -> bool {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_ref().as_bytes()).collect();
        let Some((program, rest)) = args.split_first() else { return false };
        self.is_about(OsStr::from_bytes(program)) && follows(rest, &self.words)
    }

    /// True if a command line that begins with `program` may match, whatever follows.
    pub fn is_about(&self, program: &OsStr) -> bool {
        let name = Path::new(program).file_name().unwrap_or_default();
        is_program(name.as_bytes(), self.program.as_bytes())
    }
}

/// True if `name` is `program`, perhaps with a version.
fn is_program(name: &[u8], program: &[u8]) -> bool {
    name.strip_prefix(program)
        .is_some_and(|version| version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
}

/// True if `words` come first in `args`, with nothing between them but options and what may be their values.
fn follows(args: &[&[u8]], words: &[String]) -> bool {
    // Whether an option takes the next argument is unknown, so all places where a word could stand are carried along.
    let mut places = vec![false; args.len() + 2];
    places[0] = true;
    for word in words {
        let mut after = vec![false; args.len() + 2];
        for (at, arg) in args.iter().enumerate() {
            if !places[at] {
                continue;
            }
            if *arg == word.as_bytes() {
                after[at + 1] = true;
            } else if arg.len() > 1 && *arg != b"--" && matches!(arg[0], b'-' | b'+') {
                places[at + 1] = true;
                places[at + 2] |= arg[0] == b'-' && !arg.contains(&b'=');
            }
        }
        places = after;
    }
    places.contains(&true)
}

impl FromStr for CommandPattern {
    type Err = CommandPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or(CommandPatternError::Empty)?;
        if program.contains('/') {
            return Err(CommandPatternError::Folder(program));
        }
        let words: Vec<String> = words.collect();
        let is_odd =
            |word: &&String| word.contains(['|', '&', ';', '<', '>', '$', '`', '"', '\'', '*', '\\']);
        if let Some(odd) = std::iter::once(&program).chain(&words).find(is_odd) {
            return Err(CommandPatternError::Shell(odd.clone()));
        }
        Ok(Self { program, words })
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        self.words.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, line: &str) -> bool {
        let args: Vec<&str> = line.split_whitespace().collect();
        pattern.parse::<CommandPattern>().unwrap().matches(&args)
    }

    #[test]
    fn a_command_is_known_by_its_first_words() {
        for (pattern, line) in [
            ("cargo test", "cargo test"),
            ("cargo test", "/usr/bin/cargo test -p core"),
            ("cargo test", "cargo +nightly --quiet test"),
            ("cargo test", "cargo --color never test"),
            ("cargo test", "cargo --config=a=b test -- --nocapture"),
            ("pytest", ".venv/bin/pytest -x"),
            ("python -m pytest", "python3.12 -m pytest tests"),
            ("python -m pytest", "python -I -m pytest"),
            ("go test", "go test ./..."),
        ] {
            assert!(matches(pattern, line), "`{pattern}` should know `{line}`");
        }
    }

    #[test]
    fn words_elsewhere_are_not_the_command() {
        for (pattern, line) in [
            ("cargo test", "cargo build"),
            ("cargo test", "cargo run test"),
            ("cargo test", "cargo -- test"),
            ("cargo test", "cargo"),
            ("cargo test", "cargo-test test"),
            ("pytest", "pytest-cov"),
            ("pytest", "echo pytest"),
            ("python -m pytest", "python pytest"),
            ("go test", "gopher test"),
        ] {
            assert!(!matches(pattern, line), "`{pattern}` should not know `{line}`");
        }
    }

    #[test]
    fn what_is_not_a_command_is_refused_with_a_hint() {
        let error = |text: &str| text.parse::<CommandPattern>().unwrap_err().to_string();
        assert_eq!(error("  "), "it is empty; write a program and its first words, such as `cargo test`");
        assert_eq!(error("/bin/x"), "`/bin/x` has a folder; name the program alone, such as `pytest`");
        assert_eq!(error("a && b"), "`&&` is for a shell; write plain words, such as `cargo test`");
        assert_eq!("cargo   test".parse::<CommandPattern>().unwrap().to_string(), "cargo test");
    }

    #[test]
    fn many_options_cost_no_time() {
        let line = format!("cargo {}", "-a ".repeat(200));
        assert!(!matches("cargo test", &line));
    }
}
