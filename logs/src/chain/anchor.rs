//! What is known of a log by somebody else: its end, and where it begins.
//!
//! The chain alone cannot show that its last lines are gone if its head went with them, or that all of it was written anew. Who
//! keeps an [`Anchor`] where the log's files do not lie can: [`super::verify_anchored`].

use std::cmp::Ordering;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{Broken, ChainError, Why};
use super::line::LineHash;
use super::reader::ChainReader;
use super::writer::Link;
use crate::lines::Order;

/// A line that a log has had, and how many lines before its first one have been removed for their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    pub seq: u64,
    pub hash: LineHash,
    /// The number of the last line that is gone, 0 if none is.
    pub forgotten: u64,
}

impl Anchor {
    /// Of a line that was just appended, with what was known before.
    pub fn of(link: &Link, known: Option<&Self>) -> Self {
        Self { seq: link.seq, hash: link.hash, forgotten: known.map_or(0, |known| known.forgotten) }
    }

    /// Fails unless the log still has the line of this anchor: only then may another take its place. It reads no further back than
    /// to that line.
    pub fn is_line_of(&self, path: &Path) -> Result<(), ChainError> {
        let mut lines = ChainReader::open(path)?.lines(Order::NewestFirst);
        while let Some(line) = lines.next_line()? {
            if line.seq() == self.seq && line.hash() == self.hash {
                return Ok(());
            }
            let why = match line.seq().cmp(&self.seq) {
                Ordering::Greater => continue,
                Ordering::Equal => Why::Rewritten { seq: self.seq },
                Ordering::Less => Why::Truncated { found: line.seq(), expected: self.seq },
            };
            return Err(Broken::file(path, why).into());
        }
        Err(Broken::file(path, Why::Gone { records: self.seq - self.forgotten }).into())
    }
}
