//! What an agent has not heard yet, in sentences for a model.

use mala_core::message::{Ack, Letter, Message};
use mala_core::shell::word;
use mala_core::text::{plain, span};
use mala_core::{Ask, AskState, Target, Timestamp, Urgency};
use mala_store::{Notice, Refused};

use crate::refusal::Reader;

/// The most characters of a message that a model is told without asking for it.
const LONGEST_MESSAGE: usize = 2_000;

/// All notices as one paragraph each.
pub(super) fn tell(notices: &[Notice], reader: &Reader<'_>) -> String {
    let sentences: Vec<String> = notices.iter().map(|notice| sentence(notice, reader)).collect();
    format!("mala: {}", sentences.join("\nmala: "))
}

fn sentence(notice: &Notice, reader: &Reader<'_>) -> String {
    match notice {
        Notice::LockOfYours(ask) => lock_of_yours(ask, reader),
        Notice::AskOfYours(ask) => ask_of_yours(ask, reader),
        Notice::Message(letter) => message(letter),
        Notice::WritesRefused { files, more } => {
            let name = |refused: &Refused| format!("`{}`", plain(&refused.target));
            let names: Vec<String> = files.iter().map(name).collect();
            let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "writes of your programs were refused: {}{more}; see who holds them: mala status",
                names.join(", ")
            )
        }
    }
}

/// A message, cut where it would drown everything else that is told.
fn message(letter: &Letter) -> String {
    let Message { id, thread, from, body, .. } = &letter.message;
    let text = body.as_str();
    let shown: String = text.chars().take(LONGEST_MESSAGE).collect();
    let rest = if shown.len() < text.len() {
        format!(" [...] (the rest: mala msg thread {})", word(plain(thread)))
    } else {
        String::new()
    };
    let ack = match letter.ack {
        Ack::Due(_) => format!(" (say that you took note: mala msg ack {id})"),
        Ack::NotWanted | Ack::Done(_) => String::new(),
    };
    format!("message from `{}` about {}: {shown}{rest}{ack}", plain(from.name()), plain(thread))
}

fn lock_of_yours(ask: &Ask, reader: &Reader<'_>) -> String {
    let (path, asker, id) = (path(ask), &ask.asker, &ask.id);
    match ask.state {
        AskState::Open | AskState::Deferred => {
            let urgent = if ask.urgency == Urgency::Urgent { "urgently " } else { "" };
            let since = span(Timestamp::now().since(ask.created_at));
            format!(
                "`{asker}` {urgent}asks for {path}, which you hold, since {since}: {}. When you do not need it any more: \
                 mala lock answer {id} release. If you do: mala lock answer {id} defer --eta 10m",
                plain(&ask.why)
            )
        }
        AskState::Taken => {
            let by = ask.ended_by.as_ref().unwrap_or(asker);
            format!(
                "{path} was taken from you by `{by}`: {}. More: mala msg thread {id}. Ask for it again: {}",
                plain(&ask.why),
                reader.ask(&ask.want.target)
            )
        }
        AskState::Released => format!("{path} belongs to `{asker}` now"),
        AskState::Moot | AskState::Cancelled => format!("`{asker}` does not need {path} any more"),
    }
}

fn ask_of_yours(ask: &Ask, reader: &Reader<'_>) -> String {
    let (path, holder, id) = (path(ask), &ask.holder, &ask.id);
    match ask.state {
        AskState::Released => format!("{path}, which you asked `{holder}` for, is yours now"),
        AskState::Taken => format!("{path} is yours now; it was taken from `{holder}`"),
        AskState::Deferred => {
            let eta =
                ask.eta.map(|eta| format!(" for {}", span(eta.since(Timestamp::now())))).unwrap_or_default();
            format!("`{holder}` still needs {path}{eta}; work on something else meanwhile")
        }
        AskState::Open => {
            format!("`{holder}` has not answered about {path}; if it is gone: mala lock take {id}")
        }
        AskState::Moot | AskState::Cancelled => {
            let take = reader.command("lock acquire", &ask.want.target);
            format!("{path} is not held by `{holder}` any more; take it: {take}")
        }
    }
}

fn path(ask: &Ask) -> String {
    match &ask.want.target {
        Target::Name(name) => format!("the {} mutex", plain(name)),
        other => format!("`{}`", plain(other)),
    }
}
