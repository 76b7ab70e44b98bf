//! Ways to misbehave.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitCode};

/// Says how it ended, if it was told to misbehave to the end.
pub(crate) fn misbehave(mode: &str) -> Option<ExitCode> {
    match mode {
        "hang" => {
            let mut child = Command::new("sleep").arg("600").spawn().expect("there is a sleep");
            let pids = format!("{} {}", process::id(), child.id());
            fs::write(".beads/pids", pids).expect("the folder can be written");
            child.wait().expect("it is a child");
        }
        "flood" => loop {
            println!("{}", "more ".repeat(1000));
        },
        "linger" => {
            let script = "sleep 30 & echo $! > .beads/pids";
            Command::new("sh").args(["-c", script]).status().expect("there is a shell");
            return None;
        }
        "close-early" => {
            // Nothing more will come, but it takes its time to end.
            let script = "echo '[]'; exec >&- 2>&-; sleep 0.3";
            let error = Command::new("sh").args(["-c", script]).exec();
            panic!("there is a shell: {error}");
        }
        "garbage" => println!("\u{1b}[2JNo open issues"),
        "empty" => {}
        "crash" => process::abort(),
        "angry" => {
            eprintln!("panic: \u{1b}[31mout of cheese\u{1b}[0m\ngoroutine 1 [running]:");
            return Some(ExitCode::from(2));
        }
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}
