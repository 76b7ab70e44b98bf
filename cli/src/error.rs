//! Errors at the edge: a kind that picks the exit code, a message, and what to type next.

use std::error::Error as StdError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use mala_config::ConfigError;
use mala_core::NameError;
use mala_core::claim::TargetError;
use mala_core::key::KeyError;
use mala_core::pattern::PatternError;
use mala_core::scope::ScopeError;
use mala_core::sharing::GuestRoot;
use mala_core::shell::word;
use mala_gate::JudgeError;
use mala_gate::evidence::EvidenceError;
use mala_gate::hooks::HooksError;
use mala_gate::rules::{GateError, RulesError};
use mala_git::commit::CommitError;
use mala_git::{GitError, OwnershipError};
use mala_logs::chain::ChainError;
use mala_sandbox::SandboxError;
use mala_session::{Handover, SessionError, supervisor_socket};
use mala_store::{AskError, IssueError, LandingError, MessageError, StoreError};
use miette::Diagnostic;
use nix::unistd::{Uid, User};
use serde::Serialize;

use crate::ui::plain;

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A rule said no.
    Refused,
    /// What was asked for makes no sense.
    Usage,
    /// mala or the machine failed.
    Failed,
}

/// The exit code of an answer that is a no.
pub(crate) const REFUSED: u8 = 1;
/// The exit code of what makes no sense.
pub(crate) const USAGE: u8 = 2;

/// What a command ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u8);

impl Code {
    pub(crate) const SUCCESS: Self = Self(0);
}

impl From<u8> for Code {
    fn from(code: u8) -> Self {
        Self(code)
    }
}

/// A program that somebody named cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotStarted(String);

#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) kind: Kind,
    pub(crate) hints: Vec<String>,
    pub(crate) source: Box<dyn StdError + Send + Sync>,
}

impl CliError {
    fn new(kind: Kind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = Self { kind, hints: Vec::new(), source: source.into() };
        if error.causes().any(is_full) { error.hint("make room on the disk and try again") } else { error }
    }

