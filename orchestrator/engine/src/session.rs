//! The seam between a run and its agents: a session is started with what it is told, sends events, and can be asked to end.
//!
//! The dispatcher knows no more of an agent than this, so its tests bring sessions without processes. The real ones
//! (`process`) are processes of `mala exec`.

mod client_home;
pub mod exec;
mod first_visit;
pub mod process;
mod self_test;

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use mala_agents::start::Profile;
use mala_agents::stream::{Progress, Report, Usage};
use mala_core::{Attempt, IssueId, Key};
use nix::sys::signal::Signal;
use tokio::sync::mpsc;

use crate::error::Result;
use crate::event::Event;

pub use client_home::HomeError;
pub use self_test::SelfTestError;

/// Where the agents of a run live. Everything here may block but [`Sessions::start`].
pub trait Sessions: Send + Sync {
    /// Proves that what protects agents from each other works. A failure keeps a run from beginning.
    fn self_test(&self) -> Result<()>;

    /// Has clients install what they would install at their first start here. Gives what a person should know.
    fn prepare(&self, tell: &mut dyn FnMut(&Event)) -> Vec<String>;

    /// Starts a session, which tells `events` what it does until it has ended. It ends when this process does.
    fn start(&self, order: &SessionOrder<'_>, events: SessionEvents) -> Result<Box<dyn Session>>;

    /// Kills whatever still runs for an attempt, and waits until it has ended. For one whose run is gone, or whose process
    /// was killed: then its tree may take a moment longer.
    fn reap(&self, attempt: &Attempt) -> Result<()>;

    /// Whether the hooks of an attempt's client were called since its process `pid` was started; nothing where that cannot be
    /// known.
    fn are_hooks_heard(&self, attempt: &Attempt, pid: u32) -> Result<Option<bool>>;

    /// Removes files that killed processes of agents have left behind.
    fn sweep(&self);
}

/// A session that was started. Dropping it does not end it.
pub trait Session: fmt::Debug + Send {
    fn pid(&self) -> u32;

    /// Asks it to end. The event says when it has.
    fn end(&self, how: Stop);
}

/// What a session is to do.
#[derive(Debug)]
pub struct SessionOrder<'a> {
    pub attempt: &'a Attempt,
    pub profile: &'a Profile,
    /// What it has in its environment, unless the profile says otherwise.
    pub env: &'a [(String, String)],
    /// What it is told.
    pub prompt: &'a str,
    /// The client's name for the conversation that goes on, if one does.
    pub conversation: Option<&'a str>,
    /// What that conversation has used so far.
    pub spent: Usage,
    /// Dollars that are left for it.
    pub budget: Option<f64>,
    /// stdout is appended to `log`, stderr to the same name with `.err`.
    pub log: &'a Path,
}

/// What a session tells.
#[derive(Debug)]
pub enum SessionEvent {
    /// It is alive, and perhaps something new is known.
    Progress { progress: Vec<Progress>, usage: Usage },
    /// The last one.
    Ended(Box<SessionEnd>),
}

/// Where sessions send their events, each with its issue.
pub type SessionEvents = mpsc::Sender<(IssueId, SessionEvent)>;

/// How a session ended.
#[derive(Debug)]
pub struct SessionEnd {
    pub status: io::Result<ExitStatus>,
    pub report: Report,
    /// The end of what it wrote to stderr.
    pub stderr: String,
    /// What kept `mala exec` from running the agent at all, if something did.
    pub launch_failure: Option<String>,
}

impl SessionEnd {
    /// True if a signal ended it: what it kept may take a moment longer.
    pub(crate) fn is_torn(&self) -> bool {
        self.status.as_ref().map_or(true, |status| status.signal().is_some())
    }

