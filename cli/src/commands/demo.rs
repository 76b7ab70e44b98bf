use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::{BOLD, DIM, Ui};

/// How long anything in the demo may take before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// See it work: a throwaway repository, two agents, one file
///
/// Everything shown is real: real processes, real commands, real signals. It needs git, and no account or network.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala demo
  mala demo --folder /tmp/mala-demo")]
pub(crate) struct DemoArgs {
    /// Folder to make the repository in; it must not exist yet [default: a new temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn cmd_demo(args: &DemoArgs, context: &Context) -> Result<Code, CliError> {
    let folder = match &args.folder {
        Some(folder) => context.cwd.join(folder),
        None => std::env::temp_dir().join(format!("mala-demo-{}", std::process::id())),
    };
    let mut demo = Demo { ui: context.ui.clone(), folder, steps: Vec::new() };
    demo.make_repository()?;
    let mut alice = Session::start()?;
    let bob = Session::start()?;
    demo.contention(&alice, &bob)?;
    demo.enforcement()?;
    demo.death_of(&mut alice, &bob)?;
    demo.deadlock(&bob)?;
    demo.finish()
}

/// The process an agent lives in. It ends with the demo, however that ends.
struct Session(Child);

impl Session {
    fn start() -> Result<Self, CliError> {
        let nothing = Stdio::null;
        let child =
            Command::new("sleep").arg("600").stdin(nothing()).stdout(nothing()).stderr(nothing()).spawn();
        Ok(Self(child.map_err(|error| CliError::failed(format!("cannot run `sleep`: {error}")))?))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn kill(&mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(|_| ())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

struct Demo {
    ui: Ui,
    folder: PathBuf,
    /// Each command and how it ended, for `--json`.
    steps: Vec<Value>,
}

impl Demo {
    fn make_repository(&mut self) -> Result<(), CliError> {
        std::fs::create_dir(&self.folder).map_err(|error| {
            let message = format!("cannot make the folder `{}`: {error}", self.folder.display());
            CliError::usage(message).hint("name another one with `--folder DIR`")
        })?;
        self.say(&format!("A repository of its own: {}", self.folder.display()))?;
        std::fs::create_dir(self.folder.join("src"))?;
        std::fs::write(self.folder.join("src/app.rs"), "fn main() {}\n")?;
        std::fs::write(self.folder.join("README.md"), "# Demo\n")?;
        let identity = ["-c", "user.name=demo", "-c", "user.email=demo@example.invalid"];
        for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "start"]] {
            let status = Command::new("git").current_dir(&self.folder).args(identity).args(args).status();
            if !status.is_ok_and(|status| status.success()) {
                return Err(CliError::failed(format!("`git {}` failed", args.join(" ")))
                    .hint("check git: mala doctor"));
            }
        }
        Ok(())
    }

    fn contention(&mut self, alice: &Session, bob: &Session) -> Result<(), CliError> {
        self.say("Alice takes a file. Her lock lives as long as her process")?;
        let issue = ["--issue", "bd-1", "--reason", "rewrite the parser"];
        self.mala(
            0,
            &[
                &["lock", "acquire", "src/app.rs", "--agent", "alice"][..],
                &issue,
                &["--owner-pid", &alice.pid()],
            ],
        )?;
        self.say("Bob wants it too, and some more. He gets all or nothing, and is told who is in the way")?;
        let wanted = ["lock", "acquire", "README.md", "src", "--agent", "bob", "--owner-pid", &bob.pid()];
        self.mala(1, &[&wanted])
    }

    fn enforcement(&mut self) -> Result<(), CliError> {
        if let Err(why) = mala_sandbox::probe() {
            return self.say(&format!("What an agent does without asking cannot be stopped here: {why}"));
        }
        self.say("Dave does not ask. He was started by `mala exec`, so the kernel stops him")?;
        self.mala(1, &[&["exec", "--agent", "dave", "--", "cp", "README.md", "src/app.rs"]])
    }

    fn death_of(&mut self, alice: &mut Session, bob: &Session) -> Result<(), CliError> {
        self.say("Bob queues")?;
        let args =
            ["lock", "acquire", "src/app.rs", "--agent", "bob", "--wait", "20s", "--owner-pid", &bob.pid()];
        self.show_command(&args)?;
        let waiter = self.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        self.until_waiting()?;
        self.mala(0, &[&["status"]])?;
        self.say("Alice is killed with -9. Nobody releases anything")?;
        let killed = Instant::now();
        alice.kill()?;
        let output = waiter.wait_with_output()?;
        self.show_output(&args, 0, &output)?;
        self.say(&format!("That took {} ms", killed.elapsed().as_millis()))
    }

    fn deadlock(&mut self, bob: &Session) -> Result<(), CliError> {
        self.say("Carol holds the README and queues for Bob's file. Bob queueing for hers would never end: refused")?;
        let carol = Session::start()?;
        let readme = ["lock", "acquire", "README.md", "--agent", "carol", "--owner-pid", &carol.pid()];
        self.mala(0, &[&readme])?;
        let args = [
            "lock",
            "acquire",
            "src/app.rs",
            "--agent",
            "carol",
            "--wait",
            "20s",
            "--owner-pid",
            &carol.pid(),
        ];
        self.show_command(&args)?;
        let mut waiter = self.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        self.until_waiting()?;
        let outcome = self.mala(
            1,
            &[&[
                "lock",
                "acquire",
                "README.md",
                "--agent",
                "bob",
                "--wait",
                "20s",
                "--owner-pid",
                &bob.pid(),
            ]],
        );
        waiter.kill()?;
        waiter.wait()?;
        outcome
    }

    fn finish(mut self) -> Result<Code, CliError> {
        self.say("Nothing that happened is lost")?;
        self.mala(0, &[&["logs", "list"]])?;
        let folder = self.folder.display().to_string();
        self.say(&format!("Look around: cd {folder}"))?;
        if self.ui.json {
            self.ui.json_line(&json!({ "folder": folder, "steps": self.steps }))?;
        }
        Ok(Code::SUCCESS)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| PathBuf::from("mala")));
        command.args(args).current_dir(&self.folder).env_remove("MALA_AGENT").stdin(Stdio::null());
        command
    }

    /// Runs mala, shows what it prints, and insists on the exit code the story needs.
    fn mala(&mut self, expected: i32, args: &[&[&str]]) -> Result<(), CliError> {
        let args = args.concat();
        self.show_command(&args)?;
        let output = self.command(&args).output()?;
        self.show_output(&args, expected, &output)
    }

    fn until_waiting(&self) -> Result<(), CliError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let output = self.command(&["status", "--json"]).output()?;
            let status: Value = serde_json::from_slice(&output.stdout).map_err(io::Error::from)?;
            if status["waiters"].as_array().is_some_and(|waiters| !waiters.is_empty()) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(CliError::failed("nobody joined the queue"))
    }

    fn say(&self, text: &str) -> Result<(), CliError> {
        self.print(|out| writeln!(out, "\n{BOLD}{text}.{BOLD:#}"))
    }

    fn show_command(&self, args: &[&str]) -> Result<(), CliError> {
        let shown: Vec<_> = args
            .iter()
            .map(|arg| if arg.contains(' ') { format!("'{arg}'") } else { (*arg).to_owned() })
            .collect();
        self.print(|out| writeln!(out, "$ mala {}", shown.join(" ")))
    }

    fn show_output(&mut self, args: &[&str], expected: i32, output: &Output) -> Result<(), CliError> {
        let code = output.status.code();
        self.steps.push(json!({ "command": args, "exit_code": code }));
        self.print(|out| {
            let text = [output.stderr.as_slice(), &output.stdout].concat();
            let text = String::from_utf8_lossy(&text);
            text.lines().try_for_each(|line| writeln!(out, "  {DIM}|{DIM:#} {line}"))
        })?;
        if code == Some(expected) {
            return Ok(());
        }
        let message = format!("`mala {}` ended with {code:?} where {expected} was due", args.join(" "));
        Err(CliError::failed(message).hint("look for the reason: mala doctor"))
    }

    fn print(&self, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
        if self.ui.json { Ok(()) } else { self.ui.answer(&Value::Null, text) }
    }
}
