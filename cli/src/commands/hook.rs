use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use clap::Args;
use mala_agents::answer::{render, render_failure};
use mala_agents::hook::{MAX_PAYLOAD_BYTES, parse};
use mala_agents::{Answer, Client, HookCall, Rendered};
use mala_core::{Scope, Target};
use mala_session::hook::{self, HookContext};
use mala_session::supervisor_socket;

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::plain;

/// The exit code that every client understands as a no.
pub(crate) const DENIED: Code = Code(2);

/// How long a call may take to arrive; clients give up on their hooks after 30 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// So much is read at once.
const CHUNK: usize = 64 << 10;

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
    /// It came with the client's start, not by the project's settings
    #[arg(long, hide = true)]
    injected: bool,
}

impl HookArgs {
    /// True for the hook of a project's settings in a client that a run has started with hooks: those answer, and one call is
    /// answered once.
    pub(crate) fn is_redundant(&self) -> bool {
        !self.injected && supervisor_socket::supervisor().is_some() && hook::is_client_injected(self.client)
    }
}

pub(crate) fn cmd_hook(args: &HookArgs, context: &Context) -> Result<Code, CliError> {
    let rendered = match args.is_redundant() {
        true => unless_it_panics(|| Ok(render(&parsed(args.client, &read(context)?)?, &Answer::Continue)))
            .unwrap_or_else(|reason| render_failure(None, &reason)),
        false => answer(args.client, context),
    };
    // An answer that did not arrive whole is no answer.
    Ok(if write(context, &rendered).is_ok() { Code(rendered.code) } else { DENIED })
}

fn answer(client: Client, context: &Context) -> Rendered {
    let mut call = None;
    let said = unless_it_panics(|| {
        let call = call.insert(parsed(client, &read(context)?)?);
        let load_settings = |scope: &Scope| Ok(context.load_settings(Some(scope), Vec::new())?.settings);
        let warn = |target: &Target, why: &str| {
            context.ui.warning(&format!("`{}` was not handed on: {why}", plain(target)));
        };
        let supervised = context.supervised.as_ref();
        let hook = HookContext { supervised, load_settings: &load_settings, warn: &warn };
        Ok(render(call, &hook::answer(call, &hook)?))
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

/// Reads one call. A client need not close its end: a whole document is enough.
fn read(context: &Context) -> Result<Vec<u8>, CliError> {
    let mut input = context.ui.input();
    let (mut text, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    let mut nesting = Nesting::default();
    let until = Instant::now() + PATIENCE;
    while text.len() <= MAX_PAYLOAD_BYTES && !nesting.is_closed {
        if !context.ui.has_input(until.saturating_duration_since(Instant::now()))? {
            let seconds = PATIENCE.as_secs();
            let error = format!("no whole hook call came on standard input within {seconds} s");
            return Err(CliError::failed(error).hint("a client writes one JSON document there"));
        }
        match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => {
                nesting.read(&chunk[..length]);
                text.extend_from_slice(&chunk[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(text)
}

/// Where a JSON document ends, found out while it comes: looking at all of it again with each piece would take the square of
/// its length.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// The brace that opened first is closed.
    is_closed: bool,
}

impl Nesting {
    fn read(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_text => self.is_escaped = true,
                b'"' => self.is_in_text = !self.is_in_text,
                b'{' if !self.is_in_text => self.depth += 1,
                b'}' if !self.is_in_text => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_closed |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
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
    fn the_end_of_a_call_is_seen_wherever_it_is_cut() {
        let call = br#" {"a": {"b": "}\"}\\"}, "c": [{}]}"#;
        for at in 0..call.len() {
            let mut nesting = Nesting::default();
            nesting.read(&call[..at]);
            assert!(!nesting.is_closed, "{at}");
            nesting.read(&call[at..]);
            assert!(nesting.is_closed, "{at}");
        }
    }

    #[test]
    fn a_panic_is_a_refusal_with_a_reason() {
        let reason = unless_it_panics(|| panic!("a bug")).unwrap_err();
        let rendered = render_failure(None, &reason);
        assert_eq!(Code(rendered.code), DENIED);
        assert!(rendered.stderr.contains("nothing may be written"), "{rendered:?}");
    }
}
