//! One held program, from its first call to its end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use rustix::event::Timespec;
use rustix::process::Signal;

use super::{Gate, Matched};
use crate::linux::capture::Capture;
use crate::linux::notify::{Listener, Request};
use crate::linux::process::Process;
use crate::linux::task::Task;
use crate::{Hold, Ruling};

/// How long a refused program has to end by SIGTERM. It has run no code yet: it can only have inherited to ignore it.
const LAST_WORDS: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A program that waits, seen by its [`Hold`].
#[derive(Debug)]
pub struct Held {
    gate: Arc<Gate>,
    process: Arc<Process>,
    stop: Stop,
}

/// Where a program was stopped: the call that waits for an answer.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) listener: Arc<Listener>,
    pub(crate) request: Request,
}

impl Held {
    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// When the process began, in clock ticks after the machine's start: with the number, it is this process only.
    pub fn start_time(&self) -> u64 {
        self.process.start_time()
    }

    /// A handle that becomes readable when the process ends.
    pub fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Writes one line to the program's standard error, if that is possible at once.
    pub fn tell(&self, message: &str) {
        Task { tid: self.pid() }.tell(message);
    }

    /// Begins to copy what the program and its children print into `log`, standard output and standard error in one
    /// file. Only while the program waits; what it prints still goes where it was meant to go. None if it prints to a
    /// terminal or another device: those are left alone.
    ///
    /// The log is complete after [`Capture::finish`].
    pub fn capture(&self, log: File) -> io::Result<Option<Capture>> {
        let Stop { listener, request } = &self.stop;
        let capture =
            Capture::begin(self.process(), log, |fd, number| listener.replace(request, fd, number))?;
        if let Some(tap) = capture.as_ref().and_then(Capture::tap) {
            self.gate.taps.add(&self.process, tap);
        }
        Ok(capture)
    }

    fn end(&self) {
        self.process.signal(Signal::TERM);
        if !self.process.wait(Some(&LAST_WORDS)) {
            self.process.signal(Signal::KILL);
        }
    }
}

impl Gate {
    /// If the thread belongs to a program that must wait, arranges that `release` is called on another thread when it
    /// may go on. False if there is nothing to wait for.
    pub(crate) fn stops(self: &Arc<Self>, stop: &Stop, release: impl FnOnce() + Send + 'static) -> bool {
        let Some(Matched { process, hold, .. }) = self.arrived(stop) else { return false };
        let held = Held { gate: Arc::clone(self), process: Arc::new(process), stop: stop.clone() };
        let held = Arc::new(held);
        let attended = Arc::clone(&held);
        self.keep(&held.process);
        let attend = move || {
            attended.gate.attend(&attended, hold, release);
            attended.gate.let_go(&attended.process);
        };
        if thread::Builder::new().name("mala-hold".to_owned()).spawn(attend).is_err() {
            // Nobody can wait for its turn on its behalf.
            held.end();
            self.let_go(&held.process);
        }
        true
    }

    fn attend(&self, held: &Held, mut hold: Box<dyn Hold>, release: impl FnOnce()) {
        let ruling = catch_unwind(AssertUnwindSafe(|| hold.wait(held)));
        let mark = match ruling {
            Ok(allowed @ (Ruling::Allow | Ruling::AllowAndTell { .. })) => {
                if let Ruling::AllowAndTell { message } = allowed {
                    held.tell(&message);
                }
                let mark = self.lineage.passes(&held.process);
                release();
                Some(mark)
            }
            Ok(Ruling::Refuse { message }) => {
                held.tell(&message);
                held.end();
                None
            }
            Err(_panic) => {
                held.tell("mala: this program could not be given its turn: mala failed");
                held.end();
                return;
            }
        };
        held.process.wait(None);
        let exit = held.process.exit();
        if let Some(mark) = mark {
            self.lineage.ended(mark);
        }
        let _panic = catch_unwind(AssertUnwindSafe(|| hold.ended(exit)));
    }
}
