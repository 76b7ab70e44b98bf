//! Tables with names of the user's own: `[mutex.NAME]`, `[agents.NAME]` and `[price.MODEL]`.

use std::collections::BTreeMap;
use std::time::Duration;

use mala_core::{CommandPattern, LockName};
use toml::de::{DeTable, DeValue};

use crate::settings::{Settings, Word};
use crate::value::{Given, MONEY, ValueError};

/// The sections whose entries are tables.
pub(crate) const SECTIONS: &[&str] = &["mutex", "agents", "price"];

/// The section whose entries are variables.
pub(crate) const VARIABLES: &str = "env";

/// `[mutex.NAME]`: commands that take turns among themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct MutexTable {
    pub name: LockName,
    pub commands: Vec<CommandPattern>,
}

/// `[agents.NAME]`: how to start a kind of agent. What is not given is decided elsewhere.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentTable {
    pub name: String,
    pub kind: Option<AgentKind>,
    pub model: Option<String>,
    pub command: Vec<String>,
    pub prompt: Option<PromptBy>,
    pub labels: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub idle: Option<Duration>,
    pub total: Option<Duration>,
    pub turns: Option<u64>,
    pub cost: Option<f64>,
}

/// The client behind a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentKind {
    Claude,
    Codex,
    Gemini,
    Opencode,
    /// Any program.
    Command,
}

impl Word for AgentKind {
    const WORDS: &[(&str, Self)] = &[
        ("claude", Self::Claude),
        ("codex", Self::Codex),
        ("gemini", Self::Gemini),
        ("opencode", Self::Opencode),
        ("command", Self::Command),
    ];
}

impl AgentKind {
    /// As it is written in `mala.toml`.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

/// How a program gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptBy {
    Stdin,
    /// In a file, whose path takes the place of `{prompt}` among the arguments.
    File,
    /// In place of `{prompt}` among the arguments, else as the last one.
    Argument,
}

impl Word for PromptBy {
    const WORDS: &[(&str, Self)] =
        &[("stdin", Self::Stdin), ("file", Self::File), ("argument", Self::Argument)];
}

/// What became of one field of a table.
pub(crate) enum Taken {
    Yes,
    /// There is no such field; these are.
    Unknown(&'static [&'static str]),
}

const MUTEX_FIELDS: &[&str] = &["commands"];
const AGENT_FIELDS: &[&str] =
    &["kind", "model", "command", "prompt", "labels", "env", "idle", "total", "turns", "cost"];

impl Settings {
    /// Makes sure that the table is there.
    pub(crate) fn open_table(&mut self, section: &str, name: &str) -> Result<(), ValueError> {
        match section {
            "agents" => drop(self.agent_table(name)),
            "price" => self.prices.open(name),
            _ => drop(self.mutex_table(name)?),
        }
        Ok(())
    }

    /// Writes one field of the table `[section.name]`.
    pub(crate) fn set_field(
        &mut self,
        (section, name): (&str, &str),
        field: &str,
        value: &DeValue<'_>,
    ) -> Result<Taken, ValueError> {
        match (section, field) {
            ("agents", _) => self.agent_table(name).set(field, value),
            ("price", _) => self.prices.set(name, field, value),
            (_, "commands") => {
                self.mutex_table(name)?.commands = Given::Toml(value).commands()?;
                Ok(Taken::Yes)
            }
            _ => Ok(Taken::Unknown(MUTEX_FIELDS)),
        }
    }

    fn mutex_table(&mut self, name: &str) -> Result<&mut MutexTable, ValueError> {
        let name = LockName::new(name)?;
        let place = match self.mutexes.binary_search_by(|mutex| mutex.name.as_str().cmp(name.as_str())) {
            Ok(place) => place,
            Err(place) => {
                self.mutexes.insert(place, MutexTable { name, commands: Vec::new() });
                place
            }
        };
        Ok(&mut self.mutexes[place])
    }

    fn agent_table(&mut self, name: &str) -> &mut AgentTable {
        let place = match self.agents.binary_search_by(|agent| agent.name.as_str().cmp(name)) {
            Ok(place) => place,
            Err(place) => {
                self.agents.insert(place, AgentTable { name: name.to_owned(), ..AgentTable::default() });
                place
            }
        };
        &mut self.agents[place]
    }
}

impl AgentTable {
    fn set(&mut self, field: &str, value: &DeValue<'_>) -> Result<Taken, ValueError> {
        let given = Given::Toml(value);
        match field {
            "kind" => self.kind = Some(given.choice(AgentKind::WORDS)?),
            "model" => self.model = Some(given.text()?),
            "command" => self.command = given.texts()?,
            "prompt" => self.prompt = Some(given.choice(PromptBy::WORDS)?),
            "labels" => self.labels = given.texts()?,
            "env" => self.env = variables(value)?,
            "idle" => self.idle = Some(given.duration()?),
            "total" => self.total = Some(given.duration()?),
            "turns" => self.turns = Some(given.count()?),
            "cost" => self.cost = Some(given.money()?),
            _ => return Ok(Taken::Unknown(AGENT_FIELDS)),
        }
        Ok(Taken::Yes)
    }
}

fn variables(value: &DeValue<'_>) -> Result<BTreeMap<String, String>, ValueError> {
    let DeValue::Table(table) = value else { return Err(ValueError::wrong_type("a table of texts", value)) };
    let text = |table: &DeTable<'_>| {
        let entries = table
            .iter()
            .map(|(name, value)| Ok((name.get_ref().to_string(), Given::Toml(value.get_ref()).text()?)));
        entries.collect()
    };
    text(table)
}

/// What a field of a table takes, in words.
pub(crate) fn legal(section: &str, field: &str) -> String {
    let words = |words: Vec<&str>| words.join(", ");
    match (section, field) {
        ("mutex", _) => "a list of commands such as [\"make db-test\"]".to_owned(),
        ("price", "date") => "a text such as \"2026-09\"".to_owned(),
        ("price", _) => {
            format!("dollars for a million tokens, a number from {} to {}", MONEY.start(), MONEY.end())
        }
        (_, "kind") => words(AgentKind::WORDS.iter().map(|(word, _)| *word).collect()),
        (_, "prompt") => words(PromptBy::WORDS.iter().map(|(word, _)| *word).collect()),
        (_, "command" | "labels") => "a list of texts".to_owned(),
        (_, "env") => "a table of texts such as { NAME = \"value\" }".to_owned(),
        (_, "idle" | "total") => "a duration such as \"10m\"".to_owned(),
        (_, "turns") => "a whole number, 0 or more".to_owned(),
        (_, "cost") => format!("a number from {} to {}", MONEY.start(), MONEY.end()),
        _ => "a text".to_owned(),
    }
}
