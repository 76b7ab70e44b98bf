//! Who may use the files of mala in a repository that several users share.
//!
//! Git makes its own files readable and writable as `core.sharedRepository` says, whatever a user's umask is. Mala's files
//! lie beside them and follow the same rule ([`settle`]).
//!
//! Root does nothing in a repository of somebody else ([`check_user`]): what it makes there, mala's files, git's objects and
//! whatever a test writes, would keep the owner out, and not all of it can be found and given back.
//!
//! Nothing is followed on the way: a user who swaps a directory for a symbolic link must not change a file that lies elsewhere.
//! A file with more than one name is left alone for the same reason.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, mode_t};
use nix::unistd::{Uid, User, geteuid};
use thiserror::Error;

use crate::file::{SETTINGS, read_small_text};

/// What lies in git's directory and is mala's.
const OURS: [&str; 2] = ["mala", "mala-work"];
/// Mala's directories are not deeper than this.
const MAX_DEPTH: usize = 8;

/// What `core.sharedRepository` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// What each user's umask leaves.
    Umask,
    /// The group of the directory may do what the owner may.
    Group,
    /// And everybody else may read.
    All,
    /// Exactly these permissions.
    Mode(u32),
}

impl Sharing {
    /// As the configuration of this repository says.
    pub fn of(git_dir: &Path) -> Self {
        read_small_text(&git_dir.join("config"), SETTINGS).map_or(Self::Umask, |text| Self::read(&text))
    }

    /// The last `sharedRepository` of a section `[core]`.
    fn read(config: &str) -> Self {
        let (mut is_core, mut found) = (false, Self::Umask);
        for line in config.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[') {
                is_core =
                    section.split(']').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("core"));
            }
            let setting = line.rsplit(']').next().unwrap_or(line);
            let (name, value) = setting.split_once('=').unwrap_or((setting, "true"));
            if is_core && name.trim().eq_ignore_ascii_case("sharedrepository") {
                let value = value.split(['#', ';']).next().unwrap_or_default().trim().trim_matches('"');
                found = Self::word(&value.to_ascii_lowercase());
            }
        }
        found
    }

    fn word(value: &str) -> Self {
        match value {
            "group" | "true" | "yes" | "on" | "1" => Self::Group,
            "all" | "world" | "everybody" | "2" => Self::All,
            octal if octal.starts_with('0') && octal.len() > 1 => {
                // Git refuses what the owner could not read and write.
                u32::from_str_radix(octal, 8)
                    .ok()
                    .filter(|mode| mode & 0o600 == 0o600)
                    .map_or(Self::Umask, Self::Mode)
            }
            _ => Self::Umask,
        }
    }

    /// The permissions of a file that has these, as git computes them (`calc_shared_perm`).
    fn mode(self, mode: u32, is_directory: bool) -> u32 {
        let mut wanted = match self {
            Self::Umask => return mode,
            Self::Group => 0o660,
            Self::All => 0o664,
            Self::Mode(wanted) => wanted & 0o777,
        };
        if mode & 0o200 == 0 {
            wanted &= !0o222;
        }
        if mode & 0o100 != 0 || is_directory {
            wanted |= (wanted & 0o444) >> 2;
        }
        let kept = if matches!(self, Self::Mode(_)) { mode & !0o777 } else { mode };
        // What is made in a directory belongs to its group.
        let group = if is_directory && wanted & 0o060 != 0 { 0o2000 } else { 0 };
        kept | wanted | group
    }
}

/// Root, in a repository of somebody else.
#[derive(Debug, Error)]
#[error(
    "you are root, and `{}` is {owner}'s: what root makes there would keep {owner} out; be {owner}: `{command}`",
    .git_dir.display()
)]
pub struct GuestRoot {
    git_dir: PathBuf,
    owner: String,
    /// What to type instead.
    command: String,
}

/// Fails if this process is root's and the repository is not.
pub fn check_user(git_dir: &Path) -> Result<(), GuestRoot> {
    use std::os::unix::fs::MetadataExt;

    let owner = fs::metadata(git_dir).map_or(0, |directory| directory.uid());
    if owner == 0 || !geteuid().is_root() {
        return Ok(());
    }
    let name = User::from_uid(Uid::from_raw(owner)).ok().flatten().map(|user| user.name);
    let (owner, user) = match name {
        Some(name) => (name.clone(), name),
        // So that a shell takes it for a word, and sudo for a number.
        None => (format!("user {owner}"), format!("'#{owner}'")),
    };
    let command = format!("sudo -u {user} mala ...");
    Err(GuestRoot { git_dir: git_dir.to_path_buf(), owner, command })
}

