//! Many issues, many agents, and kills all the time.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Batch, processes_with};

/// Agents of all kinds: most succeed, some need to be told, some fail, some are killed by the test.
const SCRIPT: &str = r#"
    n=${id#bd-}
    echo work >> $id.txt
    case $((n % 5)) in
    0) if is_retry; then tested; else echo "forgot the tests"; fi; commit done;;
    1) [ $attempt = 1 ] && { echo half >> shared-$((n % 3)).txt; exit 1; }; tested && commit done;;
    2) "$MALA" lock acquire shared-$((n % 3)).txt --wait 20s && echo $id >> shared-$((n % 3)).txt; tested && commit done;;
    *) tested && commit done;;
    esac
"#;

/// Short by default; `MALA_SOAK=200` is the whole thing.
fn size() -> usize {
    std::env::var("MALA_SOAK").ok().and_then(|size| size.parse().ok()).unwrap_or(20)
}

#[test]
fn after_many_issues_and_random_kills_everything_is_accounted_for() {
    let batch = Batch::with(SCRIPT, "[run]\nattempts = 9");
    let ids: Vec<String> = (0..size()).map(|number| format!("bd-{number}")).collect();
    for id in &ids {
        batch.issue(id, &[]);
    }
    let deadline = Instant::now() + Duration::from_secs(60 + 6 * size() as u64);
    let mut kills = 0;
    while ids.iter().any(|id| batch.status_of(id) != "closed") {
        assert!(Instant::now() < deadline, "it does not end");
        let mut run = batch.command(&["--max-agents", "10"]).stdout(Stdio::null()).spawn().unwrap();
        let patience = Instant::now() + Duration::from_millis(fastrand::u64(500..8_000));
        while run.try_wait().unwrap().is_none() {
            kill_some_agent(&batch);
            if Instant::now() > patience && kills < size() / 4 {
                run.kill().unwrap();
                kills += 1;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    for id in &ids {
        let log = batch.world.git(&["log", "--format=%B", &format!("--grep=^{id}: ")]);
        assert!(!log.is_empty(), "{id} is closed without a commit");
    }
    assert_eq!(batch.dirt(), "");
    batch.assert_nothing_left();
    batch.world.git(&["fsck", "--no-dangling"]);
}

/// Now and then an agent's shell is killed.
fn kill_some_agent(batch: &Batch) {
    if fastrand::u8(..20) != 0 {
        return;
    }
    let script = batch.outside("agent.sh").display().to_string();
    if processes_with(&script).is_empty() {
        return;
    }
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.starts_with(b"sh\0") && String::from_utf8_lossy(&line).contains(&script) {
            let pid = entry.file_name().to_string_lossy().parse().unwrap();
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
            return;
        }
    }
}
