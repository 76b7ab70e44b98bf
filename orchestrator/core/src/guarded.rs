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
///
/// `cd web && npm test` is `npm test`, to be run in the directory `web`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommandPattern {
    /// Below the directory in which commands run anyway; empty for that one.
    directory: String,
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
    #[error("`{0}` is no directory of the checkout; name one below its top, such as `cd web && npm test`")]
    Directory(String),
}

impl CommandPattern {
    /// True if the command line `args`, the program first, begins like this.
    pub fn matches<S: AsRef<OsStr>>(&self, args: &[S]) -> bool {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_ref().as_bytes()).collect();
        let Some((program, rest)) = args.split_first() else { return false };
        self.is_about(OsStr::from_bytes(program)) && follows(rest, &self.words)
    }

    /// Where it is to be run, below the directory in which commands run anyway.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    /// Program and words, without the directory.
    pub fn line(&self) -> String {
        std::iter::once(&self.program).chain(&self.words).map(String::as_str).collect::<Vec<_>>().join(" ")
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
        let (directory, text) =
            match text.trim_start().strip_prefix("cd ").and_then(|rest| rest.split_once("&&")) {
                Some((directory, text)) => (directory_below(directory.trim())?, text),
                None => (String::new(), text),
            };
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or(CommandPatternError::Empty)?;
        if program.contains('/') {
            return Err(CommandPatternError::Folder(program));
        }
        let words: Vec<String> = words.collect();
        let is_odd = |word: &&String| word.contains(FOR_A_SHELL);
        if let Some(odd) = std::iter::once(&program).chain(&words).find(is_odd) {
            return Err(CommandPatternError::Shell(odd.clone()));
        }
        Ok(Self { directory, program, words })
    }
}

/// What only a shell understands.
const FOR_A_SHELL: [char; 11] = ['|', '&', ';', '<', '>', '$', '`', '"', '\'', '*', '\\'];

fn directory_below(text: &str) -> Result<String, CommandPatternError> {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    let is_below =
        text.split('/').all(is_plain) && !text.contains(char::is_whitespace) && !text.contains(FOR_A_SHELL);
    if is_below { Ok(text.to_owned()) } else { Err(CommandPatternError::Directory(text.to_owned())) }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.directory.is_empty() {
            write!(f, "cd {} && ", self.directory)?;
        }
        f.write_str(&self.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_name_the_directory_it_runs_in() {
        let pattern: CommandPattern = "cd  web/app  && npm test".parse().unwrap();
        assert_eq!(
            (pattern.directory(), pattern.program(), pattern.line().as_str()),
            ("web/app", "npm", "npm test")
        );
        assert_eq!(pattern.to_string(), "cd web/app && npm test");
        assert_eq!(pattern.to_string().parse(), Ok(pattern.clone()));
        assert!(pattern.matches(&["npm", "test"]));
        for odd in
            ["cd .. && x", "cd /tmp && x", "cd a b && x", "cd $HOME && x", "cd && x", "cd a/../.. && x"]
        {
            assert!(
                matches!(
                    odd.parse::<CommandPattern>(),
                    Err(CommandPatternError::Directory(_) | CommandPatternError::Shell(_))
                ),
                "{odd}"
            );
        }
    }

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
