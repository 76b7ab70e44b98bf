//! Every event in every phase: what it leads to, or that it is dropped.

use std::io;

use mala_agents::stream::Usage;
use mala_core::{Attempt, Entry, EntryId, EntryState, IssueId, Oid, PersonId, Timestamp};
use mala_landing::LeasedShare;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::world::{World, accepted, rejected, said};
use crate::blocking::{
    AttemptEnd, Cause, CheckoutState, EndResult, Fingerprint, PersonNote, PutBack, Queued, WaitOutcome,
};
use crate::dispatch::Dispatcher;
use crate::dispatch::events::JobEvent;
use crate::dispatch::job::{AfterWait, Aside, Backoff, Due, Job, Judging, Phase, Question, Running, Waiting};
use crate::error::EngineError;
use crate::limits::Meter;
use crate::session::{Session, SessionEvent, Stop};

const PHASES: [&str; 15] = [
    "starting",
    "preparing",
    "running",
    "backoff",
    "judging",
    "offering",
    "offered",
    "putting back",
    "waiting",
    "yielding",
    "aside",
    "taking back",
    "due",
    "asking",
    "ending",
];
const EVENTS: [&str; 23] = [
    "prepared",
    "progress",
    "ended",
    "accepted",
    "rejected",
    "gate failed",
    "queued",
    "not queued",
    "back",
    "files held",
    "not back",
    "granted",
    "in vain",
    "wait failed",
    "circle",
    "put aside",
    "not put aside",
    "taken back",
    "not taken back",
    "notes",
    "no notes",
    "concluded",
    "not concluded",
];

#[derive(Debug)]
struct Deaf;

impl Session for Deaf {
    fn pid(&self) -> u32 {
        1
    }

    fn end(&self, _how: Stop) {}
}

/// The phase after an event, for those that mean something. Whatever is not here changes nothing.
const OUTCOMES: [(&str, &str, &str); 23] = [
    ("preparing", "prepared", "running"),
    ("running", "progress", "running"),
    ("running", "ended", "judging"),
    ("judging", "accepted", "ending"),
    ("judging", "rejected", "running"),
    ("judging", "gate failed", "judging"),
    ("offering", "queued", "offered"),
    ("offering", "not queued", "offering"),
    ("putting back", "back", "due"),
    ("putting back", "files held", "waiting"),
    ("putting back", "not back", "ending"),
    ("waiting", "granted", "due"),
    ("waiting", "in vain", "due"),
    ("waiting", "wait failed", "due"),
    ("waiting", "circle", "yielding"),
    ("yielding", "put aside", "aside"),
    ("yielding", "not put aside", "due"),
    ("taking back", "taken back", "due"),
    ("taking back", "not taken back", "due"),
    ("asking", "notes", "running"),
    ("asking", "no notes", "asking"),
    ("ending", "concluded", "gone"),
    ("ending", "not concluded", "ending"),
];

fn name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Preparing(_) => "preparing",
        Phase::Running(_) => "running",
        Phase::Backoff(_) => "backoff",
        Phase::Judging(_) => "judging",
        Phase::Offering { .. } => "offering",
        Phase::Offered { .. } => "offered",
        Phase::PuttingBack => "putting back",
        Phase::Waiting(_) => "waiting",
        Phase::Yielding => "yielding",
        Phase::Aside(_) => "aside",
        Phase::TakingBack => "taking back",
        Phase::Due(_) => "due",
        Phase::Asking(_) => "asking",
        Phase::Ending { .. } => "ending",
    }
}

