//! What a collector has received, whichever way it came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) traces: Vec<ExportTraceServiceRequest>,
    pub(crate) metrics: Vec<ExportMetricsServiceRequest>,
    /// The header `x-team` of each request.
    pub(crate) teams: Vec<String>,
}

pub(crate) type Inbox = Arc<Mutex<Received>>;

impl Received {
    pub(crate) fn spans(&self) -> BTreeMap<String, Span> {
        let resources = self.traces.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans).map(|span| (span.name.clone(), span.clone())).collect()
    }

    /// The attributes of who sent the traces.
    pub(crate) fn sender(&self) -> BTreeMap<String, String> {
        attributes(&self.traces[0].resource_spans[0].resource.as_ref().unwrap().attributes)
    }

    /// The counters as `name{attributes}: sum`, the histograms as `name{attributes}: count and sum`.
    pub(crate) fn measured(&self) -> Vec<String> {
        let resources = self.metrics.iter().flat_map(|request| &request.resource_metrics);
        let metrics = resources.flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics);
        let mut lines = Vec::new();
        for metric in metrics {
            let line = |about: &[KeyValue], value: String| {
                let about: Vec<String> =
                    attributes(about).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("{}{{{}}}: {value}", metric.name, about.join(","))
            };
            match metric.data.as_ref().unwrap() {
                Data::Sum(sum) => lines.extend(sum.data_points.iter().map(|point| {
                    let Some(number_data_point::Value::AsInt(count)) = point.value else {
                        panic!("{point:?}")
                    };
                    line(&point.attributes, count.to_string())
                })),
                Data::Histogram(histogram) => lines.extend(histogram.data_points.iter().map(|point| {
                    line(&point.attributes, format!("{} of {} s", point.count, point.sum.unwrap()))
                })),
                other => panic!("{other:?}"),
            }
        }
        lines.sort();
        lines
    }

    /// True if the text is anywhere in what was received.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let traces = self.traces.iter().map(Message::encode_to_vec);
        let mut all = traces.chain(self.metrics.iter().map(Message::encode_to_vec));
        all.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

pub(crate) fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    list.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}
