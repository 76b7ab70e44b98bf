//! Between rows and values. A row that does not decode is an error that ends the operation: nothing is skipped.

use std::time::Duration;

use mala_core::{
    AgentId, Fence, Key, Lease, Lock, LockId, LockName, Mode, NameError, Owner, Pattern, PersonId,
    SteadyTime, Target, Timestamp, Who,
};
use rusqlite::Row;
use rusqlite::types::Type;

use crate::events::TargetKind;
use crate::steady::Now;

/// The columns that [`lock`] reads, of `lock` joined with its owner's `process`.
pub(crate) const LOCK_COLUMNS: &str = "l.id, l.kind, l.path, l.mode, l.agent, l.issue, l.run, l.supervised, l.fence, \
     l.acquired_at, l.ttl_ms, l.expires_at, l.reason, p.host, p.boot_id, p.pid, p.start_time, p.node, l.expires_steady";

pub(crate) fn kind_of(target: &Target) -> i64 {
    match target {
        Target::File(_) => 0,
        Target::Pattern(_) => 1,
        Target::Name(_) => 2,
    }
}

pub(crate) fn mode_number(mode: Mode) -> i64 {
    match mode {
        Mode::Shared => 1,
        Mode::Exclusive => 2,
    }
}

type Decoded<T> = rusqlite::Result<T>;

pub(crate) fn bad<T>(column: usize, what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Decoded<T> {
    Err(rusqlite::Error::FromSqlConversionFailure(column, Type::Null, what.into()))
}

pub(crate) fn mode(row: &Row<'_>, column: usize) -> Decoded<Mode> {
    match row.get::<_, i64>(column)? {
        1 => Ok(Mode::Shared),
        2 => Ok(Mode::Exclusive),
        other => bad(column, format!("`{other}` is no lock mode")),
    }
}

/// A target from its kind and its bytes, in neighbouring columns.
pub(crate) fn target(row: &Row<'_>, kind: usize) -> Decoded<Target> {
    let bytes: Vec<u8> = row.get(kind + 1)?;
    match row.get::<_, i64>(kind)? {
        0 => Ok(Target::File(Key::from_stored(bytes))),
        1 => Pattern::parse(&bytes).map(Target::Pattern).or_else(|error| bad(kind + 1, error)),
        2 => match String::from_utf8(bytes) {
            Ok(text) => LockName::new(text).map(Target::Name).or_else(|error| bad(kind + 1, error)),
            Err(error) => bad(kind + 1, error),
        },
        other => bad(kind, format!("`{other}` is no kind of lock")),
    }
}

/// What an event's path is, where that is known.
pub(crate) fn target_kind(row: &Row<'_>, column: usize) -> Decoded<Option<TargetKind>> {
    match row.get(column)? {
        None => Ok(None),
        Some(0) => Ok(Some(TargetKind::File)),
        Some(1) => Ok(Some(TargetKind::Pattern)),
        Some(2) => Ok(Some(TargetKind::Name)),
        Some(other) => bad(column, format!("`{other}` is no kind of target")),
    }
}

/// A name column; `make` is the name's constructor.
pub(crate) fn name<T>(
    row: &Row<'_>,
    column: usize,
    make: impl FnOnce(String) -> Result<T, NameError>,
) -> Decoded<T> {
    make(row.get(column)?).or_else(|error| bad(column, error))
}

pub(crate) fn optional_name<T>(
    row: &Row<'_>,
    column: usize,
    make: impl FnOnce(String) -> Result<T, NameError>,
) -> Decoded<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(make).transpose().or_else(|error| bad(column, error))
}

/// What a column says in a word that `parse` knows.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Decoded<Option<T>> {
    let Some(text) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    parse(&text).map_or_else(|| bad(column, format!("`{text}` has no meaning here")), |known| Ok(Some(known)))
}

pub(crate) fn who_number(who: &Who) -> i64 {
    match who {
        Who::Agent(_) => 0,
        Who::Person(_) => 1,
    }
}

/// An agent or a person, from its kind and its name, in neighbouring columns.
pub(crate) fn who(row: &Row<'_>, kind: usize) -> Decoded<Who> {
    match row.get::<_, i64>(kind)? {
        0 => name(row, kind + 1, AgentId::new).map(Who::Agent),
        1 => name(row, kind + 1, PersonId::new).map(Who::Person),
        other => bad(kind, format!("`{other}` is neither an agent nor a person")),
    }
}

/// An owner from `host, boot_id, pid, start_time, node`, starting at `column`.
pub(crate) fn owner(row: &Row<'_>, column: usize) -> Decoded<Owner> {
    Ok(Owner {
        host: row.get(column)?,
        boot_id: row.get(column + 1)?,
        pid: row.get(column + 2)?,
        start_time: u64::from_ne_bytes(row.get::<_, i64>(column + 3)?.to_ne_bytes()),
        node: row.get(column + 4)?,
    })
}

pub(crate) fn timestamp(row: &Row<'_>, column: usize) -> Decoded<Timestamp> {
    row.get(column).map(Timestamp::from_millis)
}

pub(crate) fn steady(row: &Row<'_>, column: usize) -> Decoded<Option<SteadyTime>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(SteadyTime::from_millis))
}

pub(crate) fn duration(row: &Row<'_>, column: usize) -> Decoded<Duration> {
    let millis: i64 = row.get(column)?;
    u64::try_from(millis).map(Duration::from_millis).or_else(|error| bad(column, error))
}

/// A lock from [`LOCK_COLUMNS`]. Its aliases are in a table of their own and are not read here.
pub(crate) fn lock(row: &Row<'_>, now: Now) -> Decoded<Lock> {
    let expires_at = now.wall_end(timestamp(row, 11)?, steady(row, 18)?);
    Ok(Lock {
        id: LockId(row.get(0)?),
        target: target(row, 1)?,
        aliases: Vec::new(),
        mode: mode(row, 3)?,
        agent: name(row, 4, AgentId::new)?,
        issue: optional_name(row, 5, mala_core::IssueId::new)?,
        run: optional_name(row, 6, mala_core::RunId::new)?,
        supervised: row.get(7)?,
        fence: Fence(row.get(8)?),
        acquired_at: timestamp(row, 9)?,
        lease: Lease { ttl: duration(row, 10)?, expires_at },
        reason: row.get(12)?,
        owner: owner(row, 13)?,
    })
}