fn phase(name: &str, attempt: &Attempt, world: &World) -> Phase {
    let minute = std::time::Duration::from_secs(60);
    let (now, later) = (Instant::now(), Instant::now() + minute);
    let why = "why".to_owned();
    match name {
        "starting" => Phase::Starting,
        "preparing" => Phase::Preparing(None),
        "running" => Phase::Running(Running {
            session: Box::new(Deaf),
            cut: None,
            is_resumed: false,
            is_looked_at: false,
        }),
        "backoff" => {
            let until_by_clock = world.now().plus(minute);
            Phase::Backoff(Backoff { until: later, until_by_clock, since: now, why })
        }
        "judging" => Phase::Judging(Judging::default()),
        "offering" => Phase::Offering { tries: 1 },
        "offered" => Phase::Offered { entry: EntryId(1) },
        "putting back" => Phase::PuttingBack,
        "waiting" => Phase::Waiting(Waiting::Queued { _hangup: io::pipe().unwrap().1 }),
        "yielding" => Phase::Yielding,
        "aside" => Phase::Aside(Aside { until_over: Vec::new() }),
        "taking back" => Phase::TakingBack,
        "due" => Phase::Due(Due { since: now, next: AfterWait::GoOn(why), is_awaited: false }),
        "asking" => Phase::Asking(Question {
            text: why,
            until: later,
            since: now,
            needs_answer: false,
            notes: Some(0),
            looked_at: None,
        }),
        "ending" => {
            let end = AttemptEnd::cut_off(attempt.clone(), "why", Cause::Failed);
            Phase::Ending { end: Box::new(end), tries: 1 }
        }
        other => panic!("there is no phase {other}"),
    }
}

fn event(name: &str) -> JobEvent {
    let error = || EngineError::StorePoisoned;
    let judged = |judgement| {
        let fingerprint = Fingerprint::of(&judgement, Default::default());
        JobEvent::Judged(Ok(Box::new((judgement, fingerprint))))
    };
    let taken_back = |back| JobEvent::TakenBack { outcome: WaitOutcome::Granted(Vec::new()), back };
    match name {
        "prepared" => JobEvent::Prepared(Ok(())),
        "progress" => JobEvent::Session(SessionEvent::Progress { progress: vec![], usage: Usage::default() }),
        "ended" => JobEvent::Session(SessionEvent::Ended(Box::new(said("done")))),
        "accepted" => judged(accepted()),
        "rejected" => judged(rejected("tests")),
        "gate failed" => JobEvent::Judged(Err(error())),
        "queued" => JobEvent::Queued(Ok(Queued { entry: entry(), checkout: CheckoutState::default() })),
        "not queued" => JobEvent::Queued(Err(error())),
        "back" => JobEvent::WorkBack(Ok(PutBack::InPlace)),
        "files held" => JobEvent::WorkBack(Ok(PutBack::Held(Vec::new()))),
        "not back" => JobEvent::WorkBack(Err(error())),
        "granted" => JobEvent::WaitOver(0, Ok(WaitOutcome::Granted(Vec::new()))),
        "in vain" => JobEvent::WaitOver(0, Ok(WaitOutcome::InVain("why".to_owned()))),
        "wait failed" => JobEvent::WaitOver(0, Err(error())),
        "circle" => JobEvent::WaitOver(0, Ok(WaitOutcome::Circle(Vec::new()))),
        "put aside" => JobEvent::PutAside(Ok(None)),
        "not put aside" => JobEvent::PutAside(Err(error())),
        "taken back" => taken_back(Ok(PutBack::InPlace)),
        "not taken back" => taken_back(Err(error())),
        "notes" => JobEvent::Notes(Ok(vec![PersonNote {
            author: PersonId::new("pat").unwrap(),
            text: "blue".to_owned(),
        }])),
        "no notes" => JobEvent::Notes(Err(error())),
        "concluded" => JobEvent::Ended(Ok(EndResult {
            saved_ref: None,
            files: Vec::new(),
            commits: Vec::new(),
            is_blocked: false,
            notices: Vec::new(),
        })),
        "not concluded" => JobEvent::Ended(Err(error())),
        other => panic!("there is no event {other}"),
    }
}

