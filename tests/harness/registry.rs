//! A package registry with one small package, for clients that install what they need.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tiny_http::{Response, Server};

/// A running registry. It ends with the value.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    stop: Option<mpsc::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl Registry {
    /// Offers every version that is asked for of the package `name`, as if there were no other.
    pub fn start(name: &'static str, version: &'static str) -> Self {
        let package = package(name, version);
        let server = Server::http((Ipv4Addr::LOCALHOST, 0)).expect("the loopback has a free port");
        let address = server.server_addr().to_ip().expect("it listens on an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let (stop, stopped) = mpsc::channel();
        let count = Arc::clone(&asked);
        let serving = thread::spawn(move || {
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                let Ok(Some(request)) = server.recv_timeout(std::time::Duration::from_millis(50)) else {
                    continue;
                };
                count.fetch_add(1, Ordering::SeqCst);
                let body = match request.url() {
                    url if url.ends_with(".tgz") => package.clone(),
                    url if url.contains("plugin") => about(name, version, address).to_string().into_bytes(),
                    _ => {
                        let _ = request.respond(Response::empty(404));
                        continue;
                    }
                };
                let _ = request.respond(Response::from_data(body));
            }
        });
        Self { address, asked, stop: Some(stop), serving: Some(serving) }
    }

    /// What a user writes into `.npmrc`.
    pub fn npmrc(&self) -> String {
        format!("registry=http://{}/\n", self.address)
    }

    /// How often it was asked for something.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn about(name: &str, version: &str, address: SocketAddr) -> Value {
    let dist = json!({"tarball": format!("http://{address}/package.tgz")});
    let package = json!({"name": name, "version": version, "dist": dist});
    json!({"name": name, "dist-tags": {"latest": version}, "versions": {version: package}})
}

/// The package as it is sent.
fn package(name: &str, version: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let inside = folder.path().join("package");
    fs::create_dir(&inside).expect("a folder can be made in it");
    let manifest = json!({"name": name, "version": version, "main": "index.js"}).to_string();
    for (file, text) in [("package.json", manifest.as_str()), ("index.js", "export {}\n")] {
        fs::write(inside.join(file), text).expect("a file can be written in it");
    }
    let mut tar = Command::new("tar");
    let made = tar.args(["-czf", "package.tgz", "package"]).current_dir(folder.path()).status();
    assert!(made.expect("tar is installed").success());
    fs::read(folder.path().join("package.tgz")).expect("tar has written it")
}
