//! What mala says to a hook call, and the words each client understands.
//!
//! Whatever is rendered is valid JSON with exit code 0, or a reason on stderr with exit code 2, which every client takes as
//! a refusal. Exit code 1 is never used: clients go on after it. Text from outside is data: it is bounded, control
//! characters are replaced, and it only ever passes through a serializer.
//!
//! A plain yes says nothing at all. An explicit `allow` would also answer for the person whom the client may want to ask.

use serde_json::{Map, Value, json};

use crate::Client;
use crate::hook::{Event, HookCall};

/// The most characters of a reason. Enough for a list of files and holders.
const MAX_REASON: usize = 4_000;

/// The most characters of context. Codex cuts what is longer than ten thousand.
const MAX_CONTEXT: usize = 9_000;

/// The decision about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The tool may run; `rewrite` is the shell command to run instead.
    Allow {
        context: Option<String>,
        rewrite: Option<String>,
    },
    Deny {
        reason: String,
    },
    /// The call is put off: the client exits and makes it again when its session goes on. A client that cannot do that is
    /// refused.
    Defer {
        reason: String,
    },
    /// Something the agent should know; nothing is decided.
    Context(String),
    /// Nothing to say.
    Continue,
    /// The agent wants to stop and must go on.
    SendBack {
        reason: String,
    },
}

/// What the hook process prints and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub stdout: String,
    pub stderr: String,
    pub code: u8,
}

impl Rendered {
    fn json(value: &Value) -> Self {
        Self { stdout: format!("{value}\n"), stderr: String::new(), code: 0 }
    }

    fn refusal(reason: &str) -> Self {
        Self { stdout: String::new(), stderr: format!("{}\n", bounded(reason, MAX_REASON)), code: 2 }
    }
}

/// True if context given to this call reaches the agent. If not, it is better kept for a later call.
pub fn carries_context(call: &HookCall) -> bool {
    match call.event {
        Event::AfterTool => true,
        Event::SessionStart | Event::PromptSubmit => call.client != Client::Opencode,
        Event::BeforeTool => matches!(call.client, Client::Claude | Client::Codex),
        Event::AfterToolFailed | Event::SubagentStart => call.client == Client::Claude,
        Event::Stop | Event::SubagentStop | Event::SessionEnd | Event::Other(_) => false,
    }
}

/// `answer` in the words of the client that made `call`.
pub fn render(call: &HookCall, answer: &Answer) -> Rendered {
    let value = match call.client {
        Client::Claude | Client::Codex => claude_like(call, answer),
        Client::Gemini => gemini(call, answer),
        Client::Opencode => opencode(call, answer),
    };
    match value {
        Some(value) => Rendered::json(&value),
        // A refusal for which the client has no words of its own.
        None => Rendered::refusal(reason_of(answer).unwrap_or_default()),
    }
}

/// The answer if mala itself failed. `call` is missing if it could not even be read.
///
/// What could change a file is refused. An agent that wants to stop is sent back once, and not again, so that it does not
/// run in circles. Everything else goes on, and the reason is passed on where it can be.
pub fn render_failure(call: Option<&HookCall>, reason: &str) -> Rendered {
    let Some(call) = call else { return Rendered::refusal(reason) };
    match call.event {
        Event::BeforeTool => Rendered::refusal(reason),
        Event::Stop | Event::SubagentStop if !call.was_sent_back => Rendered::refusal(reason),
        _ => {
            let mut rendered = render(call, &Answer::Context(reason.to_owned()));
            rendered.stderr = format!("{}\n", bounded(reason, MAX_REASON));
            rendered
        }
    }
}

fn reason_of(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Deny { reason } | Answer::Defer { reason } | Answer::SendBack { reason } => Some(reason),
        Answer::Allow { .. } | Answer::Context(_) | Answer::Continue => None,
    }
}

fn context_of(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Allow { context, .. } => context.as_deref(),
        Answer::Context(context) => Some(context.as_str()),
        Answer::Deny { .. } | Answer::Defer { .. } | Answer::SendBack { .. } | Answer::Continue => None,
    }
    .filter(|context| !context.trim().is_empty())
    .map(|context| bounded(context, MAX_CONTEXT))
}

