//! What a client sent, whichever API it speaks.

use serde_json::Value;

/// One request for an answer of the model, with the whole conversation so far.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) body: Value,
    pub(super) history: Vec<Entry>,
    /// Which part of the script answers it. Keeps ids of a sub-agent's calls apart from its parent's.
    pub(super) part: usize,
}

/// One thing in a conversation.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// The client's words: a prompt, a reminder, what a hook added.
    Told(String),
    /// The model's words.
    Said,
    /// A tool that the model called.
    Called { id: String, tool: String },
    /// What came of it.
    Returned { id: String, text: String, is_error: Option<bool> },
}

/// What came of a tool call, as the model was told.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The call it answers.
    pub id: String,
    /// Which of the model's replies in its conversation made the call.
    pub reply: usize,
    /// Which part of the script made it.
    pub part: usize,
    pub tool: String,
    pub text: String,
    /// Whether it was marked as an error. OpenAI's API has no such mark.
    pub is_error: Option<bool>,
}

impl Entry {
    fn is_the_models(&self) -> bool {
        matches!(self, Self::Said | Self::Called { .. })
    }
}

impl Request {
    /// The request itself.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// Names of the tools that the model may call.
    pub fn tools(&self) -> Vec<String> {
        let list = |value: &'_ Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
        // OpenAI's newer models get their tools within the conversation, Google's in a list within a list.
        let holders = list(&self.body, "input").into_iter().chain([self.body.clone()]);
        let tools: Vec<Value> = holders.flat_map(|holder| list(&holder, "tools")).collect();
        let declared = tools.iter().flat_map(|tool| list(tool, "functionDeclarations"));
        // OpenAI's own tools have a type only.
        let name = |tool: &Value| tool["name"].as_str().or_else(|| tool["type"].as_str()).map(str::to_owned);
        tools.iter().cloned().chain(declared).filter_map(|tool| name(&tool)).collect()
    }

    /// How often the model has replied in this conversation.
    pub fn replies(&self) -> usize {
        replies(&self.history)
    }

    /// This id for a call, made another if the conversation has it: one that was summed up counts its replies anew.
    pub(super) fn unused(&self, mut id: String) -> String {
        while self
            .history
            .iter()
            .any(|entry| matches!(entry, Entry::Called { id: known, .. } if *known == id))
        {
            id.push_str("_again");
        }
        id
    }

    /// All that was said to the model before its first reply.
    pub fn prompt(&self) -> String {
        let first = self.history.iter().take_while(|entry| !entry.is_the_models());
        let texts: Vec<&str> = first.filter_map(Entry::told).collect();
        texts.join("\n")
    }

    /// Everything that the client said, beside the results of tools.
    pub fn told(&self) -> Vec<String> {
        self.history.iter().filter_map(Entry::told).map(str::to_owned).collect()
    }

    /// The results of all tool calls so far.
    pub fn results(&self) -> Vec<ToolResult> {
        let call_of = |wanted: &str| {
            self.history.iter().enumerate().find_map(|(at, entry)| match entry {
                Entry::Called { id, tool } if id == wanted => Some((replies(&self.history[..=at]) - 1, tool)),
                _ => None,
            })
        };
        let result = |entry: &Entry| match entry {
            Entry::Returned { id, text, is_error } => {
                let (reply, tool) =
                    call_of(id).map_or_else(Default::default, |(at, tool)| (at, tool.clone()));
                let (id, text) = (id.clone(), text.clone());
                Some(ToolResult { id, reply, part: self.part, tool, text, is_error: *is_error })
            }
            _ => None,
        };
        self.history.iter().filter_map(result).collect()
    }
}

/// How many replies of the model there are: what it says and calls at once is one.
fn replies(history: &[Entry]) -> usize {
    let mut before = false;
    let begins = |entry: &&Entry| {
        let is_new = entry.is_the_models() && !before;
        before = entry.is_the_models();
        is_new
    };
    history.iter().filter(begins).count()
}

impl Entry {
    fn told(&self) -> Option<&str> {
        match self {
            Self::Told(text) => Some(text),
            _ => None,
        }
    }
}

/// The text of a content field: one string, or a list of parts of which some are text.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |part: &'_ Value| {
                part["text"].as_str().or_else(|| part["encrypted_content"].as_str()).map(str::to_owned)
            };
            parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
