use clap::Args;
use mala_core::message::Letter;
use mala_core::{MessageId, ThreadId, Timestamp};
use mala_store::PageOf;
use serde_json::json;

use super::{Correspondent, parse_message_id, write_message};
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::json::{self, MessageJson};
use crate::ui::plain;

/// Read what was written to you, newest first
///
/// What is shown counts as read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala msg inbox --unread
  mala msg inbox --cursor 120 --limit 50 --json")]
pub(crate) struct InboxArgs {
    /// Only what was not read yet
    #[arg(long)]
    unread: bool,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    caller: Correspondent,
}

/// Read a conversation, newest first
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala msg thread bd-12")]
pub(crate) struct ThreadArgs {
    /// The thread, such as an issue
    #[arg(value_name = "THREAD")]
    thread: ThreadId,
    #[command(flatten)]
    page: PageArgs,
}

/// Which page.
#[derive(Debug, Args)]
struct PageArgs {
    /// Only messages before this one: what `next` said
    #[arg(long, value_name = "ID", value_parser = parse_message_id)]
    cursor: Option<MessageId>,
    /// Messages at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
}

impl PageArgs {
    fn page(&self, unread_only: bool) -> PageOf {
        PageOf { before: self.cursor, limit: self.limit, unread_only }
    }
}

pub(super) fn cmd_inbox(args: &InboxArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let who = args.caller.who(context, &mut store)?;
    let page = store.inbox(&who, args.page.page(args.unread))?;
    let (unread, now) = (store.unread(&who)?, store.now());
    let body = json!({ "messages": json::letters(&page.items, now), "next": page.next, "unread": unread });
    context.ui.answer(&body, |out| {
        if page.items.is_empty() {
            return writeln!(out, "no messages for `{}`", plain(who.name()));
        }
        for letter in &page.items {
            write_message(out, &letter.message, &remark(letter, now), now)?;
        }
        match page.next {
            Some(next) => writeln!(out, "more: mala msg inbox --cursor {next}"),
            None => Ok(()),
        }
    })?;
    // Only now: what did not reach anybody was not read.
    let shown: Vec<MessageId> =
        page.items.iter().filter(|letter| letter.read_at.is_none()).map(|letter| letter.message.id).collect();
    if !shown.is_empty() {
        store.mark_read(&who, &shown)?;
    }
    Ok(Code::SUCCESS)
}

/// What the reader has to know about its copy.
fn remark(letter: &Letter, now: Timestamp) -> String {
    use mala_core::message::Ack;
    let new = if letter.read_at.is_none() { ", new" } else { "" };
    match letter.ack {
        Ack::Due(_) if letter.is_overdue(now) => {
            format!("{new}, acknowledge it, it is overdue: mala msg ack {}", letter.message.id)
        }
        Ack::Due(_) => format!("{new}, acknowledge it: mala msg ack {}", letter.message.id),
        Ack::NotWanted | Ack::Done(_) => new.to_owned(),
    }
}

pub(super) fn cmd_thread(args: &ThreadArgs, context: &Context) -> Result<Code, CliError> {
    let mut store = open(&context.scope()?)?;
    let page = store.thread(&args.thread, args.page.page(false))?;
    let messages: Vec<MessageJson<'_>> = page.items.iter().map(MessageJson::from).collect();
    let now = store.now();
    let body = json!({ "thread": args.thread, "messages": messages, "next": page.next });
    context.ui.answer(&body, |out| {
        if page.items.is_empty() {
            return writeln!(out, "nobody has written about `{}`", plain(&args.thread));
        }
        page.items.iter().try_for_each(|message| write_message(out, message, "", now))?;
        match page.next {
            Some(next) => writeln!(out, "more: mala msg thread {} --cursor {next}", plain(&args.thread)),
            None => Ok(()),
        }
    })?;
    Ok(Code::SUCCESS)
}
