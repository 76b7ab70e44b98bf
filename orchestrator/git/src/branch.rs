//! Moving a branch, and what commits are made with.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::call::Call;
use crate::{GitError, Head, Oid, Repo};

impl Repo {
    /// Moves the branch to `commit` if it is still at `head`, with a word for the reflog.
    ///
    /// In two steps, so that git gives up when this process is killed before it has said the last word: a ref that moves
    /// after its mover is gone could not be told from one that never will.
    pub(crate) fn move_branch(&self, head: &Head, commit: &Oid, word: &str) -> Result<(), GitError> {
        let old = head.at().map_or_else(|| "0".repeat(commit.as_str().len()), ToString::to_string);
        let (option, name) = match head {
            Head::Branch { name, .. } => ("", name.as_str()),
            Head::Detached { .. } => ("option no-deref\0", "HEAD"),
        };
        let call = self.plain_git("update-ref").args(["-m", word, "--stdin", "-z"]);
        call.dialogue(&[
            ("start\0".to_owned(), "start: ok"),
            (format!("{option}update {name}\0{commit}\0{old}\0prepare\0"), "prepare: ok"),
            ("commit\0".to_owned(), "commit: ok"),
        ])
    }

    /// True if the user wants commits to be signed.
    pub(crate) fn signs_commits(&self) -> Result<bool, GitError> {
        let signs = self.git("config").args(["--type=bool", "--get", "commit.gpgSign"]).finish()?;
        Ok(signs.stdout.trim_ascii() == b"true")
    }
}

impl Call {
    /// Says one thing after the other, each after the answer to the one before. A git that ends well without having answered
    /// everything as it should has not done it.
    fn dialogue(mut self, lines: &[(String, &str)]) -> Result<(), GitError> {
        let mut child = self.spawn(Stdio::piped())?;
        let mut stdin = child.stdin.take();
        let mut answers = child.stdout.take().map(BufReader::new);
        let mut odd = None;
        for (said, expected) in lines {
            let is_said = stdin
                .as_mut()
                .is_some_and(|stdin| stdin.write_all(said.as_bytes()).and_then(|()| stdin.flush()).is_ok());
            let mut answer = String::new();
            let is_read = answers.as_mut().is_some_and(|answers| answers.read_line(&mut answer).is_ok());
            if !is_said || !is_read || answer.trim_end() != *expected {
                odd = Some(GitError::answer("update-ref", answer.as_bytes()));
                break;
            }
        }
        drop(stdin);
        self.wait(child)?;
        odd.map_or(Ok(()), Err)
    }
}
