//! What `mala exec` costs, as ratios to the same work without it: `just bench-exec`.
//!
//! The same work in three places: without anything, under Landlock alone, and under `mala exec`. In each of them a worker
//! waits for work and times it, so the start of `mala exec`, which an agent pays once, is not part of the ratios: it has
//! a line of its own. The places take turns, and a ratio is the median of those of single rounds.
//!
//! Names of the work to measure can be given as arguments. `BENCH_DIR` is where it is done;
//! `BENCH_MALA` and `BENCH_CARGO` are other programs to do it with.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

const FILES: usize = 20_000;
const LOCKS: usize = 10_000;
const OPENS: usize = 2_000;

/// Runs what it is told and says how many seconds that took. With `landlock` as its argument it first puts itself under
/// rules that handle the rights `mala exec` handles and grant them all.
const WORKER: &str = "
import ctypes, os, struct, subprocess, sys, time
if 'landlock' in sys.argv:
    libc = ctypes.CDLL(None)
    writing = 1 << 1 | sum(1 << right for right in range(4, 14))
    rules = libc.syscall(444, struct.pack('Q', writing), 8, 0)
    assert libc.syscall(445, rules, 1, struct.pack('=Qi', writing, os.open('/', os.O_PATH)), 0) == 0
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, rules, 0) == 0
for line in sys.stdin:
    script = line.rstrip().replace('\\x01', '\\n')
    begin = time.perf_counter()
    if script.startswith('python:'): exec(script[7:])
    else: subprocess.run(['/bin/sh', '-ec', script], check=True, stdout=subprocess.DEVNULL)
    print(time.perf_counter() - begin, flush=True)
";

fn main() {
    // `cargo bench` passes flags of its own.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let folder = std::env::var_os("BENCH_DIR").unwrap_or_else(|| "/var/tmp".into());
    let dir = tempfile::tempdir_in(folder).unwrap();
    let root = dir.path().canonicalize().unwrap();
    prepare(&root);
    let mut bench = Bench::new(&root, wanted);
    println!("| work | ratio | Landlock alone | with | without | target |");
    println!("| --- | --- | --- | --- | --- | --- |");
    ratios(&mut bench);
    single_open(&mut bench);
    start(&bench, &root);
    memory(&mut bench);
    bench.end();
}

fn mala() -> String {
    std::env::var("BENCH_MALA").unwrap_or_else(|_| env!("CARGO_BIN_EXE_mala-under-test").to_owned())
}

fn ratios(bench: &mut Bench) {
    bench.ratio("git status, 20,000 files", 41, "git status --short", 1.05);
    bench.ratio("reading 20,000 files", 31, "grep -rc nothing-of-the-kind tree || true", 1.2);
    bench.ratio("git commit of one file", 41, "date +%N > one; git add one; git commit -qm one", 1.05);
    let cargo = "cd crate && touch src/main.rs && ${BENCH_CARGO:-cargo} build -q --offline";
    bench.ratio("cargo build of a small crate", 151, cargo, 1.05);
    // Into a new folder each time: ext4 does not use the places of deleted files again for a while, and searches for others.
    let make = |file: &str| {
        format!(
            "new=$(mktemp -d ignored/XXXXXXXX); python3 -Sc 'import sys\x01for i in range({FILES}):\x01 with open(f\"{{sys.argv[1]}}/{{i}}\", \"w\") as file: {file}' $new"
        )
    };
    let small = make("file.write(f\"content of {i}\\n\")");
    bench.ratio("creating 20,000 small files in an ignored folder", 31, &small, 1.5);
    bench.ratio("creating 20,000 empty files in an ignored folder", 31, &make("pass"), 1.5);
}

/// A file that the agent holds, opened for writing again and again.
fn single_open(bench: &mut Bench) {
    let what = "one granted open";
    if !bench.wants(what) {
        return;
    }
    let script = format!(
        "python:for i in range({OPENS}): os.close(os.open('own', os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))"
    );
    let times = bench.rounds(21, &script);
    let micros = |times: &[f64]| median(times.to_vec()) / OPENS as f64 * 1e6;
    println!("| {what} | | | {:.1} us | {:.1} us | 40 us |", micros(&times.mala), micros(&times.bare));
}

fn start(bench: &Bench, root: &Path) {
    let what = "start of `mala exec -- true`";
    if !bench.wants(what) {
        return;
    }
    let time = |program: &[&str]| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(root).stdin(Stdio::null());
        let begin = Instant::now();
        assert!(command.status().unwrap().success());
        begin.elapsed().as_secs_f64() * 1e3
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..51 {
        with.push(time(&[&mala(), "exec", "--agent", "start", "--", "true"]));
        without.push(time(&["true"]));
    }
    println!("| {what} | | | {:.1} ms | {:.1} ms | 15 ms |", median(with), median(without));
}

