//! Who waits again, and who need not.

use super::stage::{Event, Stage, code};
use super::{ended, goes, waits};

fn times_waited(stage: &Stage) -> usize {
    stage.events().iter().filter(|event| matches!(event, Event::Waits(_))).count()
}

#[test]
fn a_program_that_becomes_another_waits_once_and_lasts_to_its_end() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\nexec env $OUT/turn-b\n");
    stage.script("turn-b", "#!/bin/sh\nexec sh -c 'echo real; exit 3'\n");
    stage.let_all_go();
    assert_eq!(stage.sh("$OUT/turn-a; echo $?").end().out, "real\n3\n");
    assert_eq!(stage.events(), [waits("turn-a"), goes("turn-a"), ended("turn-a", code(3))]);
}

#[test]
fn exec_of_the_first_process_itself_waits() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\nexit 4\n");
    stage.let_all_go();
    assert_eq!(stage.sh("exec $OUT/turn-a").end().exit.unwrap().code, Some(4));
    assert_eq!(stage.events(), [waits("turn-a"), goes("turn-a"), ended("turn-a", code(4))]);
}

#[test]
fn what_a_program_starts_in_its_turn_does_not_wait() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\nsh -c '$OUT/turn-b; true' | cat; echo a\n");
    stage.script("turn-b", "#!/bin/sh\necho b\n");
    stage.let_go("turn-a");
    assert_eq!(stage.sh("$OUT/turn-a").end().out, "b\na\n");
    assert_eq!(times_waited(&stage), 1);
}

const ORPHAN: &str = "#!/usr/bin/python3
import os, sys, time
if os.fork() == 0:
    os.setsid()
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent: time.sleep(0.01)
        os.environ.clear()
        while not os.path.exists(sys.argv[1]): time.sleep(0.01)
        os.execl(sys.argv[2], sys.argv[2])
    os._exit(0)
os.wait()
";

#[test]
fn an_orphan_of_a_program_that_has_its_turn_does_not_wait() {
    let stage = Stage::new();
    let wait = "for i in range(500):
    if os.path.exists(os.environ['OUT'] + '/b'): sys.exit()
    time.sleep(0.01)
sys.exit(1)
";
    stage.script("turn-a", &format!("{ORPHAN}{wait}"));
    stage.script("turn-b", &format!("#!/bin/sh\necho b > {}\n", stage.out("b").display()));
    stage.let_go("turn-a");
    let end = stage.sh("$OUT/turn-a / $OUT/turn-b").end();
    assert!(end.exit.unwrap().success(), "{}", end.out);
    assert_eq!(times_waited(&stage), 1);
}

#[test]
fn an_orphan_waits_when_the_turn_it_came_from_is_over() {
    let stage = Stage::new();
    stage.script("turn-a", ORPHAN);
    stage.script("turn-b", "#!/bin/sh\n");
    stage.let_go("turn-a");
    let show = stage.sh("$OUT/turn-a $OUT/go $OUT/turn-b; while ! test -e $OUT/over; do sleep 0.01; done");
    stage.await_events("a is over", |events| events.contains(&ended("turn-a", code(0))));
    std::fs::write(stage.out("go"), "").unwrap();
    stage.await_events("b waits", |events| events.contains(&waits("turn-b")));
    std::fs::write(stage.out("over"), "").unwrap();
    assert!(show.end().exit.unwrap().success());
}

#[test]
fn two_programs_side_by_side_wait_both() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\nwhile ! test -e $OUT/go; do sleep 0.01; done\n");
    stage.script("turn-b", "#!/bin/sh\n");
    stage.let_go("turn-a");
    let show = stage.sh("$OUT/turn-a & while ! test -e $OUT/b; do sleep 0.01; done; $OUT/turn-b; wait");
    stage.await_events("a goes", |events| events.contains(&goes("turn-a")));
    std::fs::write(stage.out("b"), "").unwrap();
    stage.await_events("b waits", |events| events.contains(&waits("turn-b")));
    stage.let_all_go();
    std::fs::write(stage.out("go"), "").unwrap();
    assert!(show.end().exit.unwrap().success());
}

