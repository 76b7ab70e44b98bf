//! The journal of runs: who works on what, step by step, so that whatever is killed can be picked up again.
//!
//! A run is one process; a checkout has one at a time. An attempt is written down before its agent starts and after each
//! step. Its end is one transaction: note, lock release, issue and journal change together, and doing it twice is doing it
//! once. Whoever starts next finds the attempts that a dead run has left and ends them.

mod rows;
pub(crate) mod types;

use mala_core::issue::{BLOCKED, IN_PROGRESS, NEEDS_FOLLOWUP, OPEN};
use mala_core::{Attempt, AttemptId, AttemptState, IssueId, Life, Lock, Owner, Run, RunId, Spend, Who};
use rusqlite::params;
use serde_json::{Value, json};

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result};
use crate::events::{EventKind, Work};
use crate::ids::fresh_id;
use crate::journal::types::{End, Finish, Finished, JournalError, NewAttempt, Next, Progress, Tracker};
use crate::view::View;

impl Store {
    /// Begins a run, unless one is under way in this checkout.
    pub fn begin_run(&mut self, owner: &Owner, options: &Value) -> Result<Run> {
        self.write(|change| change.begin_run(owner, options))
    }

    /// Ends a run; `detail` goes into the log. Ending a run that has ended changes nothing.
    pub fn end_run(&mut self, id: &RunId, detail: &Value) -> Result<()> {
        self.write(|change| {
            let sql = "UPDATE run SET ended_at = ?3 WHERE id = ?1 AND scope = ?2 AND ended_at IS NULL";
            let row = params![id.as_str(), change.scope, change.now.as_millis()];
            if change.sql.execute(sql, row)? > 0 {
                change.record_work(EventKind::RunEnded, Work { run: Some(id), ..Work::default() }, detail)?;
            }
            Ok(())
        })
    }

    /// The run that is under way in this checkout.
    pub fn current_run(&mut self) -> Result<Option<Run>> {
        self.read(|view| view.current_run())
    }

    /// The run of this checkout whose process died before its end, unless another one has begun since.
    pub fn killed_run(&mut self) -> Result<Option<Run>> {
        self.read(|view| {
            let mut runs = view.runs_where("r.scope = ?1 AND r.ended_at IS NULL", params![view.scope])?;
            runs.retain(|run| view.life(&run.owner) == Life::Dead);
            Ok(runs.pop())
        })
    }

    /// Runs of this checkout that have not ended, as far as anybody knows, and whose process cannot be judged from here.
    pub fn foreign_runs(&mut self) -> Result<Vec<Run>> {
        self.read(|view| {
            let mut runs = view.runs_where("r.scope = ?1 AND r.ended_at IS NULL", params![view.scope])?;
            runs.retain(|run| view.life(&run.owner) == Life::Unknown);
            Ok(runs)
        })
    }

    /// Claims an issue for an agent, and writes down that an attempt at it has begun: of all who try, one gets it. It takes no
    /// files; the agent takes each at its first write.
    pub fn claim(&mut self, new: &NewAttempt) -> Result<Attempt> {
        self.write(|change| change.claim(new))
    }

    /// One step of an attempt, if it is where the caller believes it to be.
    pub fn advance(
        &mut self,
        id: AttemptId,
        from: AttemptState,
        to: AttemptState,
        progress: &Progress,
    ) -> Result<Attempt> {
        self.write(|change| change.advance(id, (from, to), progress))
    }

    /// Keeps what became known about an attempt while it stays where it is. One that is over stays as it is.
    pub fn keep(&mut self, id: AttemptId, progress: &Progress) -> Result<()> {
        self.write(|change| {
            let mut attempt = change.must_find_attempt(id)?;
            if attempt.state.is_over() {
                return Ok(());
            }
            note_progress(&mut attempt, progress);
            change.update_attempt(&attempt)?;
            let detail = json!({
                "from": attempt.state, "to": attempt.state, "session": attempt.session, "interruption": attempt.interruption,
            });
            change.record_attempt(EventKind::AttemptAdvanced, &attempt, detail)?;
            Ok(())
        })
    }