fn claude_like(call: &HookCall, answer: &Answer) -> Option<Value> {
    let name = call.event.name(call.client);
    let reason = reason_of(answer).map(|reason| bounded(reason, MAX_REASON));
    let with = |fields: Map<String, Value>| {
        let mut output = Map::from_iter([("hookEventName".to_owned(), json!(name))]);
        output.extend(fields);
        json!({ "hookSpecificOutput": output })
    };
    let adding = |context: String| with(Map::from_iter([("additionalContext".to_owned(), json!(context))]));
    match (&call.event, reason) {
        (Event::BeforeTool, Some(reason)) => {
            let is_deferred = call.client == Client::Claude && matches!(answer, Answer::Defer { .. });
            let word = if is_deferred { "defer" } else { "deny" };
            let decision = [("permissionDecision", json!(word)), ("permissionDecisionReason", json!(reason))];
            Some(with(decision.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()))
        }
        (Event::BeforeTool, None) => {
            let mut fields = Map::new();
            if let Some(input) = rewritten_input(call, answer) {
                // Codex takes no other input without it. Claude asks the person as usual, unless told not to ask at all.
                let is_needed = call.client == Client::Codex;
                if is_needed || call.permission_mode.as_deref() == Some("bypassPermissions") {
                    fields.insert("permissionDecision".to_owned(), json!("allow"));
                }
                fields.insert("updatedInput".to_owned(), input);
            }
            fields.extend(context_of(answer).map(|context| ("additionalContext".to_owned(), json!(context))));
            Some(if fields.is_empty() { json!({}) } else { with(fields) })
        }
        (Event::AfterTool | Event::PromptSubmit | Event::Stop | Event::SubagentStop, Some(reason)) => {
            Some(json!({ "decision": "block", "reason": reason }))
        }
        (Event::SessionStart | Event::SubagentStart, Some(reason)) => Some(adding(reason)),
        (Event::AfterToolFailed, Some(reason)) if call.client == Client::Claude => Some(adding(reason)),
        (Event::SessionEnd | Event::AfterToolFailed, Some(_)) => Some(json!({})),
        (Event::Other(_), Some(_)) => None,
        (Event::Stop | Event::SubagentStop, None) => {
            // As context it would keep the agent going.
            Some(context_of(answer).map_or_else(|| json!({}), |context| json!({ "systemMessage": context })))
        }
        (_, None) => match context_of(answer).filter(|_| carries_context(call)) {
            Some(context) => Some(adding(context)),
            None => Some(json!({})),
        },
    }
}

fn gemini(call: &HookCall, answer: &Answer) -> Option<Value> {
    let name = call.event.name(call.client);
    let adding = |context: String| json!({ "hookSpecificOutput": { "hookEventName": name, "additionalContext": context } });
    match (&call.event, reason_of(answer).map(|reason| bounded(reason, MAX_REASON))) {
        (Event::BeforeTool | Event::PromptSubmit | Event::Stop, Some(reason)) => {
            Some(json!({ "decision": "deny", "reason": reason }))
        }
        // A refusal here would hide what the tool said.
        (Event::AfterTool | Event::SessionStart, Some(reason)) => Some(adding(reason)),
        (Event::SessionEnd, Some(_)) => Some(json!({})),
        (_, Some(_)) => None,
        (Event::BeforeTool, None) => Some(rewritten_input(call, answer).map_or_else(
            || json!({}),
            |input| json!({ "hookSpecificOutput": { "hookEventName": name, "tool_input": input } }),
        )),
        (Event::Stop, None) => {
            Some(context_of(answer).map_or_else(|| json!({}), |context| json!({ "systemMessage": context })))
        }
        (_, None) => match context_of(answer).filter(|_| carries_context(call)) {
            Some(context) => Some(adding(context)),
            None => Some(json!({})),
        },
    }
}

/// The words of our own plugin.
fn opencode(call: &HookCall, answer: &Answer) -> Option<Value> {
    let mut fields = Map::new();
    match (&call.event, reason_of(answer).map(|reason| bounded(reason, MAX_REASON))) {
        (Event::BeforeTool, Some(reason)) => drop(fields.insert("deny".to_owned(), json!(reason))),
        (Event::Stop, Some(reason)) => drop(fields.insert("send_back".to_owned(), json!(reason))),
        (Event::AfterTool, Some(reason)) => drop(fields.insert("context".to_owned(), json!(reason))),
        (Event::SessionStart | Event::SessionEnd, Some(_)) => {}
        (_, Some(_)) => return None,
        (_, None) => {
            fields.extend(rewritten_input(call, answer).map(|input| ("args".to_owned(), input)));
            fields.extend(context_of(answer).map(|context| ("context".to_owned(), json!(context))));
        }
    }
    Some(Value::Object(fields))
}

/// The tool's input with another command in it.
fn rewritten_input(call: &HookCall, answer: &Answer) -> Option<Value> {
    let Answer::Allow { rewrite: Some(command), .. } = answer else { return None };
    let mut input = call.tool.as_ref()?.input.as_object()?.clone();
    let key = ["command", "cmd"].into_iter().find(|key| input.get(*key).is_some_and(Value::is_string))?;
    input.insert(key.to_owned(), json!(command));
    Some(Value::Object(input))
}

/// `text` without what could confuse a terminal, cut in the middle if it is too long. Never empty.
fn bounded(text: &str, most: usize) -> String {
    let is_odd = |char: char| {
        (char.is_control() && char != '\n' && char != '\t')
            || matches!(char, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    let clean: Vec<char> =
        text.trim().chars().map(|char| if is_odd(char) { '\u{FFFD}' } else { char }).collect();
    if clean.is_empty() {
        return "mala refused this; it did not say why".to_owned();
    }
    if clean.len() <= most {
        return clean.into_iter().collect();
    }
    const GAP: &str = " [...] ";
    let tail = most / 4;
    let head = most - tail - GAP.len();
    clean[..head]
        .iter()
        .copied()
        .chain(GAP.chars())
        .chain(clean[clean.len() - tail..].iter().copied())
        .collect()
}

#[cfg(test)]
mod tests;
