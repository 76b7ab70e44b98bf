//! Walks a whole log and names the first line that is not as it was written.

use std::path::{Path, PathBuf};

use super::anchor::Anchor;
use super::error::{Broken, ChainError, Why};
use super::head::Head;
use super::line::{self, End};
use super::reader::{open_files, take_turn};
use super::recover::torn_parts;
use super::writer::Link;
use crate::disk;
use crate::files::LogFiles;
use crate::lines::{Lines, OpenFile, Order};

/// A log that is as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// How many lines there are.
    pub lines: u64,
    /// The last line.
    pub head: Option<Link>,
    /// Lines after the one that `NAME.head` knows: their writer was killed before it could say so.
    pub unannounced: u64,
    /// What killed writers left of lines that they could not finish.
    pub torn: Vec<Torn>,
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The file that keeps it: the log itself until something is appended, then a file of its own.
    pub file: PathBuf,
    pub bytes: u64,
}

/// Checks every line of the log `NAME.jsonl`, of its full files, and the head. Writers wait meanwhile.
pub fn verify(path: &Path) -> Result<Verified, ChainError> {
    verify_anchored(path, None)
}

/// The same, and that the log has the line that is known of it, and begins where it should.
pub fn verify_anchored(path: &Path, anchor: Option<&Anchor>) -> Result<Verified, ChainError> {
    let files = LogFiles::new(path).ok_or_else(|| ChainError::Name { path: path.to_owned() })?;
    let _turn = take_turn(&files)?;
    let torn = parts(&files)?;
    let head = match (Head::read(&files), anchor) {
        (Ok(None), None) => return Ok(Verified { lines: 0, head: None, unannounced: 0, torn }),
        (Ok(None), Some(anchor)) => {
            return Err(Broken::file(path, Why::Gone { records: anchor.seq - anchor.forgotten }).into());
        }
        (head, _) => head?.unwrap_or(Head::EMPTY),
    };
    let anchor = anchor.copied();
    if let Some(Anchor { forgotten, .. }) = anchor.filter(|anchor| anchor.forgotten < head.start.after.seq) {
        let why = Why::Beginning { found: head.start.after.seq + 1, expected: forgotten + 1 };
        return Err(Broken::file(path, why).into());
    }
    let mut walk = Walk { head, anchor, end: head.start.after, count: 0, torn };
    check_numbers(&files, &head)?;
    for file in open_files(&files, head.start.file)? {
        walk.file(file, files.active())?;
    }
    walk.finish(&files)
}

/// No full file may be missing between the first and the last.
fn check_numbers(files: &LogFiles, head: &Head) -> Result<(), ChainError> {
    let found = files.finished().map_err(|error| ChainError::io(files.folder(), error))?;
    let mut found = found.iter().map(|file| file.number).skip_while(|number| *number < head.start.file);
    for expected in head.start.file..=head.finished {
        if found.next() != Some(expected) {
            return Err(Broken::file(&files.numbered(expected), Why::FileMissing).into());
        }
    }
    Ok(())
}

fn parts(files: &LogFiles) -> Result<Vec<Torn>, ChainError> {
    let paths = torn_parts(files).map_err(|error| ChainError::io(files.folder(), error))?;
    let measure = |file: PathBuf| match disk::length(&file) {
        Ok(bytes) => Ok(Torn { file, bytes: bytes.unwrap_or(0) }),
        Err(error) => Err(ChainError::io(&file, error)),
    };
    paths.into_iter().map(measure).collect()
}

/// How far a walk through the files has come.
struct Walk {
    head: Head,
    anchor: Option<Anchor>,
    end: End,
    /// How many lines the last file has.
    count: u64,
    torn: Vec<Torn>,
}

impl Walk {
    fn file(&mut self, file: OpenFile, active: &Path) -> Result<(), ChainError> {
        let path = file.path.clone();
        let mut lines = Lines::new(vec![file], Order::OldestFirst);
        self.count = 0;
        let broken = |line, why| Broken { file: path.clone(), line, why };
        while let Some(raw) = lines.next()? {
            self.count += 1;
            self.end = line::follow(self.end, raw.bytes).map_err(|why| broken(self.count, why))?;
            let anchored = self.anchor.filter(|anchor| anchor.seq == self.end.seq);
            if let Some(Anchor { seq, .. }) = anchored.filter(|anchor| anchor.hash != self.end.hash) {
                return Err(broken(self.count, Why::Rewritten { seq }).into());
            }
            if self.end.seq == self.head.end.seq {
                let after = raw.offset + raw.bytes.len() as u64 + 1;
                self.known_last_line(after).map_err(|why| broken(self.count, why))?;
            }
        }
        match lines.unfinished() {
            0 => Ok(()),
            bytes if path == active && self.end.seq >= self.head.end.seq => {
                self.torn.push(Torn { file: path, bytes });
                Ok(())
            }
            _ => Err(broken(self.count + 1, Why::Unfinished).into()),
        }
    }

    /// The line that the head calls the last one must be it, and end where the head says; after it began a new file,
    /// the head says 0.
    fn known_last_line(&self, after: u64) -> Result<(), Why> {
        if self.end != self.head.end {
            return Err(Why::Replaced);
        }
        if self.head.bytes != after && self.head.bytes != 0 {
            return Err(Why::HeadDiffers);
        }
        Ok(())
    }

    fn finish(self, files: &LogFiles) -> Result<Verified, ChainError> {
        let (found, announced) = (self.end.seq, self.head.end.seq);
        let expected = announced.max(self.anchor.map_or(0, |anchor| anchor.seq));
        if found < expected {
            let why = Why::Truncated { found, expected };
            return Err(Broken { file: files.active().to_owned(), line: self.count + 1, why }.into());
        }
        let lines = found - self.head.start.after.seq;
        let head = (lines > 0).then_some(Link { seq: found, hash: self.end.hash });
        Ok(Verified { lines, head, unannounced: found - announced, torn: self.torn })
    }
}