    /// Notes that this process runs the attempt's agent from now on. One whose attempt is over must not start it.
    pub fn supervise(&mut self, id: AttemptId, supervisor: &Owner) -> Result<()> {
        self.write(|change| {
            let attempt = change.must_find_attempt(id)?;
            if attempt.state.is_over() {
                return Err(JournalError::Over { id, state: attempt.state }.into());
            }
            let process = change.process_row(supervisor)?;
            change.sql.execute("UPDATE attempt SET supervisor = ?2 WHERE id = ?1", params![id.0, process])?;
            let detail = json!({ "pid": supervisor.pid });
            change.record_attempt(EventKind::ProcessStarted, &attempt, detail)?;
            Ok(())
        })
    }

    /// Notes that this process runs the agent no more, unless another one has taken its place.
    pub fn end_supervision(&mut self, id: AttemptId, supervisor: &Owner) -> Result<()> {
        self.write(|change| {
            let process = change.process_row(supervisor)?;
            let sql = "UPDATE attempt SET supervisor = NULL WHERE id = ?1 AND supervisor = ?2";
            if change.sql.execute(sql, params![id.0, process])? > 0 {
                let attempt = change.must_find_attempt(id)?;
                let detail = json!({ "pid": supervisor.pid });
                change.record_attempt(EventKind::ProcessEnded, &attempt, detail)?;
            }
            Ok(())
        })
    }

    /// Ends an attempt: its note first, then its locks, its issue and the journal, all in one transaction.
    pub fn finish(&mut self, id: AttemptId, finish: &Finish) -> Result<Finished> {
        self.write(|change| change.finish(id, finish))
    }

    pub fn attempt(&mut self, id: AttemptId) -> Result<Attempt> {
        self.read(|view| view.must_find_attempt(id))
    }

    /// All attempts at an issue, oldest first.
    pub fn attempts(&mut self, issue: &IssueId) -> Result<Vec<Attempt>> {
        self.read(|view| view.attempts_where("a.issue = ?1 ORDER BY a.number", params![issue.as_str()]))
    }

    /// All attempts of a run, oldest first.
    pub fn attempts_of_run(&mut self, run: &RunId) -> Result<Vec<Attempt>> {
        self.read(|view| view.attempts_where("a.run = ?1 ORDER BY a.id", params![run.as_str()]))
    }

    /// Attempts in this checkout that nobody will end: their run has ended, or the process that ran it has.
    pub fn stranded(&mut self) -> Result<Vec<Attempt>> {
        self.read(|view| {
            let condition = "a.scope = ?1 AND a.ended_at IS NULL ORDER BY a.id";
            let mut attempts = view.attempts_where(condition, params![view.scope])?;
            let current = view.current_run()?.map(|run| run.id);
            attempts.retain(|attempt| current.as_ref() != Some(&attempt.run));
            Ok(attempts)
        })
    }
}

impl View<'_> {
    fn current_run(&self) -> std::result::Result<Option<Run>, Fault> {
        let mut runs = self.runs_where("r.scope = ?1 AND r.ended_at IS NULL", params![self.scope])?;
        runs.retain(|run| self.life(&run.owner) != Life::Dead);
        Ok(runs.pop())
    }
}

