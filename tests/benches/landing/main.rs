//! How many issues land in a minute: one agent at a time, several without locks, several in worktrees with a batched merge queue,
//! and mala. `just bench-landing`.
//!
//! Agents are scripted and the same everywhere: they think, write, test and commit. All columns of a row run one after the
//! other on the same workload, and each is held against the truth: every issue that is said to have landed is in the branch
//! exactly once, and every commit that the branch was at passes the tests.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

mod mala;
mod shared;
mod workload;
mod worktrees;

use std::env;
use std::time::Duration;

use workload::{Outcome, Tests, Workload};

/// Rows of the table: so many agents, and the share of issues that touch a hot file, in percent.
const ROWS: [(usize, u32); 12] = [
    (2, 0),
    (2, 20),
    (2, 50),
    (4, 0),
    (4, 20),
    (4, 50),
    (8, 0),
    (8, 20),
    (8, 50),
    (20, 0),
    (20, 20),
    (20, 50),
];

const USUAL: Workload = Workload {
    issues: 24,
    agents: 0,
    hot_percent: 0,
    think: Duration::from_secs(2),
    tests: Tests::Waiting(Duration::from_secs(1)),
    interacting: false,
};

fn main() {
    let wanted: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!(
        "| workload | agents | hot | one at a time | no locks | worktrees, batched queue | mala | mala / worktrees | sent back: worktrees, mala | waited: mala |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let slow_tests = Tests::Waiting(Duration::from_secs(2));
    let busy_tests = Tests::Busy(Duration::from_millis(500));
    let mut rows: Vec<(&str, Workload)> = ROWS
        .into_iter()
        .map(|(agents, hot_percent)| ("usual", Workload { agents, hot_percent, ..USUAL }))
        .collect();
    for agents in [4, 8] {
        let row = Workload { agents, hot_percent: 20, ..USUAL };
        rows.push(("slow tests", Workload { tests: slow_tests, ..row }));
        rows.push(("busy tests", Workload { tests: busy_tests, ..row }));
        rows.push(("interacting", Workload { interacting: true, ..row }));
    }
    for agents in [8, 20] {
        let think = Duration::from_secs(8);
        rows.push(("long thinking", Workload { agents, hot_percent: 20, think, issues: 60, ..USUAL }));
    }
    for (name, workload) in rows {
        let key = format!("{name}-{}-{}", workload.agents, workload.hot_percent).replace(' ', "-");
        if wanted.is_empty() || wanted.iter().any(|wanted| key.starts_with(wanted.as_str())) {
            print_row(name, &workload);
        }
    }
}

fn print_row(name: &str, workload: &Workload) {
    let alone = workload.alone();
    let no_locks = shared::run(workload);
    let worktrees = worktrees::run(workload);
    let mala = mala::run(workload);
    let red = |outcome: &Outcome| match (outcome.red_tips, outcome.lost) {
        (0, 0) => String::new(),
        (red, lost) => format!(" ({red} red commits, {lost} lost)"),
    };
    println!(
        "| {name} | {} | {} % | {alone:.0} | {:.0}{} | {:.0}{} | {:.0}{} | {:.2} | {}, {} | {:.0} s |",
        workload.agents,
        workload.hot_percent,
        no_locks.per_minute,
        red(&no_locks),
        worktrees.per_minute,
        red(&worktrees),
        mala.per_minute,
        red(&mala),
        mala.per_minute / worktrees.per_minute,
        worktrees.sent_back,
        mala.sent_back,
        mala.waited.as_secs_f64(),
    );
}
