mod hooks;
mod programs;
mod switches;
mod tools;
mod validation;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use clap::Args;
use mala_core::Scope;
use mala_core::shell::word;
use mala_gate::evidence::output;
use mala_git::{GitError, Repo};
use mala_sandbox::{Support, Unsupported};
use mala_session::{jail, supervisor_socket};
use mala_store::{SCHEMA_VERSION, Store};
use serde::Serialize;
use serde_json::json;

use super::commit::supervisor_identity;
use super::logs::evidence::{IF_DAMAGED, verify_evidence};
use crate::context::Context;
use crate::error::{CliError, Code, REFUSED, whose};
use crate::state_folders;
use crate::ui::{GREEN, RED, YELLOW};

/// Check what works here, and say how to mend what does not
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala doctor")]
pub(crate) struct DoctorArgs {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Verdict::Ok, detail: detail.into(), fix: None }
    }

    fn fail(name: &'static str, error: impl Into<CliError>) -> Self {
        let error = error.into();
        let fix = error.hints.first().cloned();
        Self { name, status: Verdict::Fail, detail: error.messages().join(": "), fix }
    }
}

pub(crate) fn cmd_doctor(_args: &DoctorArgs, context: &Context) -> Result<Code, CliError> {
    let mut checks = vec![check_git()];
    let kernel = match context.scope() {
        Ok(scope) => {
            checks.push(check_checkout(&scope));
            checks.push(check_settings(context, Some(&scope)));
            checks.push(check_store(&scope));
            checks.push(check_evidence(&scope));
            // Settings that cannot be read have their own line.
            let settings = context.load_settings(Some(&scope), Vec::new()).ok();
            if let Some(loaded) = &settings {
                checks.push(validation::check(&scope, &loaded.settings));
                checks.push(validation::client(&loaded.settings));
                checks.push(validation::slots(&scope, &loaded.settings));
            }
            checks.push(hooks::git(&scope));
            checks.extend(hooks::clients(&scope));
            checks.extend(tools::clients(&scope));
            jail::kernel(&scope)
        }
        Err(error) => {
            checks.push(Check::fail("checkout", error));
            checks.push(check_settings(context, None));
            mala_sandbox::probe()
        }
    };
    checks.push(programs::clients());
    checks.push(programs::trackers());
    checks.push(enforcement(kernel));
    let is_well = checks.iter().all(|check| check.status != Verdict::Fail);
    context.ui.answer(&json!({ "ok": is_well, "checks": checks }), |out| write_checks(out, &checks))?;
    Ok(if is_well { Code::SUCCESS } else { Code::from(REFUSED) })
}

fn check_git() -> Check {
    let failed = |error: io::Error| {
        let error = CliError::failed(format!("cannot run `git`: {error}"));
        Check::fail("git", error.hint("install git 2.30 or newer and put it on the PATH"))
    };
    match Command::new("git").arg("--version").output() {
        Ok(out) if out.status.success() => Check::ok("git", String::from_utf8_lossy(&out.stdout).trim()),
        Ok(out) => failed(io::Error::other(out.status.to_string())),
        Err(error) => failed(error),
    }
}

fn check_checkout(scope: &Scope) -> Check {
    let (root, repo) = (scope.root().display(), Repo::new(scope.clone()));
    let (Err(GitError::Failed { stderr, .. }), Ok(index)) = (repo.check_index(), repo.git_path("index"))
    else {
        return Check::ok("checkout", root.to_string());
    };
    let index = word(index.as_os_str().as_bytes());
    Check {
        name: "checkout",
        status: Verdict::Fail,
        detail: format!("{root}: git cannot read its index: {stderr}"),
        fix: Some(format!(
            "make it anew: rm {index} && git reset; no file changes, what was staged is to be staged again"
        )),
    }
}

fn check_settings(context: &Context, scope: Option<&Scope>) -> Check {
    match context.load_settings(scope, Vec::new()) {
        Err(error) => Check::fail("settings", error),
        Ok(loaded) if loaded.warnings.is_empty() => {
            let set = loaded
                .entries()
                .filter(|entry| !matches!(entry.origin, mala_config::Origin::Default))
                .count();
            Check::ok("settings", format!("{set} set, the others at their defaults"))
        }
        Ok(loaded) => {
            let detail: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
            let fix = Some("correct or remove the unknown names".to_owned());
            Check { name: "settings", status: Verdict::Warn, detail: detail.join("; "), fix }
        }
    }
}

