//! The speed of `mala mcp`, measured against its targets: `just bench-mcp`.
//!
//! Every figure is a median. The start is measured in turn with that of an interpreter, because absolute times mean little on
//! a machine that others use too. The table it prints is the one in `docs/performance.md`.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on says where")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const MALA: &str = env!("CARGO_BIN_EXE_mala-under-test");
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

fn main() {
    println!("| what | measured | target | |");
    println!("| --- | --- | --- | --- |");
    start();
    pair("acquire + release of one file, warm", &["mcp"], Some(Duration::from_millis(1)));
    pair("the same in an agent's tree", &["exec", "--agent", "a", "--", MALA, "mcp"], None);
}

fn row(what: &str, measured: &str, target: &str, is_met: bool) {
    println!("| {what} | {measured} | {target} | {} |", if is_met { "met" } else { "**missed**" });
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn checkout() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("git").args(["init", "-q"]).arg(dir.path()).status().unwrap().success());
    dir
}

/// A server and the two ends of it.
struct Server {
    child: Child,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Server {
    fn start(root: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(MALA);
        command.args(args).current_dir(root).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (say, hear) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Self { child, say, hear };
        assert!(server.ask(HELLO).contains("protocolVersion"));
        server
    }

    fn ask(&mut self, line: &str) -> String {
        self.say.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.hear.read_line(&mut answer).unwrap();
        answer
    }

    fn call(&mut self, tool: &str) {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"paths":["file"]}}}}}}"#
        );
        let answer = self.ask(&line);
        assert!(answer.contains(r#""isError":false"#), "{answer}");
    }

    fn end(mut self) {
        drop(self.say);
        self.child.wait().unwrap();
    }
}

/// From starting the process to its answer to `initialize`, and the end of it outside the measurement.
fn start() {
    let dir = checkout();
    // The interpreter itself: what is on the PATH may be a script that looks for it.
    let find = ["-c", "import sys; print(sys.executable, end='')"];
    let interpreter = String::from_utf8(Command::new("python3").args(find).output().unwrap().stdout).unwrap();
    let (mut ours, mut python) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let began = Instant::now();
        let server = Server::start(dir.path(), &["mcp"]);
        ours.push(began.elapsed());
        server.end();
        let began = Instant::now();
        assert!(Command::new(&interpreter).args(["-S", "-c", "pass"]).status().unwrap().success());
        python.push(began.elapsed());
    }
    let (ours, python) = (median(ours), median(python));
    let ratio = ours.as_secs_f64() / python.as_secs_f64();
    let measured = format!("{ratio:.2} ({:.1} ms against {:.1} ms)", millis(ours), millis(python));
    row(
        "start of `mala mcp` until `initialize` is answered, to `python3 -S -c pass`",
        &measured,
        "1.0",
        ratio <= 1.0,
    );
}

fn pair(what: &str, args: &[&str], target: Option<Duration>) {
    let dir = checkout();
    let mut server = Server::start(dir.path(), args);
    let mut times = Vec::new();
    for _ in 0..1_000 {
        let began = Instant::now();
        server.call("lock_acquire");
        server.call("lock_release");
        times.push(began.elapsed());
    }
    server.end();
    let pair = median(times);
    let measured = format!("{:.0} us", pair.as_secs_f64() * 1e6);
    match target {
        Some(target) => row(what, &measured, "1 ms", pair <= target),
        None => println!("| {what} | {measured} | | |"),
    }
}
