//! A collector of traces and metrics: takes OTLP over HTTP, and decodes it with the protocol's own definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tiny_http::{Response, Server};

/// Everything that has arrived so far.
#[derive(Debug, Default)]
struct Inbox {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    bytes: Vec<u8>,
}

/// Serves until the process of the test ends.
#[derive(Debug)]
pub struct Collector {
    endpoint: String,
    inbox: Arc<Mutex<Inbox>>,
}

impl Default for Collector {
    fn default() -> Self {
        Self::start()
    }
}

impl Collector {
    pub fn start() -> Self {
        let server = Server::http("127.0.0.1:0").expect("a port is free");
        let endpoint = format!("http://{}", server.server_addr());
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let shared = Arc::clone(&inbox);
        thread::spawn(move || {
            for mut request in server.incoming_requests() {
                let mut body = Vec::new();
                request.as_reader().read_to_end(&mut body).expect("the request arrives");
                shared.lock().expect("nobody fails in here").file(request.url(), &body);
                // A sender that has gone away has been heard all the same.
                let _ = request.respond(Response::empty(200));
            }
        });
        Self { endpoint, inbox }
    }

    /// What to set `OTEL_EXPORTER_OTLP_ENDPOINT` to.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All spans, in the order of their arrival.
    pub fn spans(&self) -> Vec<Span> {
        let inbox = self.inbox.lock().expect("nobody fails in here");
        let resources = inbox.traces.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).cloned().collect()
    }

    /// How often each thing was counted or measured, as `name{attributes}`.
    pub fn measured(&self) -> BTreeMap<String, u64> {
        let inbox = self.inbox.lock().expect("nobody fails in here");
        let resources = inbox.metrics.iter().flat_map(|request| &request.resource_metrics);
        let metrics = resources.flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics);
        let mut counts = BTreeMap::new();
        for metric in metrics {
            let mut add = |about: &[KeyValue], count: u64| {
                let about: Vec<String> =
                    attributes(about).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
                *counts.entry(format!("{}{{{}}}", metric.name, about.join(","))).or_default() += count;
            };
            match &metric.data {
                Some(Data::Sum(sum)) => sum.data_points.iter().for_each(|point| match point.value {
                    Some(number_data_point::Value::AsInt(count)) => {
                        add(&point.attributes, count.unsigned_abs());
                    }
                    other => panic!("a counter counts: {other:?}"),
                }),
                Some(Data::Histogram(histogram)) => {
                    histogram.data_points.iter().for_each(|point| add(&point.attributes, point.count));
                }
                other => panic!("nobody sends this: {other:?}"),
            }
        }
        counts
    }

    /// True if the text is anywhere in what has arrived.
    pub fn has_heard(&self, text: &str) -> bool {
        let inbox = self.inbox.lock().expect("nobody fails in here");
        inbox.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

impl Inbox {
    fn file(&mut self, url: &str, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        match url {
            "/v1/traces" => self.traces.push(Message::decode(body).expect("it is a request for traces")),
            "/v1/metrics" => self.metrics.push(Message::decode(body).expect("it is a request for metrics")),
            other => panic!("nobody sends to {other}"),
        }
    }
}

/// The attributes of a span, as texts.
pub fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("nobody sends this: {other:?}"),
    };
    list.iter().map(|attribute| (attribute.key.clone(), text(&attribute.value))).collect()
}