impl Change<'_> {
    fn begin_run(&mut self, owner: &Owner, options: &Value) -> std::result::Result<Run, Fault> {
        if let Some(run) = self.current_run()? {
            return Err(JournalError::AlreadyRunning { run: Box::new(run) }.into());
        }
        let taken = |id: &str| self.exists("SELECT 1 FROM run WHERE id = ?1", [id]);
        let id = RunId::new(fresh_id(|| fastrand::usize(..), taken)?).expect("digits and letters are a name");
        let process = self.process_row(owner)?;
        // What a dead run left is still to be picked up, but it runs no more.
        let sql = "UPDATE run SET ended_at = ?2 WHERE scope = ?1 AND ended_at IS NULL";
        self.sql.execute(sql, params![self.scope, self.now.as_millis()])?;
        let sql = "INSERT INTO run (id, scope, owner, started_at, options) VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![id.as_str(), self.scope, process, self.now.as_millis(), options.to_string()];
        self.sql.execute(sql, row)?;
        let detail = json!({ "pid": owner.pid, "host": owner.host, "options": options });
        self.record_work(EventKind::RunStarted, Work { run: Some(&id), ..Work::default() }, &detail)?;
        let (owner, options) = (owner.clone(), options.clone());
        Ok(Run { id, owner, started_at: self.now, ended_at: None, options })
    }

    fn claim(&mut self, new: &NewAttempt) -> std::result::Result<Attempt, Fault> {
        if self.current_run()?.is_none_or(|run| run.id != new.run) {
            return Err(JournalError::UnknownRun { id: new.run.clone() }.into());
        }
        self.refuse_worked_on(&new.issue)?;
        if new.tracker == Tracker::BuiltIn {
            let issue = self.must_find_issue(&new.issue)?;
            self.claim_open(issue, new.agent.as_str())?;
        }
        let sql = "SELECT coalesce(max(number), 0) + 1 FROM attempt WHERE issue = ?1";
        let number = self.sql.query_row(sql, [new.issue.as_str()], |row| row.get(0))?;
        let mut attempt = Attempt {
            id: AttemptId(0),
            run: new.run.clone(),
            issue: new.issue.clone(),
            agent: new.agent.clone(),
            profile: Some(new.profile.clone()),
            number,
            state: AttemptState::Claimed,
            since: self.now,
            started_at: self.now,
            ended_at: None,
            supervisor: None,
            session: None,
            head: new.head.clone(),
            question: None,
            interruption: None,
            saved_ref: None,
            verdict: None,
            spend: Spend::default(),
        };
        attempt.id = self.insert_attempt(&attempt, new.tracker == Tracker::BuiltIn)?;
        self.record_attempt(EventKind::IssueClaimed, &attempt, json!({ "head": attempt.head }))?;
        Ok(attempt)
    }

    pub(crate) fn advance(
        &mut self,
        id: AttemptId,
        (from, to): (AttemptState, AttemptState),
        progress: &Progress,
    ) -> std::result::Result<Attempt, Fault> {
        let mut attempt = self.must_find_attempt(id)?;
        if attempt.state != from {
            return Err(JournalError::NotInState { id, expected: from, found: attempt.state }.into());
        }
        // Ends have more to do than a step.
        if to.is_over() || !from.may_become(to) {
            return Err(JournalError::NoSuchStep { from, to }.into());
        }
        // It was the last state's.
        attempt.question = None;
        note_progress(&mut attempt, progress);
        attempt.state = to;
        attempt.since = self.now;
        self.update_attempt(&attempt)?;
        let detail =
            json!({ "from": from, "to": to, "verdict": progress.verdict, "question": attempt.question });
        self.record_attempt(EventKind::AttemptAdvanced, &attempt, detail)?;
        Ok(attempt)
    }

    pub(crate) fn finish(&mut self, id: AttemptId, finish: &Finish) -> std::result::Result<Finished, Fault> {
        let mut attempt = self.must_find_attempt(id)?;
        if attempt.state.is_over() {
            return Ok(Finished::Before { state: attempt.state });
        }
        let by = Who::Agent(attempt.agent.clone());
        if let Some(text) = &finish.note {
            self.note(&by, &attempt.issue, text, Some(attempt.number))?;
        }
        self.close_queue_for(id, &finish.end)?;
        let locks = self.leave_run(&attempt)?;
        let is_tracked = self.exists("SELECT 1 FROM attempt WHERE id = ?1 AND tracked = 1", [id.0])?;
        if is_tracked {
            self.settle_issue(&by, &attempt, &finish.end)?;
        }
        // An attempt that was about to be cut off may have come to its end all the same.
        (attempt.question, attempt.interruption) = (None, None);
        note_progress(&mut attempt, &finish.progress);
        attempt.state = match finish.end {
            End::Done { .. } => AttemptState::Done,
            End::HandedOver { .. } => AttemptState::HandedOver,
            End::GivenBack => AttemptState::Ready,
        };
        attempt.since = self.now;
        attempt.ended_at = Some(self.now);
        self.update_attempt(&attempt)?;
        let (commit, reason) = match &finish.end {
            End::Done { commit } => (commit.as_ref(), None),
            End::HandedOver { reason, .. } => (None, Some(reason)),
            End::GivenBack => (None, None),
        };
        let detail = json!({
            "to": attempt.state, "commit": commit, "reason": reason, "verdict": attempt.verdict,
            "interruption": attempt.interruption, "saved_ref": attempt.saved_ref, "spend": attempt.spend, "locks": locks.len(),
        });
        self.record_attempt(EventKind::AttemptFinished, &attempt, detail)?;
        Ok(Finished::Now { locks })
    }

    /// Releases what the attempt's agent holds, unless its name is another run's by now.
    fn leave_run(&mut self, attempt: &Attempt) -> std::result::Result<Vec<Lock>, Fault> {
        let party = self.party(&attempt.agent)?;
        let is_same = |party: &crate::Party| party.run.as_ref().is_none_or(|run| *run == attempt.run);
        if party.is_some_and(|party| is_same(&party)) { self.leave(&attempt.agent) } else { Ok(Vec::new()) }
    }

    /// Gives the issue the status that the end of the attempt means, unless somebody else has changed it meanwhile.
    fn settle_issue(&mut self, by: &Who, attempt: &Attempt, end: &End) -> std::result::Result<(), Fault> {
        let issue = self.must_find_issue(&attempt.issue)?;
        if issue.status != IN_PROGRESS {
            return Ok(());
        }
        match end {
            End::Done { commit } => {
                self.remove_label(&issue.id, NEEDS_FOLLOWUP)?;
                self.close(by, &issue, commit.as_deref())?;
            }
            End::HandedOver { next, .. } => {
                self.add_label(&issue.id, NEEDS_FOLLOWUP)?;
                let status = if *next == Next::TryAgain { OPEN } else { BLOCKED };
                self.set_status(&issue.id, status, None)?;
            }
            End::GivenBack => self.set_status(&issue.id, OPEN, None)?,
        }
        Ok(())
    }

    /// An issue that is being worked on cannot be given to somebody else. One whose work waits in the landing queue is, even if
    /// whoever offered it is gone.
    pub(crate) fn refuse_worked_on(&self, issue: &IssueId) -> std::result::Result<(), Fault> {
        if let Some(live) = self.live_attempt_at(issue)? {
            return Err(JournalError::Attempted { issue: live.issue, agent: live.agent }.into());
        }
        match self.open_entry_for(issue)? {
            Some(entry) => Err(JournalError::Queued { issue: issue.clone(), entry: entry.id }.into()),
            None => Ok(()),
        }
    }

    fn record_attempt(
        &mut self,
        kind: EventKind,
        attempt: &Attempt,
        mut detail: Value,
    ) -> std::result::Result<i64, Fault> {
        if let Value::Object(fields) = &mut detail {
            fields.insert("attempt".into(), json!(attempt.id));
            fields.insert("number".into(), json!(attempt.number));
        }
        let Attempt { agent, issue, run, .. } = attempt;
        self.record_work(kind, Work { agent: Some(agent), issue: Some(issue), run: Some(run) }, &detail)
    }
}

fn note_progress(attempt: &mut Attempt, progress: &Progress) {
    let Progress { session, question, interruption, saved_ref, verdict, spend } = progress.clone();
    attempt.session = session.or(attempt.session.take());
    attempt.question = question.or(attempt.question.take());
    attempt.interruption = interruption.or(attempt.interruption);
    attempt.saved_ref = saved_ref.or(attempt.saved_ref.take());
    attempt.verdict = verdict.or(attempt.verdict.take());
    if let Some(spend) = spend {
        attempt.spend = spend;
    }
}
