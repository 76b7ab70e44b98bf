//! Every way to change a log afterwards is found, and the first wrong line is named.

use std::fs;

use mala_logs::chain::{ChainError, ChainWriter, Why, verify};

use super::world::{Record, World};

#[test]
fn an_untouched_log_is_whole() {
    let world = World::with_lines(3);
    let verified = world.verified();
    assert_eq!((verified.lines, verified.unannounced), (3, 0));
    let head = verified.head.unwrap();
    assert_eq!(head.seq, 3);
    assert!(world.lines()[2].ends_with(&format!("\"hash\":\"{}\"}}", head.hash)));
    assert!(verified.torn.is_empty());
}

#[test]
fn a_log_that_is_not_there_is_whole_and_empty() {
    let world = World::new();
    assert_eq!((world.verified().lines, world.verified().head), (0, None));
    let nowhere = world.file("nowhere/evidence.jsonl");
    assert_eq!(verify(&nowhere).unwrap().lines, 0);
    assert!(!nowhere.parent().unwrap().exists(), "looking makes no folder");
}

#[test]
fn one_changed_byte_anywhere_is_found_in_its_line() {
    let world = World::with_lines(4);
    let original = fs::read(world.log()).unwrap();
    let mut line = 1;
    for at in 0..original.len() {
        let mut changed = original.clone();
        changed[at] ^= 1;
        fs::write(world.log(), &changed).unwrap();
        assert_eq!(world.broken().line, line, "byte {at}: {}", world.words());
        line += u64::from(original[at] == b'\n');
    }
    fs::write(world.log(), &original).unwrap();
    assert_eq!(world.verified().lines, 4);
}

#[test]
fn a_changed_line_is_told_in_words() {
    let world = World::with_lines(4);
    let mut lines = world.lines();
    lines[1] = lines[1].replace("otter", "beaver");
    world.put_lines(&lines);
    assert_eq!(world.words(), "line 2 of `evidence.jsonl` was changed: its hash does not fit");
}

#[test]
fn a_removed_line_is_found() {
    let world = World::with_lines(4);
    let mut lines = world.lines();
    lines.remove(1);
    world.put_lines(&lines);
    assert_eq!(
        world.words(),
        "line 2 of `evidence.jsonl` is number 3, but number 2 should be here: lines were removed, added or moved"
    );
}

#[test]
fn swapped_lines_are_found() {
    let world = World::with_lines(4);
    let mut lines = world.lines();
    lines.swap(1, 2);
    world.put_lines(&lines);
    assert_eq!((world.broken().line, world.broken().why), (2, Why::Number { found: 3, expected: 2 }));
}

#[test]
fn an_inserted_line_is_found_even_if_its_own_hash_fits() {
    let world = World::with_lines(4);
    let mut lines = world.lines();
    lines.insert(2, lines[1].clone());
    world.put_lines(&lines);
    assert_eq!((world.broken().line, world.broken().why), (3, Why::Number { found: 2, expected: 3 }));

    // A line that was properly made after the second one: the old third one does not follow from it.
    let other = World::with_lines(2);
    other.append([99]);
    lines = world.lines();
    lines.truncate(2);
    lines.push(other.lines()[2].clone());
    let fourth = World::with_lines(4).lines()[3].clone();
    lines.push(fourth);
    world.put_lines(&lines);
    assert_eq!((world.broken().line, world.broken().why), (4, Why::Unlinked));
}

#[test]
fn lines_cut_off_the_end_are_found() {
    let world = World::with_lines(4);
    let mut lines = world.lines();
    lines.truncate(2);
    world.put_lines(&lines);
    let words =
        "line 3 of `evidence.jsonl` is missing: the log ended with number 4, now it ends with number 2";
    assert_eq!(world.words(), words);

    fs::write(world.log(), "").unwrap();
    assert_eq!((world.broken().line, world.broken().why), (1, Why::Truncated { found: 0, expected: 4 }));
    fs::remove_file(world.log()).unwrap();
    assert_eq!((world.broken().line, world.broken().why), (1, Why::Truncated { found: 0, expected: 4 }));
}

