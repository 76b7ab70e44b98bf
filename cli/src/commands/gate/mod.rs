//! `mala gate`: whether a commit is accepted, and what git's hooks ask before there is one.

mod check;
mod commit_msg;
mod overtaken;
mod post_commit;
mod pre_commit;

pub(crate) use overtaken::refuse_overtaking;

use std::env;

use clap::Subcommand;
use mala_agents::Client;
use mala_core::{AgentId, IssueId, Scope};
use mala_store::process::Process;
use mala_store::{Party, Store};

use crate::context::{Context, open};
use crate::error::{CliError, Code};

/// Judge commits
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  mala gate check --issue bd-12")]
pub(crate) enum GateCommand {
    Check(check::CheckArgs),
    CommitMsg(commit_msg::CommitMsgArgs),
    PreCommit(pre_commit::PreCommitArgs),
    PostCommit(post_commit::PostCommitArgs),
}

pub(crate) fn run(command: GateCommand, context: &Context) -> Result<Code, CliError> {
    match command {
        GateCommand::Check(args) => check::cmd_check(&args, context),
        GateCommand::CommitMsg(args) => commit_msg::cmd_commit_msg(&args, context),
        GateCommand::PreCommit(args) => pre_commit::cmd_pre_commit(&args, context),
        GateCommand::PostCommit(args) => post_commit::cmd_post_commit(&args, context),
    }
}

/// Who is judged: an agent, if one is meant or this is one's session. People have no name here.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Judged {
    /// Agent whose commit it is [default: the one this session belongs to; nobody for a person]
    #[arg(long, env = "MALA_AGENT", value_name = "NAME")]
    agent: Option<AgentId>,
    /// Issue that the commit is for [default: the one the agent works on]
    #[arg(long, value_name = "ID")]
    issue: Option<IssueId>,
}

/// What git's hooks have to go by.
enum Opened {
    Known(Box<Store>, mala_gate::Judged),
    /// The store cannot be used, and it is a person who commits.
    Unchecked(CliError),
}

impl Judged {
    /// Opens the store for a hook of git's. One that cannot be used stops agents, and people only if they are held to the rules.
    fn open(&self, context: &Context, scope: &Scope, for_people: bool) -> Result<Opened, CliError> {
        let opened = open(scope).and_then(|mut store| {
            let subject = self.resolve(context, &mut store)?;
            Ok((store, subject))
        });
        let may_be_agent = || self.agent.is_some() || context.supervised.is_some() || is_below_client();
        match opened {
            Ok((store, subject)) => Ok(Opened::Known(Box::new(store), subject)),
            Err(error) if for_people || may_be_agent() => Err(error),
            Err(error) => Ok(Opened::Unchecked(error)),
        }
    }

    pub(crate) fn resolve(
        &self,
        context: &Context,
        store: &mut Store,
    ) -> Result<mala_gate::Judged, CliError> {
        let bound = context.bound_party(store)?;
        let agent = match bound {
            Some(Party { agent, .. }) => Some(agent),
            None => self.agent.clone(),
        };
        let known = store.agents()?.into_iter().find(|known| Some(&known.party.agent) == agent.as_ref());
        let issue = self.issue.clone().or_else(|| known.and_then(|known| known.party.issue));
        Ok(mala_gate::Judged { agent, issue })
    }
}

/// True below a client: its session is an agent, though the store cannot say which.
fn is_below_client() -> bool {
    // Not every client's process has its name.
    let is_marked = Client::ALL.into_iter().filter_map(Client::mark).any(|mark| env::var_os(mark).is_some());
    let me = Process::find(std::process::id());
    let mut above = me.iter().flat_map(Process::ancestors);
    is_marked || above.any(|process| Client::ALL.iter().any(|client| client.name() == process.name))
}
