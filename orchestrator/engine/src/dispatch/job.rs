//! One attempt while it is under way.

use std::path::PathBuf;

use mala_agents::start::Profile;
use mala_core::{Issue, Timestamp};
use tokio::time::Instant;

use super::parked::Parked;
use crate::State;
use crate::clerk::{Cause, Continuation, Fingerprint};
use crate::limits::{Limits, Meter};
use crate::ports::{Attempt, Judgement};
use crate::session::Session;

#[derive(Debug)]
pub(super) struct Job {
    pub(super) issue: Issue,
    pub(super) attempt: Attempt,
    pub(super) state: State,
    pub(super) profile: Profile,
    pub(super) limits: Limits,
    pub(super) meter: Meter,
    pub(super) started: Timestamp,
    pub(super) log: PathBuf,
    /// The running process, if there is one.
    pub(super) session: Option<Session>,
    /// The client's own name for the conversation.
    pub(super) session_id: Option<String>,
    /// When to go on, while the client has to slow down.
    pub(super) pause: Option<Pause>,
    /// What it has asked, while it waits for the answer.
    pub(super) question: Option<Question>,
    /// Questions so far.
    pub(super) questions: u32,
    /// It was told that nobody answers.
    pub(super) is_on_its_own: bool,
    /// Why the session is started again, once its process has ended: it was silent for too long.
    pub(super) nudge: Option<String>,
    pub(super) is_nudged: bool,
    /// What an earlier attempt left, for the first process to go on with.
    pub(super) continuation: Option<Continuation>,
    /// Pauses in a row for which the client did not say how long they last.
    pub(super) pauses: u32,
    /// Set while it waits for files that it asked for, and then for its turn to go on.
    pub(super) parked: Option<Parked>,
    /// Its last process was put off although it waited for nothing.
    pub(super) is_put_off_for_nothing: bool,
    /// The last such wait has brought nothing.
    pub(super) waited_in_vain: bool,
    /// Set once the attempt must end, with the reason: it gets no further round.
    pub(super) last_call: Option<String>,
    /// The last process was killed, so its tree may still be about to end.
    pub(super) is_torn: bool,
    /// Set if the last process failed, with how it did.
    pub(super) failure: Option<String>,
    pub(super) message: Option<String>,
    /// How often the gate has sent it back.
    pub(super) rounds: u32,
    pub(super) gates: u32,
    /// How often the gate itself has failed in this round.
    pub(super) gate_errors: u32,
    pub(super) judgement: Judgement,
    pub(super) fingerprint: Option<Fingerprint>,
    /// How it is to end, once that is decided; kept so that it can be tried again.
    pub(super) ending: Option<Ending>,
    pub(super) ending_tries: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Pause {
    pub(super) until: Instant,
    pub(super) since: Timestamp,
    pub(super) why: String,
}

/// A question that waits for its answer.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) text: String,
    pub(super) until: Instant,
    pub(super) since: Timestamp,
    /// Notes on the issue when it was asked; those that come later are the answer.
    pub(super) notes: Option<usize>,
    /// When the tracker was last asked; nothing while it is being asked.
    pub(super) looked_at: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Accept,
    HandOver { reason: String, cause: Cause },
}

impl Job {
    pub(super) fn new(
        attempt: Attempt,
        issue: Issue,
        profile: Profile,
        limits: Limits,
        log: PathBuf,
    ) -> Self {
        let now = Timestamp::now();
        Self {
            issue,
            attempt,
            state: State::Claimed,
            profile,
            limits,
            meter: Meter::new(now),
            started: now,
            log,
            session: None,
            session_id: None,
            pause: None,
            question: None,
            questions: 0,
            is_on_its_own: false,
            nudge: None,
            is_nudged: false,
            continuation: None,
            pauses: 0,
            parked: None,
            is_put_off_for_nothing: false,
            waited_in_vain: false,
            last_call: None,
            is_torn: false,
            failure: None,
            message: None,
            rounds: 0,
            gates: 0,
            gate_errors: 0,
            judgement: Judgement::default(),
            fingerprint: None,
            ending: None,
            ending_tries: 0,
        }
    }

    /// True if its session can be spoken to again.
    pub(super) fn has_conversation(&self) -> bool {
        self.profile.kind.has_sessions() && self.session_id.is_some()
    }

    pub(super) fn tokens(&self) -> u64 {
        let usage = self.meter.usage();
        usage.input_tokens + usage.output_tokens
    }
}
