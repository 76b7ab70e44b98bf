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
    let mut call = None;
    let said = unless_it_panics(|| {
        let call = call.insert(read(context).map_err(CliError::from).and_then(|text| parsed(client, &text))?);
        Ok(render(call, &hook::answer(call, context)?))
    });
    said.unwrap_or_else(|reason| render_failure(call.as_ref(), &reason))
}

/// What `judge` says, or why nothing may be written: a bug in mala is no yes either.
fn unless_it_panics(judge: impl FnOnce() -> Result<Rendered, CliError>) -> Result<Rendered, String> {
    match panic::catch_unwind(AssertUnwindSafe(judge)) {
        Ok(judged) => judged.map_err(|error| sentence(&error)),
        Err(_) => {
            Err("mala: nothing may be written: mala failed while it judged this; see `mala doctor`"
                .to_owned())
        }
    }
}

fn read(context: &Context) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than allowed, so that too much is seen to be too much.
    context.ui.input().take(MAX_PAYLOAD_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

fn parsed(client: Client, text: &[u8]) -> Result<HookCall, CliError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_refusal_with_a_reason() {
        let reason = unless_it_panics(|| panic!("a bug")).unwrap_err();
        let rendered = render_failure(None, &reason);
        assert_eq!(Code(rendered.code), DENIED);
        assert!(rendered.stderr.contains("nothing may be written"), "{rendered:?}");
    }
}
