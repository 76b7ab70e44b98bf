//! What every exporter of ours does beside exporting: masks secrets, runs where its libraries can, and notes the first
//! failure for the one warning.

use std::future::{self, Future};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;

use super::Trouble;
use super::plan::Target;
use crate::secrets::{mask, mask_args};

/// Knows the first thing that went wrong.
#[derive(Debug, Clone, Default)]
pub(super) struct Watcher(Arc<OnceLock<Trouble>>);

impl Watcher {
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.0.get().cloned()
    }

    fn note(&self, endpoint: &str, outcome: OTelSdkResult) -> OTelSdkResult {
        if let Err(error) = &outcome {
            let reason = mask(&error.to_string()).into_owned();
            let endpoint = mask(endpoint).into_owned();
            self.0.get_or_init(|| Trouble::Unreachable { endpoint, reason });
        }
        outcome
    }
}

/// An exporter that is watched.
#[derive(Debug)]
pub(super) struct Watched<E> {
    exporter: E,
    endpoint: String,
    watcher: Watcher,
    runtime: Handle,
}

impl<E> Watched<E> {
    pub(super) fn new(exporter: E, target: &Target, watcher: &Watcher, runtime: &Handle) -> Self {
        let endpoint = target.endpoint.clone();
        Self { exporter, endpoint, watcher: watcher.clone(), runtime: runtime.clone() }
    }

    /// The SDK calls exporters on threads of its own, where their timers and connections would find no runtime.
    async fn on_runtime<F: Future<Output = OTelSdkResult>>(&self, export: F) -> OTelSdkResult {
        let mut export = pin!(export);
        let outcome = future::poll_fn(|context| {
            let _entered = self.runtime.enter();
            export.as_mut().poll(context)
        });
        self.watcher.note(&self.endpoint, outcome.await)
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(mask_span);
        self.on_runtime(self.exporter.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Metrics carry no free text: their attributes are enums and names of locks.
impl<E: PushMetricExporter> PushMetricExporter for Watched<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.on_runtime(self.exporter.export(metrics)).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

fn mask_span(span: &mut SpanData) {
    mask_attributes(&mut span.attributes);
    for event in &mut span.events.events {
        event.name = mask(&event.name).into_owned().into();
        mask_attributes(&mut event.attributes);
    }
    if let Status::Error { description } = &mut span.status {
        *description = mask(description).into_owned().into();
    }
}

fn mask_attributes(attributes: &mut [KeyValue]) {
    for attribute in attributes {
        match &mut attribute.value {
            Value::String(text) => *text = StringValue::from(mask(text.as_str()).into_owned()),
            Value::Array(Array::String(texts)) => {
                let plain: Vec<&str> = texts.iter().map(StringValue::as_str).collect();
                *texts = mask_args(&plain).into_iter().map(StringValue::from).collect();
            }
            _ => {}
        }
    }
}
