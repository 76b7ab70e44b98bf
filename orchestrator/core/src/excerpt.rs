//! The beginning and the end of what a program prints, when all of it would be too much to keep.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// So much of the beginning is kept, and as much of the end.
const EACH: u64 = 8 << 20;

/// Writes what it is given to `W`, as far as it is the beginning, and keeps the end until [`finish`](Excerpt::finish).
/// What lies in between is only counted.
#[derive(Debug)]
pub struct Excerpt<W> {
    to: W,
    each: u64,
    written: u64,
    left_out: u64,
    end: VecDeque<u8>,
}

impl<W: Write> Excerpt<W> {
    pub fn new(to: W) -> Self {
        Self::of(to, EACH)
    }

    fn of(to: W, each: u64) -> Self {
        Self { to, each, written: 0, left_out: 0, end: VecDeque::new() }
    }

    /// Adds `length` bytes of `file`, from where it stands, and does not read what will be left out.
    pub fn add_file(&mut self, file: &mut (impl Read + Seek), length: u64) -> io::Result<()> {
        let beginning = (self.each - self.written).min(length);
        io::copy(&mut file.by_ref().take(beginning), self)?;
        let rest = length - beginning;
        if let Some(between) = rest.checked_sub(self.each).and_then(|between| i64::try_from(between).ok()) {
            self.left_out += self.end.len() as u64 + between.unsigned_abs();
            self.end.clear();
            file.seek(SeekFrom::Current(between))?;
        }
        io::copy(&mut file.take(rest.min(self.each)), self)?;
        Ok(())
    }

    /// Writes the end, after a line that says how much is missing before it, and gives back what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        if self.left_out > 0 {
            write!(self.to, "\n[mala] {} bytes were left out here\n", self.left_out)?;
        }
        let (one, other) = self.end.as_slices();
        self.to.write_all(one)?;
        self.to.write_all(other)?;
        self.to.flush()?;
        Ok(self.to)
    }
}

impl<W: Write> Write for Excerpt<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = usize::try_from(self.each - self.written).unwrap_or(usize::MAX);
        if room > 0 {
            let written = self.to.write(&bytes[..bytes.len().min(room)])?;
            self.written += written as u64;
            return Ok(written);
        }
        self.end.extend(bytes);
        let most = usize::try_from(self.each).unwrap_or(usize::MAX);
        let excess = self.end.len().saturating_sub(most);
        self.end.drain(..excess);
        self.left_out += excess as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// With four bytes of the beginning and four of the end.
    fn kept(fill: impl FnOnce(&mut Excerpt<Vec<u8>>)) -> String {
        let mut excerpt = Excerpt::of(Vec::new(), 4);
        fill(&mut excerpt);
        String::from_utf8(excerpt.finish().unwrap()).unwrap()
    }

    #[test]
    fn what_is_short_is_kept_whole() {
        assert_eq!(kept(|_| {}), "");
        assert_eq!(kept(|excerpt| excerpt.write_all(b"12345678").unwrap()), "12345678");
        assert_eq!(kept(|excerpt| excerpt.add_file(&mut Cursor::new("12345678"), 8).unwrap()), "12345678");
    }

    #[test]
    fn what_is_long_has_a_beginning_and_an_end_however_it_comes() {
        let expected = "1234\n[mala] 2 bytes were left out here\n7890";
        assert_eq!(kept(|excerpt| excerpt.write_all(b"1234567890").unwrap()), expected);
        for split in 0..=10 {
            let (one, other) = "1234567890".split_at(split);
            let parts = |excerpt: &mut Excerpt<Vec<u8>>| {
                excerpt.write_all(one.as_bytes()).unwrap();
                excerpt.add_file(&mut Cursor::new(other), other.len() as u64).unwrap();
            };
            assert_eq!(kept(parts), expected, "split at {split}");
        }
    }
}
