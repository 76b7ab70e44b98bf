//! Telling one file from another that has its name, or its number, by now.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;

use super::resolve;
use crate::FileIdentity;

/// The file behind a descriptor.
pub(crate) fn of_open(fd: impl AsFd) -> Result<FileIdentity, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH, wanted()).map(|stat| identity(&stat))
}

/// The same for whoever has it open.
pub fn identity_of_open(file: impl AsFd) -> Option<FileIdentity> {
    of_open(file).ok()
}

/// The file that has this name now, itself and not what it points to; nothing if there is none.
pub fn identity_of(path: &Path) -> Option<FileIdentity> {
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted()).ok().map(|stat| identity(&stat))
}

/// Removes the name of this file, if it is still the file's and no link leads there. True if it is gone.
pub fn remove_name(path: &Path, file: FileIdentity) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
    // Looked at and removed in one and the same folder, whatever its name means by now.
    let Ok(folder) = resolve::open_folder(folder) else { return false };
    let named = statx(&folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted()).map(|stat| identity(&stat));
    named == Ok(file) && rustix::fs::unlinkat(&folder, name, AtFlags::empty()).is_ok()
}

fn wanted() -> StatxFlags {
    StatxFlags::INO | StatxFlags::BTIME
}

fn identity(stat: &Statx) -> FileIdentity {
    let is_born = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = if is_born { (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) } else { (0, 0) };
    FileIdentity { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, born }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_the_very_file_in_the_very_folder_loses_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [folder, link] = ["folder", "link"].map(|name| root.join(name));
        fs::create_dir(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        let made = identity_of(&file).unwrap();
        assert!(!remove_name(&link.join("file"), made), "a link leads there");
        fs::rename(&file, folder.join("moved")).unwrap();
        fs::write(&file, "").unwrap();
        assert!(!remove_name(&file, made), "it is another one");
        assert!(remove_name(&folder.join("moved"), made));
        assert!(!remove_name(&folder.join("moved"), made), "it is gone");
        assert!(file.exists() && !folder.join("moved").exists());
    }
}
