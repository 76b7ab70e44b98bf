//! What a client prints while it works, understood line by line.
//!
//! A [`Reader`] is fed the client's stdout and tells what is going on ([`Progress`]) and, at any moment, what is known
//! so far ([`Report`]). Clients change their output from version to version, so a line that is not understood is
//! no error: it still shows that the client is alive.

mod access;
mod claude;
mod codex;
mod gemini;
mod limit;
mod opencode;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub};

use serde::Deserialize;
use serde_json::Value;

use crate::start::Kind;

pub use limit::{Limited, recognise};

/// The longest message that is kept; of longer ones, the end, where outcomes stand.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// The longest text that says what an agent does.
const LONGEST_DOING: usize = 160;

/// How a program without a format of its own says what it has used.
const PLAIN_USAGE: &str = "mala: usage ";

/// Something worth telling, from one line.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// The session can be resumed under this id.
    Session(String),
    /// What the agent does now, in a few words on one line.
    Doing(String),
    /// Totals have changed; see [`Report::usage`].
    Usage,
    /// The client was told to slow down.
    Limited(Limited),
    /// A tool has done its work. The client has called its hooks before that, if it has any.
    ToolEnded,
    /// The provider does not let this client in; see [`Report::denied`].
    Denied,
}

/// Tokens, by what is charged for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// All that was read.
    pub input: u64,
    /// What of that came from a cache.
    pub cached: u64,
    /// All that was written, also where it was only thought.
    pub output: u64,
}

impl Tokens {
    pub fn sum(self) -> u64 {
        self.input + self.output
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }
}

/// Beyond what there is, nothing is left.
impl Sub for Tokens {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            cached: self.cached.saturating_sub(other.cached),
            output: self.output.saturating_sub(other.output),
        }
    }
}

/// What a session has used so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Usage {
    /// By model; without a name where neither the client nor its profile says which.
    pub models: BTreeMap<String, Tokens>,
    /// In dollars; nothing where the client does not say.
    pub cost: Option<f64>,
    pub turns: u64,
}

impl Usage {
    /// Of all models.
    pub fn tokens(&self) -> Tokens {
        let mut all = Tokens::default();
        self.models.values().for_each(|tokens| all += *tokens);
        all
    }

    fn add(&mut self, model: &str, tokens: Tokens) {
        if tokens != Tokens::default() {
            *self.models.entry(model.to_owned()).or_default() += tokens;
        }
    }
}

impl AddAssign<&Self> for Usage {
    fn add_assign(&mut self, other: &Self) {
        other.models.iter().for_each(|(model, tokens)| self.add(model, *tokens));
        self.cost = match (self.cost, other.cost) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
        };
        self.turns += other.turns;
    }
}

/// How the client says that it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// The client's own word, such as `success` or `error_max_turns`.
    pub reason: String,
    pub is_error: bool,
    /// What the client said of an error, on one line.
    pub message: Option<String>,
}

impl Terminal {
    /// True if the client ended in the middle of a call that a hook has put off. It makes that call again when it is resumed.
    pub fn is_put_off(&self) -> bool {
        !self.is_error && self.reason == "tool_deferred"
    }
}

/// Everything known about a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    pub session: Option<String>,
    /// The last thing the agent said.
    pub message: Option<String>,
    pub usage: Usage,
    pub terminal: Option<Terminal>,
    /// Set if the last thing that happened was a limit.
    pub limited: Option<Limited>,
    /// True if the client has told an error, gone on and come to an end all the same. Its exit code may still tell of the error.
    pub has_recovered: bool,
    /// Why the provider does not let this client in, in its own words: no further try with the same account can do better.
    pub denied: Option<String>,
}

impl Report {
    fn say(&mut self, text: &str) {
        let from = text.ceil_char_boundary(text.len().saturating_sub(LONGEST_MESSAGE));
        self.message = Some(text[from..].to_owned());
    }

    /// A failure in the client's own words, which may be a limit in disguise.
    fn fail(&mut self, reason: &str, message: &str) -> Option<Progress> {
        let said = Some(limit::short(message.trim())).filter(|said| !said.is_empty());
        self.terminal = Some(Terminal { reason: reason.to_owned(), is_error: true, message: said });
        if access::is_denied(message) {
            return Some(self.deny(message));
        }
        self.limited = recognise(message);
        self.limited.clone().map(Progress::Limited)
    }

