//! What is done beside an agent or a run, again and again, in one supervised place.
//!
//! One thread does one task after the other. A task that fails or panics harms nobody else: it is tried again later, less and
//! less often, and said so at most as often as the number of failures doubles. The thread is joined when the value is
//! dropped. Nothing depends on any of this: whoever comes next does what is due, and the store sees to it that it is
//! done once.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mala_config::Settings;
use mala_core::{AgentId, Scope};
use mala_store::{Extent, Store, Which};

use crate::error::CliError;
use crate::ui::Ui;

/// How often asks are looked at that may have become overdue. The question costs microseconds.
const ESCALATE_EVERY: Duration = Duration::from_secs(1);
/// How often leftovers of the dead are put away.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Leases are renewed at least so far apart, however short they are.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);
/// A task that goes on failing is tried at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

type Work = Box<dyn FnMut() -> Result<(), CliError> + Send>;

/// Something to be done again and again.
pub(crate) struct Task {
    /// What it is, as the end of "cannot ...".
    what: &'static str,
    every: Duration,
    work: Work,
    next: Instant,
    failures: u32,
}

impl Task {
    pub(crate) fn new(
        what: &'static str,
        every: Duration,
        work: impl FnMut() -> Result<(), CliError> + Send + 'static,
    ) -> Self {
        Self { what, every, work: Box::new(work), next: Instant::now() + every, failures: 0 }
    }

    /// Tells everybody concerned about asks that have become overdue.
    pub(crate) fn escalate(scope: &Scope) -> Self {
        let mut place = Place::new(scope);
        Self::new("look for overdue asks", ESCALATE_EVERY, move || {
            place.with(|store| store.escalate_due().map(drop))
        })
    }

    /// Puts away what the dead left.
    pub(crate) fn sweep(scope: &Scope, settings: &Settings) -> Self {
        let (mut place, keep) = (Place::new(scope), settings.logs.keep);
        Self::new("put away what the dead left", SWEEP_EVERY, move || {
            place.with(|store| {
                let since = store.now().minus(keep);
                let extent = Extent { keep_events_since: since, foreign_locks: false };
                // Looked at first: most of the time there is nothing to write.
                if store.leftovers(extent)?.is_empty() { Ok(()) } else { store.sweep(extent).map(drop) }
            })
        })
    }

    /// Renews an agent's leases, for those who can judge it only by them.
    pub(crate) fn renew(scope: &Scope, agent: &AgentId, settings: &Settings) -> Self {
        let (mut place, agent) = (Place::new(scope), agent.clone());
        let every = (settings.lock.ttl / 3).max(SHORTEST_RENEWAL);
        Self::new("renew the agent's leases", every, move || {
            place.with(|store| store.renew(&agent, &Which::All, None).map(drop))
        })
    }

    /// Does it, and says when something changed about how it goes.
    fn run(&mut self, ui: &Ui) {
        let done = panic::catch_unwind(AssertUnwindSafe(|| (self.work)()));
        let trouble = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.messages().join(": ")),
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
                    ui.warning(&format!("cannot {}{times}: {trouble}", self.what));
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

    fn with(&mut self, work: impl FnOnce(&mut Store) -> mala_store::Result<()>) -> Result<(), CliError> {
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
pub(crate) struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(tasks: Vec<Task>, ui: &Ui) -> Self {
        let (stop, stopped) = mpsc::channel();
        let inner = ui.clone();
        let thread = thread::Builder::new().spawn(move || work_off(tasks, &stopped, &inner));
        if let Err(error) = &thread {
            ui.warning(&format!("nothing is tidied up meanwhile: cannot start a thread: {error}"));
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

fn work_off(mut tasks: Vec<Task>, stopped: &Receiver<()>, ui: &Ui) {
    while let Some(task) = tasks.iter_mut().min_by_key(|task| task.next) {
        let until = task.next.saturating_duration_since(Instant::now());
        match stopped.recv_timeout(until) {
            Err(RecvTimeoutError::Timeout) => task.run(ui),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, PipeReader, Read};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::*;
    use crate::ui::ClientStreams;

    /// An ear for what is said, and what to say it with.
    fn listened() -> (PipeReader, Ui) {
        let (ear, mouth) = io::pipe().unwrap();
        let mouth = File::from(OwnedFd::from(mouth));
        let out = mouth.try_clone().unwrap();
        let streams = ClientStreams { input: File::open("/dev/null").unwrap(), out, err: mouth };
        (ear, Ui::for_client(false, Arc::new(streams)))
    }

    /// Everything that was said, once nobody says anything any more.
    fn heard(mut ear: PipeReader) -> String {
        let mut text = String::new();
        ear.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_task_that_panics_harms_no_other_and_is_tried_again() {
        let (said, ui) = listened();
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
        let background = Background::start(vec![bad, good], &ui);
        for _ in 0..3 {
            seen.recv().unwrap();
        }
        for _ in 0..10 {
            worked.recv().unwrap();
        }
        drop((background, ui));
        assert!(matches!(worked.try_iter().last(), None | Some(())), "joined: nobody sends any more");
        assert_eq!(worked.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        assert!(heard(said).contains("cannot do the impossible: it panicked"));
    }

    #[test]
    fn what_goes_on_failing_is_tried_less_and_less_and_said_ever_more_rarely() {
        let (said, ui) = listened();
        let mut task =
            Task::new("reach the store", Duration::from_secs(1), || Err(CliError::failed("no store")));
        let mut pauses = Vec::new();
        for _ in 0..1_000 {
            task.run(&ui);
            pauses.push(task.next.saturating_duration_since(Instant::now()));
        }
        drop(ui);
        assert!(pauses.windows(2).all(|two| two[0] <= two[1] + Duration::from_secs(1)));
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        assert_eq!(heard(said).lines().count(), 10, "1, 2, 4 and so on up to 512");
    }

    #[test]
    fn a_success_makes_good_for_all_failures() {
        let (_said, ui) = listened();
        let mut tries = 0;
        let mut task = Task::new("work", Duration::from_secs(1), move || {
            tries += 1;
            if tries < 3 { Err(CliError::failed("not yet")) } else { Ok(()) }
        });
        for failures in [1, 2, 0] {
            task.run(&ui);
            assert_eq!(task.failures, failures);
        }
    }
}
