//! Exporters over gRPC, plain and encrypted.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{Compression as Encoding, RetryPolicy, WithExportConfig, WithTonicConfig};

use super::Trouble;
use super::plan::{Compression, Target};
use super::transport::unusable;
use crate::post::is_encrypted;

/// One try for each batch, as over HTTP.
pub(super) fn configure<B: WithExportConfig + WithTonicConfig>(
    builder: B,
    target: &Target,
) -> Result<B, Trouble> {
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
    if is_encrypted(&target.endpoint) {
        builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
    }
    Ok(match target.compression {
        Compression::None => builder,
        Compression::Gzip => builder.with_compression(Encoding::Gzip),
    })
}
