//! The landing queue against itself and against git: `just bench-queue`.
//!
//! Every row is a ratio of two measurements in one run. Tests wait, as those do that talk to a service, so that the figures are
//! about the queue and not about the cores.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use mala_core::Scope;
use mala_git::landing::{BranchMove, Landed, land};
use mala_git::{Oid, Repo};

const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");
/// How often a landing is measured.
const TIMES: usize = 9;
/// Files of each crate that is built.
const MODULES: u32 = 20;
/// How many crates the one that changes is built with.
const DEPENDENCIES: u32 = 12;

fn main() {
    let wanted: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!("| what | measured | target | |");
    println!("| --- | --- | --- | --- |");
    let rows: [(&str, fn()); 4] =
        [("good", good_entries), ("bad", bad_entries), ("slot", slot), ("landing", landing)];
    for (name, measure) in rows {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            measure();
        }
    }
}

fn row(what: &str, measured: &str, target: &str, is_met: bool) {
    println!("| {what} | {measured} | {target} | {} |", if is_met { "met" } else { "**missed**" });
}

/// A repository with settings of its own.
struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl World {
    fn new(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        fs::create_dir(&root).unwrap();
        let world = Self { root, _dir: dir };
        let slots = world.root.with_file_name("slots");
        let text = format!(
            "{settings}\n[issues]\nsource = \"builtin\"\n[queue]\ndirectory = \"{}\"\n",
            slots.display()
        );
        world.git(&["init", "-q", "-b", "main"]);
        world.git(&["config", "user.name", "b"]);
        world.git(&["config", "user.email", "b@example.invalid"]);
        fs::write(world.root.join("mala.toml"), text).unwrap();
        world
    }

    fn git(&self, args: &[&str]) -> String {
        git(&self.root, args)
    }

    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "a commit"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn mala(&self, args: &[&str]) -> Command {
        let mut command = Command::new(MALA);
        command.args(args).current_dir(&self.root).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// How long it takes, with these settings in the environment.
    fn time(&self, args: &[&str], settings: &[(&str, &str)]) -> Duration {
        let started = Instant::now();
        self.mala(args).envs(settings.iter().copied()).status().unwrap();
        started.elapsed()
    }
}

fn git(root: &Path, args: &[&str]) -> String {
    let out = Command::new("git").current_dir(root).args(args).output().unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// How long the queue takes for so many entries, those at `bad` of which fail.
fn queue(entries: u32, bad: &[u32], settings: &[(&str, &str)]) -> Duration {
    let world = World::new("[validate]\ncommands = [\"sh check.sh\"]");
    fs::write(world.root.join("check.sh"), "sleep 1\ntest -z \"$(ls bad-* 2> /dev/null)\"\n").unwrap();
    world.commit();
    // The branch is known to be green, as it is after every landing.
    world.time(&["gate", "check", "--commit", "HEAD", "--rerun"], &[]);
    for number in 0..entries {
        world.git(&["switch", "-q", "-c", &format!("offer-{number}"), "main"]);
        let kind = if bad.contains(&number) { "bad" } else { "good" };
        fs::write(world.root.join(format!("{kind}-{number}")), "x\n").unwrap();
        world.commit();
        world.git(&["switch", "-q", "main"]);
        assert!(world.mala(&["land", &format!("offer-{number}")]).status().unwrap().success());
    }
    let took = world.time(&["queue", "run"], settings);
    let landed: BTreeSet<String> = world.git(&["ls-files"]).lines().map(str::to_owned).collect();
    let good = landed.iter().filter(|name| name.starts_with("good-")).count();
    assert_eq!(good, entries as usize - bad.len(), "all good ones land");
    assert!(!landed.iter().any(|name| name.starts_with("bad-")), "no bad one lands");
    took
}

fn against_one_by_one(what: &str, (entries, bad): (u32, &[u32]), target: f64) {
    let usual = queue(entries, bad, &[]).as_secs_f64();
    let alone = queue(entries, bad, &[("MALA_QUEUE_SLOTS", "1"), ("MALA_QUEUE_WINDOW", "1")]).as_secs_f64();
    let ratio = alone / usual;
    let measured = format!("{ratio:.1} times as fast ({usual:.1} s against {alone:.1} s)");
    row(what, &measured, &format!("at least {target}"), ratio >= target);
}

fn good_entries() {
    against_one_by_one("16 good entries, tests of 1 s, to one validation for each", (16, &[]), 6.0);
}

fn bad_entries() {
    against_one_by_one("40 entries, 2 of them bad, to one validation for each", (40, &[9, 27]), 3.0);
}

fn write_crate(directory: &Path, name: &str, rest: &str) {
    fs::create_dir_all(directory.join("src")).unwrap();
    let package = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}");
    fs::write(directory.join("Cargo.toml"), package).unwrap();
    let mut root = String::new();
    for number in 0..MODULES {
        writeln!(root, "pub mod m{number};").unwrap();
        let functions: String = (0..60).fold(String::new(), |mut text, function| {
            writeln!(
                text,
                "pub fn f{function}(x: u64) -> String {{ format!(\"{{x}} {number} {function}\") }}"
            )
            .unwrap();
            text
        });
        fs::write(directory.join(format!("src/m{number}.rs")), functions).unwrap();
    }
    fs::write(directory.join("src/lib.rs"), root).unwrap();
}

/// A crate, one file of which changes, with others that do not: built in a slot that moves, and in fresh worktrees.
fn slot() {
    let world = World::new(
        "[project]\npreset = \"rust\"\n[validate]\ncommands = [\"cargo build --offline\"]\nempty = \"pass\"",
    );
    fs::write(world.root.join(".gitignore"), "/target\n").unwrap();
    let names: Vec<String> = (0..DEPENDENCIES).map(|number| format!("part{number}")).collect();
    for name in &names {
        write_crate(&world.root.join(name), name, "");
    }
    let parts: String = names.iter().map(|name| format!("{name} = {{ path = \"{name}\" }}\n")).collect();
    write_crate(&world.root, "bench", &format!("[dependencies]\n{parts}[workspace]\n"));
    let mut commits = vec![world.commit()];
    for number in 0..3 {
        fs::write(world.root.join("src/m0.rs"), format!("pub fn changed() -> u64 {{ {number} }}\n")).unwrap();
        commits.push(world.commit());
    }
    let validate = |commit: &str| world.time(&["gate", "check", "--commit", commit, "--rerun"], &[]);
    validate(&commits[0]);
    let mut moved: Vec<Duration> = commits[1..].iter().map(|commit| validate(commit)).collect();
    let mut fresh: Vec<Duration> = commits[1..].iter().map(|commit| fresh_worktree(&world, commit)).collect();
    moved.sort_unstable();
    fresh.sort_unstable();
    let (moved, fresh) = (moved[1].as_secs_f64(), fresh[1].as_secs_f64());
    let ratio = moved / fresh;
    let measured = format!("{ratio:.2} ({moved:.2} s against {fresh:.2} s)");
    row(
        "a slot moved and a crate built there, with 12 others that did not change, to a fresh worktree",
        &measured,
        "0.33",
        ratio <= 1.0 / 3.0,
    );
}

fn fresh_worktree(world: &World, commit: &str) -> Duration {
    let place = world.root.with_file_name(format!("fresh-{commit}"));
    let started = Instant::now();
    world.git(&["worktree", "add", "-q", "--detach", place.to_str().unwrap(), commit]);
    let built = Command::new("cargo")
        .args(["build", "--offline"])
        .current_dir(&place)
        .env_remove("CARGO_TARGET_DIR")
        .stderr(Stdio::null())
        .status();
    assert!(built.unwrap().success());
    started.elapsed()
}

/// A branch with its checkout moves by a commit of 100 files, there and back.
fn landing() {
    let (mut ours, mut gits) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let (world, from, to) = hundred_files();
        let repo = Repo::new(Scope::discover(&world.root).unwrap()).without_hooks();
        let directory = world.root.join(".git/landing");
        fs::create_dir(&directory).unwrap();
        let step = BranchMove {
            branch: "refs/heads/main",
            from: &from,
            to: &to,
            reason: "landed",
            directory: &directory,
            spared: &BTreeSet::new(),
        };
        let started = Instant::now();
        assert_eq!(land(&repo, &step).unwrap(), Landed::Done { left: Vec::new() });
        ours.push(started.elapsed());
        let (world, _, to) = hundred_files();
        let started = Instant::now();
        world.git(&["merge", "-q", "--ff-only", to.as_str()]);
        gits.push(started.elapsed());
    }
    ours.sort_unstable();
    gits.sort_unstable();
    let (ours, gits) = (ours[TIMES / 2].as_secs_f64() * 1e3, gits[TIMES / 2].as_secs_f64() * 1e3);
    let ratio = ours / gits;
    let measured = format!("{ratio:.1} ({ours:.0} ms against {gits:.0} ms)");
    row("landing 100 files, to `git merge --ff-only`", &measured, "3", ratio <= 3.0);
}

/// A checkout, where it is, and a commit on top that changes 100 files.
fn hundred_files() -> (World, Oid, Oid) {
    let world = World::new("");
    let write = |text: &str| {
        for number in 0..100 {
            fs::write(world.root.join(format!("file-{number}.txt")), text).unwrap();
        }
    };
    write("before\n");
    let from = Oid::parse(&world.commit()).unwrap();
    write("after\n");
    let to = Oid::parse(&world.commit()).unwrap();
    world.git(&["reset", "-q", "--hard", from.as_str()]);
    (world, from, to)
}
