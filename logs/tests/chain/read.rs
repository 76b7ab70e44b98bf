//! Reading a log in both directions, across files, while it is written to.

use std::fs;

use mala_logs::chain::{ChainError, ChainReader, Order};
use serde_json::json;

use super::world::{Record, World};

fn numbers(world: &World, order: Order) -> Vec<u64> {
    let records = ChainReader::open(&world.log()).unwrap().records::<Record>(order);
    records.map(|record| record.unwrap().number).collect()
}

#[test]
fn both_directions_give_every_record_across_files() {
    let world = World::full_at(700);
    world.append(1..=40);
    assert!(world.names().len() > 6, "{:?}", world.names());
    let forward: Vec<u64> = (1..=40).collect();
    let backward: Vec<u64> = (1..=40).rev().collect();
    assert_eq!(numbers(&world, Order::OldestFirst), forward);
    assert_eq!(numbers(&world, Order::NewestFirst), backward);
}

#[test]
fn lines_of_any_length_are_read_in_both_directions() {
    let world = World::new();
    let mut writer = world.writer();
    let lengths = [0, 1, 65_000, 65_536, 65_537, 300_000, 5, 131_072, 0];
    for length in lengths {
        writer.append(&json!({"text": "x".repeat(length)})).unwrap();
    }
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let mut lines = ChainReader::open(&world.log()).unwrap().lines(order);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let value: serde_json::Value = line.decode().unwrap();
            assert_eq!(value["seq"], line.seq());
            found.push(value["text"].as_str().unwrap().len());
        }
        if order == Order::NewestFirst {
            found.reverse();
        }
        assert_eq!(found, lengths);
    }
}

#[test]
fn a_reader_sees_the_log_as_it_was_when_it_was_opened() {
    let world = World::full_at(500);
    world.append(1..=5);
    let reader = ChainReader::open(&world.log()).unwrap();
    world.append(6..=20);
    let found: Vec<u64> = reader.records::<Record>(Order::OldestFirst).map(|it| it.unwrap().number).collect();
    assert_eq!(found, [1, 2, 3, 4, 5]);
}

#[test]
fn a_log_that_is_not_there_has_no_lines() {
    let world = World::new();
    assert!(numbers(&world, Order::OldestFirst).is_empty());
    assert!(numbers(&world, Order::NewestFirst).is_empty());
}

#[test]
fn a_torn_line_is_not_shown() {
    let world = World::with_lines(3);
    let mut text = fs::read_to_string(world.log()).unwrap();
    text.push_str("{\"seq\":4,\"prev\":\"00");
    fs::write(world.log(), text).unwrap();
    assert_eq!(numbers(&world, Order::OldestFirst), [1, 2, 3]);
    assert_eq!(numbers(&world, Order::NewestFirst), [3, 2, 1]);
}

#[test]
fn a_record_that_does_not_fit_its_type_is_an_error_that_names_its_place() {
    let world = World::with_lines(1);
    world.writer().append(&json!({"who": 5})).unwrap();
    let found: Vec<_> =
        ChainReader::open(&world.log()).unwrap().records::<Record>(Order::OldestFirst).collect();
    assert!(found[0].is_ok());
    let Err(ChainError::Decode { offset, .. }) = &found[1] else { panic!("{found:?}") };
    assert_eq!(*offset, world.lines()[0].len() as u64 + 1);
}

#[test]
fn names_that_are_no_logs_are_refused() {
    let world = World::new();
    assert!(matches!(ChainReader::open(&world.file("evidence.json")), Err(ChainError::Name { .. })));
}
