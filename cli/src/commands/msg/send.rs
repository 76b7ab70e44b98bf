use std::io::Read;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mala_core::message::{Audience, Body, Importance, MAX_BODY};
use mala_core::{AgentId, PersonId, ThreadId, Who};
use mala_store::{BroadcastLimit, Draft, Store};
use serde_json::json;

use super::Correspondent;
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::json::WhoJson;
use crate::typed::duration;
use crate::ui::plain;

/// How often one sender may write to everybody.
const BROADCASTS: BroadcastLimit = BroadcastLimit { most: 5, per: Duration::from_secs(600) };
/// What messages belong to that nobody put anywhere.
const COMMON_THREAD: &str = "general";
/// Marks a name as a person's where an agent could be called the same.
const PERSON: &str = "person:";

/// Write to agents and people
///
/// Agents hear it at their next step, people with `mala msg inbox`. Without `--thread` it belongs to the sender's issue, or to `general`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala msg send --to alice 'the parser moved to src/parse.rs'
  mala msg send --to alice --to person:bob --thread bd-12 --ack 'please look at bd-12 before you go on'
  git diff | mala msg send --all --importance high -")]
pub(crate) struct SendArgs {
    /// What to say; `-` reads it from standard input
    #[arg(value_name = "BODY")]
    body: String,
    /// Agent or person who gets it; may be repeated
    #[arg(long, value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    to: Vec<String>,
    /// Write to every agent that runs and every person who takes part
    #[arg(long)]
    all: bool,
    /// What it belongs to, such as an issue
    #[arg(long, value_name = "THREAD")]
    thread: Option<ThreadId>,
    #[arg(long, value_enum, default_value_t = Level::Normal)]
    importance: Level,
    /// Ask to be told that it was taken note of, within 30m or the given time
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "30m")]
    ack: Option<String>,
    #[command(flatten)]
    caller: Correspondent,
}

/// How important a message is
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    Low,
    Normal,
    High,
    Urgent,
}

impl From<Level> for Importance {
    fn from(level: Level) -> Self {
        match level {
            Level::Low => Self::Low,
            Level::Normal => Self::Normal,
            Level::High => Self::High,
            Level::Urgent => Self::Urgent,
        }
    }
}

pub(super) fn cmd_send(args: &SendArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let draft = args.draft(context, &mut store)?;
    let sent = store.send(&draft, BROADCASTS)?;
    let to: Vec<WhoJson<'_>> = sent.to.iter().map(WhoJson::from).collect();
    let body = json!({ "id": sent.id, "thread": draft.thread, "to": to });
    context.ui.answer(&body, |out| {
        let names: Vec<String> = sent.to.iter().map(|who| format!("`{}`", plain(who.name()))).collect();
        match names.as_slice() {
            [] => writeln!(out, "sent message {}; nobody is there to read it", sent.id),
            names => writeln!(out, "sent message {} to {}", sent.id, names.join(", ")),
        }
    })?;
    Ok(Code::SUCCESS)
}

impl SendArgs {
    fn draft(&self, context: &Context, store: &mut Store) -> Result<Draft, CliError> {
        let body = Body::new(self.text(context)?).map_err(CliError::usage)?;
        let from = self.caller.who(context, store)?;
        let to = match self.all {
            true => Audience::Everybody,
            false => {
                let known = Known::of(store)?;
                let to = self.to.iter().map(|name| known.find(name));
                Audience::These(to.collect::<Result<_, CliError>>()?)
            }
        };
        let thread = match &self.thread {
            Some(thread) => thread.clone(),
            None => self.usual_thread(context, store)?,
        };
        let ack_in = self.ack.as_deref().map(|ack| duration("--ack", ack)).transpose()?;
        Ok(Draft { from, to, thread, importance: self.importance.into(), body, ack_in })
    }

    fn text(&self, context: &Context) -> Result<String, CliError> {
        if self.body != "-" {
            return Ok(self.body.clone());
        }
        let mut text = Vec::new();
        // One byte more than allowed, so that too much is seen to be too much.
        context.ui.input().take(MAX_BODY as u64 + 1).read_to_end(&mut text)?;
        String::from_utf8(text).map_err(|_| CliError::usage("the message is not UTF-8 text, or too long"))
    }

    fn usual_thread(&self, context: &Context, store: &mut Store) -> Result<ThreadId, CliError> {
        let issue = context.bound_party(store)?.and_then(|party| party.issue);
        Ok(ThreadId::new(issue.as_ref().map_or(COMMON_THREAD, |issue| issue.as_str()))?)
    }
}

/// Everybody who can be written to.
struct Known {
    agents: Vec<AgentId>,
    people: Vec<PersonId>,
}

impl Known {
    fn of(store: &mut Store) -> Result<Self, CliError> {
        let agents = store.agents()?.into_iter().map(|agent| agent.party.agent).collect();
        let mut people: Vec<PersonId> = store.people()?.into_iter().collect();
        people.push(crate::commands::issue::person()?);
        Ok(Self { agents, people })
    }

    /// An agent of this name, else a person who takes part; `person:NAME` is that person in any case.
    fn find(&self, name: &str) -> Result<Who, CliError> {
        if let Some(person) = name.strip_prefix(PERSON) {
            return Ok(Who::Person(PersonId::new(person)?));
        }
        let agent = self.agents.iter().find(|agent| agent.as_str() == name);
        let person = || self.people.iter().find(|person| person.as_str() == name);
        let who = agent.cloned().map(Who::Agent).or_else(|| person().cloned().map(Who::Person));
        who.ok_or_else(|| {
            CliError::usage(format!("nobody called `{}` is known in this checkout", plain(name)))
                .hint("see who is there: mala status --all; a person who never wrote: --to person:NAME")
        })
    }
}
