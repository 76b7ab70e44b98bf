use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};

use clap::Args;
use mala_agents::answer::{render, render_failure};
use mala_agents::hook::{MAX_PAYLOAD_BYTES, parse};
use mala_agents::{Client, HookCall, Rendered};

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::hook;

/// The exit code that every client understands as a no.
pub(crate) const DENIED: Code = Code(2);

/// Answer a hook of an agent client
///
/// Called by the clients themselves, with the call as JSON on standard input; `mala init` sets it up. Whatever goes wrong
/// in here, the answer is a refusal with its reason.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala hook claude < call.json")]
pub(crate) struct HookArgs {
    /// claude, codex, gemini or opencode
    #[arg(value_name = "CLIENT")]
    client: Client,
}

pub(crate) fn cmd_hook(args: &HookArgs, context: &Context) -> Result<Code, CliError> {
    let rendered = answer(args.client, context);
    // An answer that did not arrive whole is no answer.
    Ok(if write(context, &rendered).is_ok() { Code(rendered.code) } else { DENIED })
}

fn answer(client: Client, context: &Context) -> Rendered {
    let call = match read(context).map_err(CliError::from).and_then(|text| call(client, &text)) {
        Ok(call) => call,
        Err(error) => return render_failure(None, &sentence(&error)),
    };
    let decided = panic::catch_unwind(AssertUnwindSafe(|| hook::answer(&call, context)));
    match decided {
        Ok(Ok(answer)) => render(&call, &answer),
        Ok(Err(error)) => render_failure(Some(&call), &sentence(&error)),
        Err(_) => render_failure(Some(&call), "mala failed while it judged this; see `mala doctor`"),
    }
}

fn read(context: &Context) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than allowed, so that too much is seen to be too much.
    context.ui.input().take(MAX_PAYLOAD_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn call(client: Client, text: &[u8]) -> Result<HookCall, CliError> {
    parse(client, text).map_err(CliError::failed)
}

/// The error in one paragraph, as the model reads it.
pub(crate) fn sentence(error: &CliError) -> String {
    let hints = error.hints.iter().map(|hint| format!("; {hint}"));
    format!("mala: nothing may be written: {}{}", error.messages().join(": "), hints.collect::<String>())
}

fn write(context: &Context, rendered: &Rendered) -> io::Result<()> {
    let (mut out, mut err) = (context.ui.out(), context.ui.err());
    err.write_all(rendered.stderr.as_bytes())?;
    err.flush()?;
    out.write_all(rendered.stdout.as_bytes())?;
    out.flush()
}
