//! Traces and metrics for a collector, by OpenTelemetry.
//!
//! Everything is set with the standard `OTEL_*` variables. Without an endpoint, or with `OTEL_SDK_DISABLED=true`, nothing
//! happens: no thread, no runtime, no subscriber; a span costs a load of an atomic and a metric too.
//! With one, spans of mala's own crates and the [`metrics`] are sent in the background, over HTTP,
//! or over gRPC if the crate was built with its feature `otlp-grpc`.
//!
//! **A collector must never be in the way.** Work does not wait for it. One that cannot be reached costs one [`Trouble`], which
//! [`Telemetry::finish`] hands to the caller to show, and at most [`FLUSH`] at the end. A wrong setting is such a
//! trouble, too, and sends nothing.
//!
//! **Secrets do not leave**: every text in a span goes through [`crate::secrets`] first.
//!
//! | variable | means |
//! | --- | --- |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT`, `..._TRACES_ENDPOINT`, `..._METRICS_ENDPOINT` | where to send; switches it on |
//! | `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER` | `otlp` switches it on with the default endpoint, `none` off |
//! | `OTEL_EXPORTER_OTLP_PROTOCOL` (and for each signal) | `http/protobuf` (default), or `grpc` with the feature `otlp-grpc` |
//! | `OTEL_EXPORTER_OTLP_HEADERS`, `_TIMEOUT`, `_COMPRESSION` (and for each signal) | as specified; compression is `gzip` |
//! | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | who sends |
//! | `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_BSP_*`, `OTEL_TRACES_SAMPLER` | as specified |
//! | `OTEL_SDK_DISABLED` | `true`: off |
//! | `TRACEPARENT` | what this process is a part of |

mod export;
#[cfg(feature = "otlp-grpc")]
mod grpc;
mod http;
mod metrics;
mod plan;
mod remote;
pub mod spans;
mod transport;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{ContextGuard, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use thiserror::Error;
use tokio::runtime::Runtime;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use export::{Watched, Watcher};
pub use metrics::{GateResult, LockResult, Metrics, WaitResult, metrics};
use plan::{Plan, Target};
pub use remote::{TRACEPARENT, traceparent};

/// The most that sending the rest may cost at the end.
pub const FLUSH: Duration = Duration::from_secs(1);

/// Crates whose spans are sent begin with this.
const OURS: &str = "mala";

/// Something that keeps traces and metrics from being sent. It is worth one warning and nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Trouble {
    #[error("`{variable}` is `{value}`: {reason}; no traces or metrics are sent")]
    Setting { variable: String, value: String, reason: String },
    #[error("traces and metrics cannot be sent: {reason}")]
    Start { reason: String },
    #[error("some traces or metrics were not sent to `{endpoint}`: {reason}")]
    Unreachable { endpoint: String, reason: String },
    #[error("the collector did not take the last traces and metrics within {} s", FLUSH.as_secs())]
    Slow,
}

/// Sends traces and metrics as long as it lives. Dropping it sends what is left.
#[derive(Debug)]
#[must_use = "traces and metrics are sent as long as it lives"]
pub struct Telemetry {
    running: Option<Running>,
    trouble: Option<Trouble>,
    /// What the spans of this process are a part of.
    _parent: Option<ContextGuard>,
}

#[derive(Debug)]
struct Running {
    tracer: Option<SdkTracerProvider>,
    meter: Option<SdkMeterProvider>,
    runtime: Runtime,
    watcher: Watcher,
}

/// Starts sending if the variables, as `env` tells them, say so. `service` is the name of this program unless they say
/// another. Once in a process: spans and metrics are for the whole of it.
pub fn init(service: &str, env: &dyn Fn(&str) -> Option<String>) -> Telemetry {
    let started = match Plan::read(service, env) {
        Ok(None) => return Telemetry { running: None, trouble: None, _parent: None },
        Ok(Some(plan)) => Running::start(plan),
        Err(trouble) => Err(trouble),
    };
    match started {
        Ok(running) => {
            let parent = env(TRACEPARENT).map(remote::attach);
            Telemetry { running: Some(running), trouble: None, _parent: parent }
        }
        Err(trouble) => Telemetry { running: None, trouble: Some(trouble), _parent: None },
    }
}

impl Telemetry {
    /// True if something is being sent.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Sends what is left, for at most [`FLUSH`], and says what went wrong.
    #[must_use = "somebody should be told"]
    pub fn finish(mut self) -> Option<Trouble> {
        self.stop()
    }

    fn stop(&mut self) -> Option<Trouble> {
        let ended = self.running.take().and_then(Running::stop);
        self.trouble.take().or(ended)
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    fn start(plan: Plan) -> Result<Self, Trouble> {
        let failed = |error: &dyn ToString| Trouble::Start { reason: error.to_string() };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("telemetry")
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let mut running = Self { tracer: None, meter: None, runtime, watcher: Watcher::default() };
        let resource = resource(&plan);
        if let Some(target) = plan.traces {
            let tracer = running.trace(&target, resource.clone())?;
            subscribe(&tracer).map_err(|error| failed(&error))?;
            running.tracer = Some(tracer);
        }
        if let Some(target) = plan.metrics {
            let meter = running.measure(&target, resource, plan.interval)?;
            metrics::install(&meter);
            running.meter = Some(meter);
        }
        Ok(running)
    }

    fn trace(&self, target: &Target, resource: Resource) -> Result<SdkTracerProvider, Trouble> {
        let _entered = self.runtime.enter();
        let exporter = Watched::new(transport::spans(target)?, target, &self.watcher, self.runtime.handle());
        Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
    }

    fn measure(
        &self,
        target: &Target,
        resource: Resource,
        interval: Duration,
    ) -> Result<SdkMeterProvider, Trouble> {
        let _entered = self.runtime.enter();
        let exporter =
            Watched::new(transport::metrics(target)?, target, &self.watcher, self.runtime.handle());
        let reader = PeriodicReader::builder(exporter).with_interval(interval).build();
        Ok(SdkMeterProvider::builder().with_reader(reader).with_resource(resource).build())
    }

    /// A thread waits for the collector, because not all of the ways to wait for it have a deadline.
    fn stop(self) -> Option<Trouble> {
        let (tracer, meter) = (self.tracer, self.meter);
        let (done, wait) = mpsc::sync_channel(1);
        thread::spawn(move || {
            // What cannot be sent is known to the watcher.
            let _ = tracer.map(|tracer| tracer.shutdown_with_timeout(FLUSH));
            let _ = meter.map(|meter| meter.shutdown());
            let _ = done.send(());
        });
        let is_done = wait.recv_timeout(FLUSH).is_ok();
        // Asked before the runtime ends, which makes what is still under way fail too.
        let trouble = self.watcher.trouble().or((!is_done).then_some(Trouble::Slow));
        self.runtime.shutdown_background();
        trouble
    }
}

fn resource(plan: &Plan) -> Resource {
    let attributes = plan.resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_attributes(attributes)
        .with_service_name(plan.service.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Spans of the libraries that send spans must not be sent: that would never end.
fn subscribe(tracer: &SdkTracerProvider) -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer.tracer(OURS))
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_filter(Targets::new().with_target(OURS, Level::INFO));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))
}
