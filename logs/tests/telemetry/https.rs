//! The collector of [`super::http`], encrypted.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::http;
use super::received::Inbox;

/// Serves as long as the test process lives; gives the endpoint.
pub(crate) fn collector(inbox: &Inbox, certificate: &Certificate) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let (inbox, config) = (inbox.clone(), Arc::new(certificate.config()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let (stream, inbox) = (StreamOwned::new(connection, stream.unwrap()), inbox.clone());
            thread::spawn(move || http::serve(stream, &inbox));
        }
    });
    endpoint
}

/// A certificate for 127.0.0.1 that nobody signed but itself.
pub(crate) struct Certificate(TempDir);

impl Certificate {
    /// None where `openssl` is not installed.
    pub(crate) fn make() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.args(["-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1"]);
        command.args([
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            "key",
            "-out",
            "certificate",
        ]);
        let status = command.current_dir(folder.path()).stderr(Stdio::null()).status().ok()?;
        assert!(status.success());
        Some(Self(folder))
    }

    pub(crate) fn path(&self) -> String {
        self.0.path().join("certificate").into_os_string().into_string().unwrap()
    }

    fn config(&self) -> ServerConfig {
        let chain = vec![CertificateDer::from_pem_file(self.path()).unwrap()];
        let key = PrivateKeyDer::from_pem_file(self.0.path().join("key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap()
    }
}
