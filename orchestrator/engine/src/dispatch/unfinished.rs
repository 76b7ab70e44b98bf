//! What a run leaves undone, for its summary.

use std::time::Duration;

use mala_core::IssueId;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::Dispatcher;
use super::stop::Stopping;

/// How long a tracker is asked what others have finished, in all: nobody waits for a summary.
const LAST_LOOK: Duration = Duration::from_secs(3);

impl Dispatcher {
    /// What somebody else has finished meanwhile is not left. Without an answer it counts as left, also if somebody is in a hurry.
    pub(super) async fn forget_closed(&mut self) {
        if matches!(self.stopping, Stopping::Hurry | Stopping::Now) {
            return;
        }
        let (source, ids) = (self.ops.source.clone(), self.left.keys().cloned().collect());
        let is_closed = move |id: &IssueId| source.show(id).is_ok_and(|issue| issue.is_closed());
        for id in closed(ids, is_closed, LAST_LOOK).await {
            self.left.remove(&id);
        }
    }

    pub(super) fn note_what_is_left(&mut self) {
        let begun: Vec<IssueId> = self.attempts.iter().map(|attempt| attempt.issue.clone()).collect();
        self.left.retain(|id, _| !begun.contains(id));
        for (next, on) in self.ready.stranded() {
            self.left.insert(next.issue.id.clone(), format!("it waits for {on}, which is not closed"));
        }
        if self.stopping != Stopping::No {
            let why = format!("not begun: {}", self.stopping.reason());
            for next in self.ready.waiting().take(100) {
                if !begun.contains(&next.issue.id) {
                    self.left.entry(next.issue.id.clone()).or_insert_with(|| why.clone());
                }
            }
        }
    }
}

/// Those that are closed, as far as that is known in time.
async fn closed(
    ids: Vec<IssueId>,
    is_closed: impl Fn(&IssueId) -> bool + Send + 'static,
    in_time: Duration,
) -> Vec<IssueId> {
    let (deadline, (tell, mut told)) = (Instant::now() + in_time, mpsc::unbounded_channel());
    spawn_blocking(move || {
        for id in ids {
            // Without a receiver nobody wants to know any more.
            if tell.is_closed() || (is_closed(&id) && tell.send(id).is_err()) {
                return;
            }
        }
    });
    let mut closed = Vec::new();
    while let Ok(Some(id)) = timeout_at(deadline, told.recv()).await {
        closed.push(id);
    }
    closed
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_tracker_that_does_not_answer_is_not_waited_for() {
        let ids = ["closed", "open", "slow", "slower"].map(|id| IssueId::new(id).unwrap());
        let (answer, hang) = channel::<()>();
        let is_closed = move |id: &IssueId| {
            if id.as_str().starts_with("slow") {
                let _ = hang.recv_timeout(Duration::from_secs(5));
            }
            id.as_str() != "open"
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(closed(ids.to_vec(), is_closed, Duration::from_millis(200)));
        assert_eq!(found, [ids[0].clone()]);
        drop(answer);
    }
}
