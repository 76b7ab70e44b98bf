//! Writers that are killed, many at once, and out of space.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use mala_logs::chain::{ChainError, ChainReader, ChainWriter, Order};

use super::world::{Record, World};

const ENDLESS: u64 = u64::MAX;

fn append_loop(log: &Path, who: &str, count: u64, full: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_append_loop"))
        .arg(log)
        .args([who, &count.to_string(), &full.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The numbers that a writer says it has appended, one by one.
fn acknowledged(child: &mut Child) -> impl Iterator<Item = u64> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The last line may have been cut by a kill.
    lines.filter_map(|line| line.unwrap().parse().ok())
}

fn records(log: &Path) -> Vec<Record> {
    ChainReader::open(log).unwrap().records(Order::OldestFirst).map(Result::unwrap).collect()
}

#[test]
fn fifty_killed_writers_lose_nothing_they_had_acknowledged() {
    let world = World::new();
    let mut last = 0;
    for round in 0..50_u64 {
        let mut child = append_loop(&world.log(), "otter", ENDLESS, 4_000);
        let mut seen = acknowledged(&mut child);
        last = seen.nth(usize::try_from(round % 4).unwrap()).unwrap();
        // Somewhere within the next lines, however fast the disk is.
        thread::sleep(Duration::from_micros(round * 150));
        child.kill().unwrap();
        last = seen.last().unwrap_or(last);
        child.wait().unwrap();
        let verified = world.verified();
        assert!(verified.unannounced <= 1, "{verified:?}");
        assert!(verified.lines >= last, "{} lines, {last} acknowledged", verified.lines);
    }
    assert!(last > 100, "{last}");
    let mut writer = ChainWriter::open(&world.log()).unwrap();
    let link = writer.append(&Record::new("otter", 0)).unwrap();
    assert_eq!(world.verified().lines, link.seq);
    assert_eq!(records(&world.log()).len() as u64, link.seq);
}

#[test]
fn eight_processes_append_at_once_and_every_record_is_there_once() {
    let world = World::new();
    let names: Vec<String> = (0..8).map(|number| format!("agent-{number}")).collect();
    let mut children: Vec<Child> =
        names.iter().map(|name| append_loop(&world.log(), name, 25, 10_000)).collect();
    for child in &mut children {
        let seen = acknowledged(child).count();
        assert!(child.wait().unwrap().success());
        assert_eq!(seen, 25);
    }
    assert_eq!(world.verified().lines, 200);
    let mut by_writer: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for record in records(&world.log()) {
        by_writer.entry(record.who).or_default().push(record.number);
    }
    let each: Vec<u64> = (1..=25).collect();
    assert_eq!(by_writer, names.into_iter().map(|name| (name, each.clone())).collect());
}

#[test]
fn a_torn_line_is_kept_aside_and_said_so() {
    let world = World::with_lines(2);
    let whole = fs::read(world.log()).unwrap();
    let torn = b"{\"seq\":3,\"prev\":\"1234";
    fs::write(world.log(), [&whole[..], torn].concat()).unwrap();

    let before = world.verified();
    assert_eq!((before.lines, &before.torn[0].file, before.torn[0].bytes), (2, &world.log(), 21));
    world.append([3]);
    let after = world.verified();
    let kept = world.file("evidence.torn-3.part");
    assert_eq!((after.lines, &after.torn[0].file, after.torn[0].bytes), (3, &kept, 21));
    assert_eq!(fs::read(&kept).unwrap(), torn);

    // The same again, a line later and in the same place: nothing that was kept is overwritten.
    let head = fs::read(world.file("evidence.head")).unwrap();
    let log = fs::read(world.log()).unwrap();
    for part in [&b"{\"a"[..], b"{\"b", b"{\"b"] {
        fs::write(world.log(), [&log[..], part].concat()).unwrap();
        fs::write(world.file("evidence.head"), &head).unwrap();
        world.writer();
    }
    let kept: Vec<u64> = world.verified().torn.iter().map(|torn| torn.bytes).collect();
    assert_eq!(kept, [21, 3, 3]);
    assert_eq!(fs::read(world.log()).unwrap(), log);
}

#[test]
fn a_line_whose_writer_was_killed_before_the_head_is_taken_over() {
    let world = World::with_lines(2);
    let head = fs::read(world.file("evidence.head")).unwrap();
    world.append([3]);
    fs::write(world.file("evidence.head"), head).unwrap();
    let verified = world.verified();
    assert_eq!((verified.lines, verified.unannounced), (3, 1));
    world.append([4]);
    let verified = world.verified();
    assert_eq!((verified.lines, verified.unannounced), (4, 0));
}

#[test]
fn a_writer_killed_while_it_began_a_new_file_does_no_harm() {
    let world = World::full_at(300);
    world.append(1..=2);
    let head = fs::read(world.file("evidence.head")).unwrap();
    fs::rename(world.log(), world.file("evidence.0001.jsonl")).unwrap();
    assert_eq!(world.verified().lines, 2, "before the head");
    world.append([3]);
    assert_eq!(world.verified().lines, 3);

    let other = World::full_at(300);
    other.append(1..=2);
    fs::rename(other.log(), other.file("evidence.0001.jsonl")).unwrap();
    other.writer();
    let line = "{\"seq\":3";
    fs::write(other.log(), line).unwrap();
    fs::write(other.file("evidence.head"), head).unwrap();
    other.append([3]);
    assert_eq!((other.verified().lines, other.verified().torn.len()), (3, 1));
}

#[test]
fn a_record_that_is_refused_changes_nothing() {
    let world = World::with_lines(1);
    let before = fs::read(world.log()).unwrap();
    let mut writer = world.writer();
    let words = writer.append(&"text").unwrap_err().to_string();
    assert!(words.ends_with("is not a JSON object"), "{words}");
    assert!(matches!(writer.append(&serde_json::json!({"hash": 1})), Err(ChainError::Reserved { .. })));
    assert_eq!(fs::read(world.log()).unwrap(), before);
    world.append([2]);
    assert_eq!(world.verified().lines, 2);
}

/// A file system of 64 KiB; nothing if this user may not mount one.
#[cfg(target_os = "linux")]
struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(folder.path());
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder))
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_refuses_the_record_and_leaves_the_log_whole() {
    let Some(disk) = SmallDisk::mount() else {
        println!("SKIPPED: this user may not mount a small file system");
        return;
    };
    let log = disk.0.path().join("evidence.jsonl");
    let mut writer = ChainWriter::open(&log).unwrap();
    let record = |number| serde_json::json!({"who": "otter", "number": number, "text": "x".repeat(1_500)});
    let mut appended = 0;
    let refused = loop {
        match writer.append(&record(appended)) {
            Ok(link) => appended = link.seq,
            Err(error) => break error,
        }
        assert!(appended < 1_000, "64 KiB never fill up");
    };
    assert!(matches!(refused, ChainError::Full { .. }), "{refused}");
    let verified = mala_logs::chain::verify(&log).unwrap();
    assert_eq!((verified.lines, verified.torn.len()), (appended, 0));
}
