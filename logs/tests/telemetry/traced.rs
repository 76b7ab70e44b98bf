//! The program `traced`, run in an environment of its own.

use std::process::Command;
use std::time::Duration;

/// What it said about itself.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) is_on: bool,
    pub(crate) flush: Duration,
    pub(crate) threads: usize,
    pub(crate) trouble: String,
    /// Everything else that it wrote, which should be nothing.
    pub(crate) stderr: String,
}

pub(crate) fn run(variables: &[(&str, &str)]) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_traced"));
    let output = command.env_clear().envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let field = |name: &str| {
        let prefix = format!("{name}: ");
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        assert_eq!(lines.len(), 1, "{text}");
        lines[0].to_owned()
    };
    Report {
        is_on: field("on") == "true",
        flush: Duration::from_millis(field("millis").parse().unwrap()),
        threads: field("threads").parse().unwrap(),
        trouble: field("trouble"),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
