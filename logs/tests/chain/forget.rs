//! Logs that forget their oldest files.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use mala_logs::chain::{ChainReader, Order, Why};

use super::world::{Record, World};

fn numbers(world: &World) -> Vec<u64> {
    let records = ChainReader::open(&world.log()).unwrap().records::<Record>(Order::OldestFirst);
    records.map(|record| record.unwrap().number).collect()
}

/// A log of three full files and one that is not, of which some are old.
fn world(old: &[u32]) -> (World, SystemTime) {
    let world = World::full_at(600);
    world.append(1..=11);
    let day = Duration::from_secs(24 * 60 * 60);
    for number in old {
        let file =
            File::options().write(true).open(world.file(&format!("evidence.{number:04}.jsonl"))).unwrap();
        file.set_modified(SystemTime::now() - 3 * day).unwrap();
    }
    (world, SystemTime::now() - day)
}

#[test]
fn old_files_are_removed_and_the_rest_is_whole() {
    let (world, yesterday) = world(&[1, 2]);
    assert_eq!(numbers(&world), (1..=11).collect::<Vec<_>>());
    let gone = world.writer().forget(yesterday).unwrap();
    assert_eq!(gone, [world.file("evidence.0001.jsonl"), world.file("evidence.0002.jsonl")]);
    let left = numbers(&world);
    assert_eq!(left.last(), Some(&11));
    let verified = world.verified();
    assert_eq!((verified.lines, verified.head.unwrap().seq), (left.len() as u64, 11));
    assert!(left[0] > 1 && verified.lines < 11);
    world.append([12]);
    assert_eq!(numbers(&world).last(), Some(&12));
    assert!(world.writer().forget(yesterday).unwrap().is_empty(), "nothing more is old");
}

#[test]
fn an_old_file_after_a_new_one_stays() {
    let (world, yesterday) = world(&[2]);
    assert!(world.writer().forget(yesterday).unwrap().is_empty());
    assert_eq!(world.verified().lines, 11);
}

#[test]
fn files_that_are_left_when_forgetting_was_interrupted_do_no_harm_and_go_the_next_time() {
    let (world, yesterday) = world(&[1]);
    let first = world.file("evidence.0001.jsonl");
    let text = fs::read(&first).unwrap();
    let rest = {
        world.writer().forget(yesterday).unwrap();
        numbers(&world)
    };
    fs::write(&first, text).unwrap();
    assert_eq!(numbers(&world), rest);
    assert_eq!(world.verified().lines, rest.len() as u64);
    assert_eq!(world.writer().forget(yesterday).unwrap(), [first]);
}

#[test]
fn removing_a_file_by_hand_is_still_found() {
    let (world, yesterday) = world(&[1]);
    world.writer().forget(yesterday).unwrap();
    fs::remove_file(world.file("evidence.0002.jsonl")).unwrap();
    assert_eq!(
        (world.broken().file, world.broken().why),
        (world.file("evidence.0002.jsonl"), Why::FileMissing)
    );
}
