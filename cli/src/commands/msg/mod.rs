//! `mala msg`: messages between agents and people.

mod ack;
mod inbox;
mod send;

use std::io::{self, Write};

use clap::Subcommand;
use mala_core::message::{Importance, Message};
use mala_core::{AgentId, MessageId, Timestamp, Who};
use mala_store::Store;

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::{BOLD, DIM, plain, span};

/// Write to agents and people, and read what they wrote
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  mala msg send --to alice 'the parser moved to src/parse.rs'
  mala msg inbox --unread")]
pub(crate) enum MsgCommand {
    Send(send::SendArgs),
    Inbox(inbox::InboxArgs),
    Ack(ack::AckArgs),
    Thread(inbox::ThreadArgs),
    Overdue(ack::OverdueArgs),
}

pub(crate) fn run(command: MsgCommand, context: &Context) -> Result<Code, CliError> {
    match command {
        MsgCommand::Send(args) => send::cmd_send(&args, context),
        MsgCommand::Inbox(args) => inbox::cmd_inbox(&args, context),
        MsgCommand::Ack(args) => ack::cmd_ack(&args, context),
        MsgCommand::Thread(args) => inbox::cmd_thread(&args, context),
        MsgCommand::Overdue(args) => ack::cmd_overdue(&args, context),
    }
}

/// Who writes or reads.
#[derive(Debug, clap::Args)]
struct Correspondent {
    /// Agent that acts [default: the agent this session belongs to, or you]
    #[arg(long, env = "MALA_AGENT", value_name = "NAME")]
    agent: Option<AgentId>,
}

impl Correspondent {
    /// Below an agent's process one is that agent, whatever was given; elsewhere the agent that is named, or a person.
    fn who(&self, context: &Context, store: &mut Store) -> Result<Who, CliError> {
        if let Some(party) = context.bound_party(store)? {
            return Ok(Who::Agent(party.agent));
        }
        match &self.agent {
            Some(agent) => Ok(Who::Agent(agent.clone())),
            None => Ok(Who::Person(super::issue::person()?)),
        }
    }
}

fn parse_message_id(text: &str) -> Result<MessageId, std::num::ParseIntError> {
    text.parse().map(MessageId)
}

/// A message with its heading, as a person reads it.
fn write_message(out: &mut dyn Write, message: &Message, remark: &str, now: Timestamp) -> io::Result<()> {
    let importance = match message.importance {
        Importance::Low => ", low",
        Importance::Normal => "",
        Importance::High => ", high",
        Importance::Urgent => ", urgent",
    };
    let everybody = if message.is_broadcast { ", to everybody" } else { "" };
    writeln!(
        out,
        "{BOLD}{} {}{BOLD:#} {DIM}({}, {} ago{importance}{everybody}{remark}){DIM:#}",
        message.id,
        plain(message.from.name()),
        plain(&message.thread),
        span(now.since(message.at)),
    )?;
    // Text from outside keeps its lines, and nothing else that could move the cursor.
    let lines = message.body.as_str().trim_end().lines();
    lines.map(|line| plain(line.replace('\t', "    "))).try_for_each(|line| writeln!(out, "  {line}"))
}
