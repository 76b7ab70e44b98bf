//! What `mala run` costs beyond its agents. `just bench-run`.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");
/// Ends at once; what it takes itself is written down.
const QUICK: &str = "from=$(date +%s%N); cat > /dev/null; echo 'MALA-OUTCOME: no-change: nothing to do'
    echo $(($(date +%s%N) - from)) >> \"$OUT/own\"";
/// Makes a commit that the gate accepts.
const COMMITS: &str = r#"from=$(date +%s%N)
    id=$(sed -n '1s/^You work on the issue \([^ ]*\) .*/\1/p'); echo work > $id.txt
    "$MALA" test -- sh check.sh > /dev/null && "$MALA" commit -m "$id: done" > /dev/null
    echo $(($(date +%s%N) - from)) >> "$OUT/own""#;
/// Says something every second until it is told to end.
const CHATTY: &str = "cat > /dev/null; touch \"$OUT/here-$$\"
    while ! [ -e \"$OUT/enough\" ]; do echo busy; sleep 1; done; echo 'MALA-OUTCOME: no-change: nothing to do'";

fn main() {
    println!("| what | measured | target |");
    println!("| --- | --- | --- |");
    per_issue("engine per issue, without a commit", QUICK, 50);
    per_issue("engine per issue, with a commit that is validated in a slot", COMMITS, 250);
    first_of_many();
    many_at_once();
}

/// Time per issue beyond what the agent takes itself: the difference between a short and a long queue, so that what a run
/// costs once is left out.
fn per_issue(what: &str, script: &str, target: u32) {
    let (few, many) = (5, 25);
    let mut beyond: Vec<f64> = (0..3)
        .map(|_| {
            let (short, long) = (work_off(script, few), work_off(script, many));
            (long - short).as_secs_f64() * 1000.0 / f64::from(many - few)
        })
        .collect();
    beyond.sort_by(f64::total_cmp);
    println!("| {what} | {:.1} ms | {target} ms |", beyond[1]);
}

/// How long a run takes, without the time its agents were at work.
fn work_off(script: &str, issues: u32) -> Duration {
    let world = World::new(script);
    world.issues(issues);
    let started = Instant::now();
    let status = world.run(&["--sequential"]).status().unwrap();
    let took = started.elapsed();
    assert!(status.success(), "every issue is done");
    let own = fs::read_to_string(world.out().join("own")).unwrap();
    let own: u64 = own.lines().map(|line| line.parse::<u64>().unwrap()).sum();
    took - Duration::from_nanos(own)
}

fn first_of_many() {
    let world = World::new("touch \"$OUT/began\"; cat > /dev/null; echo 'MALA-OUTCOME: no-change: x'");
    world.issues(10_000);
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let sign = world.out().join("began");
            let _ = fs::remove_file(&sign);
            let started = Instant::now();
            let mut run = world.run(&["--max-issues", "1"]).spawn().unwrap();
            while !sign.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let took = started.elapsed();
            run.wait().unwrap();
            took
        })
        .collect();
    times.sort();
    println!(
        "| first agent of a queue of 10,000 issues | {:.0} ms | 1000 ms |",
        times[2].as_secs_f64() * 1000.0
    );
}

fn many_at_once() {
    const AGENTS: usize = 100;
    let world = World::new(CHATTY);
    world.issues(100);
    let mut run = world.run(&["--max-agents", "100"]).spawn().unwrap();
    let here = || fs::read_dir(world.out()).unwrap().count();
    let started = Instant::now();
    while here() < AGENTS {
        assert!(run.try_wait().unwrap().is_none(), "the run goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let until_all = started.elapsed();
    std::thread::sleep(Duration::from_secs(2));
    let window = Duration::from_secs(10);
    let keepers = children(&run);
    let before = (cpu(run.id()), keepers.iter().map(|pid| cpu(*pid)).sum::<f64>());
    std::thread::sleep(window);
    let after = (cpu(run.id()), keepers.iter().map(|pid| cpu(*pid)).sum::<f64>());
    let percent = |before: f64, after: f64| (after - before) / window.as_secs_f64() * 100.0;
    println!("| 100 agents at work: `mala run`, of one core | {:.1} % | 10 % |", percent(before.0, after.0));
    println!("| the same: memory of `mala run` | {:.0} MB | 100 MB |", memory(run.id()));
    println!(
        "| the same: all of their {} supervisors together, of one core | {:.1} % | |",
        keepers.len(),
        percent(before.1, after.1)
    );
    println!("| until all 100 were at work | {:.1} s | |", until_all.as_secs_f64());
    fs::write(world.out().join("enough"), "").unwrap();
    run.wait().unwrap();
}

/// Seconds of processor time so far.
fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn memory(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

fn children(run: &Child) -> Vec<u32> {
    let path = format!("/proc/{0}/task/{0}/children", run.id());
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new(script: &str) -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.root()).unwrap();
        fs::create_dir_all(world.out()).unwrap();
        fs::write(world.dir.path().join("agent.sh"), script).unwrap();
        let settings = format!(
            "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\n[validate]\ncommands = [\"sh check.sh\"]\n\
             [run]\nprofile = \"script\"\nstagger = \"1ms\"\nno_change = \"close\"\n\
             [agents.script]\nkind = \"command\"\ncommand = [\"sh\", \"{}\"]\n",
            world.dir.path().join("agent.sh").display()
        );
        fs::write(world.root().join("mala.toml"), settings).unwrap();
        fs::write(world.root().join("check.sh"), "exit 0\n").unwrap();
        for args in [
            "init -q",
            "config user.name b",
            "config user.email b@example.invalid",
            "add .",
            "commit -qm all",
        ] {
            let status =
                Command::new("git").current_dir(world.root()).args(args.split(' ')).status().unwrap();
            assert!(status.success());
        }
        world
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("checkout")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// So many issues, by import: one command.
    fn issues(&self, count: u32) {
        let mut lines = String::new();
        for number in 0..count {
            writeln!(
                lines,
                "{{\"id\":\"b-{number}\",\"title\":\"issue {number}\",\"status\":\"open\",\"priority\":2}}"
            )
            .unwrap();
        }
        let file = self.dir.path().join("issues.jsonl");
        fs::write(&file, lines).unwrap();
        let status = self.mala(&["issue", "import"]).arg(&file).status().unwrap();
        assert!(status.success());
    }

    fn run(&self, args: &[&str]) -> Command {
        let mut command = self.mala(&["run"]);
        command.args(args);
        command
    }

    fn mala(&self, args: &[&str]) -> Command {
        let mut command = Command::new(Path::new(MALA));
        command.args(args).current_dir(self.root()).env("OUT", self.out()).env("MALA", MALA);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}
