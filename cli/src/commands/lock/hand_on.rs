use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use mala_core::{AgentId, Key, Target};
use mala_session::FileHandedOn;
use mala_store::Store;

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

pub(super) fn cmd_hand_on(args: &HandOnArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let agent = args.caller.agent(context, &mut store)?;
    let keys: Vec<Key> = args.keys.iter().map(|key| Key::from_stored(key.as_bytes().to_vec())).collect();
    context.ui.json_line(&hand_on(context, &mut store, &agent, &keys)?)?;
    Ok(Code::SUCCESS)
}

/// Hands on what is done, and says what stays because it is still open.
pub(crate) fn hand_on(
    context: &Context,
    store: &mut Store,
    agent: &AgentId,
    keys: &[Key],
) -> Result<Vec<FileHandedOn>, CliError> {
    let warn = |target: &Target, why: &str| {
        context.ui.warning(&format!("`{}` was not handed on: {why}", plain(target)));
    };
    let supervised = context.supervised.as_ref();
    Ok(mala_session::hand_on(&context.scope()?, store, supervised, (agent, keys), &warn)?)
}
