//! Messages and their copies as rows.

use mala_core::message::{Ack, Body, Importance, Letter, Message, MessageId};
use mala_core::{ThreadId, Timestamp};
use rusqlite::Row;

use crate::rows;
use crate::steady::Now;

/// A message from `seq, at, thread, from_kind, from_name, importance, body, broadcast`.
pub(crate) fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: MessageId(row.get(0)?),
        at: rows::timestamp(row, 1)?,
        thread: rows::name(row, 2, ThreadId::new)?,
        from: rows::who(row, 3)?,
        importance: importance(row, 5)?,
        body: Body::new(row.get::<_, String>(6)?).or_else(|error| rows::bad(6, error))?,
        is_broadcast: row.get(7)?,
    })
}

/// A copy from the columns of its message and `to_kind, to_name, read_at, ack_due, acked_at, ack_due_steady`.
pub(crate) fn letter(row: &Row<'_>, now: Now) -> rusqlite::Result<Letter> {
    let moment = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_millis));
    Ok(Letter {
        message: message(row)?,
        to: rows::who(row, 8)?,
        read_at: moment(10)?,
        ack: match (moment(11)?, moment(12)?) {
            (_, Some(at)) => Ack::Done(at),
            (Some(due), None) => Ack::Due(now.wall_end(due, rows::steady(row, 13)?)),
            (None, None) => Ack::NotWanted,
        },
    })
}

fn importance(row: &Row<'_>, column: usize) -> rusqlite::Result<Importance> {
    let number: i64 = row.get(column)?;
    let known = usize::try_from(number).ok().and_then(|number| Importance::ALL.get(number));
    known.copied().map_or_else(|| rows::bad(column, format!("`{number}` is no importance")), Ok)
}

/// The place of an importance in [`Importance::ALL`].
pub(crate) fn importance_number(importance: Importance) -> i64 {
    match importance {
        Importance::Low => 0,
        Importance::Normal => 1,
        Importance::High => 2,
        Importance::Urgent => 3,
    }
}
