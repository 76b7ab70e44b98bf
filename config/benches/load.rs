//! What settings cost at the start of a command.

use std::ffi::OsString;
use std::fs;

use mala_config::{DEFAULTS, Settings, Sources};

fn main() {
    divan::main();
}

fn environment() -> Vec<(OsString, OsString)> {
    (0..60).map(|number| (format!("VARIABLE_{number}").into(), "value".into())).collect()
}

/// The common case: nobody changed anything.
#[divan::bench]
fn no_files(bencher: divan::Bencher<'_, '_>) {
    let sources = Sources { env: environment(), ..Sources::default() };
    bencher.bench(|| Settings::load(divan::black_box(&sources)));
}

/// A user file and a repository file that set everything, and a variable.
#[divan::bench]
fn all_layers(bencher: divan::Bencher<'_, '_>) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("mala.toml");
    fs::write(&file, DEFAULTS).expect("a writable temporary folder");
    let mut env = environment();
    env.push(("MALA_LOCK_TTL".into(), "10m".into()));
    let sources = Sources { user_file: Some(file.clone()), repo_file: Some(file), env, ..Sources::default() };
    bencher.bench(|| Settings::load(divan::black_box(&sources)));
}
