//! Validations under way: each in a thread of its own, to be cancelled one by one, and none of them survives the crew.

use std::any::Any;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use mala_core::Oid;
use mala_gate::runner::Tee;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::room::Room;
use super::{Queue, QueueError};
use crate::slots::Pool;
use crate::validation::{Timing, Validate, Validation, timings};

/// So many of the last validations tell how many at a time pay.
const MAX_TIMINGS: usize = 20;

/// What a validation is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    /// Whether this tree passes.
    Tree(Oid),
    /// Whether this tree, which has failed, fails once more in an emptied slot.
    Again(Oid),
    /// Whether this commit, which has landed, passes in an emptied slot.
    Audit(Oid),
}

/// A validation that is under way. Dropping it cancels it.
#[derive(Debug)]
struct Job {
    number: u64,
    task: Task,
    _hangup: PipeWriter,
}

#[derive(Debug)]
struct Done {
    number: u64,
    result: Result<Validation, QueueError>,
}

pub(super) struct Crew<'scope, 'env> {
    scope: &'scope thread::Scope<'scope, 'env>,
    queue: Queue<'env>,
    room: Room<'env>,
    timings: Vec<Timing>,
    jobs: Vec<Job>,
    started: u64,
    /// Those that were cancelled and have not ended.
    ending: usize,
    results: (Sender<Done>, Receiver<Done>),
    /// Rings once for each result.
    bell: (PipeReader, PipeWriter),
}

impl<'scope, 'env> Crew<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope thread::Scope<'scope, 'env>,
        queue: Queue<'env>,
    ) -> Result<Self, QueueError> {
        Ok(Self {
            scope,
            queue,
            room: Room::new(queue.cores, queue.slots.validations()),
            timings: timings(queue.repo, MAX_TIMINGS)?,
            jobs: Vec::new(),
            started: 0,
            ending: 0,
            results: channel(),
            bell: io::pipe().map_err(QueueError::Thread)?,
        })
    }

    /// True if one more may begin.
    pub(super) fn has_room(&self) -> bool {
        self.room.is_there(self.jobs.len() + self.ending, &self.timings)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn has(&self, task: &Task) -> bool {
        self.jobs.iter().any(|job| job.task == *task)
    }

    /// Begins a validation of `commit`.
    pub(super) fn start(&mut self, task: Task, commit: &Oid) -> Result<(), QueueError> {
        let (asker, hangup) = io::pipe().map_err(QueueError::Thread)?;
        let mut bell = self.bell.1.try_clone().map_err(QueueError::Thread)?;
        let (queue, commit, results) = (self.queue, commit.clone(), self.results.0.clone());
        let (number, is_cold) = (self.started, !matches!(task, Task::Tree(_)));
        let work = move || {
            let validated = catch_unwind(AssertUnwindSafe(|| queue.run(&commit, is_cold, asker.as_fd())));
            let result = validated.unwrap_or_else(|panic| Err(QueueError::Panic(text_of(&*panic))));
            // The crew may be gone.
            let _ = results.send(Done { number, result });
            let _ = bell.write_all(b"!");
        };
        thread::Builder::new().spawn_scoped(self.scope, work).map_err(QueueError::Thread)?;
        self.started += 1;
        self.jobs.push(Job { number, task, _hangup: hangup });
        self.room.watch_anew();
        Ok(())
    }

    /// Ends those validations of trees whose answer is not wanted: what they have started is killed.
    pub(super) fn cancel_trees(&mut self, is_unwanted: impl Fn(&Oid) -> bool) {
        let before = self.jobs.len();
        self.jobs.retain(|job| match &job.task {
            Task::Tree(tree) => !is_unwanted(tree),
            Task::Again(_) | Task::Audit(_) => true,
        });
        self.ending += before - self.jobs.len();
    }

    /// Waits for an answer, at most so long.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<Option<(Task, Validation)>, QueueError> {
        let deadline = Instant::now() + timeout;
        loop {
            for Done { number, result } in self.results.1.try_iter().take(1).collect::<Vec<_>>() {
                self.bell.0.read_exact(&mut [0]).map_err(QueueError::Thread)?;
                let Some(place) = self.jobs.iter().position(|job| job.number == number) else {
                    self.ending -= 1;
                    continue;
                };
                let task = self.jobs.swap_remove(place).task;
                let validation = result?;
                self.remember(&validation);
                return Ok(Some((task, validation)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.listen(left)?;
        }
    }

    fn remember(&mut self, validation: &Validation) {
        let counts = validation.has_passed() && !validation.remembered && !validation.cold;
        self.timings.extend(validation.timing.filter(|_| counts));
        let surplus = self.timings.len().saturating_sub(MAX_TIMINGS);
        self.timings.drain(..surplus);
    }

    /// Until the bell rings or the time is up. Fails when the round is to end at once.
    fn listen(&self, timeout: Duration) -> Result<(), QueueError> {
        let hangup = self.queue.hangup;
        let watched: [Option<BorrowedFd<'_>>; 2] = [hangup, Some(self.bell.0.as_fd())];
        let mut fds: Vec<PollFd<'_>> =
            watched.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
        // What is left of the last millisecond is waited for as well.
        let timeout = timeout + Duration::from_millis(1);
        match poll(&mut fds, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(QueueError::Thread(error.into())),
        }
        let is_over = hangup.is_some() && fds.first().is_some_and(|fd| fd.any().unwrap_or(false));
        if is_over { Err(QueueError::Stopped) } else { Ok(()) }
    }
}

impl Queue<'_> {
    /// Runs the required commands on a commit. What they print is in their logs.
    fn run(&self, commit: &Oid, is_cold: bool, asker: BorrowedFd<'_>) -> Result<Validation, QueueError> {
        let Self { repo, slots, requirements, .. } = *self;
        let validate = Validate { repo, slots, pool: Pool::Validation, requirements, asker: Some(asker) };
        let (mut out, mut err) = (io::sink(), io::sink());
        let mut tee = Tee { out: &mut out, err: &mut err };
        let validated =
            if is_cold { validate.commit_cold(commit, &mut tee) } else { validate.commit(commit, &mut tee) };
        Ok(validated?)
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
