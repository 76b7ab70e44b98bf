//! What the model will say.

use std::fmt;

use serde_json::Value;

use super::request::Request;

/// One answer of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Words, with which a turn ends.
    Say(String),
    /// Tool calls, which the client performs and answers.
    Call(Vec<Call>),
    /// No reply: the provider says why, in its own words. The next request is answered by the same step.
    Refuse(Refusal),
}

/// Why a provider gives no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The account is not let in.
    Account,
    /// Too many requests for now; it says that it will do in a second.
    Rate,
    /// Nothing more for this account before a person does something, or for hours.
    Quota,
    /// The provider itself has too much to do.
    Overload,
    /// The conversation is longer than the model can take.
    Length,
    /// This HTTP status, in these words.
    Words(u16, &'static str),
}

/// One tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub(super) tool: String,
    pub(super) input: Input,
}

/// What a tool is given.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Input {
    /// Arguments by name.
    Arguments(Value),
    /// One text, as tools of OpenAI's "custom" kind take it.
    Text(String),
}

/// Words; without any, a reply that is empty.
pub fn say(text: impl Into<String>) -> Reply {
    Reply::Say(text.into())
}

pub fn call(tool: &str, arguments: Value) -> Reply {
    calls([(tool, arguments)])
}

/// Several calls at once.
pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Reply {
    let call =
        |(tool, arguments): (&str, Value)| Call { tool: tool.to_owned(), input: Input::Arguments(arguments) };
    Reply::Call(calls.into_iter().map(call).collect())
}

/// Codex's `apply_patch`, with the patch in codex's own format between its first and last line.
pub fn patch(body: &str) -> Reply {
    let text = format!("*** Begin Patch\n{}\n*** End Patch\n", body.trim_end());
    text_call("apply_patch", text)
}

/// Codex's `exec`, which runs JavaScript that calls the tools.
pub fn javascript(source: &str) -> Reply {
    text_call("exec", source.to_owned())
}

fn text_call(tool: &str, text: String) -> Reply {
    Reply::Call(vec![Call { tool: tool.to_owned(), input: Input::Text(text) }])
}

type Step = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// The replies of a talk, one after the other.
///
/// Which reply is due follows from the request alone: the first, if the model has said nothing yet in what the client
/// sends. So a request that a client repeats is answered as before.
#[derive(Default)]
pub struct Script {
    parts: Vec<Part>,
}

struct Part {
    marker: Option<String>,
    steps: Vec<Step>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|part| (&part.marker, part.steps.len()))).finish()
    }
}

impl<const N: usize> From<[Reply; N]> for Script {
    fn from(replies: [Reply; N]) -> Self {
        replies.into_iter().fold(Self::default(), Self::then)
    }
}

impl Script {
    /// The next reply.
    #[must_use]
    pub fn then(self, reply: Reply) -> Self {
        self.then_by(move |_| reply.clone())
    }

    /// The next reply, made when it is due; it may look at the request and may take its time.
    #[must_use]
    pub fn then_by(mut self, step: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        if self.parts.is_empty() {
            self.parts.push(Part { marker: None, steps: Vec::new() });
        }
        if let Some(part) = self.parts.last_mut() {
            part.steps.push(Box::new(step));
        }
        self
    }

    /// From here on, the replies to a conversation whose first prompt contains `marker`: a sub-agent's, mostly.
    #[must_use]
    pub fn when(mut self, marker: &str) -> Self {
        self.parts.push(Part { marker: Some(marker.to_owned()), steps: Vec::new() });
        self
    }

    /// Which part speaks in this request's conversation.
    pub(super) fn part(&self, request: &Request) -> usize {
        let prompt = request.prompt();
        let marked = |part: &Part| part.marker.as_ref().is_some_and(|marker| prompt.contains(marker));
        self.parts.iter().position(marked).unwrap_or(0)
    }

    /// The reply that is due, if the script has one.
    pub(super) fn reply(&self, request: &Request) -> Option<Reply> {
        let step = self.parts.get(request.part)?.steps.get(request.replies())?;
        Some(step(request))
    }
}
