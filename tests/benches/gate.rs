//! The speed of the gate, measured against its targets: `just bench-gate`.
//!
//! Every figure is a median of real commands or of what they call. The table it prints is the one in
//! `docs/performance.md`. The checkouts lie on the disk of temporary folders, or in `MALA_BENCH_DIR`.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use mala_core::{AgentId, LockName, Mode, Scope, Target, Timestamp, Want};
use mala_gate::evidence::Strength;
use mala_gate::{Evidence, EvidenceLog};
use mala_git::slot::Slot;
use mala_git::{Content, Oid, Repo, RepoPath};
use mala_store::{Outcome, Party, Request, Store, Wait, process};

const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");
const LOG: u64 = 20 * 1024 * 1024;

fn main() {
    println!("| what | measured | target | |");
    println!("| --- | --- | --- | --- |");
    check();
    commit_msg();
    handover();
    large();
}

fn row(what: &str, measured: &str, target: &str, is_met: bool) {
    println!("| {what} | {measured} | {target} | {} |", if is_met { "met" } else { "**missed**" });
}

/// A row without a target.
fn plain_row(what: &str, measured: &str) {
    println!("| {what} | {measured} | | |");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// A checkout of its own.
struct World {
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = std::env::var_os("MALA_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = tempfile::tempdir_in(folder).unwrap();
        let root = dir.path().canonicalize().unwrap().join("checkout");
        let world = Self { dir, root };
        fs::create_dir(&world.root).unwrap();
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Bench"],
            &["config", "user.email", "bench@example.invalid"],
            &["config", "gc.auto", "0"],
        ] {
            world.git(args);
        }
        world
    }

    fn git(&self, args: &[&str]) {
        let out = Command::new("git").current_dir(&self.root).args(args).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", message]);
    }

    /// Folders with a hundred files each.
    fn files(&self, folders: usize, text: &str) {
        for folder in 0..folders {
            let folder = self.root.join(format!("d{folder}"));
            fs::create_dir_all(&folder).unwrap();
            for file in 0..100 {
                fs::write(folder.join(format!("f{file}.txt")), format!("{text} {file}\n")).unwrap();
            }
        }
    }

    fn mala(&self, args: &[&str]) -> Command {
        let mut command = Command::new(MALA);
        command.args(args).current_dir(&self.root).env("HOME", self.dir.path()).env_remove("MALA_AGENT");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn must(&self, args: &[&str]) -> Duration {
        let start = Instant::now();
        let status = self.mala(args).status().unwrap();
        assert!(status.success(), "mala {args:?}");
        start.elapsed()
    }

    fn scope(&self) -> Scope {
        Scope::discover(&self.root).unwrap()
    }
}

/// `mala gate check` of 200 files, whose evidence is the oldest record of a long log of the same agent and command.
fn check() {
    let world = World::new();
    fs::write(world.root.join("mala.toml"), "[validate]\ncommands = [\"true\"]\n").unwrap();
    world.files(2, "before");
    world.commit("first");
    world.must(&["lock", "acquire", "**", "--agent", "a", "--issue", "p-1"]);
    world.files(2, "after");
    world.must(&["test", "--agent", "a", "--", "true"]);
    world.must(&["commit", "--agent", "a", "-m", "p-1: two hundred files"]);
    let log = EvidenceLog::of(&world.scope());
    while fs::metadata(log.path()).unwrap().len() < LOG {
        log.append(&noise(&world.root)).unwrap();
    }
    let gate = ["gate", "check", "--agent", "a", "--issue", "p-1"];
    let took = median((0..15).map(|_| world.must(&gate)).collect());
    let what = "`mala gate check`, a commit of 200 files, 20 MiB of evidence, cold";
    row(what, &millis(took), "150 ms", took < Duration::from_millis(150));
}

/// A record of the same agent and command, on other content: the worst kind, for it has to be looked at.
fn noise(root: &Path) -> Evidence {
    let other = Content::Object(Oid::parse(&"ab".repeat(20)).unwrap());
    let file = |number: usize| {
        let path = format!("d{}/f{}.txt", number / 100, number % 100);
        (RepoPath::from_bytes(path), other.clone())
    };
    Evidence {
        id: serde_json::from_str("\"ev-noise\"").unwrap(),
        agent: AgentId::new("a").unwrap(),
        issue: None,
        run: None,
        argv: vec!["true".into()],
        cwd: root.to_string_lossy().into_owned(),
        started_at: Timestamp::now(),
        ended_at: Timestamp::now(),
        exit_code: Some(0),
        signal: None,
        strength: Strength::Observed,
        isolated: false,
        mutex: None,
        output_sha256: None,
        output_log: None,
        head: None,
        tree: None,
        files: (0..200).map(file).collect::<BTreeMap<_, _>>(),
        modes: None,
        after: BTreeMap::new(),
        foreign: Vec::new(),
        holders: BTreeMap::new(),
    }
}

/// What git's hook costs, for an agent whose message is in order; both sides in turn, so that a noisy moment hits both.
fn commit_msg() {
    let world = World::new();
    world.files(2, "text");
    world.commit("first");
    fs::write(world.root.join(".git/COMMIT_EDITMSG"), "p-1: a change\n").unwrap();
    world.must(&["lock", "acquire", "d0/f0.txt", "--agent", "a", "--issue", "p-1"]);
    // The interpreter itself: what is on the PATH may be a script that looks for it.
    let find = ["-c", "import sys; print(sys.executable, end='')"];
    let interpreter = String::from_utf8(Command::new("python3").args(find).output().unwrap().stdout).unwrap();
    let (mut ours, mut python) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        ours.push(world.must(&["gate", "commit-msg", ".git/COMMIT_EDITMSG", "--agent", "a"]));
        let start = Instant::now();
        assert!(Command::new(&interpreter).args(["-S", "-c", "pass"]).status().unwrap().success());
        python.push(start.elapsed());
    }
    let (ours, python) = (median(ours), median(python));
    let ratio = ours.as_secs_f64() / python.as_secs_f64();
    let measured = format!("{ratio:.2} ({} against {})", millis(ours), millis(python));
    row("`mala gate commit-msg`, cold, to `python3 -S -c pass`", &measured, "1.0", ratio <= 1.0);
}

