//! Questions of agents, and their answers.
//!
//! An agent that ends its turn with a question has not failed. The question is shown, and for a while somebody may answer it
//! with a note on the issue. Then the same session goes on, with the answer or with being told that there is none.

use std::time::Duration;

use mala_core::{IssueId, Timestamp};
use tokio::time::Instant;

use super::job::Question;
use super::launch::Purpose;
use super::stop::Stopping;
use super::{Dispatcher, News};
use crate::Step;
use crate::clerk::Cause;
use crate::event::Event;
use crate::ports::{Detail, PortError};
use crate::question;

/// Who asks more often gets no further answer.
const MOST_QUESTIONS: u32 = 3;
/// How often the tracker is asked for an answer.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// What the agent of this job wants to know, if that is why it has ended its turn.
    pub(super) fn question_of(&self, id: &IssueId) -> Option<String> {
        let job = self.jobs.get(id)?;
        let is_free = self.stopping == Stopping::No && job.last_call.is_none() && job.failure.is_none();
        let message = job.message.as_deref().filter(|_| is_free && job.judgement.commits.is_empty())?;
        question::of(message)
    }

    /// `no_round`: why it could not be told that nobody answers, if it could not.
    pub(super) async fn on_question(&mut self, id: &IssueId, text: String, no_round: Option<String>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.questions += 1;
        if job.is_on_its_own || job.questions > MOST_QUESTIONS {
            return self.leave_to_a_person(id, &text);
        }
        let detail = Detail { question: Some(text.clone()), ..Detail::default() };
        if !self.step(id, Step::Ask, detail).await {
            return;
        }
        let Some(job) = self.jobs.get_mut(id) else { return };
        let (now, wait) = (Timestamp::now(), self.options.answer_wait);
        job.is_on_its_own = no_round.is_some();
        job.question = Some(Question {
            text: text.clone(),
            until: Instant::now() + wait,
            since: now,
            notes: None,
            looked_at: None,
        });
        let agent = job.attempt.agent.clone();
        self.count_notes(id);
        self.tell(&Event::NeedsInput { issue: id.clone(), agent, question: text, until: now.plus(wait) });
    }

    fn leave_to_a_person(&mut self, id: &IssueId, question: &str) {
        self.hand_over(id, &format!("it needs an answer: {question}"), Cause::Asks);
    }

    fn count_notes(&self, id: &IssueId) {
        let (clerk, issue, id) = (self.clerk.clone(), id.clone(), id.clone());
        self.background(move || clerk.notes(&issue), |notes| News::Notes(id, notes));
    }

    /// What the issue's notes are now: those that came after the question are its answer.
    pub(super) async fn on_notes(&mut self, id: &IssueId, notes: Result<Vec<String>, PortError>) {
        let Some(question) = self.jobs.get_mut(id).and_then(|job| job.question.as_mut()) else { return };
        question.looked_at = Some(Instant::now());
        // A tracker that fails is asked again.
        let Ok(notes) = notes else { return };
        let before = *question.notes.get_or_insert(notes.len());
        if notes.len() > before {
            self.go_on_after_question(id, Some(notes[before..].join("\n\n"))).await;
        }
    }

    pub(super) async fn look_for_answer(&mut self, id: &IssueId) {
        let Some(question) = self.jobs.get_mut(id).and_then(|job| job.question.as_mut()) else { return };
        if question.until <= Instant::now() {
            return self.go_on_after_question(id, None).await;
        }
        if question.looked_at.is_some_and(|looked| looked.elapsed() >= LOOK_EVERY) {
            question.looked_at = None;
            self.count_notes(id);
        }
    }

    async fn go_on_after_question(&mut self, id: &IssueId, answer: Option<String>) {
        let now = Timestamp::now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(question) = job.question.take() else { return };
        job.meter.pause(now.since(question.since), now);
        if answer.is_none() && std::mem::replace(&mut job.is_on_its_own, true) {
            return self.leave_to_a_person(id, &question.text);
        }
        job.rounds += 1;
        // The answer is progress.
        job.fingerprint = None;
        let agent = job.attempt.agent.clone();
        self.tell(&Event::Answered { issue: id.clone(), agent, answer: answer.clone() });
        self.launch(id, Purpose::Answer { question: question.text, answer }).await;
    }
}
