//! What the gate costs: judging a large commit by a long log, recording, committing, and making a snapshot.
//!
//! `cargo bench -p mala-gate`. The snapshot of 20,000 files is made on the disk of the temporary folder, or in
//! `MALA_BENCH_DIR`: name a folder on a file system of your choice.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs, process};

use divan::Bencher;
use mala_core::{AgentId, Fence, IssueId, Key, Owner, Scope, Timestamp};
use mala_gate::commit::{GitHooks, Request, Selection, commit};
use mala_gate::evidence::{Ended, Launch, Place, Recording, Strength, Who};
use mala_gate::git::Content;
use mala_gate::snapshot::Snapshot;
use mala_gate::{
    Candidate, Evidence, EvidenceLog, Holder, Oid, Ownership, OwnershipError, Records, Repo, RepoPath, Rules,
    check,
};
use tempfile::TempDir;

fn main() {
    divan::main();
}

/// `A` owns everything.
#[derive(Debug)]
struct All;

impl Ownership for All {
    fn owned(&self, _: &AgentId, _: &Key, _: Option<Timestamp>) -> Result<Option<Fence>, OwnershipError> {
        Ok(Some(Fence(1)))
    }

    fn holder(&self, _: &Key, _: Option<&AgentId>) -> Result<Option<Holder>, OwnershipError> {
        Ok(None)
    }
}

struct World {
    _dir: TempDir,
    root: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = env::var_os("MALA_BENCH_DIR").map_or_else(env::temp_dir, PathBuf::from);
        let dir = tempfile::tempdir_in(folder).unwrap();
        let root = dir.path().canonicalize().unwrap().join("checkout");
        let world = Self { _dir: dir, root };
        fs::create_dir(&world.root).unwrap();
        world.git(&["init", "-q", "-b", "main"]);
        world.git(&["config", "user.name", "Bench"]);
        world.git(&["config", "user.email", "bench@example.invalid"]);
        world.git(&["config", "gc.auto", "0"]);
        world
    }

    fn git(&self, args: &[&str]) {
        let out = Command::new("git").current_dir(&self.root).args(args).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn files(&self, folders: usize, files: usize) {
        for folder in 0..folders {
            for file in 0..files {
                let text = format!("file {file} of folder {folder}\n").repeat(40);
                self.write(format!("d{}/s{folder}/f{file}.txt", folder % 20), &text);
            }
        }
    }

    fn commit_all(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    fn repo(&self) -> Repo {
        Repo::new(Scope::discover(&self.root).unwrap())
    }
}

fn who() -> Who {
    Who { agent: AgentId::new("A").unwrap(), issue: None, run: None }
}

fn owner() -> Owner {
    Owner { host: "bench".into(), boot_id: "bench".into(), pid: process::id(), start_time: 0 }
}

/// 20,000 files in 200 folders, all committed.
static LARGE: LazyLock<World> = LazyLock::new(|| {
    let world = World::new();
    world.files(200, 100);
    world.commit_all("first");
    world
});

/// A commit of 200 files, and a log of 20 MiB in which its evidence is the oldest record of 1,000.
static JUDGED: LazyLock<(World, Candidate)> = LazyLock::new(|| {
    let world = World::new();
    world.files(2, 100);
    world.commit_all("first");
    for folder in 0..2 {
        for file in 0..100 {
            world.write(format!("d{folder}/s{folder}/f{file}.txt"), "changed\n");
        }
    }
    let repo = world.repo();
    let recording = Recording::begin(&repo, who(), launch(&world)).unwrap();
    recording.finish(ended(), &All).unwrap();
    world.commit_all("bd-proj-1: two hundred files");
    let log = EvidenceLog::of(repo.scope());
    let mut size = 0;
    while size < 20 * 1024 * 1024 {
        log.append(&noise()).unwrap();
        size = fs::metadata(log.path()).unwrap().len();
    }
    let candidate = Candidate {
        commit: repo.resolve("HEAD").unwrap(),
        issue: Some(IssueId::new("proj-1").unwrap()),
        agent: Some(AgentId::new("A").unwrap()),
        ..Candidate::default()
    };
    (world, candidate)
});

/// A record of the same agent and command, on other content: the worst kind, for it has to be looked at.
fn noise() -> Evidence {
    let oid = Content::Object(Oid::parse(&"ab".repeat(20)).unwrap());
    let file =
        |number: usize| (RepoPath::from_bytes(format!("d{}/s{0}/f{number}.txt", number % 2)), oid.clone());
    let files: BTreeMap<RepoPath, Content> = (0..200).map(file).collect();
    Evidence {
        id: serde_json::from_str("\"ev-noise\"").unwrap(),
        agent: AgentId::new("A").unwrap(),
        issue: None,
        run: None,
        argv: vec!["pytest".into()],
        cwd: "/".into(),
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
        files,
        after: BTreeMap::new(),
        foreign: Vec::new(),
        holders: BTreeMap::new(),
    }
}

fn launch(world: &World) -> Launch {
    Launch { argv: vec!["pytest".into()], cwd: world.root.clone(), mutex: None, place: Place::Shared }
}

fn ended() -> Ended {
    Ended { exit_code: Some(0), signal: None, output_sha256: None }
}

#[divan::bench(sample_count = 20)]
fn check_of_200_files_with_a_log_of_20_mib(bencher: Bencher<'_, '_>) {
    let (world, candidate) = &*JUDGED;
    let repo = world.repo();
    let log = EvidenceLog::of(repo.scope());
    let rules = Rules { required: vec!["pytest".parse().unwrap()], ..Rules::default() };
    bencher.bench_local(|| {
        let verdict =
            check(&repo, &All, &Records { log: &log, transcripts: &[] }, &rules, candidate).unwrap();
        assert!(verdict.is_pass(), "{verdict:?}");
    });
}

#[divan::bench(sample_count = 10)]
fn recording_in_a_checkout_of_20_000_files(bencher: Bencher<'_, '_>) {
    LARGE.write("d0/s0/f0.txt", "changed\n");
    let repo = LARGE.repo();
    bencher.bench_local(|| {
        Recording::begin(&repo, who(), launch(&LARGE)).unwrap().finish(ended(), &All).unwrap();
    });
}

#[divan::bench(sample_count = 10)]
fn commit_of_one_file_among_20_000(bencher: Bencher<'_, '_>) {
    let repo = LARGE.repo();
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        LARGE.write("d1/s1/f1.txt", &format!("change {number}\n"));
        let path = RepoPath::from_bytes("d1/s1/f1.txt");
        let request = Request {
            who: who(),
            selection: Selection::Paths(vec![path]),
            message: "change".into(),
            owner: owner(),
        };
        commit(&repo, &All, &GitHooks, &request).unwrap();
    });
}

#[divan::bench(sample_count = 5)]
fn snapshot_of_20_000_files(bencher: Bencher<'_, '_>) {
    let repo = LARGE.repo();
    let agent = AgentId::new("A").unwrap();
    bencher.bench_local(|| {
        // Kept until the clock has stopped: removing it is not part of the wait for a test.
        Snapshot::of_agent(&repo, &All, &agent, &owner(), &[]).unwrap()
    });
}
