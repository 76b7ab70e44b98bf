//! A copy of what a held program prints.
//!
//! Where the program's standard output or error is a pipe or a socket, it gets a pipe of ours instead, and a thread
//! passes everything on: first into the log, then to where it was meant to go. Two streams that were one stay one, so the
//! order is kept. A file is left as it is, and what was added to it is copied at the end. Terminals and other
//! devices are not captured: a program shall see its terminal. Of what is too much, the log has the beginning and the end.
//!
//! Nobody notices, as far as that is possible. Readers see the end when the last writer is gone, writers see that the
//! reader is gone, and the next program starts after the last byte was passed on. Only what somebody prints who was
//! running already, such as a shell with a command of its own, can overtake the last lines.

mod forward;

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use mala_core::Excerpt;
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

pub(crate) use self::forward::Tap;
use self::forward::{Stream, lock};
use super::handle;

/// The streams that are captured.
const STREAMS: [u32; 2] = [1, 2];

/// A program's output, on its way into a file.
///
/// Dropping it ends the log; what the program and its children still print reaches its reader as before.
#[derive(Debug)]
pub struct Capture {
    tap: Option<Arc<Tap>>,
    /// Files that the program prints to, from where it began.
    files: Vec<(File, u64)>,
    log: Log,
}

/// What is kept of the output, until it has ended.
type Log = Arc<Mutex<Option<Excerpt<File>>>>;

/// One place that the program prints to, by one or both of its streams.
struct Sink {
    numbers: Vec<u32>,
    fd: OwnedFd,
    kind: FileType,
    identity: (u64, u64),
}

impl Capture {
    /// Begins to copy what the program behind `process` prints into `log`. None if it prints to nothing that could be
    /// captured.
    /// `replace` puts a descriptor in place of one of its own.
    pub(super) fn begin(
        process: BorrowedFd<'_>,
        log: File,
        replace: impl Fn(BorrowedFd<'_>, u32) -> io::Result<()>,
    ) -> io::Result<Option<Self>> {
        let log = Arc::new(Mutex::new(Some(Excerpt::new(log))));
        let (mut files, mut streams, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for sink in sinks(process)? {
            match sink.kind {
                FileType::RegularFile => files.push(from_here(&sink.fd)?),
                FileType::Fifo | FileType::Socket => {
                    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
                    fcntl_setfl(&writer, fcntl_getfl(&sink.fd)? & OFlags::NONBLOCK)?;
                    fcntl_setfl(&reader, OFlags::NONBLOCK)?;
                    streams.push(Stream::new(reader, sink.fd));
                    ends.push((sink.numbers, writer));
                }
                _ => {}
            }
        }
        if files.is_empty() && streams.is_empty() {
            return Ok(None);
        }
        let tap = if streams.is_empty() { None } else { Some(Tap::start(streams, Arc::clone(&log))?) };
        for (numbers, writer) in &ends {
            for number in numbers {
                replace(writer.as_fd(), *number)?;
            }
        }
        Ok(Some(Self { tap, files, log }))
    }

    /// Ends the log: everything that the program printed before it ended is in it when this returns. For use when it
    /// has [ended](crate::Hold::ended). Does not wait for children that are left, nor for readers.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(tap) = self.tap.take() {
            tap.end_log()?;
        }
        let Some(mut log) = lock(&self.log).take() else { return Ok(()) };
        for (mut file, start) in self.files.drain(..) {
            // Someone may have made it shorter.
            let length = file.metadata()?.len().saturating_sub(start);
            file.seek(SeekFrom::Start(start))?;
            log.add_file(&mut file, length)?;
        }
        log.finish().map(drop)
    }

    pub(super) fn tap(&self) -> Option<&Arc<Tap>> {
        self.tap.as_ref()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(tap) = self.tap.take() {
            let _failed = tap.end_log();
        }
    }
}

fn sinks(process: BorrowedFd<'_>) -> io::Result<Vec<Sink>> {
    let mut sinks: Vec<Sink> = Vec::new();
    for number in STREAMS {
        // A stream may be closed.
        let Ok(fd) = pidfd_getfd(process, number.cast_signed(), PidfdGetfdFlags::empty()) else { continue };
        if fcntl_getfl(&fd)? & OFlags::ACCMODE == OFlags::RDONLY {
            continue;
        }
        let stat = fstat(&fd)?;
        let identity = (stat.st_dev, stat.st_ino);
        match sinks.iter_mut().find(|sink| sink.identity == identity) {
            Some(sink) => sink.numbers.push(number),
            None => {
                let kind = FileType::from_raw_mode(stat.st_mode);
                sinks.push(Sink { numbers: vec![number], fd, kind, identity });
            }
        }
    }
    Ok(sinks)
}

/// The same file for reading, and where the program will write. Not its own descriptor: the file must not count as being
/// written longer than it is.
fn from_here(fd: &OwnedFd) -> io::Result<(File, u64)> {
    let file = File::from(handle::reopen(fd, OFlags::RDONLY, Mode::empty())?);
    let appends = fcntl_getfl(fd)?.contains(OFlags::APPEND);
    let start = if appends { file.metadata()?.len() } else { rustix::fs::tell(fd)? };
    Ok((file, start))
}
