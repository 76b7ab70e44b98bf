//! The ways to a collector: HTTP, and gRPC in builds that have it.

use std::error::Error;

use opentelemetry_otlp::{MetricExporter, SpanExporter};

use super::plan::{Protocol, Target};
use super::{Trouble, http};

pub(super) fn spans(target: &Target) -> Result<SpanExporter, Trouble> {
    let built = match target.protocol {
        Protocol::Http => http::configure(SpanExporter::builder().with_http(), target)?.build(),
        #[cfg(feature = "otlp-grpc")]
        Protocol::Grpc => super::grpc::configure(SpanExporter::builder().with_tonic(), target)?.build(),
    };
    built.map_err(|error| unusable(target, &error))
}

pub(super) fn metrics(target: &Target) -> Result<MetricExporter, Trouble> {
    let built = match target.protocol {
        Protocol::Http => http::configure(MetricExporter::builder().with_http(), target)?.build(),
        #[cfg(feature = "otlp-grpc")]
        Protocol::Grpc => super::grpc::configure(MetricExporter::builder().with_tonic(), target)?.build(),
    };
    built.map_err(|error| unusable(target, &error))
}

pub(super) fn unusable(target: &Target, error: &dyn Error) -> Trouble {
    Trouble::Start { reason: format!("`{}` cannot be used: {error}", target.endpoint) }
}
