use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use mala_core::{Fence, Key};
use mala_gate::Ownership;

use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};
use crate::ownership::{Other, StoreOwnership, Tenure};

/// Whether the caller has held a file alone, and who else holds it now
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock tenure src/main.rs")]
pub(crate) struct TenureArgs {
    #[command(flatten)]
    caller: Caller,
    /// The file, by its key
    #[arg(value_name = "KEY")]
    key: OsString,
}

pub(super) fn cmd_tenure(args: &TenureArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let agent = args.caller.agent(context, &mut store)?;
    let ownership = StoreOwnership::new(store);
    let key = Key::from_stored(args.key.as_bytes().to_vec());
    let fence = ownership.owned(&agent, &key, None)?.map(|Fence(number)| number);
    let holder = ownership.holder(&key, Some(&agent))?.map(|holder| Other {
        agent: holder.agent.to_string(),
        issue: holder.issue.map(|issue| issue.to_string()),
        since: holder.since.as_millis(),
    });
    context.ui.json_line(&Tenure { fence, holder })?;
    Ok(Code::SUCCESS)
}
