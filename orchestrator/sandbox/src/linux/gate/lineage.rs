//! Who descends from a process that has passed the gate.
//!
//! Parents cannot tell: a process whose parent is gone has a new one. So a process that passes gets a mark that its
//! descendants inherit and keep, whichever programs they become: a limit on file locks that Linux has stopped to enforce
//! long ago, set to a number that is nobody's limit. The filter lets no program set it. Where it could not be set, parents
//! are asked after all.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use procfs::FromRead;
use procfs::process::{LimitValue, Limits};
use rustix::process::{Resource, Rlimit, prlimit};

use super::lock;
use crate::linux::process::{self, Process};

/// Marks are counted from here, for all trees of this process.
static NEXT: AtomicU64 = AtomicU64::new(1 << 62);

/// One passage through the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Mark(u64);

/// The processes that have passed and still live.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    passed: Mutex<HashMap<Mark, u32>>,
}

impl Lineage {
    /// `process` passes: it and what it starts from now on is covered until [`Self::ended`].
    pub(super) fn passes(&self, process: &Process) -> Mark {
        let mark = Mark(NEXT.fetch_add(1, Ordering::Relaxed));
        put(mark, process.pid());
        lock(&self.passed).insert(mark, process.pid());
        mark
    }

    pub(super) fn ended(&self, mark: Mark) {
        lock(&self.passed).remove(&mark);
    }

    /// True if `pid` or a process it descends from has passed and lives.
    pub(super) fn covers(&self, pid: u32) -> bool {
        let passed = lock(&self.passed);
        if passed.is_empty() {
            return false;
        }
        mark_of(pid).is_some_and(|mark| passed.contains_key(&mark))
            || ancestors(pid).any(|ancestor| passed.values().any(|known| *known == ancestor))
    }
}

/// Current and highest value of the limit that carries the mark.
fn limit(pid: u32) -> Option<(LimitValue, LimitValue)> {
    let file = std::fs::File::open(format!("/proc/{pid}/limits")).ok()?;
    let limit = Limits::from_read(file).ok()?.max_file_locks;
    Some((limit.soft_limit, limit.hard_limit))
}

fn mark_of(pid: u32) -> Option<Mark> {
    match limit(pid)?.0 {
        LimitValue::Value(value) => Some(Mark(value)),
        LimitValue::Unlimited => None,
    }
}

fn put(mark: Mark, pid: u32) {
    // A lower highest value could never be raised again, so it stays.
    let Some((_, LimitValue::Unlimited)) = limit(pid) else { return };
    let Ok(pid) = process::raw_pid(pid) else { return };
    let _gone = prlimit(Some(pid), Resource::Locks, Rlimit { current: Some(mark.0), maximum: None });
}

/// `pid`, its parent, and so on.
fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| u32::try_from(process::stat(*pid).ok()?.ppid).ok().filter(|parent| *parent > 1);
    std::iter::successors(Some(pid), parent)
}
