//! What has landed on a branch since its tip was last green in an emptied slot.

use mala_core::Oid;
use rusqlite::{OptionalExtension, params};
use serde_json::json;

use super::rows::oid;
use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::{EventKind, Work};
use crate::view::View;

/// Landings that no audit has looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unaudited {
    /// The last commit that was green in an emptied slot, or the one that mala first landed on.
    pub since: Oid,
    /// Where the last landing moved the branch to.
    pub last: Oid,
    pub landings: u32,
}

impl Store {
    /// What has landed since the last audit; nothing if nothing has.
    pub fn unaudited(&mut self, branch: &str) -> Result<Option<Unaudited>> {
        self.read(|view| view.unaudited(branch))
    }

    /// Writes down that the last of these landings passed in an emptied slot. Later ones stay unaudited.
    pub fn pass_audit(&mut self, branch: &str, audited: &Unaudited) -> Result<()> {
        self.write(|change| {
            let sql =
                "UPDATE unaudited SET since_commit = ?2, landings = max(landings - ?3, 0) WHERE branch = ?1";
            change.sql.execute(sql, params![branch, audited.last.as_str(), audited.landings])?;
            change.record_audit(branch, audited, None)
        })
    }

    /// Writes down that it failed there, and stops the queue in the same transaction.
    pub fn fail_audit(&mut self, branch: &str, audited: &Unaudited, why: &str) -> Result<()> {
        self.write(|change| {
            change.record_audit(branch, audited, Some(why))?;
            change.pause_queue(branch, why)
        })
    }

    /// Nothing of it is on the branch any more: what lands next is counted from there.
    pub fn forget_unaudited(&mut self, branch: &str) -> Result<()> {
        self.write(|change| {
            change.sql.execute("DELETE FROM unaudited WHERE branch = ?1", [branch])?;
            Ok(())
        })
    }
}

impl View<'_> {
    fn unaudited(&self, branch: &str) -> std::result::Result<Option<Unaudited>, Fault> {
        let sql =
            "SELECT since_commit, last_commit, landings FROM unaudited WHERE branch = ?1 AND landings > 0";
        let row = self.sql.prepare_cached(sql)?.query_row([branch], |row| {
            Ok(Unaudited { since: oid(row, 0)?, last: oid(row, 1)?, landings: row.get(2)? })
        });
        Ok(row.optional()?)
    }
}

impl Change<'_> {
    /// One more landing.
    pub(super) fn count_landing(
        &mut self,
        branch: &str,
        from: &Oid,
        to: &Oid,
    ) -> std::result::Result<(), Fault> {
        if from == to {
            return Ok(());
        }
        let sql = "INSERT INTO unaudited (branch, since_commit, last_commit, landings) VALUES (?1, ?2, ?3, 1)
             ON CONFLICT (branch) DO UPDATE SET last_commit = excluded.last_commit, landings = landings + 1";
        self.sql.prepare_cached(sql)?.execute(params![branch, from.as_str(), to.as_str()])?;
        Ok(())
    }

    fn record_audit(
        &mut self,
        branch: &str,
        audited: &Unaudited,
        why: Option<&str>,
    ) -> std::result::Result<(), Fault> {
        let Unaudited { since, last, landings } = audited;
        let detail = json!({
            "branch": branch, "since": since, "commit": last, "landings": landings,
            "passed": why.is_none(), "why": why,
        });
        self.record_work(EventKind::QueueAudited, Work::default(), &detail)?;
        Ok(())
    }
}