fn entry() -> Entry {
    let commit = Oid::parse(&"ab".repeat(20)).unwrap();
    Entry {
        id: EntryId(1),
        branch: "refs/heads/main".to_owned(),
        base: commit.clone(),
        head: commit,
        pin: "refs/mala/candidates/a/1".to_owned(),
        issue: None,
        agent: None,
        run: None,
        attempt: None,
        priority: 2,
        state: EntryState::Waiting,
        reason: None,
        arrived_at: Timestamp::from_millis(0),
        since: Timestamp::from_millis(0),
        rejections: 0,
        kills: 0,
        overtaken: 0,
        landed: None,
        is_ready: true,
        frees_files: false,
    }
}

/// Brings a job into the phase, in the journal too.
fn job_in(dispatcher: &mut Dispatcher, world: &World, issue: &IssueId, name: &str) {
    use mala_core::AttemptState::{Claimed, Gating, NeedsInput, Running};
    let ops = dispatcher.ops.clone();
    let claim = ops.claim(&dispatcher.run, issue, "fake", false).unwrap();
    let crate::blocking::Claim::Granted(claimed) = claim else { panic!("it is claimed") };
    let path: &[_] = match name {
        "starting" | "preparing" => &[Claimed],
        "running" | "backoff" => &[Claimed, Running],
        "asking" => &[Claimed, Running, Gating, NeedsInput],
        _ => &[Claimed, Running, Gating],
    };
    for step in path.windows(2) {
        ops.advance(&claimed.attempt, (step[0], step[1]), &mala_store::Progress::default()).unwrap();
    }
    let profile = world.options.profiles.known[0].clone();
    let log = world.options.logs.join("log");
    let mut job = Job::new(
        (claimed.attempt.clone(), claimed.issue),
        profile,
        log,
        LeasedShare::lease(name.to_owned()),
        Meter::new(Instant::now(), Default::default()),
    );
    job.state = path[path.len() - 1];
    job.phase = phase(name, &claimed.attempt, world);
    dispatcher.jobs.insert(issue.clone(), job);
}

#[tokio::test(start_paused = true)]
async fn every_event_means_something_in_its_phase_and_nothing_in_any_other() {
    let mut world = World::new();
    let (mut dispatcher, _stage, _interrupts) = world.dispatcher();
    // Somebody has to listen to blocking work, and nobody to its answers.
    let (sender, _worker_events) = mpsc::unbounded_channel();
    dispatcher.worker_events = sender;
    for phase in PHASES {
        for kind in EVENTS {
            let issue = world.issue(&format!("{phase}-{kind}").replace(' ', "-"), &[]);
            job_in(&mut dispatcher, &world, &issue, phase);
            let before = dispatcher.jobs[&issue].state;
            let outcome = OUTCOMES.iter().find(|(from, event, _)| (*from, *event) == (phase, kind));
            dispatcher.on_job_event(&issue, event(kind)).await;
            let job = dispatcher.jobs.remove(&issue);
            let after = job.as_ref().map_or("gone", |job| name(&job.phase));
            assert_eq!(after, outcome.map_or(phase, |outcome| outcome.2), "{kind} while {phase}");
            if outcome.is_none() {
                assert_eq!(job.unwrap().state, before, "{kind} while {phase} is dropped");
            }
            assert!(dispatcher.fatal.is_none(), "{kind} while {phase}: {:?}", dispatcher.fatal);
        }
    }
    let is_meant = |kind: &str| OUTCOMES.iter().any(|(_, event, _)| *event == kind);
    assert!(EVENTS.iter().all(|kind| is_meant(kind)), "every event means something somewhere");
}

#[tokio::test(start_paused = true)]
async fn an_event_for_a_job_that_is_gone_is_dropped() {
    let mut world = World::new();
    let issue = world.issue("a", &[]);
    let (mut dispatcher, ..) = world.dispatcher();
    for kind in EVENTS {
        dispatcher.on_job_event(&issue, event(kind)).await;
    }
    assert!(dispatcher.jobs.is_empty() && dispatcher.fatal.is_none());
}