#[test]
fn a_last_line_that_was_cut_in_half_is_not_taken_for_a_killed_writer() {
    let world = World::with_lines(2);
    let bytes = fs::read(world.log()).unwrap();
    for length in bytes.len() - 40..bytes.len() {
        fs::write(world.log(), &bytes[..length]).unwrap();
        assert_eq!((world.broken().line, world.broken().why), (2, Why::Unfinished), "{length} bytes");
    }
}

#[test]
fn a_shorter_log_with_a_new_last_line_is_found() {
    let world = World::with_lines(3);
    let lines = world.lines();
    let other = World::with_lines(2);
    other.append([99]);
    world.put_lines(&[lines[0].clone(), lines[1].clone(), other.lines()[2].clone()]);
    assert_eq!((world.broken().line, world.broken().why), (3, Why::Replaced));
}

#[test]
fn a_removed_or_changed_head_is_found() {
    let world = World::with_lines(3);
    let head = world.file("evidence.head");
    let original = fs::read(&head).unwrap();
    for at in 0..original.len() {
        let mut changed = original.clone();
        changed[at] ^= 1;
        fs::write(&head, &changed).unwrap();
        let found = verify(&world.log());
        assert!(matches!(found, Err(ChainError::Broken(_))), "byte {at}: {found:?}");
    }
    let spaced = String::from_utf8(original).unwrap().replacen(':', ": ", 1);
    fs::write(&head, spaced).unwrap();
    assert_eq!(world.words(), "`evidence.head` cannot be understood");
    fs::remove_file(&head).unwrap();
    assert_eq!(world.words(), "`evidence.head` is missing");
}

#[test]
fn nothing_is_appended_to_a_log_that_was_cut() {
    let world = World::with_lines(3);
    let mut lines = world.lines();
    let mut writer = world.writer();
    lines.truncate(1);
    world.put_lines(&lines);
    let refused = writer.append(&Record::new("otter", 4));
    let Err(ChainError::Broken(broken)) = refused else { panic!("{refused:?}") };
    assert_eq!((broken.line, broken.why), (2, Why::Truncated { found: 1, expected: 3 }));
    assert!(matches!(ChainWriter::open(&world.log()), Err(ChainError::Broken(_))));
    assert_eq!(world.lines(), lines, "nothing was written");
}

#[test]
fn a_line_added_without_the_chain_is_refused_by_the_next_append() {
    let world = World::with_lines(2);
    let mut lines = world.lines();
    lines.push("{\"who\":\"stranger\"}".to_owned());
    world.put_lines(&lines);
    assert_eq!((world.broken().line, world.broken().why), (3, Why::Malformed));
    let refused = ChainWriter::open(&world.log());
    let Err(ChainError::Broken(broken)) = refused else { panic!("{refused:?}") };
    assert_eq!((broken.line, broken.why), (3, Why::Malformed));
}

#[test]
fn full_files_are_walked_and_none_may_be_missing_changed_or_swapped() {
    let world = World::full_at(600);
    world.append(1..=12);
    let full = [world.file("evidence.0001.jsonl"), world.file("evidence.0002.jsonl")];
    assert_eq!(world.verified().lines, 12);
    assert!(full.iter().all(|path| path.exists()), "{:?}", world.names());

    let texts = full.clone().map(|path| fs::read_to_string(path).unwrap());
    fs::write(&full[1], texts[1].replacen("otter", "beaver", 1)).unwrap();
    assert_eq!(world.words(), "line 1 of `evidence.0002.jsonl` was changed: its hash does not fit");

    fs::write(&full[0], &texts[1]).unwrap();
    fs::write(&full[1], &texts[0]).unwrap();
    assert_eq!((world.broken().line, world.broken().file), (1, full[0].clone()));

    fs::write(&full[0], &texts[0]).unwrap();
    fs::remove_file(&full[1]).unwrap();
    assert_eq!(world.words(), "`evidence.0002.jsonl` is missing");
    fs::write(&full[1], &texts[1][..texts[1].len() - 1]).unwrap();
    assert_eq!(world.broken().why, Why::Unfinished);
    fs::write(&full[1], &texts[1]).unwrap();
    assert_eq!(world.verified().lines, 12);
}
