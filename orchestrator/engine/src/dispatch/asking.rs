//! Questions of agents, and their answers.
//!
//! An agent that ends its turn with a question has not failed. The question is shown, and for a while a person may answer it
//! with a note on the issue. What an agent writes there is no answer. Then the same session goes on, with the answer or with being told that there is none.

use std::mem;
use std::time::Duration;

use mala_core::IssueId;
use mala_store::Progress;
use tokio::time::Instant;

use super::Dispatcher;
use super::events::JobEvent;
use super::job::{Job, Phase, Question};
use super::launch::Purpose;
use super::stop::Stopping;
use crate::Step;
use crate::blocking::{Answer, Cause, PersonNote};
use crate::error::Result;
use crate::event::Event;

/// How often an answer is looked for.
const ANSWER_POLL: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// What the agent of this job wants to know, if that is why it has ended its turn.
    pub(super) fn question_of(&self, job: &Job) -> Option<String> {
        let is_free = self.stopping == Stopping::No && job.last_turn.failure.is_none();
        let message = job.last_turn.message.as_deref();
        mala_agents::question::of(message.filter(|_| is_free && !job.has_work())?)
    }

    /// `needs_answer`: there is no round left in which the agent could be told that nobody answers.
    pub(super) async fn on_question(&mut self, id: &IssueId, text: String, needs_answer: bool) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.questions_left == 0 {
            return self.leave_to_a_person(id, &text);
        }
        let progress = Progress { question: Some(text.clone()), ..Progress::default() };
        if !self.take_step(id, Step::Ask, progress).await {
            return;
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (now, wait) = (self.ops.clock.now(), self.ops.options.answer_wait);
        job.questions_left = if needs_answer { 0 } else { job.questions_left - 1 };
        let since = Instant::now();
        let until = since + wait;
        let (notes, looked_at) = (None, None);
        job.phase =
            Phase::Asking(Question { text: text.clone(), until, since, needs_answer, notes, looked_at });
        let agent = job.attempt.agent.clone();
        self.count_notes(id);
        self.tell(&Event::NeedsInput { issue: id.clone(), agent, question: text, until: now.plus(wait) });
    }

    fn leave_to_a_person(&mut self, id: &IssueId, question: &str) {
        self.hand_over(id, format!("it needs an answer: {question}"), Cause::Asks);
    }

    fn count_notes(&self, id: &IssueId) {
        let (ops, issue) = (self.ops.clone(), id.clone());
        self.background_for(id, move || ops.notes_of_people(&issue), JobEvent::Notes);
    }

    /// What people have noted on the issue by now: what came after the question is its answer.
    pub(super) async fn on_notes(&mut self, id: &IssueId, notes: Result<Vec<PersonNote>>) {
        let Some(Phase::Asking(question)) = self.jobs.get_mut(id).map(|job| &mut job.phase) else { return };
        question.looked_at = Some(Instant::now());
        // A tracker that fails is asked again.
        let Ok(notes) = notes else { return };
        let before = *question.notes.get_or_insert(notes.len());
        if notes.len() > before {
            self.go_on_after_question(id, Answer::of(&notes[before..])).await;
        }
    }

    pub(super) async fn look_for_answer(&mut self, id: &IssueId) {
        let Some(Phase::Asking(question)) = self.jobs.get_mut(id).map(|job| &mut job.phase) else { return };
        if question.until <= Instant::now() {
            return self.go_on_after_question(id, None).await;
        }
        if question.looked_at.is_some_and(|looked| looked.elapsed() >= ANSWER_POLL) {
            question.looked_at = None;
            self.count_notes(id);
        }
    }

    async fn go_on_after_question(&mut self, id: &IssueId, answer: Option<Answer>) {
        let now = Instant::now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Phase::Asking(question) = mem::replace(&mut job.phase, Phase::Starting) else { return };
        job.meter.pause(now.saturating_duration_since(question.since), now);
        if answer.is_none() && question.needs_answer {
            return self.leave_to_a_person(id, &question.text);
        }
        if answer.is_none() {
            // It has been told that nobody is there.
            job.questions_left = 0;
        }
        job.rounds += 1;
        // The answer is progress.
        job.fingerprint = None;
        let agent = job.attempt.agent.clone();
        let (by, text) = answer.clone().map(|answer| (answer.by, answer.text)).unzip();
        self.tell(&Event::Answered { issue: id.clone(), agent, answer: text, by });
        self.launch(id, Purpose::Answer { question: question.text, answer }).await;
    }
}
