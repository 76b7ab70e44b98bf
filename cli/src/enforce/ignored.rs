//! Which paths need no lock: those that git ignores.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

use mala_core::Scope;
use mala_core::file::{SETTINGS, read_small_text};

#[cfg(target_os = "linux")]
use super::frozen::Frozen;
use super::index;
use super::known::Known;

/// What is looked at before an agent starts.
const MOST_NAMES: usize = 50;
const MOST_FOLDERS: usize = 50;
/// So many paths fit into a pipe: with more, git and mala could wait for each other.
const AT_ONCE: usize = 15;

/// Asks git itself, so that there is no second opinion on what its rules mean. Tracked files are never ignored. A path
/// keeps its first answer, so an agent cannot make a file free by editing `.gitignore`.
#[derive(Debug)]
pub(crate) struct Ignored {
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
    known: Known,
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
    pub(crate) fn in_checkout(scope: &Scope) -> Self {
        let answers = Answers {
            known: Known::default(),
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

    /// From now on what `index` tracks at this moment is never ignored: agents can take files out of git's own index.
    #[cfg(target_os = "linux")]
    pub(crate) fn remember_tracked(&self, index: &Path) {
        self.tracked.get_or_init(|| Frozen::copy(index));
    }

    /// Git, without the program that a repository may name to find changed files.
    fn git(&self) -> Command {
        let mut git = mala_gate::git::command();
        git.args(["-c", "core.fsmonitor=false", "-c", "submodule.recurse=false"]).current_dir(&self.root);
        #[cfg(target_os = "linux")]
        if let Some(tracked) = self.tracked.get() {
            git.env("GIT_INDEX_FILE", &tracked.path);
        }
        git
    }

    /// Folders that git ignores with all that is in them, as far as they are found quickly: those whose names stand in a
    /// `.gitignore`, in the root and in its folders. `index` is the one of this checkout.
    pub(crate) fn top_folders(&self, index: &Path) -> Vec<PathBuf> {
        let Ok(mut answers) = self.answers.lock() else { return Vec::new() };
        let names = self.ignored_names(Path::new(""));
        let mut found = self.folders_called(&names, Path::new(""));
        for folder in self.own_folders() {
            if !found.contains(&folder) {
                let more = self.ignored_names(&folder);
                found.extend(self.folders_called(names.union(&more), &folder));
            }
        }
        found.retain(|folder| !self.has_endless_rules(folder));
        if found.is_empty() {
            return found;
        }
        let have_rules = answers.rules.ask(self, &found).unwrap_or_default();
        let (found, _) = divide(found, have_rules);
        let are_untracked = index::are_untracked(index, &found).unwrap_or_else(|_| vec![false; found.len()]);
        let (mut ignored, doubtful) = divide(found, are_untracked);
        if !doubtful.is_empty() {
            let are_ignored = answers.ignores.ask(self, &doubtful).unwrap_or_default();
            ignored.extend(divide(doubtful, are_ignored).0);
        }
        ignored.iter().for_each(|folder| answers.known.insert(folder, true));
        ignored
    }

    /// The names in a folder's `.gitignore` that are nothing but names.
    fn ignored_names(&self, folder: &Path) -> HashSet<String> {
        let rules = read_small_text(&self.root.join(folder).join(".gitignore"), SETTINGS).unwrap_or_default();
        let name = |rule: &str| {
            let rule = rule.trim_end();
            let name = rule.strip_prefix("**").unwrap_or(rule).trim_start_matches('/').trim_end_matches('/');
            let is_odd =
                matches!(name, "" | "." | "..") || name.contains(['/', '*', '?', '[', '\\', '!', '#']);
            (!is_odd).then(|| name.to_owned())
        };
        rules.lines().filter_map(name).take(MOST_NAMES).collect()
    }

    /// Those of these names that are folders in `folder`.
    fn folders_called<'n>(&self, names: impl IntoIterator<Item = &'n String>, folder: &Path) -> Vec<PathBuf> {
        let is_folder =
            |path: &PathBuf| self.root.join(path).symlink_metadata().is_ok_and(|meta| meta.is_dir());
        names.into_iter().map(|name| folder.join(name)).filter(is_folder).collect()
    }

    /// Folders in the root that are not repositories of their own, as submodules are: there this one's rules mean nothing.
    fn own_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let is_own = |entry: &fs::DirEntry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir())
                && entry.file_name() != ".git"
                && !entry.path().join(".git").exists()
        };
        entries.filter(is_own).take(MOST_FOLDERS).map(|entry| PathBuf::from(entry.file_name())).collect()
    }

    /// True if git would ignore a folder there. What is known about a path of that name is forgotten: it is a folder then.
    pub(crate) fn would_contain_folder(&self, path: &Path) -> bool {
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
    pub(crate) fn contains(&self, path: &Path) -> bool {
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

/// Those that the answer is yes for, and the others.
fn divide(paths: Vec<PathBuf>, answers: Vec<bool>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (yes, no): (Vec<_>, Vec<_>) = paths.into_iter().zip(answers).partition(|(_, is)| *is);
    let paths = |answered: Vec<(PathBuf, bool)>| answered.into_iter().map(|(path, _)| path).collect();
    (paths(yes), paths(no))
}

impl CheckIgnore {
    fn with(options: &'static [&'static str]) -> Self {
        Self { options, git: None }
    }

    fn ask(&mut self, checkout: &Ignored, paths: &[PathBuf]) -> io::Result<Vec<bool>> {
        let mut git = match self.git.take() {
            Some(git) => git,
            None => Asked::start(checkout.git(), self.options)?,
        };
        let answers = git.ask(paths)?;
        // One that has failed, as it does for paths in submodules, is not asked again.
        self.git = Some(git);
        Ok(answers)
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
