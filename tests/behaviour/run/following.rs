//! `mala logs -f`: what an agent does, while it does it and afterwards.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::{Batch, Run};
use crate::cli::{Answer, done, mala};

const TALKS: &str = r#"
    say 1 "reading the code"
    while [ ! -e "$GO" ]; do sleep 0.05; done
    say 2 "token=ghp_0123456789abcdefghijklmnopqrstuvwxyz is in my way"
    echo work > $id.txt; commit done; cost 0.1 false done"#;

#[test]
fn what_an_agent_does_can_be_followed_and_read_again() {
    let batch = Batch::claude(TALKS, "", "");
    batch.issue("bd-1", &[]);
    let go = batch.outside("go");
    let run = batch.command(&[]).env("GO", &go).stdout(Stdio::piped()).spawn().unwrap();
    let follow =
        |name: &str| mala(&batch.world, ["logs", "-f", name]).stdout(Stdio::piped()).spawn().unwrap();
    while !done(&batch.world, "status --json").out.contains("script-bd-1-1") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut following = follow("script-bd-1-1");
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "reading the code", "it is told while the agent works");
    std::fs::write(&go, "").unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest[0].contains("is in my way") && !rest.concat().contains("ghp_"), "{rest:?}");
    assert!(following.wait().unwrap().success(), "it ends with the attempt");
    assert_eq!(Run::of(run).issues("done"), ["bd-1"]);
    let again: Answer = mala(&batch.world, ["logs", "-f", "bd-1", "--json"]).output().unwrap().into();
    let first: serde_json::Value = serde_json::from_str(again.out.lines().next().unwrap()).unwrap();
    let expected = serde_json::json!({"agent": "script-bd-1-1", "issue": "bd-1", "what": "reading the code"});
    assert_eq!(first, expected, "the issue stands for its newest attempt");
    let answer: Answer = mala(&batch.world, ["logs", "-f", "nobody"]).output().unwrap().into();
    assert!(answer.code == 2 && answer.err.contains("is called `nobody`"), "{answer:?}");
}
