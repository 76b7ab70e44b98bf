//! What a client does at its first start, done before it is started as an agent.
//!
//! What it installs in the checkout would be thousands of locks of an agent's, and a wait at the beginning of every attempt until it
//! is done; and two agents that make its database at once fail.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mala_agents::launch::{first_visit, injection};
use mala_core::Scope;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::self_test::Hooked;
use crate::event::Event;

/// It comes from the network.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts the client so that it does nothing else. Gives what a person should know if that fails: its agents will try again.
pub(super) fn install(
    client: &Hooked,
    scope: &Scope,
    mala: &str,
    tell: &mut dyn FnMut(&Event),
) -> Option<String> {
    let args = first_visit(client.client)?;
    let (program, first_args) = client.command.split_first()?;
    tell(&Event::Preparing { profile: client.profile.clone() });
    let added = injection(client.client, mala, scope.root(), &scope.state_dir());
    let mut command = Command::new(program);
    command
        .args(first_args)
        .args(args)
        .current_dir(scope.root())
        .env("PWD", scope.root())
        .envs(&client.env)
        .envs(added.env);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let written = added.files.iter().try_for_each(|(path, text)| std::fs::write(path, text));
    let ended = written.and_then(|()| end_of(&mut command));
    let why = match ended {
        Ok(true) => return None,
        Ok(false) => "it failed".to_owned(),
        Err(error) => error.to_string(),
    };
    let profile = &client.profile;
    Some(format!(
        "the client of the profile `{profile}` could not prepare itself (`{} {}`): {why}; its agents try again, and hold locks on what \
         they install. Start it once by hand here to see what is wrong",
        client.command.join(" "),
        args.join(" ")
    ))
}

/// True if the command ends well in time.
fn end_of(command: &mut Command) -> io::Result<bool> {
    let mut child = command.spawn()?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
            let _ = killpg(group, Signal::SIGKILL);
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(POLL_INTERVAL);
    }
}
