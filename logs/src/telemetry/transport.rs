//! The ways to a collector: HTTP and gRPC, plain and encrypted.

use std::collections::HashMap;
use std::error::Error;

use http::{HeaderMap, HeaderName, HeaderValue};
use hyper_rustls::HttpsConnectorBuilder;
use opentelemetry_http::HttpClient;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    Compression as Packing, MetricExporter, Protocol as Format, RetryPolicy, SpanExporter, WithExportConfig,
    WithHttpConfig, WithTonicConfig,
};

use super::Trouble;
use super::plan::{Compression, Protocol, Target};

pub(super) fn spans(target: &Target) -> Result<SpanExporter, Trouble> {
    let built = match target.protocol {
        Protocol::Http => over_http(SpanExporter::builder().with_http(), target)?.build(),
        Protocol::Grpc => over_grpc(SpanExporter::builder().with_tonic(), target)?.build(),
    };
    built.map_err(|error| unusable(target, &error))
}

pub(super) fn metrics(target: &Target) -> Result<MetricExporter, Trouble> {
    let built = match target.protocol {
        Protocol::Http => over_http(MetricExporter::builder().with_http(), target)?.build(),
        Protocol::Grpc => over_grpc(MetricExporter::builder().with_tonic(), target)?.build(),
    };
    built.map_err(|error| unusable(target, &error))
}

/// One try for each batch: a collector that is away must not keep anything waiting.
fn over_http<B: WithExportConfig + WithHttpConfig>(builder: B, target: &Target) -> Result<B, Trouble> {
    let headers: HashMap<String, String> = target.headers.iter().cloned().collect();
    let builder = builder
        .with_protocol(Format::HttpBinary)
        .with_endpoint(&target.endpoint)
        .with_timeout(target.timeout)
        .with_headers(headers)
        .with_retry_policy(RetryPolicy::disabled())
        .with_shared_http_client(client(target)?.into());
    Ok(match target.compression {
        Compression::None => builder,
        Compression::Gzip => WithHttpConfig::with_compression(builder, Packing::Gzip),
    })
}

fn client(target: &Target) -> Result<Box<dyn HttpClient>, Trouble> {
    if !is_encrypted(target) {
        return Ok(Box::new(HyperClient::with_default_connector(target.timeout, None)));
    }
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| unusable(target, &error))?
        .https_only()
        .enable_http1()
        .build();
    Ok(Box::new(HyperClient::new(connector, target.timeout, None)))
}

fn over_grpc<B: WithExportConfig + WithTonicConfig>(builder: B, target: &Target) -> Result<B, Trouble> {
    let mut headers = HeaderMap::new();
    for (name, value) in &target.headers {
        let name = HeaderName::try_from(name).map_err(|error| unusable(target, &error))?;
        let value = HeaderValue::try_from(value).map_err(|error| unusable(target, &error))?;
        headers.insert(name, value);
    }
    let mut builder = builder
        .with_endpoint(&target.endpoint)
        .with_timeout(target.timeout)
        .with_metadata(MetadataMap::from_headers(headers))
        .with_retry_policy(RetryPolicy::disabled());
    if is_encrypted(target) {
        builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
    }
    Ok(match target.compression {
        Compression::None => builder,
        Compression::Gzip => WithTonicConfig::with_compression(builder, Packing::Gzip),
    })
}

fn is_encrypted(target: &Target) -> bool {
    target.endpoint.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

fn unusable(target: &Target, error: &dyn Error) -> Trouble {
    Trouble::Start { reason: format!("`{}` cannot be used: {error}", target.endpoint) }
}
