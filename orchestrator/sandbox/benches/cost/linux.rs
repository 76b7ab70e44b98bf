//! What single calls cost in the sandbox: `cargo bench -p mala-sandbox`. What whole programs pay for `mala exec` is
//! measured by `just bench-exec`.
//!
//! The same work in three places: without anything, under Landlock alone, and in the sandbox. In each of them a worker waits
//! for work and times it, so what it costs to start a sandbox is not part of the figures: it has a line of its own. The
//! places take turns, and a figure is the median of the ratios of neighbouring rounds.
//!
//! The guard says yes to everything at once: what a real one needs to decide comes on top.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::fs;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use landlock::{ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr};
use mala_sandbox::{Attempt, Guard, Jail, Ruling};

/// Runs what it is told and says how many seconds that took.
const WORKER: &str = "
import subprocess, sys, time
for line in sys.stdin:
    script = line.rstrip().replace('\\x01', '\\n')
    begin = time.perf_counter()
    if script.startswith('python:'): exec(script[7:])
    else: subprocess.run(['/bin/sh', '-ec', script], check=True, stdout=subprocess.DEVNULL)
    print(time.perf_counter() - begin, flush=True)
";

struct Yes;

impl Guard for Yes {
    fn judge(&self, _attempt: &Attempt<'_>) -> Ruling {
        Ruling::Allow
    }

    fn is_exempt(&self, path: &Path) -> bool {
        path.components().any(|part| part.as_os_str() == "ignored")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Bare,
    Landlock,
    Sandbox,
}

struct Worker {
    work: PipeWriter,
    times: BufReader<PipeReader>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn new(place: Place, root: &Path) -> Self {
        let (input, work) = std::io::pipe().unwrap();
        let (times, output) = std::io::pipe().unwrap();
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-Sc", WORKER]).current_dir(root).stdin(input).stdout(output);
        let jail = jail(root);
        let thread = thread::spawn(move || match place {
            Place::Sandbox => _ = mala_sandbox::run(&jail, Arc::new(Yes), command).unwrap(),
            Place::Bare => _ = command.status().unwrap(),
            Place::Landlock => {
                // SAFETY: a benchmark; the child has this one thread.
                unsafe { command.pre_exec(|| confine().map_err(std::io::Error::other)) };
                command.status().unwrap();
            }
        });
        Self { work, times: BufReader::new(times), thread }
    }

    fn time(&mut self, script: &str) -> f64 {
        writeln!(self.work, "{}", script.replace('\n', "\x01")).unwrap();
        let mut line = String::new();
        self.times.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    fn end(self) {
        drop(self.work);
        self.thread.join().unwrap();
    }
}

/// The rights that the sandbox handles, all of them granted.
fn confine() -> Result<(), landlock::RulesetError> {
    let writing = AccessFs::from_write(ABI::V2);
    let root = PathFd::new("/").map_err(|_none| ()).expect("there is a root");
    Ruleset::default()
        .handle_access(writing)?
        .create()?
        .add_rule(PathBeneath::new(root, writing))?
        .restrict_self()
        .map(drop)
}

fn jail(root: &Path) -> Jail {
    Jail {
        root: root.to_owned(),
        git_dir: root.join(".git"),
        protected: Vec::new(),
        closed: Vec::new(),
        exempt: Vec::new(),
        spares: None,
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

struct Bench {
    bare: Worker,
    landlock: Worker,
    sandbox: Worker,
    only: Option<String>,
}

impl Bench {
    fn ratio(&mut self, what: &str, rounds: usize, script: &str) {
        if self.only.as_ref().is_some_and(|only| !what.contains(only)) {
            return;
        }
        for worker in [&mut self.bare, &mut self.landlock, &mut self.sandbox] {
            worker.time(script);
        }
        let (mut landlock, mut sandbox, mut times) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
        for _ in 0..rounds {
            let bare = self.bare.time(script);
            landlock.push(self.landlock.time(script) / bare);
            let with = self.sandbox.time(script);
            sandbox.push(with / bare);
            times.0.push(bare);
            times.1.push(with);
        }
        let (bare, with) = (median(times.0) * 1e3, median(times.1) * 1e3);
        let (landlock, sandbox) = (median(landlock), median(sandbox));
        println!("| {what} | {sandbox:.2} | {landlock:.2} | {with:.2} ms | {bare:.2} ms |");
    }
}

pub(crate) fn main() {
    // `cargo bench` passes flags of its own.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let dir =
        tempfile::tempdir_in(std::env::var_os("BENCH_DIR").unwrap_or_else(|| "/var/tmp".into())).unwrap();
    let root = dir.path().canonicalize().unwrap();
    prepare(&root);
    let worker = |place| Worker::new(place, &root);
    let mut bench = Bench {
        bare: worker(Place::Bare),
        landlock: worker(Place::Landlock),
        sandbox: worker(Place::Sandbox),
        only,
    };
    println!("| work | sandbox | Landlock alone | with | without |");
    println!("| --- | --- | --- | --- | --- |");
    work(&mut bench);
    println!("supervisor: {} KiB resident", resident());
    for worker in [bench.bare, bench.landlock, bench.sandbox] {
        worker.end();
    }
    start(&root);
}

fn work(bench: &mut Bench) {
    bench.ratio("starting 100 programs", 9, "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done");
    let calls = |body: &str| format!("python:import os\nfor i in range(1000): {body}");
    bench.ratio("1,000 opens for writing", 15, &calls("os.close(os.open('own', os.O_WRONLY | os.O_CREAT))"));
    bench.ratio(
        "1,000 of them in an ignored folder",
        15,
        &calls("os.close(os.open('ignored/own', os.O_WRONLY | os.O_CREAT))"),
    );
    bench.ratio(
        "1,000 of them outside",
        15,
        &calls("os.close(os.open('/var/tmp/own', os.O_WRONLY | os.O_CREAT))"),
    );
    bench.ratio("1,000 opens for reading", 15, &calls("os.close(os.open('one', os.O_RDONLY))"));
    bench.ratio("1,000 stats", 15, &calls("os.stat('one')"));
    bench.ratio("1,000 renames", 15, &calls("os.rename('one', 'two'); os.rename('two', 'one')"));
}

fn prepare(root: &Path) {
    fs::create_dir(root.join("ignored")).unwrap();
    let setup = "git init -q; echo > one";
    assert!(Command::new("sh").args(["-ec", setup]).current_dir(root).status().unwrap().success());
}

/// What it costs to start and end a tree.
fn start(root: &Path) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..31 {
        let time = |work: &dyn Fn()| {
            let begin = Instant::now();
            work();
            begin.elapsed().as_secs_f64() * 1e3
        };
        let command = || {
            let mut command = Command::new("/bin/true");
            command.current_dir(root);
            command
        };
        times.0.push(time(&|| _ = mala_sandbox::run(&jail(root), Arc::new(Yes), command()).unwrap()));
        times.1.push(time(&|| _ = command().status().unwrap()));
    }
    println!("start and end of a tree: {:.2} ms, of a process: {:.2} ms", median(times.0), median(times.1));
}

fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
}
