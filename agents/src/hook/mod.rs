//! A client's hook call, read from its standard input.
//!
//! What a decision needs must be there and of the right kind, else the call is an error and the caller denies. What a client
//! adds beside that is ignored, so that new versions keep working. A key that occurs twice is an error: two readers
//! could take different ones.

mod event;
mod json;

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

pub use event::Event;

use crate::Client;
use crate::intent::MAX_PATH_BYTES;
use json::Unambiguous;

/// The longest call that is read.
pub const MAX_PAYLOAD_BYTES: usize = 32 << 20;

/// One call of a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct HookCall {
    pub client: Client,
    pub event: Event,
    pub session: String,
    pub cwd: PathBuf,
    pub transcript: Option<PathBuf>,
    /// The sub-agent of the session that calls, if it is one.
    pub subagent: Option<String>,
    /// How much the person at the client lets it do without asking.
    pub permission_mode: Option<String>,
    /// The agent was sent back before, in this same stop.
    pub was_sent_back: bool,
    pub last_message: Option<String>,
    /// Why a session starts or ends: `startup`, `resume`, `clear`, ...
    pub source: Option<String>,
    pub prompt: Option<String>,
    /// Present exactly for the events about tools.
    pub tool: Option<ToolCall>,
}

impl HookCall {
    /// The conversation that calls, which its sub-agents share. Nothing for a client that calls each of its sub-agents a
    /// session of its own: there only the process tells.
    pub fn conversation(&self) -> Option<&str> {
        (self.client != Client::Opencode).then_some(self.session.as_str())
    }
}

/// A tool the agent wants to use or has used.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub name: String,
    pub input: Value,
    pub id: Option<String>,
    pub response: Option<Value>,
    /// What went wrong, after a tool failed.
    pub error: Option<String>,
}

/// Why a call cannot be judged.
#[derive(Debug, Error)]
pub enum PayloadError {
    #[error("the hook was called with nothing on standard input")]
    Empty,
    #[error("the hook call has {0} bytes, more than mala reads")]
    TooLong(usize),
    #[error("the hook call is not valid JSON")]
    Json(#[source] serde_json::Error),
    #[error("the hook call does not say `{field}`, which a decision needs")]
    Missing { field: &'static str },
    #[error("`{field}` in the hook call has {bytes} bytes, more than mala reads")]
    FieldTooLong { field: &'static str, bytes: usize },
    #[error("`cwd` in the hook call is `{0}`, which is not an absolute path")]
    RelativeFolder(String),
}

#[derive(Deserialize)]
struct Payload {
    hook_event_name: Option<String>,
    session_id: Option<String>,
    cwd: Option<String>,
    transcript_path: Option<PathBuf>,
    agent_id: Option<String>,
    permission_mode: Option<String>,
    stop_hook_active: Option<bool>,
    last_assistant_message: Option<String>,
    prompt_response: Option<String>,
    source: Option<String>,
    reason: Option<String>,
    prompt: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Unambiguous>,
    tool_use_id: Option<String>,
    tool_response: Option<Unambiguous>,
    error: Option<Unambiguous>,
}

impl Payload {
    /// Names and paths are short; only what a tool is given, and what somebody has said, may be long.
    fn check_lengths(&self) -> Result<(), PayloadError> {
        let transcript = self.transcript_path.as_ref().map(|path| path.as_os_str().len());
        let length = |text: &Option<String>| text.as_ref().map(String::len);
        let fields = [
            ("hook_event_name", length(&self.hook_event_name)),
            ("session_id", length(&self.session_id)),
            ("cwd", length(&self.cwd)),
            ("transcript_path", transcript),
            ("agent_id", length(&self.agent_id)),
            ("permission_mode", length(&self.permission_mode)),
            ("source", length(&self.source)),
            ("tool_name", length(&self.tool_name)),
            ("tool_use_id", length(&self.tool_use_id)),
        ];
        let too_long = fields
            .into_iter()
            .find_map(|(field, bytes)| Some((field, bytes.filter(|bytes| *bytes > MAX_PATH_BYTES)?)));
        match too_long {
            Some((field, bytes)) => Err(PayloadError::FieldTooLong { field, bytes }),
            None => Ok(()),
        }
    }
}

/// Reads what `client` wrote to its hook's standard input.
pub fn parse(client: Client, stdin: &[u8]) -> Result<HookCall, PayloadError> {
    let stdin = stdin.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stdin);
    if stdin.len() > MAX_PAYLOAD_BYTES {
        return Err(PayloadError::TooLong(stdin.len()));
    }
    if stdin.iter().all(u8::is_ascii_whitespace) {
        return Err(PayloadError::Empty);
    }
    let payload: Payload = serde_json::from_slice(stdin).map_err(PayloadError::Json)?;
    let need = |field: &'static str, value: Option<String>| {
        value.filter(|value| !value.is_empty()).ok_or(PayloadError::Missing { field })
    };
    payload.check_lengths()?;
    let event = Event::from_name(client, &need("hook_event_name", payload.hook_event_name)?);
    let cwd = need("cwd", payload.cwd)?;
    if !cwd.starts_with('/') {
        return Err(PayloadError::RelativeFolder(cwd));
    }
    let tool = match event.is_about_tool() {
        false => None,
        true => Some(ToolCall {
            name: need("tool_name", payload.tool_name)?,
            input: payload.tool_input.ok_or(PayloadError::Missing { field: "tool_input" })?.0,
            id: payload.tool_use_id,
            response: payload.tool_response.map(|response| response.0),
            error: payload.error.map(|error| text_of(error.0)),
        }),
    };
    Ok(HookCall {
        client,
        event,
        session: need("session_id", payload.session_id)?,
        cwd: PathBuf::from(cwd),
        transcript: payload.transcript_path,
        subagent: payload.agent_id,
        permission_mode: payload.permission_mode,
        was_sent_back: payload.stop_hook_active.unwrap_or(false),
        last_message: payload.last_assistant_message.or(payload.prompt_response),
        source: payload.source.or(payload.reason),
        prompt: payload.prompt,
        tool,
    })
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
