//! What the server needs of whoever runs the commands.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most that is kept of what a command says beside its answer. Test runs say a lot; the end is what matters.
const KEPT: usize = 32 * 1024;

/// Runs commands as the agent above this process.
///
/// Contract: `run` blocks until the command has ended, prints nothing, and ends early once the leash is cut. It may be
/// called from many threads at once.
pub trait Commands: Send + Sync + 'static {
    fn run(&self, line: &CommandLine, leash: &Leash) -> Ran;

    /// What was said beside the answer, as the client may see it.
    fn shown(&self, remarks: String) -> String {
        remarks
    }
}

/// A command as it would be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Everything behind `mala`.
    pub words: Vec<String>,
    /// What it reads from standard input. Long and hostile texts travel here, where nothing interprets them.
    pub input: String,
    pub how: How,
}

/// What running a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It looks at the store and answers.
    Here,
    /// It starts programs that somebody else wrote, which may read, print and hang as they like.
    Apart,
}

/// What a command left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit code.
    pub code: u8,
    /// What it wrote to standard output: one JSON document.
    pub answer: Vec<u8>,
}

/// Ties a running command to the call it runs for.
#[derive(Debug)]
pub struct Leash {
    cut: PipeReader,
    remarks: Arc<Remarks>,
}

impl Leash {
    /// A leash, and the end of it that cuts it when dropped.
    pub fn new() -> io::Result<(Self, PipeWriter)> {
        let (cut, hand) = io::pipe()?;
        Ok((Self { cut, remarks: Arc::default() }, hand))
    }

    /// Where the command's standard error goes, as it comes.
    pub fn remarks(&self) -> &Arc<Remarks> {
        &self.remarks
    }
}

/// Becomes readable when nobody waits for the answer any more.
impl AsFd for Leash {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cut.as_fd()
    }
}

/// The end of what a command has said so far.
#[derive(Debug, Default)]
pub struct Remarks {
    said: Mutex<Vec<u8>>,
}

impl Remarks {
    pub fn push(&self, bytes: &[u8]) {
        let mut said = self.lock();
        said.extend_from_slice(bytes);
        // Cut now and then rather than at every word.
        if said.len() > 2 * KEPT {
            let surplus = said.len() - KEPT;
            said.drain(..surplus);
        }
    }

    /// All that is kept, cut at the start of a line if it is too long.
    pub fn text(&self) -> String {
        let said = self.lock();
        let Some(surplus) = said.len().checked_sub(KEPT) else {
            return String::from_utf8_lossy(&said).into();
        };
        let tail = &said[surplus..];
        let line = tail.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        format!("[...]\n{}", String::from_utf8_lossy(&tail[line..]))
    }

    /// The last line that is not empty.
    pub fn last_line(&self) -> Option<String> {
        let said = self.lock();
        let last = said.split(|byte| *byte == b'\n').rev().find(|line| !line.trim_ascii().is_empty())?;
        Some(String::from_utf8_lossy(last).trim().to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // Whoever panicked while adding bytes has left bytes.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
