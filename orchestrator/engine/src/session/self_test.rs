//! Proof, before the first issue is given out, that agents are kept from each other's files.
//!
//! An agent that is nobody's holds a file. Another one writes to it: the kernel must refuse. Then the hook of every client
//! that the run may start is called exactly as that client would call it: it must deny the held file and name its holder,
//! and let a free one pass, because a hook that denies everything keeps everybody from working. Nothing stays behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mala_agents::launch::{hook_command, injection};
use mala_agents::probe::{Understood, call, understand};
use mala_agents::{Client, start::Profile};
use mala_core::{AgentId, Key, Mode, Target, Want};
use mala_session::acquire;
use mala_store::{Outcome, Party, Request, SELF_TEST, Store, process};
use thiserror::Error;

use super::exec::ExecSessions;
use crate::error::Result;

/// How long a hook may take; clients wait no longer.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// What keeps a run from beginning.
#[derive(Debug, Error)]
pub enum SelfTestError {
    #[error(transparent)]
    Kernel(mala_sandbox::Unsupported),
    #[error("a file that nobody knows could not be locked")]
    Refused,
    #[error("an agent could write a file that another one holds")]
    Written,
    #[error("`mala exec` could not be started")]
    Exec(#[source] io::Error),
    #[error(
        "the hook of {client} (profile `{profile}`) does not keep a held file from being written: {why}; try it by hand: \
         {command} < /dev/null"
    )]
    Open { client: Client, profile: String, why: String, command: String },
    #[error("the hook of {client} (profile `{profile}`) would let it write nothing at all: {why}")]
    Shut { client: Client, profile: String, why: String },
    #[error("no hook was found in what {client} is started with")]
    Missing { client: Client },
}

/// A client that a run may start, and the environment that its profile gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hooked {
    pub(super) profile: String,
    pub(super) client: Client,
    pub(super) command: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl Hooked {
    /// The clients of these profiles, each environment once.
    pub(super) fn of<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for profile in profiles {
            let Some(client) = profile.kind.client() else { continue };
            let Profile { name, command, env, .. } = profile;
            if !found.iter().any(|known| known.client == client && known.env == *env) {
                found.push(Self {
                    profile: name.clone(),
                    client,
                    command: command.clone(),
                    env: env.clone(),
                });
            }
        }
        found
    }
}

/// A file that is held, and who tries to write it.
pub(super) struct Stage<'a> {
    sessions: &'a ExecSessions,
    holder: AgentId,
    writer: AgentId,
    held: PathBuf,
    free: PathBuf,
}

impl<'a> Stage<'a> {
    /// Takes the file.
    pub(super) fn set(sessions: &'a ExecSessions) -> Result<Self> {
        let (pid, root) = (std::process::id(), sessions.scope.root());
        let name = format!(".mala-self-test-{pid}");
        let stage = Self {
            sessions,
            holder: AgentId::new(format!("{SELF_TEST}holder-{pid}"))?,
            writer: AgentId::new(format!("{SELF_TEST}{pid}"))?,
            held: root.join(&name),
            free: root.join(format!("{name}-free")),
        };
        let target = Target::File(Key::from_stored(name.into_bytes()));
        let request = Request {
            party: Party {
                agent: stage.holder.clone(),
                owner: process::current(),
                supervised: true,
                issue: None,
                run: None,
            },
            wants: vec![Want { target, aliases: Vec::new(), mode: Mode::Exclusive }],
            ttl: Duration::from_secs(300),
            reason: Some("a test of enforcement".to_owned()),
        };
        match acquire(&sessions.scope, &mut Store::open(&sessions.scope)?, &request)? {
            Outcome::Granted(_) => Ok(stage),
            Outcome::Refused(_) => Err(SelfTestError::Refused.into()),
        }
    }

    /// Leaves everything as it was.
    pub(super) fn clear(self) -> Result<()> {
        let mut store = Store::open(&self.sessions.scope)?;
        for agent in [&self.holder, &self.writer] {
            store.leave(agent)?;
        }
        Ok(())
    }

    /// The agent that tries. It is nobody's work, and no collector has to hear of it.
    fn attempt(&self) -> Command {
        let mut command = self.sessions.exec(&self.writer);
        command.env("OTEL_SDK_DISABLED", "true");
        command
    }

    /// Has an agent write to the held file: that must fail.
    pub(super) fn prove_kernel(&self) -> Result<()> {
        let mut write = self.attempt();
        write.arg("--").args(["sh", "-c", "echo x > \"$0\""]).arg(&self.held);
        let status = write.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let was_written = fs::remove_file(&self.held).is_ok();
        match status {
            Ok(status) if !status.success() && !was_written => Ok(()),
            Ok(_) => Err(SelfTestError::Written.into()),
            Err(error) => Err(SelfTestError::Exec(error).into()),
        }
    }

