use clap::Args;
use mala_core::{AgentId, IssueId, RunId};
use mala_store::Party;
use serde::{Deserialize, Serialize};

use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};

/// Say as which agent mala acts here
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala whoami")]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    caller: Caller,
}

/// The answer, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) agent: String,
    pub(crate) issue: Option<String>,
    pub(crate) run: Option<String>,
    /// True below a process that was registered as this agent: then neither arguments nor variables change it.
    pub(crate) bound: bool,
}

impl Identity {
    fn of(party: &Party, bound: bool) -> Self {
        Self {
            agent: party.agent.to_string(),
            issue: party.issue.as_ref().map(IssueId::to_string),
            run: party.run.as_ref().map(RunId::to_string),
            bound,
        }
    }
}

pub(crate) fn cmd_whoami(args: &WhoamiArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let bound = context.bound_party(&mut store)?;
    let identity = match &bound {
        Some(party) => Identity::of(party, true),
        None => Identity::of(&args.caller.party(context, &mut store, None, None)?, false),
    };
    context.ui.answer(&identity, |out| match &identity.issue {
        Some(issue) => writeln!(out, "{} (issue {issue})", identity.agent),
        None => writeln!(out, "{}", identity.agent),
    })?;
    Ok(Code::SUCCESS)
}

impl TryFrom<Identity> for mala_core::Actor {
    type Error = mala_core::NameError;

    fn try_from(identity: Identity) -> Result<Self, Self::Error> {
        Ok(Self {
            agent: AgentId::new(identity.agent)?,
            issue: identity.issue.map(IssueId::new).transpose()?,
            run: identity.run.map(RunId::new).transpose()?,
        })
    }
}
