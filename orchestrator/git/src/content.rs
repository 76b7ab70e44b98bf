//! The content of files as git would store it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::inner::Inner;
use crate::landing::SYMLINK;
use crate::objects::{DIRECTORY_ENTRY, TreeListing, blob_id};
use crate::path::quoted;
use crate::{GitError, Oid, Repo, RepoPath, TreeEntry};

/// What a path holds. Two contents are the same only if both are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A file or link, as the blob git makes of it; a clean submodule, as its commit.
    Object(Oid),
    /// There is no such file.
    Absent,
    /// It cannot be read, or is something git has no name for. Equal to nothing that can be committed.
    Unknown,
}

/// How [`Content::Unknown`] is written.
const UNKNOWN: &str = "unknown";

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(oid) => oid.serialize(serializer),
            Self::Absent => serializer.serialize_none(),
            Self::Unknown => serializer.serialize_str(UNKNOWN),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        match text.as_deref() {
            None => Ok(Self::Absent),
            Some(UNKNOWN) => Ok(Self::Unknown),
            Some(oid) => Oid::parse(oid)
                .map(Self::Object)
                .ok_or_else(|| D::Error::custom(format!("`{oid}` is not an object name"))),
        }
    }
}

/// Compares what the checkout holds with what a tree holds. Whether modes count is asked only if one differs.
#[derive(Debug)]
pub(crate) struct FileModes<'a> {
    repo: &'a Repo,
    count: OnceCell<bool>,
}

impl<'a> FileModes<'a> {
    pub(crate) fn new(repo: &'a Repo) -> Self {
        Self { repo, count: OnceCell::new() }
    }

    /// True if the checkout has exactly this at the path, as git would store it or byte for byte. `content` is what it has there.
    pub(crate) fn holds(
        &self,
        path: &RepoPath,
        content: Option<&Content>,
        entry: Option<&TreeEntry>,
    ) -> bool {
        let Some(entry) = entry else { return content == Some(&Content::Absent) };
        let place = path.within(self.repo.root());
        let Ok(meta) = fs::symlink_metadata(&place) else { return false };
        let can_be_run = meta.permissions().mode() & 0o100 != 0;
        let is_of_kind = match (meta.is_symlink(), entry.mode == SYMLINK) {
            (true, true) => true,
            (false, false) => can_be_run == (entry.mode == "100755") || !self.do_count(),
            _ => false,
        };
        match content {
            _ if !is_of_kind => false,
            Some(Content::Object(oid)) if *oid == entry.oid => true,
            // Git would store some files differently than somebody once did, such as those with other line ends.
            Some(Content::Object(_)) if meta.is_file() => fs::read(&place)
                .is_ok_and(|bytes| blob_id(&bytes, &entry.oid).is_ok_and(|id| id == entry.oid)),
            _ => false,
        }
    }

    /// If git gives no answer, they do.
    fn do_count(&self) -> bool {
        *self.count.get_or_init(|| self.repo.looks_at_modes().unwrap_or(true))
    }
}

/// What stands at a path, before its content is known.
enum Found {
    Absent,
    File,
    Link(PathBuf),
    Folder,
    Other,
}

impl Repo {
    /// What the checkout holds at each of `paths` right now, filters applied. One git process for all plain files.
    pub fn contents<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<BTreeMap<RepoPath, Content>, GitError> {
        let mut contents = BTreeMap::new();
        let mut files = Vec::new();
        let mut folders = HashMap::new();
        for path in paths {
            let content = match self.look_at(path, &mut folders) {
                Found::File => {
                    files.push(path);
                    continue;
                }
                Found::Absent => Content::Absent,
                Found::Link(target) => self.link_content(&target)?,
                Found::Folder => self.submodule_content(path),
                Found::Other => Content::Unknown,
            };
            contents.insert(path.clone(), content);
        }
        contents.extend(self.file_contents(&files)?);
        Ok(contents)
    }

    /// The objects that `tree` (a tree, or a commit) holds at each of `paths`; those it does not hold are left out.
    pub fn entries_in<'a>(
        &self,
        tree: &Oid,
        paths: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<BTreeMap<RepoPath, Oid>, GitError> {
        Ok(self.tree_entries(tree, paths)?.into_iter().map(|(path, entry)| (path, entry.oid)).collect())
    }

    /// The same with their modes.
    pub fn tree_entries<'a>(
        &self,
        tree: &Oid,
        paths: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<BTreeMap<RepoPath, TreeEntry>, GitError> {
        let tree = self.tree_of(tree)?;
        let mut directories = HashMap::new();
        let mut found = BTreeMap::new();
        for path in paths {
            if let Some(entry) = self.tree_entry(&tree, path.as_bytes(), &mut directories)? {
                found.insert(path.clone(), entry);
            }
        }
        Ok(found)
    }

