//! Masks what passes through, wherever reads and writes cut it.

use std::io::{self, Write};

use super::scan::secrets_in;
use super::{MASK, pem};

/// What is held back: longer than any secret together with its name, but for private keys.
pub(super) const HELD: usize = 16 << 10;
/// A secret that is still longer is masked in parts.
const MAX_HELD: usize = 256 << 10;

/// Masks secrets in what is written to it, also those that come in several pieces.
///
/// The last few KiB are held back until it is known what follows. [`MaskingWriter::finish`] writes them, and so does dropping it.
#[derive(Debug)]
pub struct MaskingWriter<W: Write> {
    to: Option<W>,
    held: Vec<u8>,
    /// Nothing is looked through before so much has come.
    enough: usize,
}

impl<W: Write> MaskingWriter<W> {
    pub fn new(to: W) -> Self {
        Self { to: Some(to), held: Vec::new(), enough: 2 * HELD }
    }

    /// Writes what was held back, and gives back what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.pass_on(self.held.len())?;
        let mut to = self.to.take().expect("it is taken only here and when it is dropped");
        to.flush()?;
        Ok(to)
    }

    /// Writes about so many of the bytes that are held back, without cutting a secret.
    fn pass_on(&mut self, length: usize) -> io::Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        let secrets = secrets_in(&self.held);
        // Best between two lines: a name and its value are in one.
        let line = memchr::memrchr(b'\n', &self.held[..length]).map_or(0, |at| at + 1);
        let mut cut = if length < self.held.len() && line > 0 { line } else { length };
        // More may follow of a secret that reaches beyond the cut, or up to the end of what has come.
        if length < self.held.len() && self.held.len() < MAX_HELD {
            // Backwards, because what one needs before it may cut the one before.
            for secret in secrets.iter().rev() {
                let (begin, end) = (secret.begin.min(secret.range.start), secret.range.end);
                if begin < cut && (cut < end || end == self.held.len()) {
                    cut = begin;
                }
            }
            cut = cut.min(pem::open_key(&self.held).unwrap_or(cut));
        }
        let mut copied = 0;
        for secret in secrets.iter().filter(|secret| secret.range.start < cut) {
            to.write_all(&self.held[copied..secret.range.start])?;
            to.write_all(MASK.as_bytes())?;
            copied = secret.range.end;
        }
        if copied < cut {
            to.write_all(&self.held[copied..cut])?;
        }
        self.held.drain(..cut.max(copied));
        Ok(())
    }
}

impl<W: Write> Write for MaskingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(MAX_HELD);
        self.held.extend_from_slice(&bytes[..taken]);
        if self.held.len() >= self.enough {
            self.pass_on(self.held.len() - HELD)?;
            // Twice as much, so that a stream of small pieces is not looked through again for each of them.
            self.enough = 2 * self.held.len().max(HELD);
        }
        Ok(taken)
    }

    /// What is held back stays so: what follows decides.
    fn flush(&mut self) -> io::Result<()> {
        self.to.as_mut().map_or(Ok(()), W::flush)
    }
}

impl<W: Write> Drop for MaskingWriter<W> {
    fn drop(&mut self) {
        if let Some(length) = self.to.as_ref().map(|_| self.held.len()) {
            // Who wants to know whether it was written calls `finish`.
            let _ = self.pass_on(length);
        }
    }
}
