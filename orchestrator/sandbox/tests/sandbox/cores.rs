//! The cores that the supervisor's threads run on.
//!
//! While a program makes one file after the other, the thread that is asked stays on one core. What that thread starts
//! would have to stay there too, so it leaves first.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use mala_sandbox::{Attempt, Guard, Jail, Ruling};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::world::{Mode, Outcome, User, World};

/// A machine that is busy with something else may not see it at once.
const TIMES: usize = 10;
/// Makes files for long enough.
const MAKE_FILES: &str = "
import os, threading, time
def make_files():
    for i in range(1000): open(f'../out/{i}', 'w').close()
";
/// The supervisor's threads of a name, and those of them that may not use every core.
const THREADS: &str = "
def read(process, file):
    try: return open(f'/proc/{process}/{file}').read()
    except (FileNotFoundError, ProcessLookupError): return ''
def is_bound(thread):
    try: return os.sched_getaffinity(thread) != os.sched_getaffinity(0)
    except ProcessLookupError: return False
supervisor = os.getppid()
while read(supervisor, 'comm') != 'supervise\\n': supervisor = int(read(supervisor, 'stat').split()[3])
def threads(name):
    tasks = os.listdir(f'/proc/{supervisor}/task')
    return [int(task) for task in tasks if read(f'{supervisor}/task/{task}', 'comm') == name + '\\n']
def bound(name): return [thread for thread in threads(name) if is_bound(thread)]
";

/// Allows everything, and notes where the threads may run that ask it.
#[derive(Default)]
struct Cores(Mutex<Vec<CpuSet>>);

impl Guard for Cores {
    fn judge(&self, _attempt: &Attempt<'_>) -> Ruling {
        self.0.lock().unwrap().push(sched_getaffinity(None).unwrap());
        Ruling::Allow
    }

    fn is_exempt(&self, path: &Path) -> bool {
        path.starts_with("ignored")
    }
}

#[test]
fn a_guard_may_use_every_core() {
    let world = World::new(User::Myself);
    let (root, guard) = (world.root(), Arc::new(Cores::default()));
    let script = format!("{MAKE_FILES}for _ in range({TIMES}): make_files(); open('free.txt', 'w').close()");
    let mut command = Command::new("python3");
    command.args(["-c", &script]).current_dir(&root);
    let git_dir = root.join(".git");
    let jail = Jail { git_dir, root, protected: Vec::new(), exempt: Vec::new(), spares: None };
    mala_sandbox::run(&jail, Arc::clone(&guard) as Arc<dyn Guard>, command).unwrap();
    let all = sched_getaffinity(None).unwrap();
    assert_eq!(*guard.0.lock().unwrap(), [all; TIMES]);
}

/// For what a script can see itself. In a process of its own: here, other tests have supervisors too.
fn run(script: &str) {
    let world = World::new(User::Myself);
    let script = format!("{MAKE_FILES}{THREADS}{script}");
    let mut python = world.command(Mode::Sandboxed, "python3", &["-c", &script]);
    let outcome = Outcome::of(python.spawn().unwrap());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn whoever_waits_at_a_pipe_may_use_every_core() {
    run(&format!(
        "
os.mkfifo('../pipe')
def write():
    make_files(); os.close(os.open('../pipe', os.O_WRONLY))
for _ in range({TIMES}):
    writer = threading.Thread(target=write, daemon=True); writer.start()
    while not threads('mala-pipes'): time.sleep(0.01)
    assert not bound('mala-pipes')
    os.close(os.open('../pipe', os.O_RDONLY)); writer.join()
    while threads('mala-pipes'): time.sleep(0.01)"
    ));
}

#[test]
fn whoever_has_handed_a_file_over_may_use_every_core() {
    run(&format!(
        "
for _ in range({TIMES}):
    make_files(); open('../above', 'w').close(); assert not bound('mala-broker')"
    ));
}
