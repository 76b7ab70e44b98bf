//! Many issues, many agents, and kills all the time: of agents, of what keeps them, of git, of the run itself.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Batch;

/// Agents of all kinds: most succeed, some need to be told, some fail, some use git as they like, and some are killed.
const SCRIPT: &str = r#"
    n=${id#bd-}
    echo work >> $id.txt
    case $((n % 6)) in
    0) if is_retry; then tested; else echo "forgot the tests"; fi; commit done;;
    1) [ $attempt = 1 ] && { echo half >> shared-$((n % 3)).txt; exit 1; }; tested && commit done;;
    2) "$MALA" lock acquire shared-$((n % 3)).txt --wait 20s && echo $id >> shared-$((n % 3)).txt; tested && commit done;;
    3) tested && git add $id.txt && git commit -q -m "$id: by git itself" -- $id.txt; commit "refused by git";;
    *) tested && commit done;;
    esac
"#;

/// Short by default; `just soak` asks for the whole thing.
fn size() -> usize {
    std::env::var("MALA_SOAK").ok().and_then(|size| size.parse().ok()).unwrap_or(20)
}

#[test]
fn after_many_issues_and_random_kills_everything_is_accounted_for() {
    let batch = Batch::with(SCRIPT, "[run]\nattempts = 50");
    let ids: Vec<String> = (0..size()).map(|number| format!("bd-{number}")).collect();
    for id in &ids {
        batch.issue(id, &[]);
    }
    let deadline = Instant::now() + Duration::from_secs(120 + 10 * size() as u64);
    let mut killed = Killed::default();
    while open_issues(&batch) > 0 {
        assert!(Instant::now() < deadline, "it does not end: {killed:?}");
        one_run(&batch, &mut killed, size() / 4);
    }
    // A run without kills ends what the last one left.
    let last = batch.run(&[]);
    assert_eq!(last.code, 0, "{last:?}");
    for id in &ids {
        let log = batch.world.git(&["log", "--format=%B", &format!("--grep=^{id}: ")]);
        assert!(!log.is_empty(), "{id} is closed without a commit");
        assert_eq!(batch.status_of(id), "closed");
    }
    assert_eq!(batch.dirt(), "");
    batch.assert_nothing_left();
    batch.world.git(&["fsck", "--no-dangling"]);
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("{} issues, {killed:?}\n", ids.len()).as_bytes(),
    );
}

#[derive(Debug, Default)]
struct Killed {
    runs: usize,
    agents: usize,
    supervisors: usize,
    gits: usize,
}

fn open_issues(batch: &Batch) -> i64 {
    let sql = "SELECT count(*) FROM issue WHERE status <> 'closed'";
    batch.world.sql().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// One run, until it ends or is killed.
fn one_run(batch: &Batch, killed: &mut Killed, most: usize) {
    let mut command = batch.command(&["--max-agents", "10"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_millis(fastrand::u64(500..20_000));
    while run.try_wait().unwrap().is_none() {
        if Instant::now() > patience && killed.runs < most {
            run.kill().unwrap();
            killed.runs += 1;
        }
        match fastrand::u8(..30) {
            0 if killed.agents < most => killed.agents += kill_one(batch, is_agent),
            1 if killed.supervisors < most => killed.supervisors += kill_one(batch, is_supervisor),
            2..=4 if killed.gits < most => killed.gits += kill_one(batch, is_git),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

fn is_agent(words: &[&str]) -> bool {
    words[0] == "sh"
}

fn is_supervisor(words: &[&str]) -> bool {
    words.get(1) == Some(&"exec")
}

fn is_git(words: &[&str]) -> bool {
    words[0].ends_with("git")
}

/// Kills one process of this batch, chosen at random; how many there were to kill, at most one.
fn kill_one(batch: &Batch, is_meant: impl Fn(&[&str]) -> bool) -> usize {
    let base = batch.world.base().canonicalize().unwrap();
    let is_ours = |folder: &Path| fs::read_link(folder.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&base));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.split('\0').collect();
        if is_meant(&words) && is_ours(&entry.path()) {
            found.push(pid);
        }
    }
    match fastrand::choice(found) {
        // It may have ended just now.
        Some(pid) => usize::from(kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()),
        None => 0,
    }
}
