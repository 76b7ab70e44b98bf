//! A table of calls, harmful and harmless, and what must be said about each.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mala_agents::hook::ToolCall;
use mala_agents::intent::{Guess, Intent};
use mala_agents::shell::{self, Plan, Surroundings, Write};
use mala_agents::{When, protected};
use serde::Deserialize;

#[derive(Deserialize)]
struct Corpus {
    call: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    command: Option<String>,
    tool: Option<String>,
    input: Option<toml::Value>,
    #[serde(default)]
    writes: Vec<String>,
    #[serde(default)]
    patterns: Vec<String>,
    #[serde(default)]
    objects: Vec<String>,
    #[serde(default)]
    foreign: Vec<String>,
    #[serde(default)]
    unknown: Vec<String>,
}

const FOLDERS: &[&str] = &["/w", "/w/src", "/w/docs", "/tmp", "/home/me"];
const FILES: &[&str] = &["/w/src/a.rs", "/w/src/b.rs", "/w/docs/a.md", "/tmp/x", "/w/run.sh"];

/// The file system of the corpus.
fn exists(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let is_folder = FOLDERS.iter().any(|folder| Path::new(folder) == path);
    match bytes.ends_with(b"/.") {
        true => is_folder,
        false => is_folder || FILES.iter().any(|file| Path::new(file) == path),
    }
}

fn plan(command: &str) -> Plan {
    let (cwd, home) = (Path::new("/w"), Some(Path::new("/home/me")));
    let tests = ["cargo test", "pytest"].map(|pattern| pattern.parse().unwrap());
    shell::plan(
        command,
        Surroundings { cwd, home, exists: &exists, alias: &|_| None, tests: &tests, run: None },
    )
}

fn judge(call: &Call) -> Plan {
    if let Some(command) = &call.command {
        return plan(command);
    }
    let input = call.input.clone().unwrap_or(toml::Value::Table(toml::Table::new()));
    let tool = ToolCall {
        name: call.tool.clone().expect("a call has a command or a tool"),
        input: serde_json::to_value(input).unwrap(),
        id: None,
        response: None,
        error: None,
    };
    match tool.intent().unwrap() {
        Intent::Writes { paths } | Intent::Unknown(Guess { writes: paths, .. }) => Plan {
            objections: paths.iter().filter_map(|path| protected::objection(path)).collect(),
            writes: paths.iter().map(|path| Write::File(Path::new("/w").join(path))).collect(),
            ..Plan::default()
        },
        Intent::Reads => Plan::default(),
        other => panic!("{}: {other:?}", tool.name),
    }
}

fn read(text: &str) -> Vec<Call> {
    toml::from_str::<Corpus>(text).unwrap().call
}

fn title(call: &Call) -> &str {
    call.command.as_deref().or(call.tool.as_deref()).unwrap()
}

fn expected_writes(call: &Call) -> Vec<Write> {
    let root = Path::new("/w");
    let files = call.writes.iter().map(|path| Write::File(root.join(path)));
    let patterns = call.patterns.iter().map(|pattern| {
        let (base, rest) = pattern.split_once(' ').unwrap();
        Write::Pattern { base: root.join(base), rest: rest.to_owned() }
    });
    files.chain(patterns).collect()
}

/// Every write below the checkout, with how often it is said.
fn inside(plan: &Plan) -> BTreeMap<&Write, usize> {
    let mut writes = BTreeMap::new();
    for write in &plan.writes {
        // What is staged is no file of the checkout.
        let (Write::File(path) | Write::Pattern { base: path, .. }) = write else { continue };
        if path.starts_with("/w") || path == &PathBuf::from("/w") {
            *writes.entry(write).or_insert(0) += 1;
        }
    }
    writes
}

#[test]
fn harmful_calls_are_seen_for_what_they_are() {
    let corpus = read(include_str!("../corpus/harmful.toml"));
    assert!(corpus.len() >= 60, "only {} harmful calls", corpus.len());
    let mut wrong = Vec::new();
    for call in &corpus {
        let plan = judge(call);
        let expected = expected_writes(call);
        let mut fail = |what: String| wrong.push(format!("{}\n    {what}\n    {plan:?}", title(call)));
        for write in expected.iter().filter(|write| !plan.writes.contains(write)) {
            fail(format!("should write {write:?}"));
        }
        // Nothing else may be claimed of a call whose writes are all named.
        let has_objections = !call.objects.is_empty() || !call.foreign.is_empty();
        if call.unknown.is_empty() && !has_objections {
            for extra in inside(&plan).keys().filter(|write| !expected.contains(write)) {
                fail(format!("should not write {extra:?}"));
            }
        }
        let objects = |words: &String, when| {
            plan.objections.iter().any(|objection| objection.when == when && objection.what.contains(words))
        };
        for words in call.objects.iter().filter(|words| !objects(words, When::Always)) {
            fail(format!("should be objected to: {words}"));
        }
        for words in call.foreign.iter().filter(|words| !objects(words, When::ForeignChanges)) {
            fail(format!("should be objected to if others have changes: {words}"));
        }
        for words in
            call.unknown.iter().filter(|words| !plan.unknown.iter().any(|line| line.contains(*words)))
        {
            fail(format!("should be unknown: {words}"));
        }
        let says_something = !expected.is_empty() || has_objections || !call.unknown.is_empty();
        assert!(says_something, "the corpus expects nothing of {}", title(call));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn harmless_calls_pass() {
    let corpus = read(include_str!("../corpus/harmless.toml"));
    assert!(corpus.len() >= 25, "only {} harmless calls", corpus.len());
    let mut wrong = Vec::new();
    for call in &corpus {
        let plan = judge(call);
        let is_expected = |line: &String| call.unknown.iter().any(|words| line.contains(words));
        if !inside(&plan).is_empty() || !plan.objections.is_empty() || !plan.unknown.iter().all(is_expected) {
            wrong.push(format!("{}\n    {plan:?}", title(call)));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
