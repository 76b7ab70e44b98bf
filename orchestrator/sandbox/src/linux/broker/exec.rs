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
        self.rules.memory.forget();
        let program = Path::new(OsStr::from_bytes(&path)).file_name().unwrap_or_default();
        let first = self.task.read_list(args).unwrap_or_default();
        let called = first.first().and_then(|name| self.task.read_path(*name).ok()).unwrap_or_default();
        let start = Start::new(self.task.tid, program, OsStr::from_bytes(&called), || {
            read_args(self.task, args, first)
        });
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

/// The arguments in the list at `list`, the `first` addresses of which are known.
fn read_args(task: Task, list: u64, first: Vec<u64>) -> Vec<OsString> {
    let mut args = Vec::new();
    let (mut at, mut addresses) = (list, first);
    while args.len() < MOST_ARGS && !addresses.is_empty() {
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
        addresses = task.read_list(at).unwrap_or_default();
    }
    args.truncate(MOST_ARGS);
    args
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    #[test]
    fn all_arguments_are_read_and_none_where_there_is_no_list() {
        let own = Task { tid: std::process::id() };
        // More than are read at once, one of them longer than most.
        let texts: Vec<CString> =
            (0..40).map(|n| CString::new("x".repeat(if n == 7 { 1000 } else { n })).unwrap()).collect();
        let list: Vec<u64> = texts.iter().map(|text| text.as_ptr() as u64).chain([0]).collect();
        let at = list.as_ptr() as u64;
        let args = read_args(own, at, own.read_list(at).unwrap());
        assert_eq!(args, texts.iter().map(|text| OsStr::from_bytes(text.to_bytes())).collect::<Vec<_>>());
        assert!(own.read_list(8).is_err());
        assert!(read_args(own, 8, Vec::new()).is_empty());
    }

    #[test]
    fn only_what_is_missing_for_everybody_is_absent() {
        assert!(is_absent(b"/usr/bin/no such program"));
        assert!(!is_absent(b"/bin/sh"));
        for path in [&b"no such program"[..], b"/proc/self/fd/12345", b"/dev/fd/12345", b"/bin/sh/x", b""] {
            assert!(!is_absent(path), "{}", path.escape_ascii());
        }
    }
}