#[test]
fn nobody_descends_from_a_program_by_saying_so() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\necho $$ > $OUT/pid; while ! test -e $OUT/go; do sleep 0.01; done\n");
    stage.script("turn-b", "#!/bin/sh\n");
    stage.let_go("turn-a");
    let forge = "
import os, resource, sys
limits = open('/proc/%s/limits' % open(os.environ['OUT'] + '/pid').read().strip())
mark = int([line for line in limits if line.startswith('Max file locks')][0].split()[3])
for pid in 0, os.getpid():
    try: resource.prlimit(pid, 10, (mark, -1))
    except PermissionError: pass
print(resource.getrlimit(10)[0] == mark, flush=True)
os.execv(os.environ['OUT'] + '/turn-b', ['turn-b'])";
    let script = "$OUT/turn-a & while ! test -s $OUT/pid; do sleep 0.01; done; python3 -c \"$0\"; wait";
    let show = stage.play("bash", &["-c", script, forge]);
    stage.await_events("b waits", |events| events.contains(&waits("turn-b")));
    stage.let_all_go();
    std::fs::write(stage.out("go"), "").unwrap();
    assert_eq!(show.end().out, "False\n");
}

#[test]
fn a_search_along_path_waits_once() {
    let stage = Stage::new();
    stage.script("turn-a", "#!/bin/sh\necho found\n");
    stage.let_all_go();
    let show = stage.python(
        "import os
os.environ['PATH'] = '/nowhere:/usr/bin:/tmp:' + os.environ['OUT']
os.execvp('turn-a', ['turn-a'])",
    );
    assert_eq!(show.end().out, "found\n");
    assert_eq!(stage.events(), [waits("turn-a"), goes("turn-a"), ended("turn-a", code(0))]);
}

#[test]
fn a_start_that_fails_is_forgotten() {
    let stage = Stage::new();
    let show = stage.python(
        "import os, subprocess, threading
def fail():
    try: os.execv('/nowhere/turn-a', ['turn-a'])
    except FileNotFoundError: pass
fail()
open('one', 'w').close()
fail()
thread = threading.Thread(target=lambda: open('two', 'w').close()); thread.start(); thread.join()
fail()
print(subprocess.run(['/nowhere/turn-a'], shell=True, stderr=subprocess.DEVNULL).returncode, flush=True)
os.execv('/bin/echo', ['echo', 'done'])",
    );
    assert_eq!(show.end().out, "127\ndone\n");
    assert_eq!(stage.events(), []);
    assert!(stage.world.root().join("two").exists());
}

/// Other threads try to start something that cannot be started, as fast as they can.
const SPOILED: &str = "
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
args = (ctypes.c_char_p * 2)(b'x', None)
def spoil():
    while True:
        libc.execv(sys.argv[1].encode(), args)
        libc.umask(0o22)
for _ in range(3): threading.Thread(target=spoil, daemon=True).start()
time.sleep(0.02)
libc.execv(os.environb[b'OUT'] + b'/turn-a', args)
";

#[test]
fn a_start_that_fails_does_not_save_another_thread_from_waiting() {
    for spoiler in ["/etc/passwd", "$OUT/turn-broken"] {
        let stage = Stage::new();
        stage.script("turn-a", "#!/bin/sh\n");
        stage.script("turn-broken", "");
        let script =
            format!("chmod 644 $OUT/turn-broken; for i in {{1..8}}; do python3 -c \"$0\" {spoiler}; done");
        stage.let_all_go();
        assert!(stage.play("bash", &["-c", &script, SPOILED]).end().exit.unwrap().success());
        assert_eq!(times_waited(&stage), 8, "{spoiler}: {:?}", stage.events());
    }
}
