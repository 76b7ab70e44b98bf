//! What arrives, and what happens when nobody is there.

use std::net::TcpListener;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

#[cfg(feature = "otlp-grpc")]
use super::grpc;
use super::https::{self, Certificate};
use super::received::{Inbox, Received, attributes};
use super::{http, traced};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The second that is allowed, on a machine that is busy with other things. Exporters themselves would wait for ten.
const BUSY: Duration = Duration::from_secs(3);
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// Starts a collector and gives its endpoint.
type Collect = fn(&Inbox) -> String;
/// Every protocol of this build, and a collector for it.
const PROTOCOLS: &[(&str, Collect)] = &[
    ("http/protobuf", http::collector),
    #[cfg(feature = "otlp-grpc")]
    ("grpc", grpc::collector),
];

/// Everything that `traced` does, as a collector must see it.
fn check(received: &Received) {
    let spans = received.spans();
    let names: Vec<&str> = spans.keys().map(String::as_str).collect();
    assert_eq!(names, ["agent", "gate", "issue", "lock.wait", "run", "test"]);
    let parents =
        [("issue", "run"), ("agent", "issue"), ("gate", "issue"), ("lock.wait", "agent"), ("test", "agent")];
    for (child, parent) in parents {
        assert_eq!(spans[child].parent_span_id, spans[parent].span_id, "{child} in {parent}");
        assert_eq!(spans[child].trace_id, spans["run"].trace_id);
    }
    let of = |name: &str, field: &str| attributes(&spans[name].attributes)[field].clone();
    assert_eq!(of("run", "mala.run"), "r-1");
    assert_eq!((of("issue", "mala.issue"), of("issue", "mala.attempt")), ("bd-7".into(), "2".into()));
    assert_eq!((of("agent", "mala.agent"), of("agent", "mala.profile")), ("otter".into(), "claude".into()));
    assert_eq!(of("lock.wait", "mala.target"), "src/a.rs");
    assert_eq!(of("test", "mala.command"), "cargo test --token *** API_KEY=***");
    assert_eq!(of("gate", "mala.outcome"), "fail");
    assert_eq!(spans["gate"].status.as_ref().unwrap().code, StatusCode::Error as i32);
    assert!(spans["run"].status.as_ref().is_none_or(|status| status.code == StatusCode::Unset as i32));
    assert_eq!(received.sender()["service.name"], "traced");
    assert_eq!(received.sender()["team"], "otters");
    assert_eq!(
        received.measured(),
        [
            "mala.gate.results{result=fail}: 1",
            "mala.lock.tries{result=granted}: 2",
            "mala.lock.tries{result=refused}: 1",
            "mala.lock.waits{result=granted}: 1",
            "mala.lock.wait{result=granted}: 1 of 0.25 s",
            "mala.mutex.hold{mutex=test}: 1 of 40 s",
            "mala.mutex.wait{mutex=test}: 1 of 3 s",
        ]
    );
}

fn check_no_secret(received: &Received) {
    let spans = received.spans();
    assert_eq!(spans["test"].events[0].name, "PASSWORD=***");
    assert_eq!(spans["gate"].status.as_ref().unwrap().message, "the header was Authorization: ***");
    assert!(!received.contains("hidden-value"));
}

#[test]
fn traces_and_metrics_arrive_without_secrets() {
    for (protocol, collector) in PROTOCOLS {
        let inbox = Inbox::default();
        let endpoint = collector(&inbox);
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=otters");
        let resource = ("OTEL_RESOURCE_ATTRIBUTES", "team=otters");
        let report = traced::run(&[(ENDPOINT, &endpoint), (PROTOCOL, protocol), headers, resource]);
        assert!(report.is_on, "{protocol}");
        assert_eq!((&*report.trouble, &*report.stderr), ("none", ""), "{protocol}");
        let received = inbox.lock().unwrap();
        check(&received);
        check_no_secret(&received);
        assert_eq!(received.teams, ["otters ", "otters "], "{protocol}");
    }
}

#[test]
fn without_a_protocol_it_is_http() {
    let inbox = Inbox::default();
    let endpoint = http::collector(&inbox);
    let report = traced::run(&[(ENDPOINT, &endpoint)]);
    assert_eq!(report.trouble, "none");
    assert_eq!(inbox.lock().unwrap().spans().len(), 6);
}