    pub(crate) fn usage(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Kind::Usage, source)
    }

    pub(crate) fn refused(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Kind::Refused, source)
    }

    pub(crate) fn failed(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Kind::Failed, source)
    }

    /// A program that cannot be started, and why.
    pub(crate) fn not_started(program: &OsStr, why: &io::Error) -> Self {
        let is_path = program.as_encoded_bytes().contains(&b'/');
        let why = match why.kind() {
            io::ErrorKind::NotFound if is_path => {
                "there is no such file, or nothing that can run it".to_owned()
            }
            io::ErrorKind::NotFound => "it is not in PATH".to_owned(),
            _ => why.to_string(),
        };
        Self::usage(NotStarted(format!("cannot start `{}`: {why}", plain(program.display()))))
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn exit_code(&self) -> Code {
        Code(match self.kind {
            Kind::Refused => REFUSED,
            Kind::Usage => USAGE,
            Kind::Failed => 3,
        })
    }

    /// The message, and the messages of its causes.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.causes().map(ToString::to_string).collect()
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let first: &(dyn StdError + 'static) = &*self.source;
        std::iter::successors(Some(first), |&error| error.source())
    }

    /// True if the reader of our output has gone away, as in `mala logs list | head`.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        let io = self.source.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// True if the disk, or this user's part of it, was full.
fn is_full(error: &(dyn StdError + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(io, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
        || matches!(error.downcast_ref(), Some(ChainError::Full { .. }))
        || matches!(error.downcast_ref(), Some(StoreError::Full { .. }))
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<SandboxError> for CliError {
    fn from(error: SandboxError) -> Self {
        match &error {
            SandboxError::StreamInTree { .. } => {
                Self::usage(error).hint("send it elsewhere, such as to a file outside of the checkout")
            }
            SandboxError::Start(_) => Self::usage(error),
            _ => Self::failed(error),
        }
    }
}

impl From<ScopeError> for CliError {
    fn from(error: ScopeError) -> Self {
        let hint = match &error {
            ScopeError::NotARepository { .. } => {
                "go to a checkout, name one with `-C DIR`, or make one: `git init`"
            }
            ScopeError::Bare { .. } => "go to a checkout of it: `git worktree add DIR`",
            ScopeError::Unreadable { .. } => "check that the folder exists and that you may read it",
        };
        Self::usage(error).hint(hint)
    }
}

impl From<KeyError> for CliError {
    fn from(error: KeyError) -> Self {
        let hint = match &error {
            KeyError::Outside { .. } => {
                Some("locks cover files of one checkout; for another one use `-C DIR`")
            }
            KeyError::Empty | KeyError::GitInternal { .. } | KeyError::Unresolvable { .. } => None,
        };
        hint.into_iter().fold(Self::usage(error), Self::hint)
    }
}

impl From<TargetError> for CliError {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Key(error) => error.into(),
            TargetError::Pattern(error) => error.into(),
        }
    }
}

impl From<PatternError> for CliError {
    fn from(error: PatternError) -> Self {
        Self::usage(error).hint("if it is a file's real name, add `--literal`")
    }
}

impl From<NameError> for CliError {
    fn from(error: NameError) -> Self {
        Self::usage(error)
    }
}

impl From<OwnershipError> for CliError {
    fn from(error: OwnershipError) -> Self {
        Self::failed(error).hint("nothing was changed; see what is wrong: mala doctor")
    }
}

impl From<HooksError> for CliError {
    fn from(error: HooksError) -> Self {
        let is_usage = matches!(error, HooksError::Shared { .. });
        Self::new(if is_usage { Kind::Usage } else { Kind::Failed }, error)
    }
}

impl From<GateError> for CliError {
    fn from(error: GateError) -> Self {
        Self::failed(error).hint("nothing is accepted meanwhile; see what is wrong: mala doctor")
    }
}

impl From<GitError> for CliError {
    fn from(error: GitError) -> Self {
        Self::failed(error)
    }
}

impl From<CommitError> for CliError {
    fn from(error: CommitError) -> Self {
        let kind = match &error {
            CommitError::EmptyMessage | CommitError::Unchanged(_) | CommitError::NoIdentity(_) => Kind::Usage,
            CommitError::Git(_) | CommitError::Ownership(_) | CommitError::Io { .. } => Kind::Failed,
            _ => Kind::Refused,
        };
        let is_nobody = matches!(error, CommitError::NoIdentity(_));
        let in_tree = supervisor_socket::supervisor().is_some();
        let who = is_nobody.then_some(match in_tree {
            // A model that is told to set a name makes one up.
            true => "a person has to say who commits, in git's settings; do not make up a name: end your turn and say so",
            false => "say who it is: git config user.name NAME && git config user.email MAIL",
        });
        let error = who.into_iter().fold(Self::new(kind, error), Self::hint);
        error.hint("nothing was committed; files and staged changes are as they were")
    }
}

impl From<RulesError> for CliError {
    fn from(error: RulesError) -> Self {
        match error {
            RulesError::Pattern(error) => error.into(),
            RulesError::IssuePattern(error) => Self::usage(error),
        }
    }
}

impl From<JudgeError> for CliError {
    fn from(error: JudgeError) -> Self {
        match error {
            JudgeError::NoCommit { .. } => Self::usage(error).hint("see which there are: git log --oneline"),
            JudgeError::Rules(error) => error.into(),
            JudgeError::Gate(error) => error.into(),
            JudgeError::Git(error) | JudgeError::Evidence(EvidenceError::Git(error)) => error.into(),
            JudgeError::Range(error) => Self::failed(error),
            JudgeError::Prove(_) => Self::failed(error),
            JudgeError::Store(error) => error.into(),
            JudgeError::Ownership(error) | JudgeError::Evidence(EvidenceError::Ownership(error)) => {
                error.into()
            }
            JudgeError::Evidence(error) => Self::failed(error),
        }
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::StillOpen { side: Handover::Release, .. } => {
                Self::refused(error).hint("let the program finish or end it, then release again")
            }
            SessionError::StillOpen { side: Handover::Acquire, .. } => {
                Self::refused(error).hint("let the program finish or end it, then ask again")
            }
            SessionError::ChangeUnderWay => Self::refused(error).hint("release again in a moment"),
            SessionError::JudgePanicked => Self::refused(error),
            SessionError::NoClient => Self::failed(error).hint("start it with `mala exec`"),
            SessionError::Unreachable(_) => {
                Self::failed(error).hint("the agent was started by `mala exec`; start it again")
            }
            SessionError::Sandbox(error) => error.into(),
            SessionError::Store(error) => error.into(),
            SessionError::Git(error) => error.into(),
            SessionError::Judge(error) => error.into(),
            SessionError::Ownership(error) => error.into(),
            SessionError::Config(error) => error.into(),
            SessionError::Scope(error) => error.into(),
            SessionError::Target(error) => error.into(),
            SessionError::Name(error) => error.into(),
            SessionError::Io(error) => error.into(),
            SessionError::Intent(error) => Self::failed(error),
            SessionError::Salvage(error) => Self::failed(error),
            SessionError::Json(error) => Self::failed(error),
            SessionError::NoAnswer => Self::failed(error),
        }
    }
}

impl From<GuestRoot> for CliError {
    fn from(error: GuestRoot) -> Self {
        Self::refused(error)
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let hints: Vec<String> =
            error.problems().filter_map(|problem| problem.help()).map(|help| help.to_string()).collect();
        hints.into_iter().fold(Self::usage(error), Self::hint)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::UnknownAgent { .. }
            | StoreError::NoProcess { .. }
            | StoreError::Ask(AskError::Unknown { .. } | AskError::WhyTooLong { .. })
            | StoreError::Message(MessageError::NotFound { .. })
            | StoreError::Landing(LandingError::UnknownEntry { .. })
            | StoreError::Issue(
                IssueError::Unknown { .. }
                | IssueError::NoTitle
                | IssueError::EmptyNote
                | IssueError::Name(_)
                | IssueError::Word { .. }
                | IssueError::BadFile { .. },
            ) => Kind::Usage,
            StoreError::AgentGone { .. }
            | StoreError::GuestRoot(_)
            | StoreError::AgentRuns { .. }
            | StoreError::StillHeld { .. }
            | StoreError::Deadlock { .. }
            | StoreError::Ask(_)
            | StoreError::Message(_)
            | StoreError::Issue(_)
            | StoreError::Landing(_)
            | StoreError::Journal(_) => Kind::Refused,
            _ => Kind::Failed,
        };
        let hint = store_hint(&error);
        hint.into_iter().fold(Self::new(kind, error), Self::hint)
    }
}

