//! Programs that start.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::Access;
use rustix::io::Errno;

use super::Answer;
use super::session::Session;
use crate::Start;
use crate::linux::task::Task;

/// Arguments beyond these are not looked at.
const MOST_ARGS: usize = 256;

/// Nobody needs more.
const MOST_VARIABLES: usize = 4096;

/// The kernel takes no longer ones.
const LONGEST_ARG: usize = 32 * 4096 - 1;

/// Nor more bytes than this in all.
const MOST_BYTES: usize = 6 << 20;

impl Session<'_> {
    /// Lets the kernel start the program, unless the guard says no. What cannot be read was not judged and does not start: the
    /// kernel, which looks later and may look everywhere, could find something there.
    pub(super) fn exec(&self, path: u64, args: u64, env: u64) -> Result<Answer, Errno> {
        let path = self.task.read_path(path).map_err(unreadable)?;
        if is_absent(&path) {
            return Ok(Answer::Proceed);
        }
        self.rules.memory.forget();
        let program = Path::new(OsStr::from_bytes(&path)).file_name().unwrap_or_default();
        let first = read_addresses(self.task, args)?;
        let called = match first.first() {
            None | Some(0) => Vec::new(),
            Some(name) => self.task.read_text(*name, LONGEST_ARG).map_err(too_long)?,
        };
        let failed = Cell::new(None);
        let args = || {
            read_args(self.task, args, first).unwrap_or_else(|error| {
                failed.set(Some(error));
                Vec::new()
            })
        };
        let env = || {
            read_env(self.task, env).unwrap_or_else(|error| {
                failed.set(Some(error));
                Vec::new()
            })
        };
        let start = Start::new(self.task.tid, program, OsStr::from_bytes(&called), args, env);
        let is_read = || failed.get().map_or(Ok(()), Err);
        let ruling = self.ask(|guard| guard.judge_start(&start));
        is_read()?;
        if self.is_refused(&ruling) {
            return Err(Errno::ACCESS);
        }
        self.rules.gate.settle();
        let hold = self.ask(|guard| guard.hold(&start));
        is_read()?;
        let is_waiting = || self.is_waiting();
        match hold {
            Some(hold) => self.rules.gate.matched(self.task, hold, is_waiting)?,
            None => self.rules.gate.unmatched(self.task, is_waiting),
        }
        Ok(Answer::Proceed)
    }
}

/// What whoever calls `exec` is told. Nobody may look into a program whose file cannot be read.
fn unreadable(error: Errno) -> Errno {
    if error == Errno::PERM { Errno::ACCESS } else { error }
}

/// The same for an argument.
fn too_long(error: Errno) -> Errno {
    if error == Errno::NAMETOOLONG { Errno::TOOBIG } else { unreadable(error) }
}

/// True if there is no such program: most who look for one try all folders of `PATH`. False where a name may mean something
/// else to the caller.
fn is_absent(path: &[u8]) -> bool {
    let is_same_to_all =
        path.starts_with(b"/") && !path.starts_with(b"/proc/") && !path.starts_with(b"/dev/");
    is_same_to_all && rustix::fs::access(path, Access::EXISTS) == Err(Errno::NOENT)
}

/// Some addresses from a list of arguments. To the kernel, no list is an empty one.
fn read_addresses(task: Task, list: u64) -> Result<Vec<u64>, Errno> {
    if list == 0 { Ok(Vec::new()) } else { task.read_list(list).map_err(unreadable) }
}

/// The arguments in the list at `list`, the `first` addresses of which are known.
fn read_args(task: Task, list: u64, first: Vec<u64>) -> Result<Vec<OsString>, Errno> {
    let mut args = read_texts(task, list, first, MOST_ARGS)?;
    args.truncate(MOST_ARGS);
    Ok(args)
}

/// The environment in the list at `list`, all of it.
fn read_env(task: Task, list: u64) -> Result<Vec<OsString>, Errno> {
    let env = read_texts(task, list, read_addresses(task, list)?, MOST_VARIABLES)?;
    if env.len() < MOST_VARIABLES { Ok(env) } else { Err(Errno::TOOBIG) }
}

/// The texts in a list, up to its end or until there are `enough`.
fn read_texts(task: Task, list: u64, first: Vec<u64>, enough: usize) -> Result<Vec<OsString>, Errno> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    let (mut at, mut addresses) = (list, first);
    while read.len() < enough && !addresses.is_empty() {
        let (some, is_end) = match addresses.iter().position(|address| *address == 0) {
            Some(end) => (&addresses[..end], true),
            None => (&addresses[..], false),
        };
        let texts = task.read_all_texts(some, LONGEST_ARG).map_err(too_long)?;
        bytes += texts.iter().map(Vec::len).sum::<usize>();
        if bytes > MOST_BYTES {
            return Err(Errno::TOOBIG);
        }
        read.extend(texts.into_iter().map(OsString::from_vec));
        if is_end {
            break;
        }
        at += 8 * addresses.len() as u64;
        addresses = read_addresses(task, at)?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    #[test]
    fn all_arguments_are_read_or_it_is_an_error() {
        let own = Task { tid: std::process::id() };
        // More than are read at once, one of them longer than most.
        let texts: Vec<CString> = (0..40)
            .map(|n| {
                CString::new("x".repeat(match n {
                    7 => 1000,
                    9 => 9000,
                    _ => n,
                }))
                .unwrap()
            })
            .collect();
        let list: Vec<u64> = texts.iter().map(|text| text.as_ptr() as u64).chain([0]).collect();
        let at = list.as_ptr() as u64;
        let args = read_args(own, at, own.read_list(at).unwrap());
        assert_eq!(
            args.unwrap(),
            texts.iter().map(|text| OsStr::from_bytes(text.to_bytes())).collect::<Vec<_>>()
        );
        assert_eq!(read_addresses(own, 0), Ok(Vec::new()));
        assert_eq!(read_addresses(own, 8), Err(Errno::FAULT));
        let name = list[20];
        assert_eq!(read_args(own, 0, vec![name, name, 8, 0]), Err(Errno::FAULT));
        let too_long = CString::new("x".repeat(LONGEST_ARG + 1)).unwrap();
        assert_eq!(read_args(own, 0, vec![name, too_long.as_ptr() as u64, 0]), Err(Errno::TOOBIG));
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