    /// Calls the hook that the client would be started with.
    pub(super) fn prove_hook(&self, hooked: &Hooked) -> Result<()> {
        let Hooked { client, profile, env, .. } = hooked;
        let folder = self.sessions.scope.state_dir();
        let mala = self.sessions.mala.to_string_lossy();
        let added = injection(*client, &mala, self.sessions.scope.root(), &folder);
        let command = hook_command(*client, &added).ok_or(SelfTestError::Missing { client: *client })?;
        let ask = |file: &Path| {
            let mut hook = self.attempt();
            hook.arg("--").args(["sh", "-c", &command]).envs(added.env.clone()).envs(env);
            answer(*client, hook, self.sessions.scope.root(), file)
        };
        let named = format!("`{}`", self.holder);
        let why = match ask(&self.held).map_err(SelfTestError::Exec)? {
            Understood::Denied(reason) if reason.contains(&named) => None,
            Understood::Denied(reason) => {
                return Err(
                    SelfTestError::Shut { client: *client, profile: profile.clone(), why: reason }.into()
                );
            }
            Understood::Passed => Some("it says yes to it".to_owned()),
            Understood::Nonsense(why) => Some(why),
        };
        if let Some(why) = why {
            return Err(
                SelfTestError::Open { client: *client, profile: profile.clone(), why, command }.into()
            );
        }
        match ask(&self.free).map_err(SelfTestError::Exec)? {
            Understood::Passed => Ok(()),
            Understood::Denied(why) | Understood::Nonsense(why) => {
                Err(SelfTestError::Shut { client: *client, profile: profile.clone(), why }.into())
            }
        }
    }
}

/// What the client makes of its hook's answer to a write of `file`.
fn answer(client: Client, mut hook: Command, root: &Path, file: &Path) -> io::Result<Understood> {
    let child = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let Some((code, out, err)) = converse(child, &call(client, root, file).to_string())? else {
        return Ok(Understood::Nonsense(format!(
            "it did not answer within {} seconds",
            HOOK_TIMEOUT.as_secs()
        )));
    };
    Ok(understand(client, code, &out, &err))
}

/// Tells the process something and waits for its end; nothing if it takes too long.
fn converse(mut child: Child, text: &str) -> io::Result<Option<(Option<i32>, String, String)>> {
    if let Some(mut input) = child.stdin.take() {
        // One that does not listen shows that by its answer.
        let _ = input.write_all(text.as_bytes());
    }
    let deadline = Instant::now() + HOOK_TIMEOUT;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    child.stdout.take().map(|mut pipe| pipe.read_to_end(&mut out)).transpose()?;
    child.stderr.take().map(|mut pipe| pipe.read_to_end(&mut err)).transpose()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some((status.code(), text(out), text(err))))
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use mala_core::Scope;

    use super::*;
    use crate::trace::Trace;

    /// A checkout and a launcher whose agents are plain processes, with `mala` as this script.
    fn broken(script: &str) -> std::result::Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("checkout");
        let made = Command::new("git").args(["init", "-q"]).arg(&root).status().unwrap();
        assert!(made.success());
        let mala = dir.path().join("mala");
        // `mala exec ... -- CMD` runs the command; `mala hook CLIENT` is what is broken.
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = exec ]; then\n  while [ \"$1\" != -- ]; do shift; done\n  shift\n  exec \"$@\"\nfi\n{script}\n"
        );
        // Another process writes it: what other tests start meanwhile would inherit a descriptor of ours for a moment,
        // and nobody can run a file that is open for writing.
        let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(&mala).arg(text).status().unwrap();
        assert!(written.success());
        let sessions = ExecSessions {
            scope: Scope::discover(&root).unwrap(),
            mala,
            require_kernel: false,
            trace: Trace::default(),
            has_kernel: OnceLock::new(),
            hooked: Vec::new(),
        };
        let stage = Stage::set(&sessions).unwrap();
        let hooked = Hooked {
            profile: "p".to_owned(),
            client: Client::Codex,
            command: Vec::new(),
            env: BTreeMap::new(),
        };
        let proven = stage.prove_hook(&hooked).map_err(|error| error.to_string());
        stage.clear().unwrap();
        assert_eq!(Store::open(&sessions.scope).unwrap().locks().unwrap().len(), 0, "nothing stays locked");
        proven
    }

    #[test]
    fn a_hook_that_does_not_say_no_is_found_out() {
        for (script, why) in [
            ("echo '{}'", "it says yes to it"),
            ("exit 0", "it ended well, which is no answer"),
            ("echo panic >&2; exit 1", "it ended with code 1 and said: panic"),
            ("exec no-such-program", "it ended with code 127"),
            ("kill -9 $$", "it ended with code 137"),
        ] {
            let error = broken(script).unwrap_err();
            assert!(error.contains("does not keep a held file from being written"), "{script}: {error}");
            assert!(error.contains(why) && error.contains("(profile `p`)"), "{script}: {error}");
        }
    }

    #[test]
    fn a_hook_that_says_no_to_everything_is_found_out_too() {
        let error = broken("echo 'mala: the store cannot be read' >&2; exit 2").unwrap_err();
        assert!(
            error.contains("would let it write nothing at all: mala: the store cannot be read"),
            "{error}"
        );
        let named = format!("self-test-holder-{}", std::process::id());
        let error = broken(&format!("echo 'held by `{named}`' >&2; exit 2")).unwrap_err();
        assert!(error.contains("would let it write nothing at all"), "also if it names the holder: {error}");
    }

    #[test]
    fn a_hook_that_tells_held_from_free_passes() {
        let named = format!("self-test-holder-{}", std::process::id());
        let script =
            format!("case $(cat) in *-free*) echo '{{}}' ;; *) echo 'held by `{named}`' >&2; exit 2 ;; esac");
        assert_eq!(broken(&script), Ok(()));
    }
}
