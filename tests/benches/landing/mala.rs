//! The same with `mala run`: one checkout, locks, offers and the landing queue.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::workload::{Outcome, Workload, git, place};

const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");

/// Thinks once, takes the hot file or ends its turn until it is its own, writes, tests and offers. It is told if that fails.
const AGENT: &str = r#"
prompt=$(cat)
id=$(printf '%s\n' "$prompt" | sed -n '1s/^You work on the issue \([^ ]*\) .*/\1/p'); n=${id#b-}
[ -e "$OUT/thought-$n" ] || { sleep $THINK; touch "$OUT/thought-$n"; }
. "$OUT/task-$n"
if printf '%s\n' "$prompt" | grep -q 'is not accepted yet'; then sleep $RETHINK; mend=yes; fi
if ! grep -qx $n "$file" 2> /dev/null; then
    if [ -n "$hot" ] && ! "$MALA" lock acquire "$file" > /dev/null 2>&1; then
        "$MALA" lock ask "$file" --why "to add a line" > /dev/null 2>&1; exit 0
    fi
    echo $n >> "$file"
fi
if [ -n "$pair" ]; then echo x > part-$n.pair-$pair; [ -z "$mend" ] || echo x > mended-$pair; fi
"$MALA" test > /dev/null 2>&1
"$MALA" commit -m "$id: done" > /dev/null
"#;

pub(crate) fn run(workload: &Workload) -> Outcome {
    let (dir, root) = place();
    workload.repository(&root);
    let (out, agent) = (dir.path().join("out"), dir.path().join("agent.sh"));
    fs::create_dir(&out).unwrap();
    fs::write(&agent, AGENT).unwrap();
    let settings = format!(
        "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\n[validate]\ncommands = [\"sh check.sh\"]\n\
         [queue]\ndirectory = \"{}\"\n[run]\nprofile = \"script\"\nstagger = \"1ms\"\n\
         [agents.script]\nkind = \"command\"\ncommand = [\"sh\", \"{}\"]\n",
        dir.path().join("slots").display(),
        agent.display()
    );
    fs::write(root.join("mala.toml"), settings).unwrap();
    git(&root, &["add", "."]).unwrap();
    git(&root, &["commit", "-qm", "settings"]).unwrap();
    let mut lines = String::new();
    for issue in 0..workload.issues {
        let (file, is_hot) = workload.file(issue);
        let pair = workload.pair(issue).map(|pair| pair.to_string()).unwrap_or_default();
        let hot = if is_hot { "yes" } else { "" };
        fs::write(out.join(format!("task-{issue}")), format!("file={file}; hot={hot}; pair={pair}\n"))
            .unwrap();
        writeln!(
            lines,
            "{{\"id\":\"b-{issue}\",\"title\":\"issue {issue}\",\"status\":\"open\",\"priority\":2}}"
        )
        .unwrap();
    }
    let list = dir.path().join("issues.jsonl");
    fs::write(&list, lines).unwrap();
    assert!(
        mala(workload, &root, &out, &["issue", "import", list.to_str().unwrap()]).status().unwrap().success()
    );
    // The branch is known to be green, as it is after every landing; the other columns take that for granted.
    let mut known = mala(workload, &root, &out, &["gate", "check", "--commit", "HEAD", "--rerun"]);
    known.stderr(Stdio::null()).status().unwrap();
    let agents = workload.agents.to_string();
    let started = Instant::now();
    let run = mala(workload, &root, &out, &["run", "--json", "--max-agents", &agents])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output();
    let took = started.elapsed();
    let events = String::from_utf8_lossy(&run.unwrap().stdout).into_owned();
    let sent_back =
        u32::try_from(events.lines().filter(|line| line.contains("\"event\":\"rejected\"")).count()).unwrap();
    workload.outcome(&root, took, sent_back, parked(&events))
}

fn mala(workload: &Workload, root: &Path, out: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(MALA);
    command.args(args).current_dir(root).env("OUT", out).env("MALA", MALA).stdout(Stdio::null());
    command.env("THINK", workload.think.as_secs_f64().to_string());
    command.env("RETHINK", (workload.think / 2).as_secs_f64().to_string());
    command
}

/// Agent-seconds between being parked and going on.
fn parked(events: &str) -> Duration {
    let mut waiting = std::collections::HashMap::new();
    let mut total = 0.0;
    for line in events.lines() {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let (Some(issue), Some(at)) = (event["issue"].as_str(), event["at"].as_str()) else { continue };
        let Some(moment) = mala_core::issue::parse_moment(at) else { continue };
        match event["event"].as_str() {
            Some("parked") => _ = waiting.insert(issue.to_owned(), moment),
            Some("resumed") => {
                total += waiting.remove(issue).map_or(0.0, |since| moment.since(since).as_secs_f64());
            }
            _ => {}
        }
    }
    Duration::from_secs_f64(total)
}