/// From the end of one turn to the next in the queue having it, in another thread with its own connection.
fn handover() {
    let world = World::new();
    let mut store = Store::open(&world.scope()).unwrap();
    let request = |agent: &str, pid: u32| Request {
        party: Party {
            agent: AgentId::new(agent).unwrap(),
            owner: process::Process::find(pid).unwrap().owner(),
            supervised: true,
            issue: None,
            run: None,
        },
        wants: vec![Want {
            target: Target::Name(LockName::test()),
            aliases: Vec::new(),
            mode: Mode::Exclusive,
        }],
        ttl: Duration::from_secs(3600),
        reason: None,
    };
    let holder = request("holder", std::process::id());
    let times = (0..200).map(|_| {
        let Outcome::Granted(locks) = store.reserve(&holder).unwrap() else { panic!("it is free") };
        let (scope, (queued, is_queued)) = (world.scope(), mpsc::channel());
        // A name belongs to one process: the next one in the queue is another.
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let next = request("next", other.id());
        let waiter = thread::spawn(move || {
            let mut store = Store::open(&scope).unwrap();
            let longest = Duration::from_secs(60);
            let wait = Wait { longest, on_behalf_of: None, remind_every: None };
            let outcome = store.reserve_or_wait(&next, wait, |_| queued.send(()).unwrap()).unwrap();
            let at = Instant::now();
            let Outcome::Granted(locks) = outcome else { panic!("it was its turn") };
            store.release_one(&locks[0]).unwrap();
            at
        });
        is_queued.recv().unwrap();
        // It is in the queue; now it goes to sleep.
        thread::sleep(Duration::from_millis(3));
        let start = Instant::now();
        store.release_one(&locks[0]).unwrap();
        let took = waiter.join().unwrap().duration_since(start);
        other.kill().unwrap();
        other.wait().unwrap();
        took
    });
    let took = median(times.collect());
    row(
        "the test mutex, from the end of one turn to the next one's",
        &millis(took),
        "5 ms",
        took < Duration::from_millis(5),
    );
}

/// What takes longer the more files there are.
fn large() {
    let world = World::new();
    world.files(200, "text");
    world.commit("first");
    world.must(&["lock", "acquire", "d0/**", "--agent", "a"]);
    world.files(1, "changed");
    let tests = (0..10).map(|_| world.must(&["test", "--agent", "a", "--", "true"]));
    plain_row("`mala test -- true` among 20,000 files, cold", &millis(median(tests.collect())));
    let commits = (0..10).map(|number| {
        fs::write(world.root.join("d0/f0.txt"), format!("change {number}\n")).unwrap();
        world.must(&["commit", "--agent", "a", "-m", "change", "d0/f0.txt"])
    });
    plain_row("`mala commit` of one file among 20,000, cold", &millis(median(commits.collect())));
    slots(&world);
}

/// A new slot, and one that is moved to a commit with one other file.
fn slots(world: &World) {
    // As after a clone.
    world.git(&["repack", "-adq"]);
    let repo = Repo::new(world.scope());
    let [last, before] = ["HEAD", "HEAD~1"].map(|name| repo.resolve(name).unwrap().unwrap());
    let place = |dir: &Path, commit: &Oid| {
        let start = Instant::now();
        Slot::place(&repo, dir, commit, &[]).unwrap();
        start.elapsed()
    };
    // All are kept to the end: ext4 does not use the places of deleted files again for a while, and searches for others.
    let dirs: Vec<_> = (0..5).map(|number| world.dir.path().join(format!("slot-{number}"))).collect();
    let new = median(dirs.iter().map(|dir| place(dir, &last)).collect());
    row(
        "new slot with 20,000 files out of a pack, compared byte for byte",
        &seconds(new),
        "5 s",
        new.as_secs() < 5,
    );
    let moves = (0..10).map(|number| place(&dirs[0], if number % 2 == 0 { &before } else { &last }));
    let moved = median(moves.collect());
    let ratio = moved.as_secs_f64() / new.as_secs_f64();
    let text = format!("{ratio:.2} ({} against {})", millis(moved), millis(new));
    row("a slot moved to a commit with one other file, to a new one", &text, "0.33", ratio < 0.33);
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
