//! Objects that are believed for their content, not for where they lie.
//!
//! Agents may write to `.git/objects`: that is how they commit. Git computes an object's name from its content when it writes
//! one and trusts the name when it reads a loose one, so a file that was written over keeps its name and answers with other
//! content (`unpack_loose_rest` in git's `object-file.c` does not hash). Whatever decides or lands is hashed again here.

use std::collections::{HashMap, VecDeque};

use gix_hash::{Hasher, Kind, hasher};
use mala_core::Timestamp;

use crate::index_file::IndexEntry;
use crate::object_reader::ObjectReader;
use crate::{Commit, GitError, Oid, Repo, RepoPath, TreeEntry};

/// What a commit object says; its tree is a tree object of that name.
const COMMIT: &str = "commit";
pub(crate) const TREE: &str = "tree";
const BLOB: &str = "blob";

/// What git writes for the mode of a directory where it lists a tree.
pub(crate) const DIRECTORY_ENTRY: &str = "040000";

/// What a tree object holds itself, by name.
pub(crate) type TreeListing = HashMap<Vec<u8>, TreeEntry>;

/// The mode of a directory in a tree object.
const DIRECTORY_MODE: &[u8] = b"40000";

impl Repo {
    /// The commit as its name says.
    pub fn commit(&self, id: &Oid) -> Result<Commit, GitError> {
        let bytes = self.commit_object(id)?;
        parse_commit(id, &bytes).ok_or_else(|| GitError::answer("cat-file commit", &bytes))
    }

    /// The bytes that its name stands for.
    pub(crate) fn commit_object(&self, id: &Oid) -> Result<Vec<u8>, GitError> {
        self.object_of(COMMIT, id)
    }

    /// The bytes of an object of this kind, hashed.
    pub(crate) fn object_of(&self, kind: &str, id: &Oid) -> Result<Vec<u8>, GitError> {
        let Some((found, bytes)) = self.read_object(id)? else {
            return Err(GitError::Absent { id: id.clone() });
        };
        if found != kind {
            return Err(GitError::Kind { id: id.clone(), found, wanted: kind.to_owned() });
        }
        check(kind, &bytes, id)?;
        Ok(bytes)
    }

    /// Fails if one of these blobs is not there, or does not hold what its name stands for. Reads one after the other, so
    /// that large ones need no memory.
    pub fn check_blobs(&self, ids: &[Oid]) -> Result<(), GitError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.ask_reader(|reader| ids.iter().try_for_each(|id| check_blob(reader, id)))
    }

    /// All files of a tree, in git's order.
    pub fn files_of(&self, tree: &Oid) -> Result<Vec<(RepoPath, TreeEntry)>, GitError> {
        let mut files = Vec::new();
        let mut below = VecDeque::from([(Vec::new(), tree.clone())]);
        while let Some((prefix, id)) = below.pop_front() {
            let bytes = self.object_of(TREE, &id)?;
            read_tree(&bytes, &prefix, id.as_str().len() / 2, &mut files, &mut below)
                .ok_or_else(|| GitError::answer("cat-file tree", id.as_str().as_bytes()))?;
        }
        files.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(files)
    }

    /// What a tree holds itself, without what is in its directories.
    pub(crate) fn tree_listing(&self, tree: &Oid) -> Result<TreeListing, GitError> {
        let bytes = self.object_of(TREE, tree)?;
        let (mut files, mut directories) = (Vec::new(), VecDeque::new());
        read_tree(&bytes, b"", tree.as_str().len() / 2, &mut files, &mut directories)
            .ok_or_else(|| GitError::answer("cat-file tree", tree.as_str().as_bytes()))?;
        let files = files.into_iter().map(|(path, entry)| (path.as_bytes().to_vec(), entry));
        let directories = directories.into_iter().map(|(name, oid)| {
            let name = name.strip_suffix(b"/").unwrap_or(&name).to_vec();
            (name, TreeEntry { mode: DIRECTORY_ENTRY.to_owned(), oid })
        });
        Ok(files.chain(directories).collect())
    }

    /// All files of an index, in git's order.
    pub(crate) fn index_files(&self) -> Result<Vec<(RepoPath, TreeEntry)>, GitError> {
        let file = |entry: IndexEntry| {
            let path = entry.path();
            let found = entry.tree_entry();
            let found = found.ok_or_else(|| GitError::answer("ls-files", path.as_bytes()))?;
            Ok((path, found))
        };
        self.index_entries()?.into_iter().map(file).collect()
    }
}

/// Reads a blob and hashes it on the way.
fn check_blob(reader: &mut ObjectReader, id: &Oid) -> Result<(), GitError> {
    let Some(header) = reader.header("contents", id.as_str())? else {
        return Err(GitError::Absent { id: id.clone() });
    };
    let mut hash = hasher_like(id);
    hash.update(format!("{} {}\0", header.kind, header.size).as_bytes());
    reader.content(&header, &mut |part| hash.update(part))?;
    if header.kind != BLOB {
        return Err(GitError::Kind { id: id.clone(), found: header.kind, wanted: BLOB.to_owned() });
    }
    if finished(hash, id)? == *id { Ok(()) } else { Err(GitError::Forged { id: id.clone() }) }
}