fn store_hint(error: &StoreError) -> Option<String> {
    Some(match error {
        // These say what to do themselves, or it is said of every full disk.
        StoreError::Journal(_) | StoreError::GuestRoot(_) | StoreError::Full { .. } => return None,
        StoreError::Landing(error) => return landing_hint(error),
        StoreError::Message(error) => return message_hint(error),
        StoreError::Issue(error) => return issue_hint(error),
        StoreError::Ask(error) => return ask_hint(error),
        StoreError::Damaged { path, .. } | StoreError::BadRow { path, .. } | StoreError::Foreign { path } => {
            let path = path.as_os_str().as_bytes();
            let (path, aside) = (word(path), word([path, b".damaged"].concat()));
            format!("no lock is granted meanwhile; to start afresh: mv {path} {aside}")
        }
        StoreError::Newer { .. } => "update mala; nothing was changed".to_owned(),
        StoreError::Unreadable { path, .. } | StoreError::Unwritable { path, .. } => whose(path),
        StoreError::Busy { .. } => {
            "look for a stopped mala process (`ps -C mala`), continue or end it, and try again".to_owned()
        }
        StoreError::UnknownAgent { .. } => "see who is known: mala status --all".to_owned(),
        StoreError::NoProcess { .. } => "name a running process, or leave `--owner-pid` out".to_owned(),
        StoreError::AgentRuns { .. } => "start this client with another `MALA_AGENT`".to_owned(),
        StoreError::AgentGone { .. } => "see who is running: mala status".to_owned(),
        StoreError::StillHeld { .. } => "hand over everything: leave the paths out".to_owned(),
        StoreError::Deadlock { .. } => "release something first: mala lock list".to_owned(),
        StoreError::Sql { .. } | StoreError::Io { .. } | StoreError::NotAFact { .. } => {
            "see what is wrong: mala doctor".to_owned()
        }
    })
}

