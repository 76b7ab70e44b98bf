//! What one hook call costs inside mala: reading it, judging its command, answering.
//!
//! Run with `cargo bench -p mala-agents`.

use std::path::Path;

use mala_agents::answer::{Answer, render};
use mala_agents::hook::parse;
use mala_agents::shell::{Plan, Surroundings, plan};
use mala_agents::{Client, Intent};

fn main() {
    divan::main();
}

const SIMPLE: &str = "cd src && sed -i 's/a/b/' lib.rs";

const COMMIT: &str = "cd sub && for f in a b c; do sed -i s/x/y/ \"$f.rs\"; done && cargo test 2>&1 | tail -20 && \
                      git add a.rs b.rs && git commit -m \"$(cat <<'EOF'\nfix: it\n\nwith `git reset --hard` in the text\nEOF\n)\"";

fn judge(command: &str) -> Plan {
    let tests = ["cargo test", "pytest"].map(|pattern| pattern.parse().expect("a valid pattern"));
    let exists = |path: &Path| path.exists();
    plan(
        command,
        Surroundings {
            cwd: Path::new("/"),
            home: None,
            exists: &exists,
            alias: &|_| None,
            tests: &tests,
            run: None,
        },
    )
}

#[divan::bench(args = [SIMPLE, COMMIT])]
fn a_command(command: &str) -> Plan {
    judge(command)
}

#[divan::bench(args = [1_000, 1_000_000])]
fn a_long_command(bencher: divan::Bencher<'_, '_>, bytes: usize) {
    let command = "echo 'a b' > /tmp/x; ".repeat(bytes / 21);
    bencher.bench(|| judge(&command));
}

#[divan::bench]
fn a_whole_call(bencher: divan::Bencher<'_, '_>) {
    let payload = serde_json::json!({
        "session_id": "s", "cwd": "/w", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": COMMIT},
    })
    .to_string();
    bencher.bench(|| {
        let call = parse(Client::Claude, payload.as_bytes()).expect("a valid call");
        let Some(Ok(Intent::Shell { command, .. })) = call.tool.as_ref().map(|tool| tool.intent()) else {
            return None;
        };
        let plan = judge(&command);
        let reason = format!("{:?}", plan.writes);
        Some(render(&call, &Answer::Deny { reason }))
    });
}