/// Reads `mode name NUL id` again and again. Nothing if that is not what it is.
pub(crate) fn read_tree(
    mut bytes: &[u8],
    prefix: &[u8],
    id_length: usize,
    files: &mut Vec<(RepoPath, TreeEntry)>,
    below: &mut VecDeque<(Vec<u8>, Oid)>,
) -> Option<()> {
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let (mode, name) = (&bytes[..space], bytes.get(space + 1..end)?);
        let id = Oid::parse(&hex::encode(bytes.get(end + 1..end + 1 + id_length)?))?;
        let path = [prefix, name].concat();
        if mode == DIRECTORY_MODE {
            below.push_back(([path.as_slice(), b"/"].concat(), id));
        } else {
            let mode = String::from_utf8(mode.to_vec()).ok()?;
            files.push((RepoPath::from_bytes(path), TreeEntry { mode, oid: id }));
        }
        bytes = &bytes[end + 1 + id_length..];
    }
    Some(())
}

/// The name of the tree that holds exactly these files, which are in git's order.
///
/// Sorted by their whole paths, files stand in the order that git has in a tree, where a directory counts as its name with a
/// slash behind it (`base_name_compare` in git's `tree.c`).
pub(crate) fn tree_id(files: &[(RepoPath, TreeEntry)], like: &Oid) -> Result<Oid, GitError> {
    subtree_id(files, 0, like)
}

fn subtree_id(files: &[(RepoPath, TreeEntry)], depth: usize, like: &Oid) -> Result<Oid, GitError> {
    let mut tree = Vec::new();
    let mut put = |mode: &[u8], name: &[u8], id: &Oid| {
        tree.extend_from_slice(&[mode, b" ", name, b"\0"].concat());
        tree.extend_from_slice(&hex::decode(id.as_str()).expect("names of objects are hexadecimal"));
    };
    let mut rest = files;
    while let Some((path, entry)) = rest.first() {
        let name = &path.as_bytes()[depth..];
        match name.iter().position(|byte| *byte == b'/') {
            None => {
                put(entry.mode.as_bytes(), name, &entry.oid);
                rest = &rest[1..];
            }
            Some(slash) => {
                let directory = &path.as_bytes()[..=depth + slash];
                let count =
                    rest.iter().take_while(|(path, _)| path.as_bytes().starts_with(directory)).count();
                let id = subtree_id(&rest[..count], depth + slash + 1, like)?;
                put(DIRECTORY_MODE, &name[..slash], &id);
                rest = &rest[count..];
            }
        }
    }
    name_of(TREE, &tree, like)
}

/// The name of a file's content as it is, without filters.
pub(crate) fn blob_id(bytes: &[u8], like: &Oid) -> Result<Oid, GitError> {
    name_of(BLOB, bytes, like)
}

/// No commit is empty: then git has said nothing, and the object may be as it was.
pub(crate) fn check(kind: &str, bytes: &[u8], id: &Oid) -> Result<(), GitError> {
    if bytes.is_empty() && kind == COMMIT {
        return Err(GitError::answer("cat-file", bytes));
    }
    if name_of(kind, bytes, id)? == *id { Ok(()) } else { Err(GitError::Forged { id: id.clone() }) }
}

/// The name that git gives to such an object, in a repository whose names are as long as `like`.
fn name_of(kind: &str, bytes: &[u8], like: &Oid) -> Result<Oid, GitError> {
    let mut hash = hasher_like(like);
    hash.update(format!("{kind} {}\0", bytes.len()).as_bytes());
    hash.update(bytes);
    finished(hash, like)
}

fn hasher_like(like: &Oid) -> Hasher {
    hasher(if like.as_str().len() == 64 { Kind::Sha256 } else { Kind::Sha1 })
}

fn finished(hash: Hasher, like: &Oid) -> Result<Oid, GitError> {
    // It fails for content that was made to have the name of another.
    let id = hash.try_finalize().map_err(|_collision| GitError::Forged { id: like.clone() })?;
    Oid::parse(&id.to_string()).ok_or_else(|| GitError::Forged { id: like.clone() })
}

/// Headers, an empty line, the message. Lines that continue a header begin with a space.
fn parse_commit(id: &Oid, bytes: &[u8]) -> Option<Commit> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let (mut tree, mut parents, mut committed_at) = (None, Vec::new(), None);
    for line in bytes[..end].split(|byte| *byte == b'\n') {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(line.len()));
        let value = value.trim_ascii();
        match name {
            b"tree" => tree = Some(Oid::from_bytes(value)?),
            b"parent" => parents.push(Oid::from_bytes(value)?),
            b"committer" => committed_at = Some(seconds(value)?),
            _ => {}
        }
    }
    let message = String::from_utf8_lossy(bytes.get(end + 2..).unwrap_or_default()).into_owned();
    let committed_at = Timestamp::from_millis(committed_at?.saturating_mul(1000));
    Some(Commit { id: id.clone(), tree: tree?, parents, committed_at, message })
}

