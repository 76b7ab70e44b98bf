//! Whom processors and disks serve first.

use rustix::io::Errno;

use super::Answer;
use super::call::Whom;
use super::session::Session;
use crate::linux::process::{self, stat};

impl Session<'_> {
    /// Lets the kernel change it for processes of the tree alone: a supervisor that gets no time holds its whole tree up.
    pub(super) fn priority(&self, of: Whom) -> Result<Answer, Errno> {
        let is_ours = match of {
            Whom::Process(0) => true,
            Whom::Process(pid) => {
                stat(pid).map_err(|_gone| Errno::SRCH)?;
                self.task.is_kin(pid)
            }
            Whom::Group(group) => self.is_group_ours(group)?,
            Whom::Others => false,
        };
        if is_ours { Ok(Answer::Proceed) } else { Err(Errno::PERM) }
    }

    /// Whoever shares a shell's job with the supervisor is in its group.
    fn is_group_ours(&self, group: u32) -> Result<bool, Errno> {
        let group = match i32::try_from(group).map_err(|_too_big| Errno::SRCH)? {
            0 => stat(self.task.tid).map_err(|_gone| Errno::SRCH)?.pgrp,
            group => group,
        };
        let is_foreign =
            |pid: &u32| stat(*pid).is_ok_and(|stat| stat.pgrp == group) && !self.task.is_kin(*pid);
        Ok(!process::all()?.any(|pid| is_foreign(&pid)))
    }
}
