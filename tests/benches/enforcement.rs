//! What `mala exec` costs: ratios to the same work without it, in one run. `just bench-exec`.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");
const FILES: usize = 20_000;

fn main() {
    let world = World::new();
    println!("| work | ratio | with | without | target |");
    println!("| --- | --- | --- | --- | --- |");
    world.compare("git status, 20,000 files", 9, "git status --short", 1.05);
    world.compare("reading 20,000 files", 9, "grep -rc nothing-of-the-kind tree > /dev/null || true", 1.2);
    world.compare("git commit of one file", 15, "date +%N > one; git add one; git commit -qm one", 1.05);
    let make = format!(
        "rm -rf ignored/new; mkdir -p ignored/new; python3 -S -c 'for i in range({FILES}): open(f\"ignored/new/{{i}}\", \"w\").close()'"
    );
    world.compare("creating 20,000 files in an ignored folder", 5, &make, 1.5);
    let cargo = "cd crate && touch src/main.rs && cargo build -q --offline";
    world.compare("cargo build of a small crate", 5, cargo, 1.05);
    let start = world.median(31, true, "true");
    println!("| `mala exec -- sh -c true` | | {} | | 15 ms |", millis(start));
    let open = "import time\nf = 'own'\nopen(f, 'w').close()\nn = 5000\nt = time.perf_counter()\nfor _ in range(n): open(f, 'r+b', buffering=0).close()\nprint((time.perf_counter() - t) / n * 1e6)";
    println!(
        "| one granted open for writing (python's own share included) | | {} us | {} us | 40 us |",
        world.python(true, open),
        world.python(false, open)
    );
}

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        let root = world.root();
        for i in 0..FILES {
            let folder = root.join(format!("tree/{}", i % 200));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("file{i}")), format!("content of {i}\n")).unwrap();
        }
        fs::write(root.join(".gitignore"), "ignored/\ntarget/\n").unwrap();
        fs::create_dir_all(root.join("crate/src")).unwrap();
        fs::write(
            root.join("crate/Cargo.toml"),
            "[package]\nname = \"small\"\nedition = \"2024\"\n[workspace]\n",
        )
        .unwrap();
        fs::write(root.join("crate/src/main.rs"), "fn main() {\n    println!(\"small\");\n}\n").unwrap();
        world.run(false, "git init -q; git config user.name b; git config user.email b@example.invalid; git add .; git commit -qm all; cd crate && cargo build -q --offline");
        world
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, enforced: bool, program: &[&str]) -> Command {
        let mut command = if enforced { Command::new(MALA) } else { Command::new(program[0]) };
        if enforced {
            command.args(["exec", "--agent", "bench", "--"]).args(program);
        } else {
            command.args(&program[1..]);
        }
        command.current_dir(self.root()).stdin(Stdio::null());
        command
    }

    fn run(&self, enforced: bool, script: &str) -> Duration {
        let mut command = self.command(enforced, &["sh", "-ec", script]);
        let start = Instant::now();
        assert!(command.stdout(Stdio::null()).status().unwrap().success(), "{script}");
        start.elapsed()
    }

    fn median(&self, rounds: usize, enforced: bool, script: &str) -> Duration {
        median((0..rounds).map(|_| self.run(enforced, script)).collect())
    }

    /// In turns, so that a noisy moment hits both sides.
    fn compare(&self, what: &str, rounds: usize, script: &str, target: f64) {
        self.run(true, script);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            with.push(self.run(true, script));
            without.push(self.run(false, script));
        }
        let (with, without) = (median(with), median(without));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        println!("| {what} | {ratio:.2} | {} | {} | {target} |", millis(with), millis(without));
    }

    fn python(&self, enforced: bool, program: &str) -> String {
        let out = self.command(enforced, &["python3", "-S", "-c", program]).output().unwrap();
        let micros: f64 = String::from_utf8(out.stdout).unwrap().trim().parse().unwrap();
        format!("{micros:.0}")
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
