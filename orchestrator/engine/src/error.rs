//! Why a run could not begin or go on.

use std::io;

use mala_agents::start::prompt::TemplateError;
use mala_agents::start::{Kind, LaunchError};
use mala_core::attempt::StepError;
pub(crate) use mala_core::text::causes;
use mala_core::{IssueId, NameError, Owner, RunId, Timestamp};
use mala_gate::evidence::EvidenceError;
use mala_gate::rules::RulesError;
use mala_gate::{GateError, JudgeError};
use mala_git::salvage::SalvageError;
use mala_git::{GitError, OwnershipError, Unfit};
use mala_issues::{ChoiceError, IssueError, LabelError};
use mala_landing::offer::OfferError;
use mala_landing::queue::QueueError;
use mala_landing::{NoFreePorts, SlotsError, ValidationError};
use mala_session::SessionError;
use mala_store::StoreError;
use thiserror::Error;
use tokio::task::JoinError;

use crate::around::AroundError;
use crate::cost::price_line;
use crate::session::{HomeError, SelfTestError};

pub(crate) type Result<T, E = EngineError> = std::result::Result<T, E>;

#[derive(Debug, Error)]
pub enum EngineError {
    #[error("`mala run` {run} is already at work here ({owner}, since {since})")]
    Busy { run: RunId, owner: Owner, since: Timestamp },
    #[error("agents would not be kept from each other's files, so none was started")]
    SelfTest(#[source] Box<EngineError>),
    #[error(transparent)]
    Unproven(#[from] SelfTestError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("cannot get issues")]
    Source(#[from] IssueError),
    #[error("there is no profile `{name}`; known are {known}")]
    NoProfile { name: String, known: String },
    #[error("the profile `{name}` does not say what it is")]
    NoKind { name: String },
    #[error("the profile `{name}` does not say what to start: `command` is missing")]
    NoCommand { name: String },
    #[error("the profile `{profile}` needs the program `{program}`, which is not in PATH{}", hint(.install.as_deref()))]
    MissingProgram { profile: String, program: String, install: Option<String> },
    #[error(
        "a limit in dollars is set, and what the profile `{profile}` costs cannot be known: {}",
        unpriced(*kind, model.as_deref())
    )]
    NoPrice { profile: String, kind: Kind, model: Option<String> },
    #[error("`{path}`: {why}")]
    BadPrompt { path: String, why: TemplateError },
    #[error("cannot read `{path}`: {why}")]
    UnreadablePrompt { path: String, why: io::Error },
    #[error(transparent)]
    NoTracker(#[from] ChoiceError),
    #[error(transparent)]
    Tracker(IssueError),
    #[error("`{id}` is an epic: it holds other issues together and is not given to an agent")]
    Epic { id: IssueId },
    #[error("`{id}` is closed: there is nothing left to do for it")]
    Closed { id: IssueId },
    #[error("no agent can commit in this checkout: {}", .0.why)]
    Unfit(Unfit),
    #[error("cannot look at the checkout")]
    Checkout(#[source] GitError),
    #[error("cannot keep what is uncommitted in the checkout")]
    Baseline(#[source] SalvageError),
    #[error("cannot {what}")]
    Step {
        what: &'static str,
        #[source]
        source: Box<EngineError>,
    },
    #[error("cannot start the engine")]
    Runtime(#[source] io::Error),
    #[error("a part of the run has failed")]
    Worker(#[from] JoinError),
    #[error("the store was left in the middle of something")]
    StorePoisoned,
    #[error(transparent)]
    Impossible(#[from] StepError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Salvage(#[from] SalvageError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error(transparent)]
    Validation(#[from] ValidationError),
    #[error(transparent)]
    Slots(#[from] SlotsError),
    #[error(transparent)]
    Share(#[from] NoFreePorts),
    #[error(transparent)]
    Around(#[from] AroundError),
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("no branch is checked out any more, so there is nothing to land on")]
    NoBranch,
    #[error("the work could not be taken out of the checkout: {0}")]
    StillInPlace(String),
    #[error(
        "`{command}` is required of every commit and cannot be run here: {why}; install it, or name other commands in \
         [validate] of mala.toml"
    )]
    Unrunnable { command: String, why: String },
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    #[error(transparent)]
    Label(#[from] LabelError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn unpriced(kind: Kind, model: Option<&str>) -> String {
    match model {
        _ if !kind.has_model() => "it is a program of your own, whose tokens nobody counts".to_owned(),
        Some(model) => format!("there is no price for its model `{model}`"),
        None => format!("{} reports tokens only, and the profile does not say of which model", kind.name()),
    }
}

fn hint(install: Option<&str>) -> String {
    install.map(|install| format!("; get it: {install}")).unwrap_or_default()
}

impl EngineError {
    /// What to write into the settings so that a limit in dollars can bite, where that is what is missing.
    pub fn price_hint(&self) -> Option<String> {
        let Self::NoPrice { profile, kind, model } = self else { return None };
        Some(match model {
            _ if !kind.has_model() => format!(
                "if it costs nothing, add to mala.toml, below [agents.{profile}]: model = \"free\"; and below [price]: free = {{ input = 0, \
                 output = 0 }}"
            ),
            Some(model) => price_line(model),
            None => format!("add to mala.toml, below [agents.{profile}]: model = \"NAME\""),
        })
    }
}

/// What could not be done, for an error's source.
pub(crate) fn step(what: &'static str) -> impl FnOnce(EngineError) -> EngineError {
    move |source| EngineError::Step { what, source: Box::new(source) }
}
