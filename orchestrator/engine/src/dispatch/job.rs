//! One attempt while it is under way: what all of its phases share, and the phase it is in.
//!
//! A phase carries exactly the data that means something in it, so that combinations which cannot be are not written
//! down either: an agent that waits for an answer has no process, and an attempt that ends has no question left.

use std::io::PipeWriter;
use std::path::PathBuf;

use mala_agents::start::Profile;
use mala_core::{Attempt, EntryId, Issue, IssueId, Timestamp};
use mala_landing::LeasedShare;
use tokio::time::Instant;

use crate::State;
use crate::blocking::{AttemptEnd, Awaited, Away, CheckoutState, Continuation, Fingerprint, LaterChanges};
use crate::limits::{Limits, Meter};
use crate::session::Session;
use crate::validator::Judgement;

/// Questions of one attempt that are passed on; the next one is left to a person.
const MAX_QUESTIONS: u32 = 3;

#[derive(Debug)]
pub(super) struct Job {
    pub(super) issue: Issue,
    pub(super) attempt: Attempt,
    /// What the journal says.
    pub(super) state: State,
    pub(super) phase: Phase,
    pub(super) profile: Profile,
    pub(super) limits: Limits,
    pub(super) meter: Meter,
    pub(super) started: Instant,
    pub(super) log: PathBuf,
    /// A name and ports that no other agent has meanwhile.
    pub(super) share: LeasedShare,
    /// The client's own name for the conversation.
    pub(super) session_id: Option<String>,
    pub(super) last_turn: Turn,
    pub(super) judgement: Judgement,
    /// What was judged last; nothing if there was progress since.
    pub(super) fingerprint: Option<Fingerprint>,
    /// How often the gate has sent it back.
    pub(super) rounds: u32,
    /// How often the gate was asked.
    pub(super) gates: u32,
    pub(super) questions_left: u32,
    /// Rate limits in a row for which the client did not say how long they last.
    pub(super) backoffs: u32,
    /// It was told once that it is silent for too long.
    pub(super) is_nudged: bool,
    /// One of its processes was seen to call no hooks.
    pub(super) is_unhooked: bool,
    /// What becomes of files that it changes after its offer.
    pub(super) later_changes: LaterChanges,
    pub(super) waits: WaitHistory,
    /// What it waits for, while it is parked.
    pub(super) awaited: Awaited,
    /// What became known while it waited, in words.
    pub(super) news: Vec<String>,
    pub(super) parked_since: Instant,
    /// Waits so far; what an earlier one has come to means nothing any more.
    pub(super) wait_number: u32,
    /// Whom it yields to.
    pub(super) yields_to: Vec<IssueId>,
    /// Its work, while that is out of the checkout and waits for its files.
    pub(super) away: Option<Away>,
    /// Whether all of it left the checkout when its work was queued.
    pub(super) checkout: CheckoutState,
}

/// What an attempt is busy with.
#[derive(Debug)]
pub(super) enum Phase {
    /// Without a process, while the handler at work decides what follows. No event finds a job in it.
    Starting,
    /// Commands of the settings run before its first process.
    Preparing(Option<Continuation>),
    Running(Running),
    /// The client has to slow down.
    Backoff(Backoff),
    Judging(Judging),
    /// Its work is on the way into the landing queue.
    Offering {
        tries: u32,
    },
    /// Its work is in the landing queue.
    Offered {
        entry: EntryId,
    },
    /// Its work was rejected and is on the way back into the checkout.
    PuttingBack,
    /// It waits for files that it asked for, or for issues.
    Waiting(Waiting),
    /// Its work is on the way out of the checkout, because it waits in a circle and came last.
    Yielding,
    /// Its work is out of the checkout, and it holds nothing.
    Aside(Aside),
    /// Its work is on the way back into the checkout.
    TakingBack,
    /// Its wait is over, and it goes on as soon as there is a seat.
    Due(Due),
    Asking(Question),
    Ending {
        end: Box<AttemptEnd>,
        tries: u32,
    },
}

/// A process, and what it was asked to end for.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) session: Box<dyn Session>,
    pub(super) cut: Option<Cut>,
    /// It goes on with an earlier conversation.
    pub(super) is_resumed: bool,
    /// It was looked whether its hooks are called.
    pub(super) is_looked_at: bool,
}

/// Why a process was asked to end, as the end of a sentence.
#[derive(Debug)]
pub(super) enum Cut {
    /// It is silent for too long. Its session is told so in the next process.
    Nudge(String),
    /// It has had enough: what it has done is judged, and it gets no further round.
    LastCall(String),
}

