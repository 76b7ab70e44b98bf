//! The lines of some files, read in either direction through one buffer that is used again and again.
//!
//! Only whole lines count. What follows the last line break of the last file is what a killed writer left behind;
//! [`Lines::unfinished`] says how much that is.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BLOCK: usize = 64 * 1024;

/// A file as it was when it was opened; what is appended later is not read.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) path: PathBuf,
    file: File,
    length: u64,
}

impl OpenFile {
    /// Nothing if there is no such file.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        Ok(Some(Self { path: path.to_owned(), file, length }))
    }
}

/// Which lines come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they were written.
    OldestFirst,
    /// The last written line first.
    NewestFirst,
}

/// The lines of several files in one order.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Still to be read; the next one is last.
    waiting: Vec<OpenFile>,
    order: Order,
    current: Option<Current>,
    unfinished: u64,
}

#[derive(Debug)]
struct Current {
    path: PathBuf,
    cursor: Cursor,
}

#[derive(Debug)]
enum Cursor {
    Forward(Forward),
    Backward(Backward),
}

/// One line without its line break, and the file it is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawLine<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) path: &'a Path,
    /// Where in the file it begins.
    pub(crate) offset: u64,
}

/// Reading a file failed.
#[derive(Debug)]
pub(crate) struct LinesError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl Lines {
    /// `files` are given the oldest first, whatever the order of reading is.
    pub(crate) fn new(mut files: Vec<OpenFile>, order: Order) -> Self {
        if order == Order::OldestFirst {
            files.reverse();
        }
        Self { waiting: files, order, current: None, unfinished: 0 }
    }

    /// How many bytes without a line break have been met at the end of a file.
    pub(crate) fn unfinished(&self) -> u64 {
        self.unfinished
    }

    pub(crate) fn next(&mut self) -> Result<Option<RawLine<'_>>, LinesError> {
        let found = loop {
            let Some(current) = &mut self.current else {
                let Some(file) = self.waiting.pop() else { return Ok(None) };
                self.current = Some(Current::open(file, self.order));
                continue;
            };
            let failed = |source| LinesError { path: current.path.clone(), source };
            if let Some(found) = current.cursor.next().map_err(failed)? {
                break found;
            }
            self.unfinished += current.cursor.unfinished();
            self.current = None;
        };
        Ok(self.current.as_ref().map(|current| current.line(found)))
    }
}

impl Current {
    fn open(file: OpenFile, order: Order) -> Self {
        let cursor = match order {
            Order::OldestFirst => Cursor::Forward(Forward::new(file.file, file.length)),
            Order::NewestFirst => Cursor::Backward(Backward::new(file.file, file.length)),
        };
        Self { path: file.path, cursor }
    }

    fn line(&self, found: Found) -> RawLine<'_> {
        let bytes = match &self.cursor {
            Cursor::Forward(forward) => &forward.line[found.bytes],
            Cursor::Backward(backward) => &backward.buffer[found.bytes],
        };
        RawLine { bytes, path: &self.path, offset: found.offset }
    }
}

impl Cursor {
    fn next(&mut self) -> io::Result<Option<Found>> {
        match self {
            Self::Forward(forward) => forward.next(),
            Self::Backward(backward) => backward.next(),
        }
    }

    fn unfinished(&self) -> u64 {
        match self {
            Self::Forward(forward) => forward.line.len() as u64,
            Self::Backward(backward) => backward.unfinished,
        }
    }
}

/// A line in a cursor's buffer.
#[derive(Debug)]
struct Found {
    bytes: Range<usize>,
    offset: u64,
}

#[derive(Debug)]
struct Forward {
    reader: BufReader<Take<File>>,
    line: Vec<u8>,
    offset: u64,
}

impl Forward {
    fn new(file: File, length: u64) -> Self {
        Self { reader: BufReader::with_capacity(BLOCK, file.take(length)), line: Vec::new(), offset: 0 }
    }

    fn next(&mut self) -> io::Result<Option<Found>> {
        self.line.clear();
        let count = self.reader.read_until(b'\n', &mut self.line)?;
        if self.line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let found = Found { bytes: 0..count - 1, offset: self.offset };
        self.offset += count as u64;
        Ok(Some(found))
    }
}

/// Reads blocks from the end. `buffer[..end]` is what lies before the lines given out so far, from `start` in the file.
#[derive(Debug)]
struct Backward {
    file: File,
    buffer: Vec<u8>,
    start: u64,
    end: usize,
    /// Known once the last line break has been found.
    place: Place,
    unfinished: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    AtTheEnd,
    AfterALine,
}

impl Backward {
    fn new(file: File, length: u64) -> Self {
        Self { file, buffer: Vec::new(), start: length, end: 0, place: Place::AtTheEnd, unfinished: 0 }
    }

    fn next(&mut self) -> io::Result<Option<Found>> {
        if self.place == Place::AtTheEnd {
            let begin = self.begin_of_line(0)?;
            self.unfinished = (self.end - begin) as u64;
            self.end = begin;
            self.place = Place::AfterALine;
        }
        if self.end == 0 && self.start == 0 {
            return Ok(None);
        }
        let begin = self.begin_of_line(1)?;
        let found = Found { bytes: begin..self.end - 1, offset: self.start + begin as u64 };
        self.end = begin;
        Ok(Some(found))
    }

    /// Where the line that ends at `end` begins; its own line break, the last `ending` bytes, is not looked at.
    fn begin_of_line(&mut self, ending: usize) -> io::Result<usize> {
        let mut searched = ending.min(self.end);
        loop {
            let unsearched = self.end - searched;
            if let Some(at) = memchr::memrchr(b'\n', &self.buffer[..unsearched]) {
                return Ok(at + 1);
            }
            if self.start == 0 {
                return Ok(0);
            }
            searched = self.end.max(ending);
            self.load()?;
        }
    }

    /// Puts the block before the buffer in front of it. Blocks grow with the line, so a long one is copied few times.
    fn load(&mut self) -> io::Result<()> {
        let wanted = BLOCK.max(self.end) as u64;
        let count = usize::try_from(wanted.min(self.start)).map_err(io::Error::other)?;
        self.buffer.resize(self.buffer.len().max(self.end + count), 0);
        self.buffer.copy_within(..self.end, count);
        self.start -= count as u64;
        self.file.read_exact_at(&mut self.buffer[..count], self.start)?;
        self.end += count;
        Ok(())
    }
}
