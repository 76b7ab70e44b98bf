//! Programs that start.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::io::Errno;

use super::Answer;
use super::session::Session;
use crate::linux::task::Task;
use crate::{Ruling, Start};

/// Arguments beyond these are not looked at.
const MOST_ARGS: u64 = 256;

impl Session<'_> {
    /// Lets the kernel start the program, unless the guard says no. What cannot be read is the kernel's to refuse.
    pub(super) fn exec(&self, path: u64, args: u64) -> Result<Answer, Errno> {
        let Ok(path) = self.task.read_path(path) else { return Ok(Answer::Proceed) };
        let program = Path::new(OsStr::from_bytes(&path)).file_name().unwrap_or_default();
        let args = read_args(self.task, args);
        let start = Start { pid: self.task.tid, program, args: &args };
        match self.rules.guard.judge_start(&start) {
            Ruling::Allow => Ok(Answer::Proceed),
            Ruling::Refuse { message } => {
                self.task.tell(&message);
                Err(Errno::ACCESS)
            }
        }
    }
}

fn read_args(task: Task, list: u64) -> Vec<OsString> {
    let read = |index: u64| {
        let [address] = task.read_words::<1>(list.checked_add(8 * index)?).ok()?;
        (address != 0).then(|| task.read_path(address).ok()).flatten().map(OsString::from_vec)
    };
    (0..MOST_ARGS).map_while(read).collect()
}
