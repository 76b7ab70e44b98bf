//! One attempt while it is under way.

use std::path::PathBuf;

use mala_agents::start::Profile;
use mala_core::{Issue, Timestamp};
use tokio::time::Instant;

use super::parked::Parked;
use crate::State;
use crate::clerk::Fingerprint;
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
    /// Pauses in a row for which the client did not say how long they last.
    pub(super) pauses: u32,
    /// Set while it waits for files that it asked for.
    pub(super) parked: Option<Parked>,
    /// The last such wait has brought nothing.
    pub(super) waited_in_vain: bool,
    /// Set once the attempt must end, with the reason: it gets no further round.
    pub(super) last_call: Option<String>,
    /// Set if the last process failed, with how it did.
    pub(super) failure: Option<String>,
    pub(super) message: Option<String>,
    /// How often the gate has sent it back.
    pub(super) rounds: u32,
    pub(super) gates: u32,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Accept,
    HandOver { reason: String },
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
            pauses: 0,
            parked: None,
            waited_in_vain: false,
            last_call: None,
            failure: None,
            message: None,
            rounds: 0,
            gates: 0,
            judgement: Judgement::default(),
            fingerprint: None,
            ending: None,
            ending_tries: 0,
        }
    }

    pub(super) fn tokens(&self) -> u64 {
        let usage = self.meter.usage();
        usage.input_tokens + usage.output_tokens
    }
}
