//! Which paths need no lock: those that git ignores.

mod ahead;
mod index;
mod path_cache;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

use mala_core::Scope;

#[cfg(target_os = "linux")]
use crate::frozen::Frozen;
use path_cache::PathCache;

pub use ahead::IgnoredAhead;

/// So many paths fit into a pipe: with more, git and mala could wait for each other.
const AT_ONCE: usize = 15;

/// Asks git itself, so that there is no second opinion on what its rules mean. Tracked files are never ignored. A path
/// keeps its first answer, so an agent cannot make a file free by editing `.gitignore`.
#[derive(Debug)]
pub struct Ignored {
    root: PathBuf,
    /// Git's rules for this repository that are in no commit.
    exclude: PathBuf,
    /// The index of git at one moment, if another one than its own counts.
    #[cfg(target_os = "linux")]
    tracked: OnceLock<Frozen>,
    answers: Mutex<Answers>,
}

#[derive(Debug)]
struct Answers {
    known: PathCache,
    /// Whether a rule applies, tracked or not. Asked first: most paths are not ignored, and with many tracked files it
    /// is much faster than the other.
    rules: CheckIgnore,
    /// Whether git ignores it: nothing that is tracked, or has tracked files in it.
    ignores: CheckIgnore,
}

/// `git check-ignore`, started with the first question.
#[derive(Debug)]
struct CheckIgnore {
    options: &'static [&'static str],
    git: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Ignored {
    pub fn in_checkout(scope: &Scope) -> Self {
        let answers = Answers {
            known: PathCache::default(),
            rules: CheckIgnore::with(&["--no-index"]),
            ignores: CheckIgnore::with(&[]),
        };
        Self {
            root: scope.root().to_path_buf(),
            exclude: scope.git_dir().join("info/exclude"),
            #[cfg(target_os = "linux")]
            tracked: OnceLock::new(),
            answers: Mutex::new(answers),
        }
    }

    /// Git, without the program that a repository may name to find changed files.
    fn git(&self) -> Command {
        let mut git = mala_git::command();
        git.args(["-c", "core.fsmonitor=false", "-c", "submodule.recurse=false"]).current_dir(&self.root);
        #[cfg(target_os = "linux")]
        if let Some(tracked) = self.tracked.get() {
            git.env("GIT_INDEX_FILE", &tracked.path);
        }
        git
    }

    /// True if git would ignore a folder there. What is known about a path of that name is forgotten: it is a folder then.
    pub fn would_contain_folder(&self, path: &Path) -> bool {
        if self.contains(path) {
            return true;
        }
        let Ok(mut answers) = self.answers.lock() else { return false };
        let is_ignored = self.is_ignored(&mut answers, &path.join("")) && !self.holds_tracked_files(path);
        if is_ignored {
            answers.known.insert(path, true);
        }
        is_ignored
    }

    /// True if git ignores the path, or a folder it lies in. If git cannot be asked, it counts as not ignored and needs
    /// a lock.
    pub fn contains(&self, path: &Path) -> bool {
        let Ok(mut answers) = self.answers.lock() else { return false };
        let mut folders: Vec<&Path> =
            path.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
        folders.reverse();
        folders.into_iter().any(|path| self.answer(&mut answers, path))
    }

    fn answer(&self, answers: &mut Answers, path: &Path) -> bool {
        if let Some(known) = answers.known.get(path) {
            return known;
        }
        let is_ignored = self.is_ignored(answers, path)
            && !(self.root.join(path).is_dir() && self.holds_tracked_files(path));
        answers.known.insert(path, is_ignored);
        is_ignored
    }

    /// True for a folder that git ignores although it tracks files in it: they are not to be moved along. True if git
    /// cannot be asked.
    fn holds_tracked_files(&self, path: &Path) -> bool {
        let mut list = self.git();
        list.args(["--literal-pathspecs", "ls-files", "-z", "--"]).arg(path);
        let listed = list.stderr(Stdio::null()).output();
        !listed.is_ok_and(|out| out.status.success() && out.stdout.is_empty())
    }

    /// True if git would wait for the rules about this path for ever: they are to come out of a pipe.
    fn has_endless_rules(&self, path: &Path) -> bool {
        let rules = |folder: &Path| self.root.join(folder).join(".gitignore").symlink_metadata();
        let is_endless = |meta: fs::Metadata| !meta.is_file() && !meta.is_symlink() && !meta.is_dir();
        // Git follows a link there, and none in the checkout.
        self.exclude.metadata().is_ok_and(is_endless)
            || path.ancestors().skip(1).any(|folder| rules(folder).is_ok_and(is_endless))
    }

    fn is_ignored(&self, answers: &mut Answers, path: &Path) -> bool {
        if self.has_endless_rules(path) {
            return false;
        }
        let path = [path.to_path_buf()];
        let is_yes = |answer: io::Result<Vec<bool>>| answer.is_ok_and(|answer| answer == [true]);
        is_yes(answers.rules.ask(self, &path)) && is_yes(answers.ignores.ask(self, &path))
    }
}

impl CheckIgnore {
    fn with(options: &'static [&'static str]) -> Self {
        Self { options, git: None }
    }

    fn ask(&mut self, checkout: &Ignored, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
        self.with_git(checkout, |git| git.ask(paths))
    }

    fn with_git<T>(
        &mut self,
        checkout: &Ignored,
        call: impl FnOnce(&mut Asked) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut git = match self.git.take() {
            Some(git) => git,
            None => Asked::start(checkout.git(), self.options)?,
        };
        let answer = call(&mut git)?;
        // One that has failed, as it does for paths in submodules, is not asked again.
        self.git = Some(git);
        Ok(answer)
    }
}

impl Asked {
    fn start(mut git: Command, options: &[&str]) -> io::Result<Self> {
        let mut child = git
            .args(["check-ignore", "-z", "--stdin", "--verbose", "--non-matching"])
            .args(options)
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
        let mut answers = Vec::with_capacity(paths.len());
        for paths in paths.chunks(AT_ONCE) {
            self.send(paths)?;
            answers.extend(self.receive(paths.len())?);
        }
        Ok(answers)
    }

    /// Not more than [`AT_ONCE`].
    fn send(&mut self, paths: &[PathBuf]) -> io::Result<()> {
        let questions: Vec<&[u8]> =
            paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), &[0]]).collect();
        self.questions.write_all(&questions.concat())
    }

    fn receive(&mut self, answers: usize) -> io::Result<Vec<bool>> {
        (0..answers).map(|_| self.answer()).collect()
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

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
