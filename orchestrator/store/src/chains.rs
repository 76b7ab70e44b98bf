//! Anchors of the chained logs: what each was when it was last written to, kept where its files do not lie.

use mala_logs::chain::Anchor;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};
use serde_json::json;

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::{EventKind, Work};
use crate::view::View;

impl Store {
    /// The anchors of all logs, by their names.
    pub fn anchors(&mut self) -> Result<Vec<(String, Anchor)>> {
        self.read(|view| {
            let sql = "SELECT seq, hash, forgotten, name FROM chain ORDER BY name";
            let mut statement = view.sql.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(3)?, anchor(row)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    pub fn anchor(&mut self, log: &str) -> Result<Option<Anchor>> {
        self.read(|view| Ok(view.anchor(log)?))
    }

    /// Replaces an anchor, if it is still `known`. False if it is not: another process has written to the log since.
    pub fn set_anchor(&mut self, log: &str, known: Option<&Anchor>, new: &Anchor) -> Result<bool> {
        self.write(|change| {
            let is_known = change.anchor(log)?.as_ref() == known;
            if is_known {
                change.put_anchor(log, new)?;
            }
            Ok(is_known)
        })
    }

    /// Takes a log as it is now, whatever it was before; without an anchor, it is one that nothing is known of. An event says so.
    pub fn reset_anchor(&mut self, log: &str, new: Option<&Anchor>, why: &str) -> Result<()> {
        self.write(|change| {
            let lost = change.anchor(log)?.map(|anchor| anchor.seq);
            match new {
                Some(new) => change.put_anchor(log, new)?,
                None => drop(change.sql.execute("DELETE FROM chain WHERE name = ?1", [log])?),
            }
            let detail = json!({ "log": log, "had": lost, "has": new.map(|new| new.seq), "why": why });
            change.record_work(EventKind::LogReset, Work::default(), &detail)?;
            Ok(())
        })
    }
}

impl View<'_> {
    fn anchor(&self, log: &str) -> rusqlite::Result<Option<Anchor>> {
        let sql = "SELECT seq, hash, forgotten FROM chain WHERE name = ?1";
        self.sql.prepare_cached(sql)?.query_row([log], anchor).optional()
    }
}

impl Change<'_> {
    fn put_anchor(&mut self, log: &str, new: &Anchor) -> std::result::Result<(), Fault> {
        let sql = "INSERT INTO chain (name, seq, hash, forgotten, at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (name) DO UPDATE SET seq = ?2, hash = ?3, forgotten = ?4, at = ?5";
        let row = params![
            log,
            new.seq.cast_signed(),
            new.hash.as_str(),
            new.forgotten.cast_signed(),
            self.now.as_millis()
        ];
        self.sql.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }
}

fn anchor(row: &Row<'_>) -> rusqlite::Result<Anchor> {
    let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let hash: String = row.get(1)?;
    let hash = hash
        .parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, Box::new(error)))?;
    Ok(Anchor { seq: number(0)?, hash, forgotten: number(2)? })
}

#[cfg(test)]
mod tests {
    use mala_logs::chain::LineHash;

    use super::*;

    fn anchor_at(seq: u64, digit: char) -> Anchor {
        let hash: LineHash = digit.to_string().repeat(64).parse().unwrap();
        Anchor { seq, hash, forgotten: 0 }
    }

    #[test]
    fn of_two_that_know_the_same_anchor_one_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open_in(dir.path(), b"/here").unwrap();
        let (one, two) = (anchor_at(1, 'a'), anchor_at(2, 'b'));
        assert!(store.set_anchor("evidence/x.jsonl", None, &one).unwrap());
        assert!(!store.set_anchor("evidence/x.jsonl", None, &two).unwrap());
        assert!(store.set_anchor("evidence/x.jsonl", Some(&one), &two).unwrap());
        assert_eq!(store.anchor("evidence/x.jsonl").unwrap(), Some(two));
        assert_eq!(store.anchors().unwrap(), [("evidence/x.jsonl".to_owned(), two)]);
    }

    #[test]
    fn an_anchor_that_was_reset_leaves_an_event() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open_in(dir.path(), b"/here").unwrap();
        store.set_anchor("logs/r.jsonl", None, &anchor_at(7, 'a')).unwrap();
        store.reset_anchor("logs/r.jsonl", None, "a person said so").unwrap();
        assert_eq!(store.anchor("logs/r.jsonl").unwrap(), None);
        let event = store.events(&crate::EventFilter::default()).unwrap().pop().unwrap();
        assert_eq!((event.kind.as_str(), event.detail["had"].as_u64()), ("log.reset", Some(7)));
    }
}
