//! Which paths need no lock: those that git ignores.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// Asks git itself, so that there is no second opinion on what its rules mean. Tracked files are never ignored. A path
/// keeps its first answer, so an agent cannot make a file free by editing `.gitignore`.
#[derive(Debug)]
pub(crate) struct Ignored {
    root: PathBuf,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    known: HashMap<PathBuf, bool>,
    /// Started with the first question.
    git: Option<CheckIgnore>,
}

#[derive(Debug)]
struct CheckIgnore {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Ignored {
    pub(crate) fn in_checkout(root: &Path) -> Self {
        Self { root: root.to_path_buf(), answers: Mutex::default() }
    }

    /// True if git ignores the path, or a folder it lies in. If git cannot be asked, it counts as not ignored and needs
    /// a lock.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let Ok(mut answers) = self.answers.lock() else { return false };
        let mut folders: Vec<&Path> =
            path.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
        folders.reverse();
        folders.into_iter().any(|path| self.answer(&mut answers, path))
    }

    fn answer(&self, answers: &mut Answers, path: &Path) -> bool {
        if let Some(known) = answers.known.get(path) {
            return *known;
        }
        let is_ignored = self.ask(answers, path).unwrap_or(false) && !self.holds_tracked_files(path);
        answers.known.insert(path.to_path_buf(), is_ignored);
        is_ignored
    }

    /// True for a folder that git ignores although it tracks files in it: they are not to be moved along.
    fn holds_tracked_files(&self, path: &Path) -> bool {
        let list =
            || Command::new("git").args(["ls-files", "-z", "--"]).arg(path).current_dir(&self.root).output();
        self.root.join(path).is_dir() && list().is_ok_and(|out| !out.stdout.is_empty())
    }

    fn ask(&self, answers: &mut Answers, path: &Path) -> io::Result<bool> {
        let git = match &mut answers.git {
            Some(git) => git,
            none => none.insert(CheckIgnore::start(&self.root)?),
        };
        git.ask(path)
    }
}

impl CheckIgnore {
    fn start(root: &Path) -> io::Result<Self> {
        let mut child = Command::new("git")
            .args(["check-ignore", "-z", "--stdin", "--verbose", "--non-matching"])
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(questions), Some(answers)) => {
                Ok(Self { child, questions, answers: BufReader::new(answers) })
            }
            _ => Err(io::Error::other("git has no pipes")),
        }
    }

    /// Writes `path`, reads `source, line, pattern, path`: the pattern is empty if nothing matches, and begins with `!` if
    /// the path was made an exception.
    fn ask(&mut self, path: &Path) -> io::Result<bool> {
        self.questions.write_all(path.as_os_str().as_bytes())?;
        self.questions.write_all(&[0])?;
        self.questions.flush()?;
        let mut fields = [const { Vec::new() }; 4];
        for field in &mut fields {
            self.answers.read_until(0, field)?;
        }
        let pattern = fields[2].strip_suffix(&[0]).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(!pattern.is_empty() && !pattern.starts_with(b"!"))
    }
}

impl Drop for CheckIgnore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
