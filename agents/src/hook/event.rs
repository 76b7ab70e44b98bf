//! When a hook is called.

use crate::Client;

/// A moment in a session, by one name for all clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    SessionStart,
    PromptSubmit,
    BeforeTool,
    AfterTool,
    AfterToolFailed,
    Stop,
    SubagentStart,
    SubagentStop,
    SessionEnd,
    /// One that mala has nothing to say about.
    Other(String),
}

/// The clients' names for the same moments.
const NAMES: &[(Event, &str, Option<&str>)] = &[
    (Event::SessionStart, "SessionStart", Some("SessionStart")),
    (Event::PromptSubmit, "UserPromptSubmit", Some("BeforeAgent")),
    (Event::BeforeTool, "PreToolUse", Some("BeforeTool")),
    (Event::AfterTool, "PostToolUse", Some("AfterTool")),
    (Event::AfterToolFailed, "PostToolUseFailure", None),
    (Event::Stop, "Stop", Some("AfterAgent")),
    (Event::SubagentStart, "SubagentStart", None),
    (Event::SubagentStop, "SubagentStop", None),
    (Event::SessionEnd, "SessionEnd", Some("SessionEnd")),
];

impl Event {
    pub(super) fn from_name(client: Client, name: &str) -> Self {
        let named = |(_, common, gemini): &&(Self, &str, Option<&str>)| match client {
            Client::Gemini => *gemini == Some(name),
            Client::Claude | Client::Codex | Client::Opencode => *common == name,
        };
        NAMES.iter().find(named).map_or_else(|| Self::Other(name.to_owned()), |(event, ..)| event.clone())
    }

    /// What `client` calls it.
    pub fn name(&self, client: Client) -> &str {
        if let Self::Other(name) = self {
            return name;
        }
        let found = NAMES.iter().find(|(event, ..)| event == self);
        found.map_or("", |(_, common, gemini)| match client {
            Client::Gemini => gemini.unwrap_or(common),
            Client::Claude | Client::Codex | Client::Opencode => common,
        })
    }

    pub fn is_about_tool(&self) -> bool {
        matches!(self, Self::BeforeTool | Self::AfterTool | Self::AfterToolFailed)
    }
}