impl Cut {
    pub(super) fn last_call(self) -> Option<String> {
        match self {
            Self::LastCall(reason) => Some(reason),
            Self::Nudge(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Backoff {
    pub(super) until: Instant,
    /// The moment that the client has named, for a clock that goes on while the machine sleeps.
    pub(super) until_by_clock: Timestamp,
    pub(super) since: Instant,
    pub(super) why: String,
}

#[derive(Debug)]
pub(super) enum Waiting {
    /// The store stands in the queue for it. Dropping the writer ends the wait.
    Queued { _hangup: PipeWriter },
    /// A circle would have closed. It gets into the queue as soon as another one has yielded.
    Circle,
}

#[derive(Debug)]
pub(super) struct Aside {
    /// It waits again when these are over.
    pub(super) until_over: Vec<IssueId>,
}

#[derive(Debug, Default)]
pub(super) struct Judging {
    /// How often the gate itself has failed in this round.
    pub(super) errors: u32,
    /// Why there is no further round, if a limit was reached.
    pub(super) last_call: Option<String>,
}

#[derive(Debug)]
pub(super) struct Due {
    pub(super) since: Instant,
    pub(super) next: AfterWait,
    /// An agent at work waits for what this one holds.
    pub(super) is_awaited: bool,
}

/// What an agent goes on with.
#[derive(Debug, Clone)]
pub(super) enum AfterWait {
    /// What it waited for is there or not, in words.
    GoOn(String),
    /// Its work was rejected.
    Retry,
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) text: String,
    pub(super) until: Instant,
    pub(super) since: Instant,
    /// Without an answer the agent cannot go on: there is no round left in which to tell it so.
    pub(super) needs_answer: bool,
    /// Notes on the issue when it was asked; those that come later are the answer.
    pub(super) notes: Option<usize>,
    /// When the tracker was last asked; nothing while it is being asked.
    pub(super) looked_at: Option<Instant>,
}

/// How the last process ended.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// It was killed, so its tree may still be about to end.
    pub(super) is_torn: bool,
    /// How it failed, if it did.
    pub(super) failure: Option<String>,
    /// What the agent said last, or what it wrote to stderr.
    pub(super) message: Option<String>,
}

/// What the waits of an attempt have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitHistory {
    Fine,
    /// Its last process was put off although it waited for nothing. Twice in a row is not our doing.
    PutOffForNothing,
    /// A wait has brought nothing: there is no further one.
    InVain,
}

impl Job {
    pub(super) fn new(
        (attempt, issue): (Attempt, Issue),
        (profile, limits): (Profile, Limits),
        log: PathBuf,
        share: LeasedShare,
        meter: Meter,
    ) -> Self {
        let now = meter.last_sign();
        Self {
            issue,
            attempt,
            state: State::Claimed,
            phase: Phase::Starting,
            profile,
            limits,
            meter,
            started: now,
            log,
            share,
            session_id: None,
            last_turn: Turn::default(),
            judgement: Judgement::default(),
            fingerprint: None,
            rounds: 0,
            gates: 0,
            questions_left: MAX_QUESTIONS,
            backoffs: 0,
            is_nudged: false,
            is_unhooked: false,
            later_changes: LaterChanges::SendBack,
            waits: WaitHistory::Fine,
            awaited: Awaited::default(),
            news: Vec::new(),
            parked_since: now,
            wait_number: 0,
            yields_to: Vec::new(),
            away: None,
            checkout: CheckoutState::default(),
        }
    }

    /// True if its session can be spoken to again.
    pub(super) fn has_conversation(&self) -> bool {
        self.profile.kind.has_sessions() && self.session_id.is_some()
    }

    /// True if it has committed or offered something.
    pub(super) fn has_work(&self) -> bool {
        !self.judgement.commits.is_empty() || self.judgement.offer.is_some()
    }

    pub(super) fn session(&self) -> Option<&dyn Session> {
        match &self.phase {
            Phase::Running(running) => Some(&*running.session),
            _ => None,
        }
    }

    /// True if it waits for files of others, for the landing queue, or for a seat afterwards. Such a job counts for no agent
    /// at work.
    pub(super) fn is_parked(&self) -> bool {
        self.is_offered() || self.is_waiting() || matches!(self.phase, Phase::Due(_))
    }

    /// True if it waits for files of others, or yields them.
    fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_) | Phase::Yielding | Phase::Aside(_) | Phase::TakingBack)
    }

    /// True if its work waits in the landing queue, or is on the way there or back.
    pub(super) fn is_offered(&self) -> bool {
        matches!(self.phase, Phase::Offering { .. } | Phase::Offered { .. } | Phase::PuttingBack)
    }

    /// True if nothing of it is under way, so that it can end at any moment.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_) | Phase::Aside(_) | Phase::Due(_))
            || matches!(self.phase, Phase::Backoff(_) | Phase::Asking(_))
    }

    pub(super) fn tokens(&self) -> u64 {
        self.meter.usage().tokens().sum()
    }
}
