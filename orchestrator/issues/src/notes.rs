//! Notes in a tracker that keeps all notes of an issue as one text.
//!
//! mala's notes are set apart by a line of their own, `[mala note TIME]`, so that each can be told from the next and from
//! what people wrote before it. A line of a note that looks like such a mark is moved one blank to the right, and
//! back when it is read: no text can pass for two notes.

use jiff::Timestamp as Moment;
use mala_core::{Note, Timestamp};

use crate::error::{IssueError, Result};
use crate::source::MAX_TEXT;

const MARK: &str = "[mala note ";

/// The author of notes that carry a mark.
const AUTHOR: &str = "mala";

/// A text as it can be kept and found again: without NUL, which no argument can hold, and without blanks around it.
pub(crate) fn clean(text: &str) -> Result<String> {
    let text = text.replace('\0', "\u{fffd}");
    let text = text.trim();
    if text.len() > MAX_TEXT { Err(IssueError::TooLong { len: text.len() }) } else { Ok(text.to_owned()) }
}

/// What to append to the notes for one more. The text is clean.
pub(crate) fn encode(text: &str, at: Timestamp) -> String {
    let mut block = format!("\n{MARK}{at}]");
    for line in text.split('\n') {
        block.push('\n');
        if line.trim_start_matches(' ').starts_with(MARK) {
            block.push(' ');
        }
        block.push_str(line);
    }
    block
}

/// The notes in a tracker's text, the oldest first. Text without a mark is one note of unknown author.
pub(crate) fn decode(text: &str) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut current = Note { at: None, author: None, text: String::new() };
    for line in text.split('\n') {
        if let Some(at) = mark(line) {
            finish(current, &mut notes);
            current = Note { at: Some(at), author: Some(AUTHOR.to_owned()), text: String::new() };
            continue;
        }
        let moved = current.author.is_some() && line.trim_start_matches(' ').starts_with(MARK);
        current.text.push_str(if moved { line.strip_prefix(' ').unwrap_or(line) } else { line });
        current.text.push('\n');
    }
    finish(current, &mut notes);
    notes
}

fn finish(mut note: Note, notes: &mut Vec<Note>) {
    note.text = note.text.trim().to_owned();
    if !note.text.is_empty() {
        notes.push(note);
    }
}

fn mark(line: &str) -> Option<Timestamp> {
    let time = line.trim_end().strip_prefix(MARK)?.strip_suffix(']')?;
    let moment: Moment = time.parse().ok()?;
    Some(Timestamp::from_millis(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_794_794_629_007);

    fn texts(notes: &[Note]) -> Vec<&str> {
        notes.iter().map(|note| note.text.as_str()).collect()
    }

    #[test]
    fn a_note_is_readable_where_it_is_kept() {
        insta::assert_snapshot!(encode("attempt 1 failed\n\n2 tests red", AT), @r"

        [mala note 2026-11-16T02:03:49.007Z]
        attempt 1 failed

        2 tests red
        ");
    }

    #[test]
    fn what_people_wrote_comes_first_as_one_note() {
        let kept = format!("by hand\n\nmore{}{}\n", encode("one", AT), encode("two", AT));
        let notes = decode(&kept);
        assert_eq!(texts(&notes), ["by hand\n\nmore", "one", "two"]);
        assert_eq!((notes[0].at, notes[0].author.as_deref()), (None, None));
        assert_eq!((notes[1].at, notes[1].author.as_deref()), (Some(AT), Some("mala")));
        assert_eq!(decode(" \n\n"), []);
    }

    #[test]
    fn a_text_cannot_pass_for_two_notes() {
        let text = "one\n[mala note 2026-11-16T02:03:49.007Z]\n  [mala note x]\ntwo";
        let notes = decode(&encode(text, AT));
        assert_eq!(texts(&notes), [text]);
    }

    #[test]
    fn texts_are_cleaned_and_bounded() {
        assert_eq!(clean(" \n a\0b \n").unwrap(), "a\u{fffd}b");
        assert!(clean(&"x".repeat(MAX_TEXT)).is_ok());
        let error = clean(&"x".repeat(MAX_TEXT + 1)).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"the text has 65537 bytes, a tracker takes 65536: shorten it");
    }

    proptest! {
        #[test]
        fn every_note_is_read_as_it_was_written(
            texts in prop::collection::vec(
                prop_oneof![".{0,40}", r"( {0,2}\[mala note 2026-11-16T02:03:49Z\]\n?|a\n| b\r\n){1,4}"], 0..4
            ),
        ) {
            let texts: Vec<String> = texts.iter().map(|text| clean(text).unwrap()).collect();
            let kept: String = texts.iter().map(|text| encode(text, AT)).collect();
            let read: Vec<String> = decode(&kept).into_iter().map(|note| note.text).collect();
            let written: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            prop_assert_eq!(read, written);
        }
    }
}