/// `name <mail> seconds zone`
fn seconds(committer: &[u8]) -> Option<i64> {
    std::str::from_utf8(committer.rsplit(|byte| *byte == b' ').nth(1)?).ok()?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::process::Command;

    use mala_core::Scope;

    use super::*;

    pub(crate) fn git(root: &Path, args: &[&str]) -> String {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        let out = Command::new("git").current_dir(root).args(identity).args(args).output().unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }

    /// Files whose order in a tree is not that of their names, modes of every kind.
    pub(crate) fn world(format: &str) -> (tempfile::TempDir, Repo, Oid) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "-q", "-b", "main", &format!("--object-format={format}")]);
        for (path, text) in [("a/x", "1"), ("a-b", "2"), ("a.c", "3"), ("a/y/z", "4"), ("run.sh", "5")] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a-b", root.join("link")).unwrap();
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", "first\n\nwith a body"]);
        let head = Oid::parse(&git(root, &["rev-parse", "HEAD"])).unwrap();
        let repo = Repo::new(Scope::discover(root).unwrap());
        (dir, repo, head)
    }

    #[test]
    fn commits_and_trees_are_read_as_git_wrote_them() {
        for format in ["sha1", "sha256"] {
            let (dir, repo, head) = world(format);
            let commit = repo.commit(&head).unwrap();
            assert_eq!(commit.tree.as_str(), git(dir.path(), &["rev-parse", "HEAD^{tree}"]));
            assert_eq!((commit.parents.len(), commit.message.as_str()), (0, "first\n\nwith a body\n"));
            let files = repo.files_of(&commit.tree).unwrap();
            let names: Vec<String> = files.iter().map(|(path, _)| path.to_string()).collect();
            assert_eq!(names, ["a-b", "a.c", "a/x", "a/y/z", "link", "run.sh"]);
            assert_eq!(files, repo.index_files().unwrap());
            assert_eq!(tree_id(&files, &head).unwrap(), commit.tree, "{format}");
        }
    }

    /// Writes other content over a loose object, as an agent can.
    pub(crate) fn forge(repo: &Repo, id: &Oid, with: &Oid) {
        let place =
            |id: &Oid| repo.scope().git_dir().join("objects").join(&id.as_str()[..2]).join(&id.as_str()[2..]);
        fs::set_permissions(place(id), fs::Permissions::from_mode(0o644)).unwrap();
        fs::copy(place(with), place(id)).unwrap();
    }

    #[test]
    fn an_object_that_was_written_over_is_not_believed() {
        let (dir, repo, head) = world("sha1");
        fs::write(dir.path().join("a-b"), "other").unwrap();
        git(dir.path(), &["commit", "-qam", "second"]);
        let second = Oid::parse(&git(dir.path(), &["rev-parse", "HEAD"])).unwrap();
        let (first_tree, second_tree) =
            (repo.commit(&head).unwrap().tree, repo.commit(&second).unwrap().tree);
        forge(&repo, &second_tree, &first_tree);
        assert_eq!(git(dir.path(), &["show", "HEAD:a-b"]), "2", "git itself believes it");
        assert!(matches!(repo.files_of(&second_tree), Err(GitError::Forged { id }) if id == second_tree));
        forge(&repo, &second, &head);
        assert!(matches!(repo.commit(&second), Err(GitError::Forged { id }) if id == second));
    }

    #[test]
    fn a_blob_that_was_written_over_or_is_not_there_is_named() {
        for format in ["sha1", "sha256"] {
            let (dir, repo, head) = world(format);
            let files = repo.files_of(&repo.commit(&head).unwrap().tree).unwrap();
            let blobs: Vec<Oid> = files.into_iter().map(|(_, entry)| entry.oid).collect();
            repo.check_blobs(&[]).unwrap();
            repo.check_blobs(&blobs).unwrap();
            assert!(matches!(repo.check_blobs(std::slice::from_ref(&head)), Err(GitError::Kind { .. })));
            let missing = Oid::parse(&"1".repeat(head.as_str().len())).unwrap();
            assert!(matches!(repo.check_blobs(&[missing]), Err(GitError::Absent { .. })));
            fs::write(dir.path().join("large"), vec![7; 1 << 20]).unwrap();
            let large = Oid::parse(&git(dir.path(), &["hash-object", "-w", "large"])).unwrap();
            repo.check_blobs(&[large.clone(), blobs[0].clone()]).unwrap();
            forge(&repo, &blobs[0], &large);
            assert!(matches!(repo.check_blobs(&blobs), Err(GitError::Forged { id }) if id == blobs[0]));
        }
    }
}
