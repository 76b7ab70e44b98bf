//! Which paths need no lock: those that git ignores.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// So many names fit into a pipe, or git and mala would wait for each other.
const MOST_FOLDERS: usize = 100;

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

    /// Starts git before there is a question. It takes a while until it can answer.
    pub(crate) fn get_ready(&self) {
        if let Ok(mut answers) = self.answers.lock() {
            answers.git = CheckIgnore::start(&self.root).ok();
        }
    }

    /// The folders in the root that git ignores, with all that is in them.
    pub(crate) fn root_folders(&self) -> Vec<PathBuf> {
        let Ok(mut answers) = self.answers.lock() else { return Vec::new() };
        let folders: Vec<PathBuf> = fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != ".git")
            .map(|entry| PathBuf::from(entry.file_name()))
            .take(MOST_FOLDERS)
            .collect();
        // Git has just read which files are tracked, and calls no folder ignored that has one.
        let are_ignored = self.ask(&mut answers, &folders).unwrap_or_default();
        answers.known.extend(folders.iter().cloned().zip(are_ignored.iter().copied()));
        folders.into_iter().zip(are_ignored).filter_map(|(folder, is)| is.then_some(folder)).collect()
    }

    /// True if git would ignore a folder there. What is known about a path of that name is forgotten: it is a folder then.
    pub(crate) fn would_contain_folder(&self, path: &Path) -> bool {
        if self.contains(path) {
            return true;
        }
        let Ok(mut answers) = self.answers.lock() else { return false };
        let is_ignored = self.ask_one(&mut answers, &path.join("")) && !self.holds_tracked_files(path);
        if is_ignored {
            answers.known.insert(path.to_path_buf(), true);
        }
        is_ignored
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
        let is_ignored = self.ask_one(answers, path)
            && !(self.root.join(path).is_dir() && self.holds_tracked_files(path));
        answers.known.insert(path.to_path_buf(), is_ignored);
        is_ignored
    }

    /// True for a folder that git ignores although it tracks files in it: they are not to be moved along.
    fn holds_tracked_files(&self, path: &Path) -> bool {
        let list = Command::new("git").args(["ls-files", "-z", "--"]).arg(path).current_dir(&self.root).output();
        list.is_ok_and(|out| !out.stdout.is_empty())
    }

    fn ask_one(&self, answers: &mut Answers, path: &Path) -> bool {
        self.ask(answers, &[path.to_path_buf()]).is_ok_and(|is_ignored| is_ignored == [true])
    }

    fn ask(&self, answers: &mut Answers, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
        let mut git = match answers.git.take() {
            Some(git) => git,
            None => CheckIgnore::start(&self.root)?,
        };
        let are_ignored = git.ask(paths)?;
        // One that has failed, as it does for paths in submodules, is not asked again.
        answers.git = Some(git);
        Ok(are_ignored)
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

    fn ask(&mut self, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
        let mut questions = Vec::new();
        for path in paths {
            questions.extend_from_slice(path.as_os_str().as_bytes());
            questions.push(0);
        }
        self.questions.write_all(&questions)?;
        self.questions.flush()?;
        paths.iter().map(|_| self.answer()).collect()
    }

    /// Reads `source, line, pattern, path`: the pattern is empty if nothing matches, and begins with `!` if the path
    /// was made an exception.
    fn answer(&mut self) -> io::Result<bool> {
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
