use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use mala_core::{AgentId, Ask, Key, Target};
use mala_git::Repo;
use mala_store::{AskFilter, Store};
use serde::{Deserialize, Serialize};

use super::answer::release;
use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Hand files that are as committed to whoever asked for them
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock hand-on src/main.rs")]
pub(crate) struct HandOnArgs {
    #[command(flatten)]
    caller: Caller,
    /// The files, by their keys
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
}

/// A file that was handed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedOn {
    pub(crate) path: String,
    /// Who has it now.
    pub(crate) agent: String,
}

pub(super) fn cmd_hand_on(args: &HandOnArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let agent = args.caller.agent(context, &mut store)?;
    let keys: Vec<Key> = args.keys.iter().map(|key| Key::from_stored(key.as_bytes().to_vec())).collect();
    context.ui.json_line(&hand_on(context, &mut store, &agent, &keys)?)?;
    Ok(Code::SUCCESS)
}

/// Hands those of the files on that somebody asked for, that the agent holds by name, and that have no further changes. A
/// lock on more than a file stays: its holder has not said that it is done with all of it.
pub(crate) fn hand_on(
    context: &Context,
    store: &mut Store,
    agent: &AgentId,
    keys: &[Key],
) -> Result<Vec<HandedOn>, CliError> {
    let asks = store.asks(&AskFilter { holder: Some(agent.clone()), ..AskFilter::default() })?;
    if asks.is_empty() {
        return Ok(Vec::new());
    }
    let repo = Repo::new(context.scope()?);
    let dirty: Vec<Key> = repo.status()?.paths().map(|path| repo.key(path)).collect();
    let locks = store.locks()?;
    let is_done = |ask: &Ask| {
        let lock = locks.iter().find(|lock| lock.id == ask.lock && lock.agent == *agent);
        lock.is_some_and(|lock| match &lock.target {
            Target::File(key) => keys.contains(key) && !dirty.contains(key),
            Target::Pattern(_) | Target::Name(_) => false,
        })
    };
    let mut handed = Vec::new();
    // Whoever asked first gets it; the others are told that it has moved on.
    for ask in asks.iter().filter(|ask| is_done(ask)) {
        if !store.find_ask(&ask.id)?.state.is_pending() {
            continue;
        }
        match release(context, store, agent, &ask.id) {
            Ok(answered) if !answered.granted.is_empty() => {
                handed.push(HandedOn { path: ask.want.target.to_string(), agent: ask.asker.to_string() });
            }
            Ok(_) => {}
            // A file that is still open stays; the ask does, too.
            Err(error) => {
                let why = error.messages().join(": ");
                context.ui.warning(&format!("`{}` was not handed on: {why}", plain(&ask.want.target)));
            }
        }
    }
    Ok(handed)
}
