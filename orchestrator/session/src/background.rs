//! What is done beside an agent or a run, again and again, in one supervised place.
//!
//! One thread does one task after the other. A task that fails or panics harms nobody else: it is tried again later, less and
//! less often, and said so at most as often as the number of failures doubles. The thread is joined when the value is
//! dropped. Nothing depends on any of this: whoever comes next does what is due, and the store sees to it that it is
//! done once.

use std::error::Error;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mala_config::Settings;
use mala_core::text::causes;
use mala_core::{AgentId, Life, Scope};
use mala_store::{Extent, Store, Which};

use crate::reads;

/// How often asks are looked at that may have become overdue. The question costs microseconds.
const ESCALATE_EVERY: Duration = Duration::from_secs(1);
/// How often leftovers of the dead are put away.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// For so long a git process that reads objects is kept for the next question.
const READER_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Leases are renewed at least so far apart, however short they are.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);
/// A task that goes on failing is tried at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Whatever kept a task from being done.
pub type TaskError = Box<dyn Error + Send + Sync>;

type Work = Box<dyn FnMut() -> Result<(), TaskError> + Send>;

/// Hears what is wrong.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Something to be done again and again.
pub struct Task {
    /// What it is, as the end of "cannot ...".
    what: &'static str,
    every: Duration,
    work: Work,
    next: Instant,
    failures: u32,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("what", &self.what).field("every", &self.every).finish_non_exhaustive()
    }
}

impl Task {
    pub fn new(
        what: &'static str,
        every: Duration,
        work: impl FnMut() -> Result<(), TaskError> + Send + 'static,
    ) -> Self {
        Self { what, every, work: Box::new(work), next: Instant::now() + every, failures: 0 }
    }

    /// Tells everybody concerned about asks that have become overdue.
    pub fn escalate(scope: &Scope) -> Self {
        let mut place = Place::new(scope);
        Self::new("look for overdue asks", ESCALATE_EVERY, move || {
            place.with(|store| store.escalate_due().map(drop))
        })
    }

    /// Puts away what the dead left.
    pub fn sweep(scope: &Scope, settings: &Settings) -> Self {
        let (mut place, keep, scope) = (Place::new(scope), settings.retain.age, scope.clone());
        Self::new("put away what the dead left", SWEEP_EVERY, move || {
            place.with(|store| {
                let agents = store.agents()?;
                let living = agents.iter().filter(|agent| agent.life != Life::Dead);
                reads::forget_others(&scope, living.map(|agent| &agent.party.agent));
                let since = store.now().minus(keep);
                let extent = Extent { keep_events_since: since, foreign_locks: false };
                // Looked at first: most of the time there is nothing to write.
                if store.leftovers(extent)?.is_empty() { Ok(()) } else { store.sweep(extent).map(drop) }
            })
        })
    }

    /// Ends git processes that nobody has asked anything for a while: an agent may have nothing to ask for hours.
    pub fn close_object_readers() -> Self {
        Self::new("end idle git processes", READER_IDLE_TIMEOUT, || {
            mala_git::close_object_readers(READER_IDLE_TIMEOUT);
            Ok(())
        })
    }

    /// Renews an agent's leases, for those who can judge it only by them.
    pub fn renew(scope: &Scope, agent: &AgentId, settings: &Settings) -> Self {
        let (mut place, agent) = (Place::new(scope), agent.clone());
        let every = (settings.lock.ttl / 3).max(SHORTEST_RENEWAL);
        Self::new("renew the agent's leases", every, move || {
            place.with(|store| store.renew(&agent, &Which::All, None).map(drop))
        })
    }

    /// Does it, and says when something changed about how it goes.
    fn run(&mut self, warn: &dyn Fn(&str)) {
        let done = panic::catch_unwind(AssertUnwindSafe(|| (self.work)()));
        let trouble = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(causes(&*error)),
            Err(_) => Some("it panicked".to_owned()),
        };
        match trouble {
            None => self.failures = 0,
            Some(trouble) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures.is_power_of_two() {
                    let times = if self.failures == 1 {
                        String::new()
                    } else {
                        format!(" ({} times)", self.failures)
                    };
                    warn(&format!("cannot {}{times}: {trouble}", self.what));
                }
            }
        }
        self.next = Instant::now() + pause(self.every, self.failures);
    }
}

