//! A tracker for the tests. It keeps issues in `.beads/issues.json` and behaves in what a caller can see like `br`, if that is
//! its name, and like `bd` otherwise: options, shapes of output, exit codes, where errors are printed, abbreviated ids,
//! claims that one of many wins, changes that can be lost.
//!
//! `.beads/mode` may hold a word that makes it misbehave; `.beads/shape` holds the shape of `bd`'s lists.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's output is its answer")]

mod mischief;
mod request;
mod speech;
mod tracker;

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use request::Request;
use speech::Speech;
use tracker::Refusal;

fn main() -> ExitCode {
    let mut args = env::args();
    let speech = Speech::of(&args.next().unwrap_or_default());
    let request = Request::parse(args);
    if request.verb == "--version" {
        println!("{}", speech.version());
        return ExitCode::SUCCESS;
    }
    if request.get("--help").is_some() {
        println!("Usage: ...");
        return ExitCode::SUCCESS;
    }
    if !Path::new(".beads").is_dir() {
        return speech.refuse(&Refusal::NotSetUp);
    }
    let mode = fs::read_to_string(".beads/mode").unwrap_or_default();
    if let Some(code) = mischief::misbehave(mode.trim()) {
        return code;
    }
    if mode.trim() == "read-only" && !matches!(request.verb.as_str(), "ready" | "show") {
        return speech.refuse(&Refusal::ReadOnly);
    }
    match tracker::answer(&request, speech) {
        Ok(list) => speech.answer(list, request.get("--brief").is_some()),
        Err(refusal) => speech.refuse(&refusal),
    }
}
