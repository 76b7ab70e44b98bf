//! Exporters over HTTP/1.1, plain and encrypted.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    Compression as Encoding, Protocol as Format, RetryPolicy, WithExportConfig, WithHttpConfig,
};

use super::Trouble;
use super::plan::{Compression, Target};
use super::transport::unusable;
use crate::post::{encrypted, is_encrypted};

/// Collectors answer with a few bytes; what answers with more is no collector.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// One try for each batch: a collector that is away must not keep anything waiting.
pub(super) fn configure<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    target: &Target,
) -> Result<B, Trouble> {
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
        Compression::Gzip => builder.with_compression(Encoding::Gzip),
    })
}

fn client(target: &Target) -> Result<Box<dyn HttpClient>, Trouble> {
    if !is_encrypted(&target.endpoint) {
        return Ok(Box::new(Client::new(HttpConnector::new(), target.timeout)));
    }
    let connector = encrypted().map_err(|error| unusable(target, &error))?;
    Ok(Box::new(Client::new(connector, target.timeout)))
}

/// `opentelemetry-http` has such a client too, but only together with HTTP/2, which OTLP over HTTP does not need.
#[derive(Debug)]
struct Client<C> {
    inner: legacy::Client<C, Full<Bytes>>,
    timeout: Duration,
}

impl<C: Connect + Clone> Client<C> {
    fn new(connector: C, timeout: Duration) -> Self {
        Self { inner: legacy::Client::builder(TokioExecutor::new()).build(connector), timeout }
    }
}

#[async_trait]
impl<C: Connect + Clone + Debug + Send + Sync + 'static> HttpClient for Client<C> {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = async {
            let (head, body) = self.inner.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        tokio::time::timeout(self.timeout, answer).await?
    }
}
