//! Runs commands for the calls of the MCP server.
//!
//! The very same commands that the command line runs, with their streams in memory. Inside an agent's tree nothing touches the
//! store: there the supervisor is asked. Commands that start programs of others run in a process of their own, so that nothing
//! they print, read or do reaches the client's streams, and so that they can be ended.

mod apart;
mod pool;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::{CommandFactory, FromArgMatches};
use mala_agents::mcp::{CommandLine, Commands, How, Leash, Ran};
use mala_logs::secrets::{mask, mask_bytes, mask_json};
use mala_session::hook::{client_process, join};
use mala_session::supervisor_socket;
use serde_json::Value;

use crate::context::{Behalf, Call, Context};
use crate::error::CliError;
use crate::ui::{KeptStreams, Ui};
use crate::{Cli, typed};

pub(crate) use pool::{Lent, Pool};

/// How a session is listed that no hook of its client has announced.
const PROFILE: &str = "mcp";

/// Runs commands as the agent that this process belongs to.
#[derive(Debug)]
pub(crate) struct Executor {
    here: PathBuf,
    supervisor: Option<PathBuf>,
    stores: Arc<Pool>,
    /// What can be typed. Making it takes longer than reading a command line with it.
    grammar: Mutex<clap::Command>,
}

impl Executor {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            here: context.cwd.clone(),
            supervisor: supervisor_socket::supervisor(),
            stores: Arc::default(),
            grammar: Mutex::new(Cli::command()),
        }
    }

    fn try_run(&self, line: &CommandLine, leash: &Leash) -> Result<Ran, CliError> {
        let cli = self.parse(line).map_err(|error| usage(&error))?;
        if self.supervisor.is_none() {
            self.enter(leash)?;
        }
        match (line.how, &self.supervisor) {
            (How::Apart, _) => Ok(apart::run(&self.here, line, leash)?),
            (How::Here, Some(socket)) => Ok(supervisor_socket::relay(socket, &self.here, line, leash)?),
            (How::Here, None) => self.run_here(cli, line, leash),
        }
    }

    fn parse(&self, line: &CommandLine) -> Result<Cli, clap::Error> {
        let words = std::iter::once("mala").chain(line.words.iter().map(String::as_str));
        // A grammar that somebody panicked over may be half made, so it is made anew.
        let mut grammar = self.grammar.lock().unwrap_or_else(|poisoned| {
            let mut grammar = poisoned.into_inner();
            *grammar = Cli::command();
            grammar
        });
        let mut matches = grammar.try_get_matches_from_mut(words)?;
        Cli::from_arg_matches_mut(&mut matches)
    }

    fn behalf(&self, leash: &Leash) -> Result<Behalf, CliError> {
        let leash = leash.as_fd().try_clone_to_owned()?;
        Ok(Behalf::Call(Call { leash, stores: Arc::clone(&self.stores) }))
    }

    /// Makes the client above this process a session, unless it is one already: so that whatever it starts is known as its.
    fn enter(&self, leash: &Leash) -> Result<(), CliError> {
        let context = Context::new(self.here.clone(), None, Ui::new(true), self.behalf(leash)?)?;
        let mut store = context.store(&context.scope()?)?;
        if context.bound_party(&mut store)?.is_none() {
            join(PROFILE, None, &client_process()?, &mut store)?;
        }
        Ok(())
    }

    fn run_here(&self, cli: Cli, line: &CommandLine, leash: &Leash) -> Result<Ran, CliError> {
        let streams = KeptStreams::new(&line.input, leash.remarks());
        let call = self.behalf(leash)?;
        let code = cli.run(self.here.clone(), |json| Ui::kept(json, streams.clone()), call);
        Ok(Ran { code: code.0, answer: streams.take_answer() })
    }
}

impl Commands for Executor {
    fn run(&self, line: &CommandLine, leash: &Leash) -> Ran {
        let ran = self.try_run(line, leash).unwrap_or_else(|error| {
            let streams = KeptStreams::new("", leash.remarks());
            Ui::kept(true, streams.clone()).error(&error);
            Ran { code: error.exit_code().0, answer: streams.take_answer() }
        });
        Ran { answer: masked(&ran.answer), ..ran }
    }

    fn shown(&self, remarks: String) -> String {
        mask(&remarks).into_owned()
    }
}

/// An answer goes into the conversation of an agent, and from there to a model's provider.
fn masked(answer: &[u8]) -> Vec<u8> {
    match serde_json::from_slice::<Value>(answer) {
        Ok(mut value) => {
            mask_json(&mut value);
            value.to_string().into_bytes()
        }
        Err(_) => mask_bytes(answer).into_owned(),
    }
}

/// What is wrong with a command line, without the advice for those who typed it.
fn usage(error: &clap::Error) -> CliError {
    CliError::usage(typed::complaint(&error.render().to_string()))
        .hint("call the tool again with other arguments")
}
