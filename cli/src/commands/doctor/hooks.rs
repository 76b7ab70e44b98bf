//! Whether hooks are there, and whether they really fire: they are run.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use mala_agents::probe::{self, Understood};
use mala_agents::{Client, install};
use mala_core::Scope;
use mala_gate::hooks::{self, ChainedHook, Hook, PROBE_ANSWER, PROBE_VARIABLE};
use mala_git::Repo;
use serde_json::Value;

use super::{Check, Verdict, programs, switches};
use crate::error::CliError;
use crate::hook_repair::in_words;

const SET_UP: &str = "set them up: mala init";

/// A message without a word: there are patterns for which every word is an issue.
const NAMELESS: &str = "...\n";

/// Git's hooks: git finds them, they find the hooks that were there before, and a message of an agent that names no issue is
/// refused. Nothing but mala's own check is run.
pub(super) fn git(scope: &Scope) -> Check {
    match look_at_git_hooks(scope) {
        Ok(check) => check,
        Err(error) => Check::fail(NAME, error),
    }
}

const NAME: &str = "git hooks";

fn look_at_git_hooks(scope: &Scope) -> Result<Check, CliError> {
    let repo = Repo::new(scope.clone());
    let installed = hooks::installed(&repo)?;
    let missing: Vec<&str> =
        installed.iter().filter(|(_, is_ready)| !is_ready).map(|(hook, _)| hook.name()).collect();
    if missing.len() == installed.len() {
        return Ok(warn(
            NAME,
            "not installed: commits of agents are not checked when they are made".to_owned(),
        ));
    }
    if !missing.is_empty() {
        return Ok(warn(
            NAME,
            format!("{} missing, not executable or replaced by another program", missing.join(", ")),
        ));
    }
    if hooks::is_outdated(&repo)? {
        return Ok(warn(NAME, "installed by another version of mala".to_owned()));
    }
    let chained = hooks::chained(&repo)?;
    if let Some(check) = broken_chain(&repo, &chained)? {
        return Ok(check);
    }
    Ok(match try_commit_msg(scope.root())? {
        Tried::Fires => {
            let earlier =
                if chained.is_empty() { String::new() } else { format!("; {}", in_words(&chained)) };
            Check::ok(
                NAME,
                format!("installed, and they fire: a message without its issue was refused{earlier}"),
            )
        }
        Tried::LetThrough => Check {
            name: NAME,
            status: Verdict::Fail,
            detail: "installed, but a message that names no issue was let through".to_owned(),
            fix: Some("install them anew: mala init".to_owned()),
        },
        Tried::NoProgram => Check {
            name: NAME,
            status: Verdict::Fail,
            detail: "installed, but they do not find mala: every commit of an agent is refused".to_owned(),
            fix: Some("put `mala` on the PATH".to_owned()),
        },
        Tried::Otherwise { reason, remedy } => Check {
            name: NAME,
            status: Verdict::Warn,
            detail: format!("installed, but they refuse a message before they look for its issue: {reason}"),
            fix: Some(remedy.unwrap_or_else(|| "mend that, then look again: mala doctor".to_owned())),
        },
    })
}

/// What keeps the hooks that were there before from being called or from working, if something does. Each of mala's hooks is
/// asked which one it would call.
fn broken_chain(repo: &Repo, chained: &[ChainedHook]) -> Result<Option<Check>, CliError> {
    let failed =
        |detail: String| Check { name: NAME, status: Verdict::Fail, detail, fix: Some(SET_UP.to_owned()) };
    for hook in chained {
        let name = hook.hook.name();
        let kept = hook.path.display();
        if is_executable(&hook.path) && !would_call(repo.root(), hook)? {
            return Ok(Some(failed(format!("the `{name}` that was there before, `{kept}`, is not called"))));
        }
        if let (Some(manager), Some(problem)) = (hook.manager, &hook.problem) {
            let manager = manager.name();
            let detail = format!("`{name}` of {manager}, which mala's hook calls, does not work: {problem}");
            let fix = Some(format!("install {manager} again, then: mala init"));
            return Ok(Some(Check { name: NAME, status: Verdict::Warn, detail, fix }));
        }
    }
    Ok(None)
}

