//! The cores that the supervisor's threads run on.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use mala_sandbox::{Attempt, Guard, Jail, Ruling};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::world::{User, World};

/// Allows everything, and notes where the thread that asks may run.
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

/// While one file after the other is made elsewhere, the thread that is asked stays on one core.
#[test]
fn a_guard_may_use_every_core() {
    const TIMES: usize = 10;
    let world = World::new(User::Myself);
    let (root, guard) = (world.root(), Arc::new(Cores::default()));
    let script = format!(
        "for time in range({TIMES}):\n for i in range(1000): open(f'../out/{{i}}', 'w').close()\n open('free.txt', 'w').close()"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).current_dir(&root);
    let git_dir = root.join(".git");
    let jail = Jail { git_dir, root, protected: Vec::new(), exempt: Vec::new(), spares: None };
    mala_sandbox::run(&jail, Arc::clone(&guard) as Arc<dyn Guard>, command).unwrap();
    let all = sched_getaffinity(None).unwrap();
    assert_eq!(*guard.0.lock().unwrap(), [all; TIMES]);
}
