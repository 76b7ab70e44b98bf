//! Programs that start.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::Access;
use rustix::io::Errno;

use super::Answer;
use super::session::Session;
use crate::linux::task::Task;
use crate::{Ruling, Start};

/// Arguments beyond these are not looked at.
const MOST_ARGS: usize = 256;

impl Session<'_> {
    /// Lets the kernel start the program, unless the guard says no. What cannot be read is the kernel's to refuse.
    pub(super) fn exec(&self, path: u64, args: u64) -> Result<Answer, Errno> {
        let Ok(path) = self.task.read_path(path) else { return Ok(Answer::Proceed) };
        if is_absent(&path) {
            return Ok(Answer::Proceed);
        }
        let program = Path::new(OsStr::from_bytes(&path)).file_name().unwrap_or_default();
        let called = read_first(self.task, args).unwrap_or_default();
        let start =
            Start::new(self.task.tid, program, OsStr::from_bytes(&called), || read_args(self.task, args));
        if let Ruling::Refuse { message } = self.ask(|guard| guard.judge_start(&start)) {
            self.task.tell(&message);
            return Err(Errno::ACCESS);
        }
        self.rules.gate.settle();
        match self.ask(|guard| guard.hold(&start)) {
            Some(hold) => self.rules.gate.matched(self.task, hold)?,
            None => self.rules.gate.unmatched(self.task),
        }
        Ok(Answer::Proceed)
    }
}

/// True if there is no such program: most who look for one try all folders of `PATH`. False where a name may mean something
/// else to the caller.
fn is_absent(path: &[u8]) -> bool {
    let is_same_to_all =
        path.starts_with(b"/") && !path.starts_with(b"/proc/") && !path.starts_with(b"/dev/");
    is_same_to_all && rustix::fs::access(path, Access::EXISTS) == Err(Errno::NOENT)
}

fn read_first(task: Task, list: u64) -> Result<Vec<u8>, Errno> {
    let [first] = task.read_words(list)?;
    task.read_path(first)
}

fn read_args(task: Task, list: u64) -> Vec<OsString> {
    let mut args = Vec::new();
    let mut at = list;
    while args.len() < MOST_ARGS {
        let Ok(addresses) = task.read_list(at) else { return args };
        let (some, is_end) = match addresses.iter().position(|address| *address == 0) {
            Some(end) => (&addresses[..end], true),
            None => (&addresses[..], false),
        };
        let texts = task.read_texts(some);
        let is_broken = texts.len() < some.len();
        args.extend(texts.into_iter().map(OsString::from_vec));
        if is_end || is_broken {
            break;
        }
        at += 8 * addresses.len() as u64;
    }
    args.truncate(MOST_ARGS);
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_for_everybody_is_absent() {
        assert!(is_absent(b"/usr/bin/no such program"));
        assert!(!is_absent(b"/bin/sh"));
        for path in [&b"no such program"[..], b"/proc/self/fd/12345", b"/dev/fd/12345", b"/bin/sh/x", b""] {
            assert!(!is_absent(path), "{}", path.escape_ascii());
        }
    }
}
