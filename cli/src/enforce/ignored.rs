//! Which paths need no lock: those that git ignores.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// Folders in the root's folders that are looked at before an agent starts.
const MOST_FOLDERS: usize = 300;
/// So many paths fit into a pipe: with more, git and mala could wait for each other.
const AT_ONCE: usize = 15;

/// Asks git itself, so that there is no second opinion on what its rules mean. Tracked files are never ignored. A path
/// keeps its first answer, so an agent cannot make a file free by editing `.gitignore`.
#[derive(Debug)]
pub(crate) struct Ignored {
    root: PathBuf,
    answers: Mutex<Answers>,
}

#[derive(Debug)]
struct Answers {
    known: HashMap<PathBuf, bool>,
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
    pub(crate) fn in_checkout(root: &Path) -> Self {
        let answers = Answers {
            known: HashMap::new(),
            rules: CheckIgnore::with(&["--no-index"]),
            ignores: CheckIgnore::with(&[]),
        };
        Self { root: root.to_path_buf(), answers: Mutex::new(answers) }
    }

    /// The folders in the root and in its folders that git ignores, with all that is in them.
    pub(crate) fn top_folders(&self) -> Vec<PathBuf> {
        let Ok(mut answers) = self.answers.lock() else { return Vec::new() };
        // The slower one gets ready while the other answers.
        answers.ignores.get_ready(&self.root);
        let (mut ignored, others) = self.split(&mut answers.rules, self.folders_in(Path::new("")));
        // In another repository, a submodule perhaps, this one's rules mean nothing.
        let is_ours = |folder: &&PathBuf| !self.root.join(folder).join(".git").exists();
        let below = others.iter().filter(is_ours).flat_map(|folder| self.folders_in(folder));
        let below: Vec<PathBuf> = below.take(MOST_FOLDERS).collect();
        // Where there are many folders they have the same few names, and rules are mostly about names.
        let mut names = HashSet::new();
        let of_each_name = below.iter().filter(|folder| names.insert(folder.file_name())).cloned();
        let of_each_name = self.split(&mut answers.rules, of_each_name.collect()).0;
        let names: HashSet<_> = of_each_name.iter().map(|folder| folder.file_name()).collect();
        let below = below.iter().filter(|folder| names.contains(&folder.file_name())).cloned();
        ignored.extend(self.split(&mut answers.rules, below.collect()).0);
        // None of those that have tracked files in them.
        let ignored = self.split(&mut answers.ignores, ignored).0;
        answers.known.extend(ignored.iter().map(|folder| (folder.clone(), true)));
        ignored
    }

    /// Those that git says yes to, and the others.
    fn split(&self, git: &mut CheckIgnore, folders: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let is_yes = git.ask(&self.root, &folders).unwrap_or_default();
        let (ignored, others): (Vec<_>, Vec<_>) =
            folders.into_iter().zip(is_yes).partition(|(_, is_yes)| *is_yes);
        let names = |folders: Vec<(PathBuf, bool)>| folders.into_iter().map(|(folder, _)| folder).collect();
        (names(ignored), names(others))
    }

    /// Git's own is none of them.
    fn folders_in(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|entry| folder.join(entry.file_name())).filter(|name| !name.ends_with(".git")).collect()
    }

    /// True if git would ignore a folder there. What is known about a path of that name is forgotten: it is a folder then.
    pub(crate) fn would_contain_folder(&self, path: &Path) -> bool {
        if self.contains(path) {
            return true;
        }
        let Ok(mut answers) = self.answers.lock() else { return false };
        let is_ignored = self.is_ignored(&mut answers, &path.join("")) && !self.holds_tracked_files(path);
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
        let is_ignored = self.is_ignored(answers, path)
            && !(self.root.join(path).is_dir() && self.holds_tracked_files(path));
        answers.known.insert(path.to_path_buf(), is_ignored);
        is_ignored
    }

    /// True for a folder that git ignores although it tracks files in it: they are not to be moved along. True if git
    /// cannot be asked.
    fn holds_tracked_files(&self, path: &Path) -> bool {
        let mut list = Command::new("git");
        list.args(["--literal-pathspecs", "ls-files", "-z", "--"]).arg(path).current_dir(&self.root);
        let listed = list.stderr(Stdio::null()).output();
        !listed.is_ok_and(|out| out.status.success() && out.stdout.is_empty())
    }

    fn is_ignored(&self, answers: &mut Answers, path: &Path) -> bool {
        let path = [path.to_path_buf()];
        let is_yes = |answer: io::Result<Vec<bool>>| answer.is_ok_and(|answer| answer == [true]);
        is_yes(answers.rules.ask(&self.root, &path)) && is_yes(answers.ignores.ask(&self.root, &path))
    }
}

impl CheckIgnore {
    fn with(options: &'static [&'static str]) -> Self {
        Self { options, git: None }
    }

    /// Starts git before there is a question. It takes a while until it can answer.
    fn get_ready(&mut self, root: &Path) {
        if self.git.is_none() {
            self.git = Asked::start(root, self.options).ok();
        }
    }

    fn ask(&mut self, root: &Path, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
        let mut git = match self.git.take() {
            Some(git) => git,
            None => Asked::start(root, self.options)?,
        };
        let answers = git.ask(paths)?;
        // One that has failed, as it does for paths in submodules, is not asked again.
        self.git = Some(git);
        Ok(answers)
    }
}

impl Asked {
    fn start(root: &Path, options: &[&str]) -> io::Result<Self> {
        let mut child = Command::new("git")
            .args(["check-ignore", "-z", "--stdin", "--verbose", "--non-matching"])
            .args(options)
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
        let mut answers = Vec::with_capacity(paths.len());
        for paths in paths.chunks(AT_ONCE) {
            let questions: Vec<&[u8]> =
                paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), &[0]]).collect();
            self.questions.write_all(&questions.concat())?;
            self.questions.flush()?;
            for _ in paths {
                answers.push(self.answer()?);
            }
        }
        Ok(answers)
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
