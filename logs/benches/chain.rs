//! What a chained log costs: an append, a full check of 20 MiB, and a look at its newest line.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::path::PathBuf;
use std::sync::LazyLock;

use divan::Bencher;
use mala_logs::chain::{ChainReader, ChainWriter, Order, verify};
use serde_json::{Value, json};
use tempfile::TempDir;

fn main() {
    divan::main();
}

fn record(number: u64) -> Value {
    let files: serde_json::Map<String, Value> = (0..10)
        .map(|file| (format!("src/file_{file}.rs"), json!("3f786850e387550fdab836ed7e6dc881de23001b")))
        .collect();
    json!({"id": format!("e-{number}"), "argv": ["cargo", "test"], "agent": "otter", "exit_code": 0, "files": files})
}

/// A log of 20 MiB, in memory where that is possible: it is made line by line, and each is synced.
static LOG: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("evidence.jsonl");
    let mut writer = ChainWriter::open(&path).unwrap();
    let mut number = 0;
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 20 * 1024 * 1024 {
        number += 1;
        writer.append(&record(number)).unwrap();
    }
    (folder, path)
});

#[divan::bench(sample_count = 200)]
fn append_and_sync(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ChainWriter::open(&folder.path().join("evidence.jsonl")).unwrap();
    let record = record(1);
    bencher.bench_local(|| writer.append(&record).unwrap());
}

#[divan::bench(sample_count = 20)]
fn verify_20_mib(bencher: Bencher<'_, '_>) {
    LazyLock::force(&LOG);
    bencher.bench_local(|| verify(&LOG.1).unwrap());
}

#[divan::bench(sample_count = 20)]
fn read_20_mib_newest_first(bencher: Bencher<'_, '_>) {
    LazyLock::force(&LOG);
    bencher.bench_local(|| {
        let mut lines = ChainReader::open(&LOG.1).unwrap().lines(Order::NewestFirst);
        let mut count = 0;
        while lines.next_line().unwrap().is_some() {
            count += 1;
        }
        count
    });
}

#[divan::bench(sample_count = 200)]
fn newest_line_of_20_mib(bencher: Bencher<'_, '_>) {
    LazyLock::force(&LOG);
    bencher.bench_local(|| {
        let mut lines = ChainReader::open(&LOG.1).unwrap().lines(Order::NewestFirst);
        lines.next_line().unwrap().unwrap().seq()
    });
}