/// What to do about a file that this user may not use.
pub(crate) fn whose(path: &Path) -> String {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    let owner = fs::metadata(there).map(|file| Uid::from_raw(file.uid()));
    match owner {
        Ok(owner) if owner != Uid::effective() => {
            let name =
                User::from_uid(owner).ok().flatten().map_or_else(|| owner.to_string(), |user| user.name);
            let (there, name) = (there.display(), plain(name));
            format!("`{there}` is {name}'s: use mala as {name}, or have {name} give you the right to use it")
        }
        _ => format!("see why it cannot be written to: ls -ld {}", word(there.as_os_str().as_bytes())),
    }
}

fn issue_hint(error: &IssueError) -> Option<String> {
    Some(match error {
        IssueError::Unknown { .. } => "see which there are: mala issue list --all".to_owned(),
        IssueError::Exists { id } => {
            format!(
                "see what it is: mala issue show {}; choose another id, or leave `--id` out",
                word(id.as_str())
            )
        }
        IssueError::NotForAgents { .. } => {
            "what becomes of an issue is decided when your turn ends: write a note on your own (`mala issue note`), or end your \
             turn and say what is missing"
                .to_owned()
        }
        IssueError::TooManyAdded { .. } => "put the rest into a note on your own issue".to_owned(),
        _ => return None,
    })
}

fn landing_hint(error: &LandingError) -> Option<String> {
    Some(match error {
        LandingError::UnknownEntry { .. } => "see which there are: mala queue list --all".to_owned(),
        LandingError::NotInState { id, .. }
        | LandingError::NoSuchStep { id, .. }
        | LandingError::EntryLanding { id, .. } => format!("see where it stands: mala queue show {id}"),
        LandingError::Replaced { by, .. } => format!("see that one: mala queue show {by}"),
        LandingError::OtherBranch { .. }
        | LandingError::FilesHeld { .. }
        | LandingError::LandingUnderWay { .. } => return None,
    })
}

fn message_hint(error: &MessageError) -> Option<String> {
    matches!(error, MessageError::NotFound { .. }).then(|| "see which there are: mala msg inbox".to_owned())
}

/// What to do about an ask that did not go as hoped, where the message does not say so itself.
fn ask_hint(error: &AskError) -> Option<String> {
    Some(match error {
        AskError::Unknown { .. } => "see which there are: mala lock asks --all".to_owned(),
        AskError::Over { .. } | AskError::NotHolder { .. } | AskError::NotAsker { .. } => {
            "see who asks whom: mala lock asks --all".to_owned()
        }
        AskError::NotDue { id, .. } => {
            format!("work on something else until then; a person can decide: mala lock take {id} --force")
        }
        AskError::Uncommitted { .. } => {
            "write to the holder: mala msg send --to NAME TEXT; a person can decide: `--force`".to_owned()
        }
        AskError::HolderActive { holder, .. } => {
            let holder = word(holder.as_str());
            format!("write to it: mala msg send --to {holder} TEXT; a person can decide: `--force`")
        }
        AskError::DeferredTooLong => "say when you are done: `--eta 60m` at most".to_owned(),
        AskError::Named { .. } => "wait for it: mala test -- COMMAND".to_owned(),
        _ => return None,
    })
}
