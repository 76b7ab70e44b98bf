//! Journals: plain event logs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use mala_logs::journal::{JournalError, JournalReader, JournalWriter, Order};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Event {
    number: u64,
    text: String,
}

fn event(number: u64) -> Event {
    Event { number, text: "a\nb \"c\"".to_owned() }
}

fn journal() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs/r-1.jsonl");
    (folder, path)
}

fn numbers(path: &Path, order: Order) -> Vec<u64> {
    JournalReader::open(path).unwrap().events::<Event>(order).map(|event| event.unwrap().number).collect()
}

#[test]
fn events_come_back_in_both_orders_across_files() {
    let (_folder, path) = journal();
    assert!(numbers(&path, Order::OldestFirst).is_empty(), "before it is there");
    let mut writer = JournalWriter::open_with(&path, 200).unwrap();
    (1..=30).for_each(|number| writer.write(&event(number)).unwrap());
    assert!(path.with_file_name("r-1.0003.jsonl").exists());
    assert_eq!(numbers(&path, Order::OldestFirst), (1..=30).collect::<Vec<_>>());
    assert_eq!(numbers(&path, Order::NewestFirst), (1..=30).rev().collect::<Vec<_>>());
    let first = JournalReader::open(&path).unwrap().events::<Event>(Order::OldestFirst).next().unwrap();
    assert_eq!(first.unwrap(), event(1));
}

#[test]
fn several_writers_never_mix_their_lines_nor_lose_one_at_rotation() {
    let (_folder, path) = journal();
    let writers = (0..8).map(|writer| {
        let path = path.clone();
        thread::spawn(move || {
            let mut journal = JournalWriter::open_with(&path, 1_000).unwrap();
            (0..50).for_each(|number| journal.write(&event(writer * 50 + number)).unwrap());
        })
    });
    writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
    let mut found = numbers(&path, Order::OldestFirst);
    found.sort_unstable();
    assert_eq!(found, (0..400).collect::<Vec<_>>());
}

#[test]
fn a_line_that_was_cut_is_one_error_and_the_events_around_it_are_read() {
    let (_folder, path) = journal();
    let mut writer = JournalWriter::open(&path).unwrap();
    writer.write(&event(1)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{{\"number\":2,")).unwrap();
    assert_eq!(numbers(&path, Order::NewestFirst), [1], "nobody has written since");
    writer.write(&event(3)).unwrap();
    let events: Vec<_> = JournalReader::open(&path).unwrap().events::<Event>(Order::OldestFirst).collect();
    assert_eq!(events[0].as_ref().unwrap().number, 1);
    let Err(JournalError::Decode { offset, .. }) = &events[1] else { panic!("{events:?}") };
    assert_eq!(*offset, text.len() as u64);
    assert_eq!(events[2].as_ref().unwrap().number, 3);
    assert_eq!(events.len(), 3);
}
