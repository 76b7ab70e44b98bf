//! Files that are locked together, such as a manifest and the lock file that is generated from it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::Key;

/// Names of files that are one lock within each directory: who takes one takes all, whether they exist or not. So two agents
/// never hold a part each, and none commits one without the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockGroups(Vec<Vec<String>>);

impl LockGroups {
    pub fn new(groups: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self(groups.into_iter().collect())
    }

    /// The other files of the groups that a file is in, relative to the scope.
    pub fn beside(&self, key: &Key) -> Vec<PathBuf> {
        let path = key.as_path();
        let Some(name) = path.file_name() else { return Vec::new() };
        let is_in = |group: &&Vec<String>| group.iter().any(|member| OsStr::new(member) == name);
        let mut others: Vec<&str> = self.0.iter().filter(is_in).flatten().map(String::as_str).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|other| other.as_bytes() != name.as_bytes());
        others.into_iter().map(|other| path.with_file_name(other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(groups: &LockGroups, path: &str) -> Vec<String> {
        let key = Key::from_stored(path.as_bytes().to_vec());
        groups.beside(&key).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_files_of_a_group_are_those_of_one_directory() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let groups = LockGroups::new([names(&["a.toml", "a.lock"]), names(&["a.toml", "b.json"])]);
        assert_eq!(beside(&groups, "a.toml"), ["a.lock", "b.json"]);
        assert_eq!(beside(&groups, "sub/dir/a.lock"), ["sub/dir/a.toml"]);
        assert_eq!(beside(&groups, "sub/c.toml"), Vec::<String>::new());
        assert_eq!(beside(&LockGroups::default(), "a.toml"), Vec::<String>::new());
    }
}
