//! Stores that cannot be written: the reason is said in words, and nothing is lost.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mala_store::StoreError;
use mala_tests::invariants::assert_sound;
use mala_tests::{Program, Terse, World, agent, ask, copy_program, wants};

use crate::programs::{FILL_STORE, PUPPET, puppet};

/// A user without any rights.
const NOBODY: u32 = 65534;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The puppet as somebody who may not write to the checkout.
fn stranger(world: &World) -> Program {
    let copy = world.base().join("puppet");
    copy_program(Path::new(PUPPET), &copy);
    chmod(world.base(), 0o755);
    let mut command = world.command(copy);
    command.arg(world.root()).arg("ann");
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    Program::start(&mut command)
}

#[test]
fn a_store_in_a_folder_that_cannot_be_written_says_so() {
    let world = World::new();
    let git = world.root().join(".git");
    chmod(&git, 0o555);
    assert!(stranger(&world).hear().starts_with("error Unwritable"), "there is no store yet");
    chmod(&git, 0o755);
    world.store().take("ann", &["a"]);
    for entry in fs::read_dir(world.state_dir()).unwrap() {
        chmod(&entry.unwrap().path(), 0o444);
    }
    chmod(&world.state_dir(), 0o555);
    let mut stranger = stranger(&world);
    stranger.expect("ready");
    stranger.tell("reserve b");
    assert!(stranger.hear().starts_with("error Unwritable"), "there is a store");
    for entry in fs::read_dir(world.state_dir()).unwrap() {
        chmod(&entry.unwrap().path(), 0o644);
    }
    chmod(&world.state_dir(), 0o755);
    assert_eq!(world.store().held(), ["ann: a"]);
}

#[test]
fn a_full_disk_is_reported_and_the_store_is_sound_when_there_is_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size="$2" tmpfs "$1" && exec "$3" "$1""#;
    for kilobytes in [700, 900, 1_100] {
        let size = format!("{kilobytes}k");
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script, "sh"]).arg(dir.path()).arg(&size).arg(FILL_STORE);
        let can_mount =
            Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs"]).arg(dir.path()).status();
        if !can_mount.is_ok_and(|status| status.success()) {
            println!("SKIPPED: this machine has no `unshare -rm` with tmpfs, so no disk was filled");
            return;
        }
        let (status, said) = Program::start(&mut command).finish();
        assert!(status.success(), "{said:?}");
        assert!(said[0].starts_with("error Full"), "{said:?}");
        assert!(
            ["again Full", "again Unwritable", "again Io"].iter().any(|e| said[1].starts_with(e)),
            "{said:?}"
        );
        assert!(said[2].starts_with("sound"), "{said:?}");
    }
}

#[test]
fn readers_go_on_and_writers_say_why_while_a_writer_is_stopped_in_its_turn() {
    let world = World::new();
    let mut store = world.store().with_patience(Duration::from_millis(300));
    store.take("ann", &["a"]);
    let mut stuck = puppet(&world, "stuck", &[]);
    stuck.tell("turn");
    stuck.expect("holding");
    stuck.stop();

    assert_eq!(store.held(), ["ann: a"]);
    assert_eq!(store.check(&agent("bob"), &wants(&["a"])).unwrap().len(), 1);
    assert_eq!(world.store().held(), ["ann: a"]);
    for _ in 0..2 {
        let refused = store.reserve(&ask("bob", &["b"]));
        assert!(matches!(&refused, Err(StoreError::Busy { .. })), "{refused:?}");
    }
    stuck.kill();
    store.take("bob", &["b"]);
    world.store().take("cleo", &["c"]);
    assert_sound(&world);
}

#[test]
fn another_program_that_looks_into_the_database_does_not_disturb() {
    let world = World::new();
    let mut store = world.store();
    store.take("ann", &["a"]);
    let mut sql = world.sql();
    let snapshot = sql.transaction().unwrap();
    let count = || snapshot.query_row("SELECT count(*) FROM lock", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count(), 1);
    for number in 0..300 {
        store.take("ann", &[&format!("file-{number}")]);
    }
    assert_eq!(count(), 1, "it sees the past");
    drop(snapshot);
    assert_sound(&world);
}