    /// How the agent failed, as the end of a sentence, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        let terminal = self.report.terminal.as_ref().filter(|terminal| terminal.is_error);
        let said = terminal.and_then(|terminal| terminal.message.as_deref());
        let how = match terminal {
            // Its exit code is that of an error it has got over.
            _ if self.report.has_recovered && self.code() == Some(1) => return None,
            _ if !self.status.as_ref().is_ok_and(ExitStatus::success) => self.how(),
            Some(terminal) => format!("the agent ended with `{}`", terminal.reason),
            None => return None,
        };
        Some(said.map_or(how.clone(), |said| format!("{how}: {said}")))
    }

    fn code(&self) -> Option<i32> {
        self.status.as_ref().ok()?.code()
    }

    fn how(&self) -> String {
        match &self.status {
            Ok(status) => match (status.code(), status.signal()) {
                // What runs the agent passes a signal on as shells do. Some clients end with codes of their own up there.
                (Some(code), _) if is_death_by_signal(code) => {
                    format!("the agent was killed by signal {}", code - 128)
                }
                (Some(code), _) => format!("the agent ended with code {code}"),
                (None, Some(signal)) => format!("the agent was killed by signal {signal}"),
                (None, None) => "the agent ended".to_owned(),
            },
            Err(error) => format!("the agent was lost: {error}"),
        }
    }
}

/// True for the code by which shells tell that a signal ended a program. Signals that are ignored unless a program asks for them
/// end nothing: Gemini ends with the low byte of an HTTP status, 144 for 400 and 173 for 429.
fn is_death_by_signal(code: i32) -> bool {
    let signal = code.checked_sub(128).and_then(|number| Signal::try_from(number).ok());
    let harmless = [
        Signal::SIGCHLD,
        Signal::SIGCONT,
        Signal::SIGSTOP,
        Signal::SIGTSTP,
        Signal::SIGURG,
        Signal::SIGWINCH,
    ];
    signal.is_some_and(|signal| !harmless.contains(&signal) && !is_stack_fault(signal))
}

/// Nothing has sent it since coprocessors had a stack.
#[cfg(target_os = "linux")]
fn is_stack_fault(signal: Signal) -> bool {
    signal == Signal::SIGSTKFLT
}

#[cfg(not(target_os = "linux"))]
fn is_stack_fault(_: Signal) -> bool {
    false
}

/// How to end a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ask it to, and kill it after the grace period.
    Ask(Duration),
    Kill,
}

/// Where what an agent prints is kept, below `logs`, the directory of all runs' logs.
pub fn agent_log(logs: &Path, attempt: &Attempt) -> PathBuf {
    logs.join(attempt.run.as_str()).join(format!("{}.log", file_name(attempt.agent.as_str())))
}

/// An agent's name as the name of a file. Names that would look the same get something of their own at the end.
pub fn file_name(agent: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = agent.chars().map(plain).collect();
    let name = name.trim_start_matches('.');
    if name == agent {
        return name.to_owned();
    }
    format!("{name}-{}", Key::from_stored(agent.as_bytes().to_vec()).short_id())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{file_name, is_death_by_signal};

    #[test]
    fn a_code_of_the_clients_own_is_no_signal() {
        for killed in [129, 130, 134, 137, 139, 143, 153] {
            assert!(is_death_by_signal(killed), "{killed}");
        }
        // 400, 401, 403, 404, 429, 500 and 503, as far as they fit into a code; and plain ones.
        for code in [144, 145, 147, 148, 173, 244, 247, 0, 1, 127, 128] {
            assert!(!is_death_by_signal(code), "{code}");
        }
    }

    #[test]
    fn agents_of_different_names_have_files_of_different_names() {
        assert_eq!(file_name("script-bd-1.2_x-1"), "script-bd-1.2_x-1");
        let agents =
            ["x-a:b-1", "x-a~b-1", "x-a/b-1", "x-a_b-1", ".x-a_b-1", "..x-a_b-1", "x-\u{fc}-1", "x-_-1"];
        let files: BTreeSet<String> = agents.map(file_name).into();
        assert_eq!(files.len(), agents.len(), "{files:?}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(files.iter().all(|file| file.chars().all(is_plain) && !file.starts_with('.')), "{files:?}");
        assert!(file_name(&":".repeat(200)).len() < 250, "there is room for `.log`");
    }
}