    /// What a tree holds at a path, found directory by directory. Each directory is read once.
    fn tree_entry(
        &self,
        tree: &Oid,
        path: &[u8],
        directories: &mut HashMap<Oid, TreeListing>,
    ) -> Result<Option<TreeEntry>, GitError> {
        let mut tree = tree.clone();
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            if !directories.contains_key(&tree) {
                directories.insert(tree.clone(), self.tree_listing(&tree)?);
            }
            let Some(entry) = directories.get(&tree).and_then(|listing| listing.get(name)) else {
                return Ok(None);
            };
            match names.peek() {
                None => return Ok(Some(entry.clone())),
                Some(_) if entry.mode == DIRECTORY_ENTRY => tree = entry.oid.clone(),
                Some(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The modes that git would store for those of `paths` that are links, or can be run. Nothing where git is told not to
    /// look at modes.
    pub fn unplain_modes<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a RepoPath>,
    ) -> Result<Option<BTreeMap<RepoPath, String>>, GitError> {
        let mode = |path: &RepoPath| {
            let meta = fs::symlink_metadata(path.within(self.root())).ok()?;
            let can_be_run = meta.is_file() && meta.permissions().mode() & 0o100 != 0;
            let mode = if meta.is_symlink() { Some("120000") } else { can_be_run.then_some("100755") };
            mode.map(|mode| (path.clone(), mode.to_owned()))
        };
        let modes: BTreeMap<_, _> = paths.into_iter().filter_map(mode).collect();
        if modes.is_empty() {
            return Ok(Some(modes));
        }
        Ok(self.looks_at_modes()?.then_some(modes))
    }

    fn looks_at_modes(&self) -> Result<bool, GitError> {
        let looks = self.git("config").args(["--type=bool", "--get", "core.fileMode"]).finish()?;
        Ok(looks.stdout.trim_ascii() != b"false")
    }

    fn look_at(&self, path: &RepoPath, folders: &mut HashMap<PathBuf, bool>) -> Found {
        let place = path.within(self.root());
        if path.as_path().parent().is_some_and(|parent| self.is_behind_link(parent, folders)) {
            return Found::Absent;
        }
        let Ok(meta) = fs::symlink_metadata(&place) else { return Found::Absent };
        let kind = meta.file_type();
        if kind.is_file() {
            Found::File
        } else if kind.is_symlink() {
            fs::read_link(&place).map_or(Found::Absent, Found::Link)
        } else if kind.is_dir() {
            Found::Folder
        } else {
            Found::Other
        }
    }

    /// Git does not look through a link: what seems to lie behind one is not there.
    fn is_behind_link(&self, folder: &Path, known: &mut HashMap<PathBuf, bool>) -> bool {
        if folder.as_os_str().is_empty() {
            return false;
        }
        if let Some(known) = known.get(folder) {
            return *known;
        }
        let is_link = fs::symlink_metadata(self.root().join(folder)).is_ok_and(|meta| meta.is_symlink());
        let is_behind = is_link || folder.parent().is_some_and(|parent| self.is_behind_link(parent, known));
        known.insert(folder.to_owned(), is_behind);
        is_behind
    }

    fn link_content(&self, target: &Path) -> Result<Content, GitError> {
        let text = target.as_os_str().as_bytes();
        let oid = self.git("hash-object").args(["--stdin", "--no-filters"]).input(text).line()?;
        Ok(Oid::parse(&oid).map_or(Content::Unknown, Content::Object))
    }

    /// A submodule with changes of its own is nothing that a commit could name.
    fn submodule_content(&self, path: &RepoPath) -> Content {
        let folder = path.within(self.root());
        if fs::symlink_metadata(folder.join(".git")).is_err() {
            return Content::Absent;
        }
        match Inner::at(&folder) {
            Some(inner) if inner.is_clean(self) => Content::Object(inner.head),
            _ => Content::Unknown,
        }
    }

    fn file_contents(&self, files: &[&RepoPath]) -> Result<BTreeMap<RepoPath, Content>, GitError> {
        if files.is_empty() {
            return Ok(BTreeMap::new());
        }
        match self.hash(files) {
            Ok(oids) => {
                let contents = oids.into_iter().map(Content::Object);
                Ok(files.iter().map(|path| (*path).clone()).zip(contents).collect())
            }
            // Somebody removed a file meanwhile, or one cannot be read: find out which.
            Err(GitError::Failed { .. }) => {
                Ok(files.iter().map(|path| ((*path).clone(), self.single_content(path))).collect())
            }
            Err(error) => Err(error),
        }
    }

    fn single_content(&self, path: &RepoPath) -> Content {
        match self.hash(&[path]).map(|mut oids| oids.pop()) {
            Ok(Some(oid)) => Content::Object(oid),
            _ if fs::symlink_metadata(path.within(self.root())).is_err() => Content::Absent,
            _ => Content::Unknown,
        }
    }

    fn hash(&self, files: &[&RepoPath]) -> Result<Vec<Oid>, GitError> {
        let mut input = String::new();
        for path in files {
            input.push_str(&quoted(path.as_bytes()));
            input.push('\n');
        }
        let output = self.git("hash-object").arg("--stdin-paths").input(input).output()?;
        let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let oids: Option<Vec<Oid>> = lines.map(Oid::from_bytes).collect();
        oids.filter(|oids| oids.len() == files.len()).ok_or_else(|| GitError::answer("hash-object", &output))
    }
}
