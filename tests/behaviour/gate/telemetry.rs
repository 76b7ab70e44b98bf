//! What a collector hears of mala's own commands, and what one that is away costs.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use mala_tests::collector::{Collector, attributes};
use opentelemetry_proto::tonic::trace::v1::Span;

use super::{QUIET, with_path, world};
use crate::cli::{Answer, MALA, done, mala};
use crate::run::Batch;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

fn of<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn attribute(span: &Span, name: &str) -> String {
    attributes(&span.attributes).remove(name).unwrap_or_default()
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_run_arrives_as_one_trace_of_issues_agents_tests_and_gates() {
    let batch = Batch::new("echo work > \"$id.txt\"; sh check.sh --token hidden-value; tested; commit work");
    batch.issue("proj-1", &[]);
    batch.issue("proj-2", &[]);
    let collector = Collector::start();
    let mut command = batch.command(&["--max-agents", "2"]);
    let answer: Answer = command.env(ENDPOINT, collector.endpoint()).output().unwrap().into();
    assert_eq!(answer.code, 0, "{answer:?}");
    let spans = collector.spans();
    let run = of(&spans, "run");
    assert_eq!(run.len(), 1);
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    let parent =
        |span: &Span| by_id.get(span.parent_span_id.as_slice()).map_or("", |parent| parent.name.as_str());
    for (name, count, above) in [
        ("issue", 2, "run"),
        ("agent", 2, "issue"),
        ("gate", 2, "issue"),
        ("test", 4, "agent"),
        ("lock.wait", 2, "test"),
    ] {
        let found = of(&spans, name);
        assert_eq!(found.len(), count, "{name}: {spans:#?}");
        for span in found {
            assert_eq!((parent(span), &span.trace_id), (above, &run[0].trace_id), "{name}");
        }
    }
    let mut issues: Vec<String> =
        of(&spans, "issue").iter().map(|span| attribute(span, "mala.issue")).collect();
    issues.sort();
    assert_eq!(issues, ["proj-1", "proj-2"]);
    assert!(of(&spans, "gate").iter().all(|span| attribute(span, "mala.outcome") == "pass"));
    assert!(of(&spans, "test").iter().all(|span| attribute(span, "mala.exit_code") == "0"));
    let measured = collector.measured();
    assert_eq!(measured["mala.gate.results{result=pass}"], 2, "{measured:?}");
    assert_eq!((measured["mala.mutex.wait{mutex=test}"], measured["mala.mutex.hold{mutex=test}"]), (2, 2));
    assert!(measured["mala.lock.tries{result=granted}"] >= 2, "{measured:?}");
    assert!(collector.has_heard("--token ***") && !collector.has_heard("hidden-value"));
}

#[test]
fn single_commands_arrive_too_with_waits_and_verdicts() {
    let world = world();
    let collector = Collector::start();
    let traced = |command: &mut Command| with_path(&world, command.env(ENDPOINT, collector.endpoint()));
    done(&world, "lock acquire other.txt --agent bob");
    assert_eq!(traced(&mut mala(&world, ["lock", "acquire", "file.txt", "--agent", "ann"])).code, 0);
    let waited = ["lock", "acquire", "other.txt", "--agent", "ann", "--wait", "50ms"];
    assert_eq!(traced(&mut mala(&world, waited)).code, 1);
    world.write("file.txt", "broken\n");
    assert_eq!(traced(&mut mala(&world, ["test", "--agent", "ann", "--", "check-all"])).code, 1);
    let gate = ["gate", "check", "--agent", "ann", "--issue", "bd-1"];
    assert_eq!(traced(&mut mala(&world, gate)).code, 1);
    let spans = collector.spans();
    let wait = of(&spans, "lock.wait").into_iter().find(|span| attribute(span, "mala.target") == "other.txt");
    assert_eq!(attribute(wait.unwrap(), "mala.agent"), "ann");
    let test = of(&spans, "test")[0];
    assert_eq!(
        (attribute(test, "mala.exit_code"), attribute(test, "mala.mutex")),
        ("1".into(), "test".into())
    );
    let gate = of(&spans, "gate")[0];
    assert_eq!(
        (attribute(gate, "mala.outcome"), attribute(gate, "mala.issue")),
        ("fail".into(), "bd-1".into())
    );
    let measured = collector.measured();
    for (name, count) in [
        ("mala.lock.tries{result=granted}", 1),
        ("mala.lock.tries{result=refused}", 1),
        ("mala.lock.waits{result=timed_out}", 1),
        ("mala.lock.wait{result=timed_out}", 1),
        ("mala.mutex.hold{mutex=test}", 1),
        ("mala.gate.results{result=fail}", 1),
    ] {
        assert_eq!(measured.get(name), Some(&count), "{name}: {measured:?}");
    }
}

#[test]
fn a_collector_that_is_away_costs_one_warning_and_changes_nothing_else() {
    let world = world();
    let endpoint = nobody();
    for words in [
        vec!["lock", "acquire", "file.txt", "--agent", "ann"],
        vec!["test", "--agent", "ann", "--", "check-all"],
        vec!["exec", "--agent", "carl", "--", "sh", "-c", "check-all"],
    ] {
        let plain = with_path(&world, &mut mala(&world, &words));
        let traced = with_path(&world, mala(&world, &words).env(ENDPOINT, &endpoint));
        assert_eq!(traced.code, plain.code, "{words:?}: {traced:?}");
        let warnings = traced.err.matches("were not sent to").count();
        assert_eq!(warnings, 1, "{words:?}: {}", traced.err);
    }
    // Hooks, which clients wait for, do not even try.
    let hook = format!("echo '{{}}' | {MALA} hook claude {QUIET}; echo done");
    let mut command = world.command("sh");
    let answer = with_path(&world, command.args(["-c", &hook]).env(ENDPOINT, &endpoint));
    assert_eq!((answer.out.trim(), answer.err.as_str()), ("done", ""));
}