fn is_executable(hook: &Path) -> bool {
    hook.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

/// True if git finds mala's hook, and that one the hook which was there before.
fn would_call(root: &Path, hook: &ChainedHook) -> io::Result<bool> {
    let said = ask(root, hook.hook, &[])?;
    let called = said.lines().find_map(|line| line.strip_prefix(PROBE_ANSWER));
    Ok(called.is_some_and(|path| root.join(path).canonicalize().ok() == hook.path.canonicalize().ok()))
}

/// What a hook says that git runs and that is told to do nothing.
fn ask(root: &Path, hook: Hook, args: &[&OsStr]) -> io::Result<String> {
    let mut git = Command::new("git");
    git.args(["hook", "run", hook.name(), "--"]).args(args).current_dir(root);
    git.env("MALA_AGENT", "doctor").env(PROBE_VARIABLE, "1");
    Ok(String::from_utf8_lossy(&programs::output(&mut git, &[])?.stderr).into_owned())
}

/// What became of a message that names no issue.
enum Tried {
    Fires,
    LetThrough,
    /// There is no mala for the hook to call.
    NoProgram,
    /// It was refused, and not for its missing issue.
    Otherwise {
        reason: String,
        remedy: Option<String>,
    },
}

impl Tried {
    /// What a refusal says.
    fn refused(said: &str) -> Self {
        if said.contains("names no issue") || said.contains("does not name") {
            return Self::Fires;
        }
        if said.contains("not in PATH") {
            return Self::NoProgram;
        }
        let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        // Bad settings are shown with a mark before them, others with a word.
        let reason = lines.next().unwrap_or("without a reason");
        let marks = ["error: ", "x ", "× "];
        let reason = marks.iter().find_map(|mark| reason.strip_prefix(mark)).unwrap_or(reason).to_owned();
        let after = |line: &str| {
            line.strip_prefix("hint: ").or_else(|| line.strip_prefix("help: ")).map(str::to_owned)
        };
        Self::Otherwise { reason, remedy: lines.find_map(after) }
    }
}

fn try_commit_msg(root: &Path) -> io::Result<Tried> {
    let file = std::env::temp_dir().join(format!("mala-doctor-{}", std::process::id()));
    std::fs::write(&file, NAMELESS)?;
    let said = ask(root, Hook::CommitMsg, &[file.as_os_str()]);
    std::fs::remove_file(&file)?;
    let said = said?;
    let own: Vec<&str> = said.lines().filter(|line| !line.starts_with(PROBE_ANSWER)).collect();
    Ok(if own.is_empty() { Tried::LetThrough } else { Tried::refused(&own.join("\n")) })
}

/// The clients' hooks, as they are set up: nothing switches them off, and a write into git's hooks is refused.
pub(super) fn clients(scope: &Scope) -> Vec<Check> {
    let set_up = |client: Client| {
        let text = std::fs::read_to_string(scope.root().join(install::path(client))).ok()?;
        Some((client, install::hook_command(client, &text)?))
    };
    let found = Client::ALL.into_iter().filter_map(set_up);
    found
        .map(|(client, command)| {
            switches::off(client, scope).unwrap_or_else(|| fires(client, &command, scope))
        })
        .collect()
}

fn fires(client: Client, command: &str, scope: &Scope) -> Check {
    let name = name(client);
    let target = scope.root().join(".git/hooks/mala-doctor");
    let answer = run(command, scope.root(), &probe::call(client, scope.root(), &target));
    if answer.is_ok() {
        // It was a session like any other; now it is over.
        let _ = run(command, scope.root(), &probe::farewell(client, scope.root()));
    }
    let failed = |detail: String| Check {
        name,
        status: Verdict::Fail,
        detail,
        fix: Some(format!("run `{command}` by hand, put `mala` on the PATH, or: mala init")),
    };
    match answer {
        Ok((code, out, err)) => match probe::understand(client, code, &out, &err) {
            Understood::Denied(reason) if reason.contains("git's hooks") => {
                switches::untrusted(client, scope).unwrap_or_else(|| {
                    Check::ok(name, "set up, and they fire: a write into git's hooks was refused")
                })
            }
            Understood::Denied(reason) => failed(format!("set up, but they refuse everything: {reason}")),
            Understood::Passed => failed("set up, but a write into git's hooks was let through".to_owned()),
            Understood::Nonsense(why) => failed(format!("set up, but `{command}` does not work: {why}")),
        },
        Err(error) => failed(format!("set up, but `{command}` does not work: {error}")),
    }
}

/// What a client's hooks are called among the checks.
pub(super) fn name(client: Client) -> &'static str {
    match client {
        Client::Claude => "claude hooks",
        Client::Codex => "codex hooks",
        Client::Gemini => "gemini hooks",
        Client::Opencode => "opencode hooks",
    }
}

/// Runs a hook as a client does: by a shell, with the call on its standard input.
fn run(command: &str, root: &Path, call: &Value) -> io::Result<(Option<i32>, String, String)> {
    let mut hook = Command::new("sh");
    let out = programs::output(hook.args(["-c", command]).current_dir(root), call.to_string().as_bytes())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((out.status.code(), text(&out.stdout), text(&out.stderr)))
}

fn warn(name: &'static str, detail: String) -> Check {
    Check { name, status: Verdict::Warn, detail, fix: Some(SET_UP.to_owned()) }
}
