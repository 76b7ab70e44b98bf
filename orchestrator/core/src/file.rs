//! Reading files that others could have put something else in place of.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

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

/// What is in a file that a person has named, which may be a pipe such as `<(br export)`. One that nobody writes to is an error: it
/// may never have a writer.
pub fn read_named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let mut first = [0; 4096];
    let mut length = 0;
    if file.metadata()?.file_type().is_fifo() {
        // With a writer that has not written yet, there would be something to wait for (read(2), EAGAIN).
        length = match file.read(&mut first) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it is a pipe that nobody writes to",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            read => read?,
        };
    }
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    read_at_most(first[..length].chain(file), most)
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
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use nix::poll::{PollFd, PollFlags};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_pipe_is_read_to_its_end_and_one_without_a_writer_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert!(read_named(&pipe, 9).unwrap_err().to_string().contains("nobody writes to"));
        let keeps_it_open = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, "text").unwrap()
        });
        writer.join().unwrap();
        // What a writer has left is there as long as anybody has the pipe open.
        let reading = std::thread::spawn(move || read_named(&pipe, 9));
        let mut poll = [PollFd::new(keeps_it_open.as_fd(), PollFlags::POLLIN)];
        while nix::poll::poll(&mut poll, 0u8).unwrap() > 0 {
            std::thread::yield_now();
        }
        drop(keeps_it_open);
        assert_eq!(reading.join().unwrap().unwrap(), b"text");
        fs::write(dir.path().join("file"), "text").unwrap();
        assert_eq!(read_named(&dir.path().join("file"), 4).unwrap(), b"text");
        assert_eq!(read_named(&dir.path().join("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

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
