//! The memory of a thread that makes one call after the other, kept open: reading it then takes less than asking for it by number,
//! where the kernel asks each time whether we may.
//!
//! It is the memory the thread had when it was opened. A program that starts gets another one, and a number may pass to another
//! thread, so it is forgotten when somebody starts a program, and when there was no call for a moment. A wrong path
//! would be no way around anything, because what is judged is what is opened; it would be the wrong file.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};

use super::task::{Task, rest_of_page};

/// Calls with more between them are not one after the other. Numbers come round far more slowly.
const MOMENT: Duration = Duration::from_millis(20);
/// How many calls it takes.
const SOME: u32 = 4;
/// Few paths are longer.
const CHUNK: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Option<Caller>>);

/// Who called last.
#[derive(Debug)]
struct Caller {
    tid: u32,
    calls: u32,
    last: Instant,
    /// None before there were some calls, or if it may not be opened.
    file: Option<Arc<OwnedFd>>,
}

impl Memory {
    /// The text at `address` in the memory of the thread that calls now. None if it takes another way to read it.
    pub(crate) fn read_text(&self, task: Task, address: u64) -> Option<Vec<u8>> {
        let file = self.of(task.tid)?;
        let mut chunk = [0_u8; CHUNK];
        let room = rest_of_page(address).min(CHUNK);
        let length = rustix::io::pread(&*file, &mut chunk[..room], address).ok()?;
        let end = chunk[..length].iter().position(|byte| *byte == 0)?;
        Some(chunk[..end].to_vec())
    }

    /// Somebody is about to start a program.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn of(&self, tid: u32) -> Option<Arc<OwnedFd>> {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_again = |caller: &&mut Caller| caller.tid == tid && now - caller.last < MOMENT;
        let Some(caller) = last.as_mut().filter(is_again) else {
            *last = Some(Caller { tid, calls: 1, last: now, file: None });
            return None;
        };
        caller.calls = caller.calls.saturating_add(1);
        caller.last = now;
        if caller.calls == SOME {
            let path = format!("/proc/{tid}/mem");
            let opened = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
            caller.file = opened.ok().map(Arc::new);
        }
        caller.file.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;

    use super::*;

    const TEXT: &std::ffi::CStr = c"some/path";

    fn own() -> Task {
        Task { tid: std::process::id() }
    }

    fn read(memory: &Memory, task: Task) -> Option<Vec<u8>> {
        memory.read_text(task, TEXT.as_ptr() as u64)
    }

    /// What the last of some calls is told. A machine that is busy with something else may be too slow for it.
    fn after_some_calls(memory: &Memory, task: Task) -> Option<Vec<u8>> {
        (0..100).find_map(|_| (0..SOME).filter_map(|_| read(memory, task)).last())
    }

    #[test]
    fn the_memory_of_who_calls_often_is_kept_open() {
        let memory = Memory::default();
        assert_eq!(read(&memory, own()), None);
        assert_eq!(after_some_calls(&memory, own()).as_deref(), Some(TEXT.to_bytes()));
    }

    #[test]
    fn it_is_forgotten_when_a_program_starts_another_thread_calls_or_nobody_does() {
        let memory = Memory::default();
        let pause = || thread::sleep(2 * MOMENT);
        let endings: [&dyn Fn(); 3] =
            [&|| memory.forget(), &|| assert_eq!(read(&memory, Task { tid: 1 }), None), &pause];
        for end in endings {
            assert!(after_some_calls(&memory, own()).is_some());
            end();
            assert_eq!(read(&memory, own()), None);
        }
    }

    /// Where the name of its program ends in the memory of a process: before the last word of its stack.
    fn end_of_name(pid: u32) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let end = stack.split(['-', ' ']).nth(1).unwrap();
        u64::from_str_radix(end, 16).unwrap() - 9
    }

    #[test]
    fn the_dead_have_none() {
        let memory = Memory::default();
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (task, name) = (Task { tid: cat.id() }, end_of_name(cat.id()) - 3);
        let read = || (0..100).find_map(|_| memory.read_text(task, name));
        assert_eq!(read().as_deref(), Some(&b"cat"[..]));
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert_eq!(read(), None);
    }
}
