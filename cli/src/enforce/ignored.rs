//! Which paths need no lock: those that git ignores.

use std::collections::HashMap;
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

#[derive(Debug, Default)]
struct Answers {
    known: HashMap<PathBuf, bool>,
    /// Whether a rule applies, tracked or not. Asked first: most paths are not ignored, and with many tracked files it
    /// is much faster than the other.
    rules: CheckIgnore,
    /// Whether git ignores it.
    ignores: CheckIgnore,
}

/// `git check-ignore`, started with the first question.
#[derive(Debug, Default)]
struct CheckIgnore(Option<Asked>);

#[derive(Debug)]
struct Asked {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Ignored {
    pub(crate) fn in_checkout(root: &Path) -> Self {
        Self { root: root.to_path_buf(), answers: Mutex::default() }
    }

    /// The folders in the root and in its folders that git ignores, with all that is in them.
    pub(crate) fn top_folders(&self) -> Vec<PathBuf> {
        let Ok(mut answers) = self.answers.lock() else { return Vec::new() };
        let (mut ignored, others) = self.split(&mut answers, self.folders_in(Path::new("")));
        let below = others.iter().flat_map(|folder| self.folders_in(folder)).take(MOST_FOLDERS);
        ignored.extend(self.split(&mut answers, below.collect()).0);
        // Mostly none of them has tracked files, so one look is enough.
        let tracked = if ignored.is_empty() { Some(Vec::new()) } else { self.tracked_in(&ignored) };
        ignored.retain(|folder| tracked.as_ref().is_some_and(|files| !has_below(files, folder)));
        answers.known.extend(ignored.iter().map(|folder| (folder.clone(), true)));
        ignored
    }

    /// Those that git has a rule to ignore, and the others.
    fn split(&self, answers: &mut Answers, folders: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let has_rule = answers.rules.ask(&self.root, Rules::Alone, &folders).unwrap_or_default();
        let (ignored, others): (Vec<_>, Vec<_>) =
            folders.into_iter().zip(has_rule).partition(|(_, has_rule)| *has_rule);
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

    /// True for a folder that git ignores although it tracks files in it: they are not to be moved along.
    fn holds_tracked_files(&self, path: &Path) -> bool {
        self.tracked_in(&[path.to_path_buf()]).is_none_or(|files| !files.is_empty())
    }

    /// The tracked files below these folders, each followed by a zero; none if git cannot be asked.
    fn tracked_in(&self, folders: &[PathBuf]) -> Option<Vec<u8>> {
        let mut list = Command::new("git");
        list.args(["--literal-pathspecs", "ls-files", "-z", "--"]).args(folders).current_dir(&self.root);
        let out = list.stderr(Stdio::null()).output().ok()?;
        out.status.success().then_some(out.stdout)
    }

    fn is_ignored(&self, answers: &mut Answers, path: &Path) -> bool {
        let path = [path.to_path_buf()];
        let is_yes = |answer: io::Result<Vec<bool>>| answer.is_ok_and(|answer| answer == [true]);
        is_yes(answers.rules.ask(&self.root, Rules::Alone, &path))
            && is_yes(answers.ignores.ask(&self.root, Rules::AndIndex, &path))
    }
}

/// True if one of these files, each followed by a zero, is in the folder.
fn has_below(files: &[u8], folder: &Path) -> bool {
    let below = folder.join("");
    files.split(|byte| *byte == 0).any(|file| file.starts_with(below.as_os_str().as_bytes()))
}

/// What an answer is about.
#[derive(Debug, Clone, Copy)]
enum Rules {
    Alone,
    /// Nothing that is tracked, or has tracked files in it, is ignored.
    AndIndex,
}

impl CheckIgnore {
    fn ask(&mut self, root: &Path, rules: Rules, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
        let mut git = match self.0.take() {
            Some(git) => git,
            None => Asked::start(root, rules)?,
        };
        let answers = git.ask(paths)?;
        // One that has failed, as it does for paths in submodules, is not asked again.
        self.0 = Some(git);
        Ok(answers)
    }
}

impl Asked {
    fn start(root: &Path, rules: Rules) -> io::Result<Self> {
        let mut git = Command::new("git");
        git.args(["check-ignore", "-z", "--stdin", "--verbose", "--non-matching"]);
        if let Rules::Alone = rules {
            git.arg("--no-index");
        }
        let mut child = git
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
