//! Why a run could not begin or go on.

use std::io;

use mala_core::IssueId;
use mala_git::salvage::SalvageError;
use mala_git::{GitError, Unfit};
use mala_issues::IssueError;
use thiserror::Error;

use crate::ports::{BeginError, PortError};

#[derive(Debug, Error)]
pub enum EngineError {
    #[error(transparent)]
    Begin(#[from] BeginError),
    #[error("agents would not be kept from each other's files, so none was started")]
    SelfTest(#[source] PortError),
    #[error("cannot get issues")]
    Source(#[from] IssueError),
    #[error("there is no profile `{name}`; known are {known}")]
    NoProfile { name: String, known: String },
    #[error("the profile `{profile}` needs the program `{program}`, which is not in PATH{}", hint(.install.as_deref()))]
    MissingProgram { profile: String, program: String, install: Option<String> },
    #[error("`{id}` is an epic: it holds other issues together and is not given to an agent")]
    Epic { id: IssueId },
    #[error("`{id}` is closed: there is nothing left to do for it")]
    Closed { id: IssueId },
    #[error("no agent can commit in this checkout: {}", .0.why)]
    Unfit(Unfit),
    #[error("cannot look at the checkout")]
    Checkout(#[source] GitError),
    #[error("cannot keep what is uncommitted in the checkout")]
    Before(#[source] SalvageError),
    #[error("cannot {what}")]
    Port {
        what: &'static str,
        #[source]
        source: PortError,
    },
    #[error("cannot start the engine")]
    Runtime(#[source] io::Error),
}

fn hint(install: Option<&str>) -> String {
    install.map(|install| format!("; get it: {install}")).unwrap_or_default()
}

/// An error with its causes, on one line.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