fn check_store(scope: &Scope) -> Check {
    if let Some(supervisor) = supervisor_socket::supervisor() {
        // Nothing in an agent's tree may touch the store, so that is no fault of it.
        return match supervisor_identity(&supervisor) {
            Ok(who) => {
                Check::ok("store", format!("kept by the supervisor of `{}`, which answers", who.agent))
            }
            Err(error) => Check::fail("store", error),
        };
    }
    let examine = || {
        let mut store = Store::open(scope)?;
        store.check_integrity()?;
        let locks = store.locks()?.len();
        let path = store.path().display().to_string();
        let locks = if locks == 1 { "1 lock".to_owned() } else { format!("{locks} locks") };
        let sound = format!("{path}: sound, schema {SCHEMA_VERSION}, {locks} held");
        Ok::<_, mala_store::StoreError>(match store.is_read_only() {
            false => match state_folders::check(scope) {
                Ok(()) => Check::ok("store", sound),
                Err(error) => Check::fail("store", error),
            },
            true => Check {
                name: "store",
                status: Verdict::Warn,
                detail: format!("{sound}; you may only read it"),
                fix: Some(whose(store.path())),
            },
        })
    };
    match examine() {
        Ok(check) => check,
        Err(error) => Check::fail("store", error),
    }
}

/// How many bytes of saved outputs are read at most: so much takes a moment.
const OUTPUTS: u64 = 64 << 20;

/// Whether the records of tests are those that were written, and the newest saved outputs what was printed.
fn check_evidence(scope: &Scope) -> Check {
    const NAME: &str = "evidence";
    let mut records = 0;
    let opened = supervisor_socket::supervisor().is_none().then(|| Store::open(scope)).transpose();
    let mut store = match opened {
        Ok(store) => store,
        Err(error) => return Check::fail(NAME, error),
    };
    for log in verify_evidence(store.as_mut(), scope) {
        match log.outcome {
            Ok(verified) => records += verified.lines,
            Err(error) => return Check::fail(NAME, CliError::failed(error).hint(log.remedy)),
        }
    }
    let outputs = match output::look(scope, OUTPUTS) {
        Ok(outputs) => outputs,
        Err(error) => return Check::fail(NAME, CliError::failed(error)),
    };
    if let Some(first) = outputs.damaged.first() {
        let fix = Some(format!("see all that is: mala logs verify; {IF_DAMAGED}"));
        return Check { name: NAME, status: Verdict::Warn, detail: first.to_string(), fix };
    }
    let whole = match records {
        0 => "nothing recorded yet".to_owned(),
        1 => "whole: 1 record".to_owned(),
        records => format!("whole: {records} records"),
    };
    let rest = match outputs.is_cut_short {
        true => format!(", with the outputs of the newest {}; for all: mala logs verify", outputs.records),
        false => String::new(),
    };
    Check::ok(NAME, whole + &rest)
}

/// Says plainly what protects the user.
fn enforcement(kernel: Result<Support, Unsupported>) -> Check {
    match kernel {
        Ok(support) => {
            let root = if support.is_root {
                "; as an ordinary user it would be even safer than as root"
            } else {
                ""
            };
            let detail = format!(
                "kernel: agents started by `mala exec` cannot change what others hold (Landlock {}, seccomp){root}; \
                 locks bind everybody else who asks for them",
                support.landlock
            );
            Check::ok("enforcement", detail)
        }
        Err(Unsupported::AlreadyInside) => Check::ok(
            "enforcement",
            "kernel: this process belongs to an agent's tree, and the agent's supervisor enforces its locks",
        ),
        Err(why) => Check {
            name: "enforcement",
            status: Verdict::Warn,
            detail: format!("{why}; locks bind only those who ask for them"),
            fix: Some("set up the clients' hooks, which refuse what they can see: mala init".to_owned()),
        },
    }
}

fn write_checks(out: &mut dyn Write, checks: &[Check]) -> io::Result<()> {
    for check in checks {
        let (style, word) = match check.status {
            Verdict::Ok => (GREEN, "ok  "),
            Verdict::Warn => (YELLOW, "warn"),
            Verdict::Fail => (RED, "fail"),
        };
        writeln!(out, "{style}{word}{style:#}  {:<14} {}", check.name, crate::ui::plain(&check.detail))?;
        if let Some(fix) = &check.fix {
            writeln!(out, "                     fix: {fix}")?;
        }
    }
    Ok(())
}
