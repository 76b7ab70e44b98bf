//! Several agents in one checkout, and nothing that keeps them apart.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::workload::{Outcome, Workload, git, place};

pub(crate) fn run(workload: &Workload) -> Outcome {
    let (_dir, root) = place();
    workload.repository(&root);
    let (next, sent_back) = (Mutex::new(0..workload.issues), Mutex::new(0));
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..workload.agents {
            scope.spawn(|| {
                while let Some(issue) = { next.lock().unwrap().next() } {
                    thread::sleep(workload.think);
                    workload.write(&root, issue, false);
                    // What fails is tried once more, with what mends it.
                    if !Workload::test(&root) {
                        *sent_back.lock().unwrap() += 1;
                        workload.write(&root, issue, true);
                        Workload::test(&root);
                    }
                    commit(&root, issue);
                }
            });
        }
    });
    let sent_back = *sent_back.lock().unwrap();
    workload.outcome(&root, started.elapsed(), sent_back, Duration::ZERO)
}

/// Git gives up at once while another one commits.
fn commit(root: &std::path::Path, issue: u32) {
    let message = format!("issue {issue}");
    while git(root, &["add", "-A"]).is_none()
        || git(root, &["commit", "-q", "--allow-empty", "-m", &message]).is_none()
    {
        thread::sleep(Duration::from_millis(20));
    }
}
