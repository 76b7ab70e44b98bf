//! The line of steady time that all processes of a store share, over restarts of the machine.
//!
//! Within one boot it is the machine's uptime, moved by what the table `boot` says, so it neither jumps when the wall clock is
//! set nor goes on in suspend. A new boot continues it behind everything that was written before.

use std::cell::Cell;
use std::time::Duration;

use mala_core::ports::Clock;
use mala_core::{SteadyTime, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use crate::process;

/// The wall clock is believed this far. It is never stepped by less (`adjtime(3)` and leap seconds are slewed), and an end
/// that is shown should not flicker.
const WALL_CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) wall: Timestamp,
    pub(crate) steady: SteadyTime,
}

impl Now {
    /// An end as it is stored: what the wall clock was expected to show, and where it lies on the line.
    pub(crate) fn steady_end(self, end: Timestamp) -> SteadyTime {
        self.steady.plus(end.since(self.wall)).minus(self.wall.since(end))
    }

    /// An end as it was stored, by the wall clock as it stands now: that may have been set since.
    pub(crate) fn wall_end(self, stored: Timestamp, steady: Option<SteadyTime>) -> Timestamp {
        let Some(steady) = steady else { return stored };
        let end = self.wall.plus(steady.since(self.steady)).minus(self.steady.since(steady));
        let error = end.since(stored).max(stored.since(end));
        if error < WALL_CLOCK_TOLERANCE { stored } else { end }
    }
}

/// What has to be added to the uptime of this boot, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Line(Cell<Option<i64>>);

impl Line {
    /// This moment, for who only reads: nothing is written down.
    pub(crate) fn look(&self, sql: &Connection, clock: &dyn Clock) -> rusqlite::Result<Now> {
        Ok(self.at(sql, clock)?.0)
    }

    /// This moment. What is found out about a new boot is written down with whatever else the transaction writes.
    pub(crate) fn now(&self, sql: &Connection, clock: &dyn Clock) -> rusqlite::Result<Now> {
        let (now, new_offset) = self.at(sql, clock)?;
        if let Some(offset) = new_offset {
            let insert = "INSERT INTO boot (id, steady_offset) VALUES (?1, ?2)";
            sql.execute(insert, rusqlite::params![process::boot_id(), offset])?;
        }
        Ok(now)
    }

    /// This moment, and the offset if the store does not know it yet.
    fn at(&self, sql: &Connection, clock: &dyn Clock) -> rusqlite::Result<(Now, Option<i64>)> {
        let (wall, uptime) = (clock.now(), clock.uptime());
        let uptime = i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX);
        if self.0.get().is_none() {
            let find = "SELECT steady_offset FROM boot WHERE id = ?1";
            self.0.set(sql.query_row(find, [process::boot_id()], |row| row.get(0)).optional()?);
        }
        // Kept only once it was read: a transaction that fails takes its row back.
        let (offset, is_new) = match self.0.get() {
            Some(offset) => (offset, false),
            None => (begin_of_line(sql, wall)?.saturating_sub(uptime), true),
        };
        let steady = SteadyTime::from_millis(uptime.saturating_add(offset));
        Ok((Now { wall, steady }, is_new.then_some(offset)))
    }
}

/// Where a new boot goes on: behind the newest event.
fn begin_of_line(sql: &Connection, wall: Timestamp) -> rusqlite::Result<i64> {
    let newest = "SELECT coalesce(steady, at) FROM event ORDER BY seq DESC LIMIT 1";
    let newest: Option<i64> = sql.query_row(newest, [], |row| row.get(0)).optional()?;
    Ok(wall.as_millis().max(newest.unwrap_or(i64::MIN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn now(wall: i64, steady: i64) -> Now {
        Now { wall: Timestamp::from_millis(wall), steady: SteadyTime::from_millis(steady) }
    }

    #[test]
    fn an_end_is_as_far_away_as_it_was_said_to_be_whatever_the_wall_clock_shows() {
        let begin = now(1_000_000_000, 5_000);
        let end = begin.wall.plus(HOUR);
        let steady = begin.steady_end(end);
        assert_eq!(steady, begin.steady.plus(HOUR));
        for step in [-36_000_000_i64, 0, 36_000_000] {
            let later = now(1_000_000_000 + 60_000 + step, 5_000 + 60_000);
            let left = later.wall_end(end, Some(steady)).since(later.wall);
            assert_eq!(left, HOUR - Duration::from_secs(60), "stepped by {step} ms");
        }
        let over = now(1_000_000_000, 5_000 + 2 * 3_600_000);
        assert_eq!(over.wall.since(over.wall_end(end, Some(steady))), HOUR);
        assert_eq!(over.steady_end(over.wall.minus(HOUR)), steady, "an end that is past");
    }

    #[test]
    fn an_end_is_shown_as_it_was_while_the_clocks_agree() {
        let end = Timestamp::from_millis(1_000);
        assert_eq!(now(500, 70).wall_end(end, Some(SteadyTime::from_millis(571))), end);
        assert_eq!(now(500, 70).wall_end(end, None), end, "of an older mala");
    }
}