#[test]
fn an_encrypted_collector_is_trusted_by_its_certificate_only() {
    let (Some(certificate), Some(other)) = (Certificate::make(), Certificate::make()) else {
        println!("SKIPPED: openssl is not installed, so there is no encrypted collector");
        return;
    };
    let inbox = Inbox::default();
    let endpoint = https::collector(&inbox, &certificate);
    let report = traced::run(&[(ENDPOINT, &endpoint), ("SSL_CERT_FILE", &certificate.path())]);
    assert_eq!(report.trouble, "none");
    assert_eq!(inbox.lock().unwrap().spans().len(), 6);
    let report = traced::run(&[(ENDPOINT, &endpoint), ("SSL_CERT_FILE", &other.path())]);
    let expected = format!("some traces or metrics were not sent to `{endpoint}");
    assert!(report.trouble.starts_with(&expected), "{}", report.trouble);
    assert_eq!(inbox.lock().unwrap().spans().len(), 6);
}

#[test]
fn compressed_requests_arrive() {
    for (protocol, collector) in PROTOCOLS {
        let inbox = Inbox::default();
        let endpoint = collector(&inbox);
        let gzip = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
        let report = traced::run(&[(ENDPOINT, &endpoint), (PROTOCOL, protocol), gzip]);
        assert_eq!(report.trouble, "none", "{protocol}");
        let received = inbox.lock().unwrap();
        assert_eq!(received.teams, [" gzip", " gzip"], "{protocol}");
        assert_eq!(received.spans().len(), 6, "{protocol}");
    }
}

#[test]
fn one_signal_can_be_sent_alone_and_the_service_renamed() {
    let inbox = Inbox::default();
    let endpoint = http::collector(&inbox);
    let report = traced::run(&[
        (ENDPOINT, &endpoint),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_SERVICE_NAME", "renamed"),
    ]);
    assert!(report.is_on);
    let received = inbox.lock().unwrap();
    assert_eq!((received.spans().len(), received.metrics.len()), (6, 0));
    assert_eq!(received.sender()["service.name"], "renamed");
}

#[test]
fn nothing_runs_when_nothing_is_asked_for() {
    let endpoint = "http://127.0.0.1:1";
    for variables in [&[][..], &[(ENDPOINT, endpoint), ("OTEL_SDK_DISABLED", "true")]] {
        let report = traced::run(variables);
        assert!(!report.is_on);
        assert_eq!((&*report.trouble, &*report.stderr), ("none", ""));
        assert!(report.threads <= 1, "{report:?}");
    }
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn a_collector_that_is_away_costs_one_warning_and_no_time() {
    for (protocol, _) in PROTOCOLS {
        let endpoint = nobody();
        let report = traced::run(&[(ENDPOINT, &endpoint), (PROTOCOL, protocol)]);
        let expected = format!("some traces or metrics were not sent to `{endpoint}");
        assert!(report.trouble.starts_with(&expected), "{}", report.trouble);
        assert_eq!(report.stderr, "", "{protocol}");
        assert!(report.flush < BUSY, "{:?}", report.flush);
    }
}

#[test]
fn a_collector_that_never_answers_is_left_after_a_second() {
    for (protocol, _) in PROTOCOLS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let report = traced::run(&[(ENDPOINT, &endpoint), (PROTOCOL, protocol)]);
        assert!(report.trouble.contains("within 1 s"), "{}", report.trouble);
        assert_eq!(report.stderr, "", "{protocol}");
        let flush = report.flush;
        assert!(flush > Duration::from_millis(900) && flush < BUSY, "{flush:?}");
    }
}

#[test]
fn a_wrong_setting_is_one_warning_and_nothing_is_sent() {
    let report = traced::run(&[(ENDPOINT, "http://127.0.0.1:1"), (PROTOCOL, "smoke-signals")]);
    assert!(!report.is_on);
    assert_eq!(
        report.trouble,
        "`OTEL_EXPORTER_OTLP_PROTOCOL` is `smoke-signals`: mala does not know this; no traces or metrics are sent"
    );
    let report = traced::run(&[(ENDPOINT, "not an address")]);
    assert!(!report.is_on);
    assert!(report.trouble.starts_with("traces and metrics cannot be sent: `not an address"), "{report:?}");
}