    fn deny(&mut self, message: &str) -> Progress {
        self.denied = Some(limit::short(message.trim()));
        Progress::Denied
    }
}

/// Reads one session's stdout.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    report: Report,
    /// The model that the client was asked to use; most do not say which one they do use.
    model: String,
    /// What the conversation had used before this process. Some clients report the whole conversation.
    spent: Usage,
}

#[derive(Debug)]
enum Format {
    Claude(claude::State),
    Codex,
    Gemini(gemini::State),
    Opencode(opencode::State),
    Plain,
}

impl Reader {
    /// Reads a process that was asked to use `model`, and that goes on with a conversation on which `spent` was used before. What
    /// it reports is its own part.
    pub fn new(kind: Kind, model: Option<&str>, spent: Usage) -> Self {
        let format = match kind {
            Kind::Claude => Format::Claude(claude::State::default()),
            Kind::Codex => Format::Codex,
            Kind::Gemini => Format::Gemini(gemini::State::default()),
            Kind::Opencode => Format::Opencode(opencode::State::default()),
            Kind::Command => Format::Plain,
        };
        let model = model.unwrap_or_default().to_owned();
        Self { format, report: Report::default(), model, spent }
    }

    /// Takes one line, without its end.
    pub fn line(&mut self, line: &[u8]) -> Vec<Progress> {
        if matches!(self.format, Format::Plain) {
            return plain_line(&String::from_utf8_lossy(line), &self.model, &mut self.report);
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return Vec::new() };
        let (model, spent) = (self.model.as_str(), &self.spent);
        match &mut self.format {
            Format::Claude(state) => claude::line(&value, spent, state, &mut self.report),
            Format::Codex => codex::line(&value, model, spent, &mut self.report),
            Format::Gemini(state) => gemini::line(&value, state, &mut self.report),
            Format::Opencode(state) => opencode::line(&value, model, state, &mut self.report),
            Format::Plain => Vec::new(),
        }
    }

    pub fn report(&self) -> &Report {
        &self.report
    }
}

/// What a program says that it has used since it was started, all in all.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PlainUsage {
    model: Option<String>,
    input: u64,
    cached: u64,
    output: u64,
    cost: Option<f64>,
}

fn plain_usage(told: PlainUsage, model: &str, report: &mut Report) {
    let PlainUsage { model: named, input, cached, output, cost } = told;
    let tokens = Tokens { input, cached, output };
    let model = named.unwrap_or_else(|| model.to_owned());
    report.usage.models.insert(model, tokens);
    report.usage.cost = cost.filter(|cost| *cost >= 0.0).or(report.usage.cost);
}

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path)?.as_str()
}

fn number(value: &Value, path: &str) -> Option<u64> {
    value.pointer(path)?.as_u64()
}

/// A short single line for people.
fn doing(text: &str) -> Progress {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(LONGEST_DOING).collect();
    Progress::Doing(line)
}

/// A tool call, by its name and the argument that says most.
fn tool(name: &str, input: &Value) -> Progress {
    const TELLING: &[&str] = &[
        "command",
        "file_path",
        "filePath",
        "path",
        "notebook_path",
        "pattern",
        "query",
        "url",
        "description",
    ];
    match TELLING.iter().find_map(|key| input.get(key)?.as_str()) {
        Some(what) => doing(&format!("{name}: {what}")),
        None => doing(name),
    }
}

fn plain_line(line: &str, model: &str, report: &mut Report) -> Vec<Progress> {
    if let Some(told) = line.strip_prefix(PLAIN_USAGE).and_then(|told| serde_json::from_str(told).ok()) {
        plain_usage(told, model, report);
        return vec![Progress::Usage];
    }
    let mut said = report.message.take().unwrap_or_default();
    if !said.is_empty() {
        said.push('\n');
    }
    said.push_str(line);
    if said.len() > 2 * LONGEST_MESSAGE {
        said.drain(..said.ceil_char_boundary(said.len() - LONGEST_MESSAGE));
    }
    report.message = Some(said);
    if line.trim().is_empty() {
        return Vec::new();
    }
    report.usage.turns += 1;
    // Prose may speak of limits; only a line that is nothing else counts.
    report.limited = if line.starts_with("mala: rate limit") { recognise(line) } else { None };
    let limited = report.limited.clone().map(Progress::Limited);
    std::iter::once(doing(line)).chain(limited).collect()
}
