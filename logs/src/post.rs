//! Sending a document to an address of the web.

use std::error::Error;
use std::io;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::Bytes;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum PostError {
    #[error("it is no address of the web: {0}")]
    Address(String),
    #[error("there was no answer in time")]
    Timeout,
    #[error("it answered {0}")]
    Refused(StatusCode),
    #[error("{0}")]
    Failed(String),
}

impl PostError {
    /// True if the same may work a moment later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Address(_) => false,
            Self::Refused(status) => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            Self::Timeout | Self::Failed(_) => true,
        }
    }
}

/// Posts a JSON document, once. What is answered besides the status is not read.
pub async fn post_json(address: &str, document: Vec<u8>, timeout: Duration) -> Result<(), PostError> {
    let uri: Uri = address.parse().map_err(|error| PostError::Address(format!("{error}")))?;
    if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(PostError::Address("it has to begin with http:// or https://, and a host".to_owned()));
    }
    let request =
        Request::post(uri).header(CONTENT_TYPE, "application/json").body(Full::new(document.into()));
    let request = request.map_err(|error| PostError::Address(error.to_string()))?;
    let sent = async {
        if is_encrypted(address) {
            send(encrypted().map_err(|error| PostError::Failed(error.to_string()))?, request).await
        } else {
            send(HttpConnector::new(), request).await
        }
    };
    let status = tokio::time::timeout(timeout, sent).await.map_err(|_elapsed| PostError::Timeout)??;
    if status.is_success() { Ok(()) } else { Err(PostError::Refused(status)) }
}

async fn send<C: Connect + Clone + Send + Sync + 'static>(
    connector: C,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, PostError> {
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let answer = client.request(request).await.map_err(|error| PostError::Failed(innermost(&error)))?;
    Ok(answer.status())
}

/// The cause at the bottom says what happened.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Connections to nobody but who has the right certificate.
pub(crate) fn encrypted() -> io::Result<HttpsConnector<HttpConnector>> {
    let builder = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())?;
    Ok(builder.https_only().enable_http1().build())
}

pub(crate) fn is_encrypted(address: &str) -> bool {
    address.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Posts to a server that answers with `answer`, or never. Gives what came of it and what the server got.
    fn posted(answer: Option<&'static str>) -> (Result<(), PostError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/hook?x=1", listener.local_addr().unwrap());
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = vec![0; 4096];
            let length = stream.read(&mut got).unwrap();
            match answer {
                Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                None => drop(is_done.recv()),
            }
            String::from_utf8_lossy(&got[..length]).into_owned()
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let timeout = Duration::from_millis(300);
        let result = runtime.block_on(post_json(&address, b"{\"a\":1}".to_vec(), timeout));
        drop(done);
        (result, server.join().unwrap())
    }

    #[test]
    fn a_document_is_posted_and_an_answer_decides() {
        let (result, got) = posted(Some("HTTP/1.1 204 No Content\r\n\r\n"));
        assert!(result.is_ok(), "{result:?}");
        assert!(got.starts_with("POST /hook?x=1 HTTP/1.1\r\n") && got.contains("application/json"), "{got}");
        assert!(got.ends_with("{\"a\":1}"), "{got}");
        let (result, _) = posted(Some("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"));
        let error = result.unwrap_err();
        assert!(error.may_pass() && error.to_string().contains("500"), "{error}");
        let (result, _) = posted(Some("HTTP/1.1 404 Where\r\ncontent-length: 0\r\n\r\n"));
        assert!(!result.unwrap_err().may_pass());
    }

    #[test]
    fn who_never_answers_is_not_waited_for() {
        assert!(matches!(posted(None).0, Err(PostError::Timeout)));
    }

    #[test]
    fn what_is_no_address_is_named() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for address in ["", "hook", "ftp://x/", "http://", "http:///x"] {
            let result = runtime.block_on(post_json(address, Vec::new(), Duration::from_secs(1)));
            assert!(matches!(result, Err(PostError::Address(_))), "{address}: {result:?}");
        }
    }
}
