//! The memory of a supervisor whose program stays for long.

use std::io::Write;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

use crate::world::{Mode, Outcome, User, World};

/// Far more than it takes.
const LONG: Duration = Duration::from_secs(20);
/// How far apart glibc's further heaps begin, at multiples of it.
const HEAP: u64 = 64 << 20;

fn parts(process: &Child) -> Vec<MemoryMap> {
    Process::new(process.id().cast_signed()).unwrap().smaps().unwrap().0
}

/// How much of the program's code is in memory.
fn code(supervisor: &Child) -> u64 {
    let is_code = |part: &&MemoryMap| {
        part.perms.contains(MMPermissions::EXECUTE)
            && matches!(&part.pathname, MMapPath::Path(file) if file.ends_with("supervise"))
    };
    parts(supervisor).iter().filter(is_code).map(|part| part.extension.map["Rss"]).sum()
}

fn further_heaps(supervisor: &Child) -> usize {
    let is_heap =
        |part: &&MemoryMap| part.pathname == MMapPath::Anonymous && part.address.0.is_multiple_of(HEAP);
    parts(supervisor).iter().filter(is_heap).count()
}

#[test]
fn a_supervisor_keeps_what_it_needs() {
    let world = World::new(User::Myself);
    let mut command = world.command(
        Mode::Sandboxed,
        "bash",
        &["-c", "echo begun > new; read line; echo $line >> new; cat new"],
    );
    let mut supervisor = command.stdin(Stdio::piped()).spawn().unwrap();
    // It only grows by itself.
    let (mut most, begin) = (0, Instant::now());
    loop {
        let now = code(&supervisor);
        if now < most {
            break;
        }
        most = now;
        assert!(begin.elapsed() < LONG, "all of its code is still there: {most} bytes");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(further_heaps(&supervisor), 0);
    supervisor.stdin.take().unwrap().write_all(b"goes on\n").unwrap();
    let outcome = Outcome::of(supervisor);
    assert_eq!((outcome.code, &*outcome.out), (Some(0), "begun\ngoes on\n"), "{}", outcome.err);
}