/// What the supervisor needs once its agent holds many locks.
fn memory(bench: &mut Bench) {
    let what = "memory of the supervisor with 10,000 locks";
    if !bench.wants(what) {
        return;
    }
    let script =
        format!("python:os.mkdir('locked')\nfor i in range({LOCKS}): open(f'locked/{{i}}', 'w').close()");
    bench.mala.time(&script);
    let status = fs::read_to_string(format!("/proc/{}/status", bench.mala.child.id())).unwrap();
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    };
    println!("| {what} | | | {:.1} MB, {:.1} MB of it its own | | 20 MB |", kib("VmRSS"), kib("RssAnon"));
}

struct Worker {
    child: Child,
    work: ChildStdin,
    times: BufReader<ChildStdout>,
}

impl Worker {
    fn new(root: &Path, around: &[&str], place: &str) -> Self {
        let words: Vec<&str> = around.iter().copied().chain(["python3", "-Sc", WORKER, place]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(root).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (work, times) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, work, times: BufReader::new(times) }
    }

    fn time(&mut self, script: &str) -> f64 {
        writeln!(self.work, "{}", script.replace('\n', "\x01")).unwrap();
        let mut line = String::new();
        self.times.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    fn end(mut self) {
        drop(self.work);
        assert!(self.child.wait().unwrap().success());
    }
}

/// Seconds, round by round.
#[derive(Default)]
struct Times {
    bare: Vec<f64>,
    landlock: Vec<f64>,
    mala: Vec<f64>,
}

struct Bench {
    bare: Worker,
    landlock: Worker,
    mala: Worker,
    wanted: Vec<String>,
}

impl Bench {
    fn new(root: &Path, wanted: Vec<String>) -> Self {
        Self {
            bare: Worker::new(root, &[], "bare"),
            landlock: Worker::new(root, &[], "landlock"),
            mala: Worker::new(root, &[&mala(), "exec", "--agent", "bench", "--"], "mala"),
            wanted,
        }
    }

    fn wants(&self, what: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| what.contains(word.as_str()))
    }

    /// In turns, so that a noisy moment hits all, and each of them as often the first as the others.
    fn rounds(&mut self, rounds: usize, script: &str) -> Times {
        let mut times = Times::default();
        for round in 0..=rounds {
            for place in 0..3 {
                let (worker, times) = match (round + place) % 3 {
                    0 => (&mut self.bare, &mut times.bare),
                    1 => (&mut self.landlock, &mut times.landlock),
                    _ => (&mut self.mala, &mut times.mala),
                };
                let time = worker.time(script);
                // The first round fills caches.
                if round > 0 {
                    times.push(time);
                }
            }
        }
        times
    }

    fn ratio(&mut self, what: &str, rounds: usize, script: &str, target: f64) {
        if !self.wants(what) {
            return;
        }
        let times = self.rounds(rounds, script);
        let to_bare = |with: &[f64]| {
            median(with.iter().zip(&times.bare).map(|(with, without)| with / without).collect())
        };
        let (ratio, landlock) = (to_bare(&times.mala), to_bare(&times.landlock));
        let (with, without) = (median(times.mala.clone()) * 1e3, median(times.bare.clone()) * 1e3);
        println!("| {what} | {ratio:.2} | {landlock:.2} | {with:.1} ms | {without:.1} ms | {target} |");
    }

    fn end(self) {
        for worker in [self.bare, self.landlock, self.mala] {
            worker.end();
        }
    }
}

fn prepare(root: &Path) {
    for i in 0..FILES {
        let folder = root.join(format!("tree/{}", i % 200));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file{i}")), format!("content of {i}\n")).unwrap();
    }
    fs::write(root.join(".gitignore"), "ignored/\ntarget/\n").unwrap();
    fs::create_dir(root.join("ignored")).unwrap();
    fs::create_dir_all(root.join("crate/src")).unwrap();
    let manifest = "[package]\nname = \"small\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(root.join("crate/Cargo.toml"), manifest).unwrap();
    fs::write(root.join("crate/src/main.rs"), "fn main() {\n    println!(\"small\");\n}\n").unwrap();
    let setup = "git init -q; git config user.name b; git config user.email b@example.invalid; \
                 git config gc.auto 0; git add .; git commit -qm all; \
                 cd crate && ${BENCH_CARGO:-cargo} build -q --offline";
    assert!(Command::new("sh").args(["-ec", setup]).current_dir(root).status().unwrap().success());
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
