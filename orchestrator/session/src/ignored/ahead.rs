//! What is found out before an agent starts, beside the rest of its start.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{fs, io};

use mala_core::file::{SETTINGS, read_small_text};

use super::{AT_ONCE, Ignored, index};
#[cfg(target_os = "linux")]
use crate::frozen::Frozen;

/// What is looked at.
const MOST_NAMES: usize = 50;
const MOST_FOLDERS: usize = 50;

/// Folders that git may ignore, while it is being asked about them.
#[derive(Debug)]
pub struct IgnoredAhead {
    ignored: Arc<Ignored>,
    likely: Vec<PathBuf>,
    are_untracked: JoinHandle<Vec<bool>>,
}

impl IgnoredAhead {
    /// Git is asked at once, and answers while others are at work. From the end on, what `index` tracks now is never
    /// ignored: agents can take files out of git's own index.
    pub fn start(ignored: &Arc<Ignored>, index: PathBuf) -> io::Result<Self> {
        let likely = ignored.likely_folders();
        if let Ok(mut answers) = ignored.answers.lock()
            && !likely.is_empty()
        {
            // If it fails, there are no answers.
            let _ = answers.rules.with_git(ignored, |git| git.send(first(&likely)));
        }
        let (asked, folders) = (Arc::clone(ignored), likely.clone());
        let are_untracked = thread::Builder::new().spawn(move || {
            #[cfg(target_os = "linux")]
            asked.tracked.get_or_init(|| Frozen::copy(&index));
            index::are_untracked(&index, &folders).unwrap_or_else(|_| vec![false; folders.len()])
        })?;
        Ok(Self { ignored: Arc::clone(ignored), likely, are_untracked })
    }

    /// Those of the folders that git ignores with all that is in them.
    pub fn end(self) -> Vec<PathBuf> {
        let Self { ignored, likely, are_untracked } = self;
        let are_untracked = are_untracked.join().unwrap_or_else(|panic| resume_unwind(panic));
        let Ok(mut answers) = ignored.answers.lock() else { return Vec::new() };
        if likely.is_empty() {
            return likely;
        }
        let have_rules = answers.rules.with_git(&ignored, |git| {
            let mut have_rules = git.receive(first(&likely).len())?;
            have_rules.extend(git.ask(&likely[have_rules.len()..])?);
            Ok(have_rules)
        });
        let (mut found, mut doubtful) = (Vec::new(), Vec::new());
        let looked_at = likely.into_iter().zip(are_untracked).zip(have_rules.unwrap_or_default());
        for ((folder, is_untracked), _) in looked_at.filter(|(_, has_rule)| *has_rule) {
            if is_untracked { found.push(folder) } else { doubtful.push(folder) }
        }
        if !doubtful.is_empty() {
            let are_ignored = answers.ignores.ask(&ignored, &doubtful).unwrap_or_default();
            found.extend(
                doubtful.into_iter().zip(are_ignored).filter(|(_, is)| *is).map(|(folder, _)| folder),
            );
        }
        found.iter().for_each(|folder| answers.known.insert(folder, true));
        found
    }
}

/// What is asked ahead.
fn first(likely: &[PathBuf]) -> &[PathBuf] {
    &likely[..likely.len().min(AT_ONCE)]
}

impl Ignored {
    /// Folders that git may ignore with all that is in them, as far as they are found quickly: those whose names stand in a
    /// `.gitignore`, in the root and in its folders.
    fn likely_folders(&self) -> Vec<PathBuf> {
        let names = self.ignored_names(Path::new(""));
        let mut found = self.folders_called(&names, Path::new(""));
        for folder in self.own_folders() {
            if !found.contains(&folder) {
                let more = self.ignored_names(&folder);
                found.extend(self.folders_called(names.union(&more), &folder));
            }
        }
        found.retain(|folder| !self.has_endless_rules(folder));
        found
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
}