/// How long until the next try, after so many failures in a row.
fn pause(every: Duration, failures: u32) -> Duration {
    let longest = LONGEST_PAUSE.max(every);
    every.saturating_mul(2_u32.saturating_pow(failures)).min(longest)
}

/// A store that is opened when it is needed, and anew after a failure.
struct Place {
    scope: Scope,
    store: Option<Store>,
}

impl Place {
    fn new(scope: &Scope) -> Self {
        Self { scope: scope.clone(), store: None }
    }

    fn with(&mut self, work: impl FnOnce(&mut Store) -> mala_store::Result<()>) -> Result<(), TaskError> {
        let mut store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.scope)?,
        };
        work(&mut store)?;
        self.store = Some(store);
        Ok(())
    }
}

/// The thread that does it. Dropping it ends and joins it.
#[derive(Debug)]
pub struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts them; `warn` hears what does not work, also that there is no thread to do it.
    pub fn start(tasks: Vec<Task>, warn: &Warn) -> Self {
        let (stop, stopped) = mpsc::channel();
        let inner = Arc::clone(warn);
        let thread = thread::Builder::new().spawn(move || work_off(tasks, &stopped, &*inner));
        if let Err(error) = &thread {
            warn(&format!("nothing is tidied up meanwhile: cannot start a thread: {error}"));
        }
        Self { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Tasks that panic are caught; there is nothing else in there.
            let _ = thread.join();
        }
    }
}

fn work_off(mut tasks: Vec<Task>, stopped: &Receiver<()>, warn: &dyn Fn(&str)) {
    while let Some(task) = tasks.iter_mut().min_by_key(|task| task.next) {
        let until = task.next.saturating_duration_since(Instant::now());
        match stopped.recv_timeout(until) {
            Err(RecvTimeoutError::Timeout) => task.run(warn),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// An ear for what is said, and what to say it with.
    fn listened() -> (Receiver<String>, Warn) {
        let (mouth, ear) = channel();
        (ear, Arc::new(move |text: &str| mouth.send(text.to_owned()).unwrap()))
    }

    #[test]
    fn a_task_that_panics_harms_no_other_and_is_tried_again() {
        let (said, warn) = listened();
        let (panics, seen) = mpsc::channel();
        let (works, worked) = mpsc::channel();
        let bad = Task::new("do the impossible", Duration::from_millis(1), move || {
            panics.send(()).unwrap();
            panic!("on purpose");
        });
        let good = Task::new("work", Duration::from_millis(1), move || {
            works.send(()).unwrap();
            Ok(())
        });
        let background = Background::start(vec![bad, good], &warn);
        for _ in 0..3 {
            seen.recv().unwrap();
        }
        for _ in 0..10 {
            worked.recv().unwrap();
        }
        drop((background, warn));
        assert!(matches!(worked.try_iter().last(), None | Some(())), "joined: nobody sends any more");
        assert_eq!(worked.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        assert!(said.iter().any(|text| text.contains("cannot do the impossible: it panicked")));
    }

    #[test]
    fn what_goes_on_failing_is_tried_less_and_less_and_said_ever_more_rarely() {
        let (said, warn) = listened();
        let mut task = Task::new("reach the store", Duration::from_secs(1), || Err("no store".into()));
        let mut pauses = Vec::new();
        for _ in 0..1_000 {
            task.run(&*warn);
            pauses.push(task.next.saturating_duration_since(Instant::now()));
        }
        drop(warn);
        assert!(pauses.windows(2).all(|two| two[0] <= two[1] + Duration::from_secs(1)));
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        assert_eq!(said.iter().count(), 10, "1, 2, 4 and so on up to 512");
    }

    #[test]
    fn a_success_makes_good_for_all_failures() {
        let (_said, warn) = listened();
        let mut tries = 0;
        let mut task = Task::new("work", Duration::from_secs(1), move || {
            tries += 1;
            if tries < 3 { Err("not yet".into()) } else { Ok(()) }
        });
        for failures in [1, 2, 0] {
            task.run(&*warn);
            assert_eq!(task.failures, failures);
        }
    }
}
