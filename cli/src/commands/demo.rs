use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fs};

use clap::Args;
use mala_core::Scope;
use mala_core::shell::word;
use mala_gate::hooks;
use mala_git::Repo;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::{BOLD, Ui, plain};

/// See it work: a throwaway repository, five issues, agents that contend
///
/// Everything shown is real: real processes, real commits, the same engine as `mala run`. The agents follow a script
/// instead of a model, so it needs git and a shell, and no account or network.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala demo
  mala demo --folder /tmp/mala-demo")]
pub(crate) struct DemoArgs {
    /// Folder to make the repository in; it must not exist yet [default: a new temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

const FILES: &[(&str, &str)] = &[
    ("mala.toml", include_str!("../../demo/mala.toml")),
    ("test.sh", include_str!("../../demo/test.sh")),
    ("agents/agent.sh", include_str!("../../demo/agent.sh")),
    ("src/greet.sh", "greet() { echo hello; }\n"),
];

/// Id, title, and what else is said about it.
const ISSUES: &[(&str, &str, &[&str])] = &[
    ("demo-1", "Greet by name", &["--priority", "1", "--file", "src/greet.sh"]),
    ("demo-2", "Greet several", &["--after", "demo-1", "--file", "src/greet.sh"]),
    ("demo-3", "Add two numbers", &["--file", "src/add.sh"]),
    ("demo-4", "Subtract two numbers", &["--file", "src/subtract.sh"]),
    ("demo-5", "Divide two numbers", &["--file", "src/divide.sh"]),
];

pub(crate) fn cmd_demo(args: &DemoArgs, context: &Context) -> Result<Code, CliError> {
    let folder = match &args.folder {
        Some(folder) => context.cwd.join(folder),
        None => env::temp_dir().join(format!("mala-demo-{}", std::process::id())),
    };
    let started = Instant::now();
    let mut demo = Demo { ui: context.ui.clone(), folder, mala: env::current_exe()?, steps: Vec::new() };
    demo.make_repository()?;
    demo.make_issues()?;
    demo.work()?;
    demo.look_back(started)
}

struct Demo {
    ui: Ui,
    folder: PathBuf,
    mala: PathBuf,
    /// Each command and how it ended, for `--json`.
    steps: Vec<Value>,
}

impl Demo {
    fn make_repository(&mut self) -> Result<(), CliError> {
        fs::create_dir(&self.folder).map_err(|error| {
            let message = format!("cannot make the folder `{}`: {error}", plain(self.folder.display()));
            CliError::usage(message).hint("name another one with `--folder DIR`")
        })?;
        self.say(&format!("A repository of its own: {}", plain(self.folder.display())))?;
        for (name, text) in FILES {
            let path = self.folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            fs::write(path, text)?;
        }
        for args in [
            &["init", "-q"][..],
            &["config", "user.name", "demo"],
            &["config", "user.email", "demo@example.invalid"],
            &["config", "commit.gpgsign", "false"],
            &["add", "."],
            &["commit", "-q", "-m", "start"],
        ] {
            let status = Command::new("git").current_dir(&self.folder).args(args).status();
            if !status.is_ok_and(|status| status.success()) {
                return Err(CliError::failed(format!("`git {}` failed", args.join(" ")))
                    .hint("check git: mala doctor"));
            }
        }
        // As `mala init` would do it.
        hooks::install(&Repo::new(Scope::discover(&self.folder)?))?;
        Ok(())
    }

    fn make_issues(&mut self) -> Result<(), CliError> {
        self.say("Five issues. The second waits for the first")?;
        for (id, title, more) in ISSUES {
            self.mala(0, &[&["issue", "add", title, "--id", id][..], more].concat())?;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<(), CliError> {
        self.say(
            "Now the batch. Watch for: demo-3 reaching for a neighbour's file, demo-4 claiming that tests pass and getting its \
             work back, demo-5 failing and being handed over",
        )?;
        self.mala(0, &["run", "--max-agents", "3"])
    }

    fn look_back(mut self, started: Instant) -> Result<Code, CliError> {
        self.say("demo-3 used `sed -i` on a file that demo-1 held. The kernel refused")?;
        self.mala(0, &["logs", "list", "--kind", "lock.refused"])?;
        self.say("demo-5 failed, and its second attempt found this note")?;
        self.mala(0, &["issue", "show", "demo-5"])?;
        self.say("demo-4 offered work that fails. It is kept, and the branch never had it")?;
        self.mala(0, &["queue", "list", "--all"])?;
        self.say("Every issue is a commit that was proven before the branch moved to it")?;
        self.run("git", 0, &["log", "--oneline"])?;
        self.say(&format!(
            "That took {} seconds. Look around: cd {} && mala status; mala issue list; git log",
            started.elapsed().as_secs(),
            word(self.folder.as_os_str().as_bytes())
        ))?;
        if self.ui.json {
            let folder = self.folder.display().to_string();
            self.ui.json_line(&json!({ "folder": folder, "steps": self.steps }))?;
        }
        Ok(Code::SUCCESS)
    }

    fn mala(&mut self, expected: i32, args: &[&str]) -> Result<(), CliError> {
        self.run("mala", expected, args)
    }

    /// Runs a command, lets its output through, and insists on the exit code the story needs.
    fn run(&mut self, program: &str, expected: i32, args: &[&str]) -> Result<(), CliError> {
        self.show_command(program, args)?;
        let path: &Path = if program == "mala" { &self.mala } else { Path::new(program) };
        let mut command = Command::new(path);
        command.args(args).current_dir(&self.folder).env_remove("MALA_AGENT").stdin(Stdio::null());
        command.env("PATH", self.path()?);
        if self.ui.json {
            command.stdout(Stdio::null());
        }
        let status = command.status()?;
        self.steps.push(json!({ "program": program, "command": args, "exit_code": status.code() }));
        if status.code() == Some(expected) {
            return Ok(());
        }
        let end = match status.code() {
            Some(code) => format!("exit code {code}"),
            None => "a signal".to_owned(),
        };
        let message = format!("`{program} {}` ended with {end} where {expected} was due", args.join(" "));
        Err(CliError::failed(message).hint("look for the reason: mala doctor"))
    }

    /// The agents type `mala`: they mean this very program.
    fn path(&self) -> Result<std::ffi::OsString, CliError> {
        let tools = self.folder.join(".git/demo");
        fs::create_dir_all(&tools)?;
        let link = tools.join("mala");
        if fs::symlink_metadata(&link).is_err() {
            std::os::unix::fs::symlink(&self.mala, &link)?;
        }
        let others = env::var_os("PATH").unwrap_or_default();
        env::join_paths(std::iter::once(tools).chain(env::split_paths(&others)))
            .map_err(|error| CliError::failed(error.to_string()))
    }

    fn say(&self, text: &str) -> Result<(), CliError> {
        self.print(|out| writeln!(out, "\n{BOLD}{text}.{BOLD:#}"))
    }

    fn show_command(&self, program: &str, args: &[&str]) -> Result<(), CliError> {
        let shown: Vec<String> = args.iter().map(word).collect();
        self.print(|out| writeln!(out, "$ {program} {}", shown.join(" ")))
    }

    fn print(&self, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
        if self.ui.json { Ok(()) } else { self.ui.answer(&Value::Null, text) }
    }
}