/// Gives mala's files in git's directory the permissions that they should have, as far as this user may.
pub fn settle(git_dir: &Path) -> io::Result<()> {
    let sharing = Sharing::of(git_dir);
    if sharing == Sharing::Umask {
        return Ok(());
    }
    let directory = open(git_dir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    OURS.iter().try_for_each(|name| sharing.settle(&directory, Path::new(name), MAX_DEPTH))
}

/// The same for one file that this process has just made, such as the pipe that wakes it.
pub fn share(path: &Path, git_dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let now = fs::symlink_metadata(path)?.permissions().mode();
    let wanted = Sharing::of(git_dir).mode(now, false);
    if wanted == now { Ok(()) } else { fs::set_permissions(path, fs::Permissions::from_mode(wanted)) }
}

impl Sharing {
    fn settle(self, parent: &OwnedFd, name: &Path, depth: usize) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match openat(parent, name, flags, Mode::empty()) {
            Ok(file) => file,
            // A socket, gone meanwhile, a link, or somebody else's.
            Err(
                Errno::ENXIO
                | Errno::EOPNOTSUPP
                | Errno::ENOENT
                | Errno::ELOOP
                | Errno::EACCES
                | Errno::EPERM,
            ) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&file)?;
        let is_directory = is_kind(&stat, SFlag::S_IFDIR);
        if !is_directory && stat.st_nlink != 1 {
            return Ok(());
        }
        let now = stat.st_mode as u32 & 0o7777;
        let wanted = self.mode(now, is_directory);
        if wanted != now {
            match fchmod(&file, Mode::from_bits_truncate(wanted as mode_t)) {
                // Another member of the group made it, and settled it.
                Err(Errno::EPERM) => {}
                done => done?,
            }
        }
        if is_directory && depth > 0 { self.settle_all(file, depth - 1) } else { Ok(()) }
    }

    fn settle_all(self, directory: OwnedFd, depth: usize) -> io::Result<()> {
        let parent = directory.try_clone()?;
        for entry in Dir::from_fd(directory)?.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                self.settle(
                    &parent,
                    Path::new(std::os::unix::ffi::OsStrExt::from_bytes(name) as &std::ffi::OsStr),
                    depth,
                )?;
            }
        }
        Ok(())
    }
}

fn is_kind(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn the_configuration_of_git_is_read_as_git_reads_it() {
        for (text, expected) in [
            ("", Sharing::Umask),
            ("[core]\n\tsharedRepository = group\n", Sharing::Group),
            ("[core]\n\tsharedrepository = 1\n[other]\n\tsharedrepository = all\n", Sharing::Group),
            ("[Core]\n\tSHAREDREPOSITORY = \"all\" ; a remark\n", Sharing::All),
            ("[core]\n\tsharedRepository\n", Sharing::Group),
            ("[core] sharedRepository = 0640\n", Sharing::Mode(0o640)),
            ("[core]\n\tsharedRepository = 0044\n", Sharing::Umask),
            ("[core]\n\tsharedRepository = group\n\tsharedRepository = false\n", Sharing::Umask),
        ] {
            assert_eq!(Sharing::read(text), expected, "{text}");
        }
    }

    #[test]
    fn permissions_are_those_that_git_gives() {
        for (sharing, mode, is_directory, expected) in [
            (Sharing::Umask, 0o644, false, 0o644),
            (Sharing::Group, 0o600, false, 0o660),
            (Sharing::Group, 0o644, false, 0o664),
            (Sharing::Group, 0o444, false, 0o444),
            (Sharing::Group, 0o755, true, 0o2775),
            (Sharing::All, 0o600, false, 0o664),
            (Sharing::Mode(0o640), 0o666, false, 0o640),
            (Sharing::Mode(0o640), 0o755, true, 0o2750),
        ] {
            assert_eq!(sharing.mode(mode, is_directory), expected, "{sharing:?} {mode:o}");
        }
    }

    /// A git directory with a file of mala's in it.
    fn git_dir(config: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config"), config).unwrap();
        fs::create_dir_all(dir.path().join("mala/logs")).unwrap();
        fs::write(dir.path().join("mala/logs/r.jsonl"), "x").unwrap();
        fs::set_permissions(dir.path().join("mala/logs/r.jsonl"), fs::Permissions::from_mode(0o600)).unwrap();
        dir
    }

    fn mode(dir: &Path, name: &str) -> u32 {
        fs::symlink_metadata(dir.join(name)).unwrap().mode() & 0o7777
    }

    #[test]
    fn what_is_shared_with_a_group_is_what_git_shares() {
        let dir = git_dir("[core]\n\tsharedRepository = group\n");
        settle(dir.path()).unwrap();
        assert_eq!(
            (mode(dir.path(), "mala/logs/r.jsonl"), mode(dir.path(), "mala/logs") & 0o2070),
            (0o660, 0o2070)
        );
        let dir = git_dir("[core]\n\tbare = false\n");
        settle(dir.path()).unwrap();
        assert_eq!(mode(dir.path(), "mala/logs/r.jsonl"), 0o600, "nothing is shared unless git shares it");
    }

    #[test]
    fn nothing_is_followed_out_of_the_repository() {
        let dir = git_dir("[core]\n\tsharedRepository = group\n");
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "x").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(outside.path(), dir.path().join("mala/link")).unwrap();
        fs::hard_link(&secret, dir.path().join("mala/hard")).unwrap();
        settle(dir.path()).unwrap();
        assert_eq!(mode(outside.path(), "secret"), 0o600);
    }

    #[test]
    fn root_is_told_to_be_the_owner_and_nobody_else_is() {
        let dir = git_dir("");
        assert!(check_user(dir.path()).is_ok(), "who made it");
        if !geteuid().is_root() {
            eprintln!("NOT TESTED: only root can make files of others");
            return;
        }
        chown(dir.path(), Some(1234), Some(1235)).unwrap();
        let text = check_user(dir.path()).unwrap_err().to_string();
        assert!(text.ends_with("be user 1234: `sudo -u '#1234' mala ...`"), "{text}");
        chown(dir.path(), Some(65534), None).unwrap();
        let text = check_user(dir.path()).unwrap_err().to_string();
        assert!(text.ends_with("be nobody: `sudo -u nobody mala ...`"), "{text}");
    }
}
