//! What the sandbox costs: starting and ending a tree, and calls that the broker answers.
//!
//! Each is measured without and with the sandbox. The opens include the start of python, which the first pair shows.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use divan::Bencher;
use mala_sandbox::{Attempt, Guard, Jail, Ruling};

fn main() {
    divan::main();
}

const WAYS: [bool; 2] = [false, true];

struct Yes;

impl Guard for Yes {
    fn judge(&self, _attempt: &Attempt<'_>) -> Ruling {
        Ruling::Allow
    }

    fn is_exempt(&self, _path: &Path) -> bool {
        false
    }
}

fn measure(bencher: Bencher<'_, '_>, sandboxed: bool, program: &str, args: &[&str]) {
    let world = tempfile::tempdir().expect("a temporary folder");
    let root = world.path().canonicalize().expect("it exists");
    let jail = Jail { git_dir: root.join(".git"), root, protected: Vec::new() };
    let guard: Arc<dyn Guard> = Arc::new(Yes);
    bencher.bench_local(|| {
        let mut command = Command::new(program);
        command.args(args).current_dir(&jail.root);
        if sandboxed {
            let exit = mala_sandbox::run(&jail, Arc::clone(&guard), command).expect("the sandbox starts");
            assert!(exit.success());
        } else {
            assert!(command.status().expect("the program starts").success());
        }
    });
}

#[divan::bench(args = WAYS)]
fn start_and_end(bencher: Bencher<'_, '_>, sandboxed: bool) {
    measure(bencher, sandboxed, "true", &[]);
}

#[divan::bench(args = WAYS, sample_count = 10)]
fn python_without_opens(bencher: Bencher<'_, '_>, sandboxed: bool) {
    measure(bencher, sandboxed, "/usr/bin/python3", &["-Sc", "import os"]);
}

#[divan::bench(args = WAYS, sample_count = 10)]
fn python_with_10_000_granted_opens(bencher: Bencher<'_, '_>, sandboxed: bool) {
    let script = "import os\nfor i in range(10000): os.close(os.open('f', os.O_WRONLY | os.O_CREAT))";
    measure(bencher, sandboxed, "/usr/bin/python3", &["-Sc", script]);
}

#[divan::bench(args = WAYS, sample_count = 10)]
fn python_with_10_000_reads(bencher: Bencher<'_, '_>, sandboxed: bool) {
    let script = "import os\nfor i in range(10000): os.close(os.open('.', os.O_RDONLY))";
    measure(bencher, sandboxed, "/usr/bin/python3", &["-Sc", script]);
}
