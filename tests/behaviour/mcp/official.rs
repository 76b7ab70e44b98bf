//! The official client library for Python, in both ways that it opens a connection.

use std::path::Path;
use std::process::Output;

use mala_tests::official::python_or_skip;

use super::world;
use crate::cli::MALA;

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mcp/client.py");

/// Runs one of the checks in `tests/mcp/client.py`.
fn check(name: &str) {
    let Some(python) = python_or_skip(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    for mode in ["legacy", "auto"] {
        let world = world();
        let mut client = world.command(python);
        client.arg(CLIENT).args([mode, name, MALA]).env_remove("MALA_AGENT");
        let Output { status, stdout, stderr } = client.output().unwrap();
        let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(status.success(), "{name}, {mode}: {}", said.join("\n"));
    }
}

#[test]
fn the_official_client_shakes_hands() {
    check("handshake");
}

#[test]
fn the_official_client_lists_the_tools() {
    check("tools");
}

#[test]
fn the_official_client_calls_the_tools() {
    check("calls");
}

#[test]
fn the_official_client_is_told_what_went_wrong() {
    check("errors");
}

#[test]
fn the_official_client_takes_a_call_back() {
    check("cancellation");
}

#[test]
fn the_official_client_hears_how_it_goes() {
    check("progress");
}
