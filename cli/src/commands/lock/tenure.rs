use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use mala_core::{AgentId, Fence, Key};
use mala_gate::StoreOwnership;
use mala_git::{Ownership, OwnershipError};
use mala_session::{OtherHolder, Tenure};

use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};

/// Of each file, whether the caller has held it alone, and who else holds it now
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock tenure src/main.rs")]
pub(crate) struct TenureArgs {
    #[command(flatten)]
    caller: Caller,
    /// The files, by their keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
}

pub(super) fn cmd_tenure(args: &TenureArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let agent = args.caller.agent(context, &mut store)?;
    let ownership = StoreOwnership::new(store);
    let keys = args.keys.iter().map(|key| Key::from_stored(key.as_bytes().to_vec()));
    let tenures = keys.map(|key| tenure(&ownership, &agent, &key)).collect::<Result<Vec<_>, _>>()?;
    context.ui.json_line(&tenures)?;
    Ok(Code::SUCCESS)
}

fn tenure(ownership: &StoreOwnership, agent: &AgentId, key: &Key) -> Result<Tenure, OwnershipError> {
    let fence = ownership.owned(agent, key, None)?.map(|Fence(number)| number);
    let holder = ownership.holder(key, Some(agent))?.map(|holder| OtherHolder {
        agent: holder.agent.to_string(),
        issue: holder.issue.map(|issue| issue.to_string()),
        since: holder.since.as_millis(),
    });
    Ok(Tenure { fence, holder })
}
