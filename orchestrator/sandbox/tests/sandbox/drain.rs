//! Finding processes that can still write to a file.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mala_sandbox::{has_writers, writers};
use tempfile::TempDir;

use crate::world::{NOBODY, User};

fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "content\n").unwrap();
    (dir, path)
}

/// A python program that has done `script` to the file `f` and waits for its input to end.
struct Puppet(Child);

impl Puppet {
    fn new(path: &Path, script: &str) -> Self {
        let script =
            format!("import mmap, os, sys\nf = sys.argv[1]\n{script}\nprint(flush=True)\nsys.stdin.read()");
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", &script]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ready = BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new());
        assert_eq!(ready.unwrap(), 1);
        Self(child)
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// For what does not end at once. Other tests start processes, too, and until these have become other programs they
/// have our descriptors.
fn comes_free(path: &Path) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    // Seen once is enough: a child that another test is about to start has our own descriptors for a moment.
    while has_writers(path).unwrap() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

fn found(path: &Path) -> Vec<u32> {
    writers(path).iter().map(|writer| writer.pid).collect()
}

#[test]
fn a_descriptor_for_writing_counts_until_it_is_closed() {
    let (_dir, path) = file();
    assert!(comes_free(&path));
    let puppet = Puppet::new(&path, "d = open(f, 'a')");
    assert!(has_writers(&path).unwrap());
    let found = writers(&path);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].pid, puppet.0.id());
    assert!(found[0].program.starts_with("python"), "{found:?}");
    puppet.end();
    assert!(comes_free(&path));
    assert_eq!(writers(&path), []);
}

#[test]
fn readers_do_not_count() {
    let (_dir, path) = file();
    let script = "d = open(f); m = mmap.mmap(d.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)";
    let puppet = Puppet::new(&path, script);
    assert!(comes_free(&path));
    assert_eq!(writers(&path), []);
    puppet.end();
}

#[test]
fn a_shared_mapping_counts_after_its_descriptor_is_closed() {
    let (_dir, path) = file();
    let script = "d = os.open(f, os.O_RDWR); m = mmap.mmap(d, 0, mmap.MAP_SHARED); os.close(d)
for n in range(3, 32):
    try: os.close(n)
    except OSError: pass";
    let puppet = Puppet::new(&path, script);
    assert!(has_writers(&path).unwrap());
    assert_eq!(found(&path), [puppet.0.id()]);
    puppet.end();
    assert!(comes_free(&path));
}

#[test]
fn a_descriptor_that_a_child_has_inherited_counts() {
    let (_dir, path) = file();
    let script = "d = open(f, 'a')
r, w = os.pipe()
if os.fork() == 0:
    os.close(w); os.read(r, 1); os._exit(0)
d.close()";
    let puppet = Puppet::new(&path, script);
    assert!(has_writers(&path).unwrap());
    let pids = found(&path);
    assert_eq!(pids.len(), 1);
    assert_ne!(pids[0], puppet.0.id());
    puppet.end();
    assert!(comes_free(&path), "the child ends soon after");
}

#[test]
fn a_descriptor_on_its_way_to_another_process_counts() {
    let (_dir, path) = file();
    let script = "import socket
a, b = socket.socketpair(); d = os.open(f, os.O_WRONLY); socket.send_fds(a, [b'.'], [d]); os.close(d)";
    let puppet = Puppet::new(&path, script);
    assert_eq!(writers(&path), [], "no process has it");
    assert!(has_writers(&path).unwrap());
    puppet.end();
    assert!(comes_free(&path));
}

#[test]
fn our_own_descriptors_do_not_count() {
    let (_dir, path) = file();
    let mut ours = OpenOptions::new().append(true).open(&path).unwrap();
    ours.write_all(b"more\n").unwrap();
    assert!(comes_free(&path));
    let puppet = Puppet::new(&path, "d = open(f, 'a')");
    assert!(has_writers(&path).unwrap());
    puppet.end();
    assert!(comes_free(&path));
}

#[test]
fn the_question_leaves_nothing_behind() {
    let (_dir, path) = file();
    for _ in 0..100 {
        assert!(comes_free(&path));
        // With a lease in place this would wait, and then kill us.
        drop(OpenOptions::new().write(true).open(&path).unwrap());
    }
}

#[test]
fn what_is_not_a_file_has_no_writers() {
    let (dir, path) = file();
    assert!(!has_writers(&dir.path().join("nothing")).unwrap());
    assert!(!has_writers(&path.join("below")).unwrap());
    assert!(!has_writers(dir.path()).unwrap());
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut waiting = Command::new("sh").arg("-c").arg("echo x > \"$0\"").arg(&pipe).spawn().unwrap();
    let place = format!("/proc/{}/wchan", waiting.id());
    while !fs::read_to_string(&place).unwrap().contains("wait_for_partner") {
        std::thread::yield_now();
    }
    assert!(!has_writers(&pipe).unwrap());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(waiting.try_wait().unwrap(), None, "nobody has opened the other end");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

#[test]
fn ordinary_users_can_ask_too() {
    if !User::all().contains(&User::Nobody) {
        return; // then the other tests have shown it
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Copied by another process, see `World`.
    let tests = dir.path().join("tests");
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&tests).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&tests);
    command.args(["drain::a_", "drain::readers"]).env("TMPDIR", dir.path()).current_dir(dir.path());
    let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && report.contains(" 5 passed"), "{report}");
}
