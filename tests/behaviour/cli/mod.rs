//! The command line, as programs and people meet it.

mod asks;
mod bad_input;
mod config;
mod contract;
mod git_faults;
mod hints;
mod init;
mod issues;
mod landing;
mod locks;
mod logs;
mod messages;
mod names;
mod owners;
mod queue;
mod saved_work;
mod settings;
mod status;
mod tools;
mod waits;

use std::ffi::OsStr;
use std::process::{Child, Command, Output, Stdio};

use mala_tests::World;
use serde_json::Value;

pub(crate) const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Answer {
    /// The one JSON document on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

/// mala, to be started in this world's checkout.
pub(crate) fn mala(world: &World, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = world.command(MALA);
    command.args(args).env_remove("MALA_AGENT").stdin(Stdio::null());
    command
}

/// Runs a command given as one line; no argument contains a blank.
pub(crate) fn run(world: &World, line: &str) -> Answer {
    mala(world, line.split_whitespace()).output().unwrap().into()
}

/// Runs a command that must succeed.
pub(crate) fn done(world: &World, line: &str) -> Answer {
    let answer = run(world, line);
    assert_eq!(answer.code, 0, "`mala {line}`: {answer:?}");
    answer
}

/// Starts a command whose output is collected when it ends.
fn start(world: &World, line: &str) -> Child {
    mala(world, line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Paths and agents of all locks that `mala lock list` shows.
pub(crate) fn held(world: &World) -> Vec<(String, String)> {
    let list = done(world, "lock list --json").json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list["locks"].as_array().unwrap().iter().map(|lock| (text(&lock["path"]), text(&lock["agent"]))).collect()
}

pub(crate) fn pair(path: &str, agent: &str) -> (String, String) {
    (path.to_owned(), agent.to_owned())
}

/// The names of an object's fields, sorted.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// A process for locks to live with. It is killed at the end of the test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
