//! Reading files that others could have put something else in place of.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// More than anybody writes down as settings, rules or a prompt.
pub const SETTINGS: u64 = 1 << 20;
/// More than the longest message of a commit, or of an agent.
pub const MESSAGE: u64 = 16 << 20;
/// More than the issues of a large project.
pub const ISSUES: u64 = 64 << 20;

/// Opens a file to read it. A pipe or a device of that name is an error, and nobody waits for it.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(Errno::EISDIR.into());
    }
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// What is in a regular file of at most `most` bytes.
pub fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_regular(path)?, most)
}

/// All that comes, if it is at most `most` bytes.
pub fn read_at_most(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it is longer than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// The same for text.
pub fn read_small_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_small(path, most)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The end of a file as text, at most `most` bytes of it. Nothing if it cannot be read.
pub fn read_tail(path: &Path, most: u64) -> Option<String> {
    let mut file = open_regular(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_files_of_a_sensible_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink("/dev/zero", at("device")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        assert_eq!(read_small_text(&at("link"), 4).unwrap(), "text");
        let error = |name: &str| read_small(&at(name), 3).unwrap_err().kind();
        assert_eq!(error("file"), io::ErrorKind::FileTooLarge);
        assert_eq!(error("none"), io::ErrorKind::NotFound);
        assert_eq!(error("."), io::ErrorKind::IsADirectory);
        for name in ["device", "pipe"] {
            assert_eq!(error(name), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
