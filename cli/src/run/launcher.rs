//! Agents as processes of `mala exec`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use mala_agents::start::LaunchSpec;
use mala_core::{AgentId, Owner, Scope};
use mala_engine::ports::{Attempt, Launcher, PortError};
use mala_store::process::{self, Process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::self_test::{Hooked, Stage};

/// Starts agents under `mala exec`, with locks that live as long as this process.
#[derive(Debug)]
pub(crate) struct ExecLauncher {
    pub(crate) scope: Scope,
    pub(crate) mala: PathBuf,
    /// Refuse to run where the kernel cannot enforce.
    pub(crate) require_kernel: bool,
    /// Clients that may be started, whose hooks must work.
    pub(super) hooked: Vec<Hooked>,
}

impl ExecLauncher {
    pub(super) fn exec(&self, agent: &AgentId) -> Command {
        let mut command = Command::new(&self.mala);
        command.current_dir(self.scope.root()).env_remove("MALA_AGENT");
        command.args(["exec", "--agent", agent.as_str()]);
        command.args(["--owner-pid", &std::process::id().to_string(), "--keep-locks"]);
        command
    }
}

impl Launcher for ExecLauncher {
    fn command(&self, attempt: &Attempt, spec: &LaunchSpec) -> Result<Command, PortError> {
        let mut command = self.exec(&attempt.agent);
        command.args(["--issue", attempt.issue.as_str(), "--run", attempt.run.as_str()]);
        command.arg("--").args(&spec.command).envs(&spec.env);
        Ok(command)
    }

    /// A supervisor ends with its run and takes its tree with it. This makes sure that it has happened.
    fn reap(&self, attempt: &Attempt) -> Result<(), PortError> {
        for supervisor in supervisors(attempt) {
            if let Ok(pid) = i32::try_from(supervisor.pid) {
                // It may have ended just now.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            process::wait_for_end(&supervisor);
        }
        Ok(())
    }

    /// Sockets of supervisors that were killed.
    fn sweep(&self) {
        let desk = self.scope.state_dir().join("desk");
        for entry in fs::read_dir(desk).into_iter().flatten().flatten() {
            let pid = entry.path().file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            if pid.is_some_and(|pid: u32| Process::find(pid).is_none()) {
                // Somebody else may have been faster.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn self_test(&self) -> Result<(), PortError> {
        let is_enforced = match mala_sandbox::probe() {
            Ok(_) => true,
            Err(why) if self.require_kernel => return Err(why.to_string().into()),
            Err(why @ mala_sandbox::Unsupported::AlreadyInside) => return Err(why.to_string().into()),
            Err(_) => false,
        };
        let stage = Stage::set(self)?;
        let kernel = if is_enforced { stage.prove_kernel() } else { Ok(()) };
        let proven = kernel.and_then(|()| self.hooked.iter().try_for_each(|one| stage.prove_hook(one)));
        let cleared = stage.clear();
        proven.and(cleared)
    }
}

/// The processes of `mala exec` that were started for this attempt.
#[cfg(target_os = "linux")]
fn supervisors(attempt: &Attempt) -> Vec<Owner> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).take_while(|word| *word != b"--").collect();
        let has = |option: &str, value: &str| {
            words.windows(2).any(|pair| pair == [option.as_bytes(), value.as_bytes()])
        };
        words.get(1) == Some(&&b"exec"[..])
            && has("--agent", attempt.agent.as_str())
            && has("--run", attempt.run.as_str())
    };
    pids.filter(is_ours).filter_map(|pid| Process::find(pid).map(|process| process.owner())).collect()
}

/// Elsewhere a supervisor's own watch over its run has to do.
#[cfg(not(target_os = "linux"))]
fn supervisors(_attempt: &Attempt) -> Vec<Owner> {
    Vec::new()
}
