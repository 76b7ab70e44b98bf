//! Makes one span of each kind and one measurement of each, and prints how long sending them took and what was wrong.

use std::error::Error;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use mala_core::{AgentId, IssueId, LockName, RunId};
use mala_logs::telemetry::{self, GateResult, LockResult, WaitResult, metrics, spans};

fn main() -> Result<(), Box<dyn Error>> {
    let telemetry = telemetry::init("traced", &|name| std::env::var(name).ok());
    let is_on = telemetry.is_on();
    work()?;
    let before = Instant::now();
    let trouble = telemetry.finish();
    let millis = before.elapsed().as_millis();
    let trouble = trouble.map_or_else(|| "none".to_owned(), |trouble| trouble.to_string());
    writeln!(io::stdout(), "on: {is_on}\nmillis: {millis}\nthreads: {}\ntrouble: {trouble}", threads())?;
    Ok(())
}

fn work() -> Result<(), Box<dyn Error>> {
    let agent: AgentId = "otter".parse()?;
    let mutex: LockName = "test".parse()?;
    let run = spans::run(&"r-1".parse::<RunId>()?).entered();
    let issue = spans::issue(&"bd-7".parse::<IssueId>()?, 2).entered();
    spans::agent(&agent, "claude").in_scope(|| {
        spans::lock_wait(&agent, "src/a.rs").in_scope(|| {});
        let args = ["cargo", "test", "--token", "hidden-value", "API_KEY=hidden-value"];
        spans::test(Some(&mutex), &args).in_scope(|| tracing::info!(target: "mala", "PASSWORD=hidden-value"));
    });
    let gate = spans::gate(Some(&agent), None);
    spans::outcome(&gate, "fail");
    spans::failed(&gate, "the header was Authorization: Bearer hidden-value-1");
    drop((gate, issue, run));

    let metrics = metrics();
    metrics.lock_try(LockResult::Granted);
    metrics.lock_try(LockResult::Granted);
    metrics.lock_try(LockResult::Refused);
    metrics.lock_wait(Duration::from_millis(250), WaitResult::Granted);
    metrics.mutex_wait(&mutex, Duration::from_secs(3));
    metrics.mutex_hold(&mutex, Duration::from_secs(40));
    metrics.gate_result(GateResult::Fail);
    Ok(())
}

/// How many threads this process has; 0 where nobody tells.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
