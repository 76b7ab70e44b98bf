//! Starting agents' processes.

use std::fs;
use std::io;
use std::path::Path;

use mala_agents::start::{self, LaunchSpec, Order};
use mala_core::{IssueId, Key, Timestamp};
use nix::unistd::Uid;

use super::job::{Job, Phase, Running};
use super::{Dispatcher, causes};

use crate::clerk::{Cause, ClaimedIssue, Continuation};
use crate::event::Event;
use crate::ports::{Detail, PortError};
use crate::prompt::{self, Tests};
use crate::session::{self, Reach, Session, Start};
use crate::{State, Step};

/// What the next process of a job is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The beginning of an attempt, or where an earlier one was cut off.
    Begin(Option<Continuation>),
    /// The gate has sent it back.
    Retry,
    /// It goes on after a pause, or after it has waited for others.
    GoOn { why: String },
    /// It goes on after its question.
    Answer { question: String, answer: Option<String> },
}

impl Dispatcher {
    /// Begins the attempt that was just claimed.
    pub(super) async fn begin(&mut self, claimed: ClaimedIssue) {
        let ClaimedIssue { attempt, issue, left } = claimed;
        let id = issue.id.clone();
        // Not chosen again: the labels of the issue may have changed since it was claimed.
        let claimed_with = attempt.profile.as_deref().unwrap_or_default();
        let Some((profile, limits)) = self.options.profiles.named(claimed_with).cloned() else {
            return self.leave(&id, "there is no profile for it");
        };
        self.tell(&Event::Claimed {
            issue: id.clone(),
            title: issue.title.clone(),
            agent: attempt.agent.clone(),
            profile: profile.name.clone(),
            attempt: attempt.number,
        });
        let folder = self.options.logs.join(self.run.as_str());
        let log = folder.join(format!("{}.log", file_name(attempt.agent.as_str())));
        self.left.remove(&id);
        self.begun.insert(id.clone());
        let mut job = Job::new(attempt, issue, profile, limits, log);
        job.session_id = left.as_ref().and_then(|left| left.session_for(&job.profile));
        self.jobs.insert(id.clone(), job);
        self.launch(&id, Purpose::Begin(left)).await;
    }

    /// Writes down that the next process of a job begins, and starts it. One that cannot be started ends the attempt.
    pub(super) async fn launch(&mut self, id: &IssueId, purpose: Purpose) {
        let Some(job) = self.jobs.get(id) else { return };
        let detail = Detail { session: job.session_id.clone(), ..Detail::default() };
        let step = if job.state == State::Running { Step::Resume } else { Step::Start };
        if !self.step(id, step, detail).await {
            return;
        }
        let Some(job) = self.jobs.get(id) else { return };
        let session = match self.start(job, &purpose) {
            Ok(session) => session,
            Err(error) => {
                let reason = format!("the agent could not be started: {}", causes(&*error));
                return self.hand_over(id, reason, Cause::Failed);
            }
        };
        let (agent, resumed, pid) = (job.attempt.agent.clone(), job.session_id.clone(), session.pid);
        if let Some(job) = self.jobs.get_mut(id) {
            job.phase = Phase::Running(Running { session, cut: None });
            job.last_turn.failure = None;
            job.meter.sign_of_life(Timestamp::now());
        }
        self.tell(&Event::Started { issue: id.clone(), agent, pid, session: resumed });
    }

    fn start(&self, job: &Job, purpose: &Purpose) -> Result<Session, PortError> {
        let folder = self.options.folders.join(file_name(job.attempt.agent.as_str()));
        let prompt = self.prompt(job, purpose);
        let spec = start::spec(&Order {
            profile: &job.profile,
            prompt: &prompt,
            session: job.session_id.as_deref().filter(|_| job.profile.kind.has_sessions()),
            mala: &self.options.mala,
            root: self.clerk.repo.root(),
            folder: &folder,
            budget: job.limits.cost.map(|cost| (cost - job.meter.usage().cost.unwrap_or(0.0)).max(0.01)),
            is_root: Uid::effective().is_root(),
        })?;
        write_files(&spec, &folder)?;
        if let Some(logs) = job.log.parent() {
            fs::create_dir_all(logs)?;
        }
        let command = self.clerk.launcher.command(&job.attempt, &spec)?;
        let start = Start {
            issue: job.issue.id.clone(),
            kind: job.profile.kind,
            command,
            stdin: spec.stdin,
            spent: job.session_id.as_ref().map(|_| job.meter.usage()).unwrap_or_default(),
            log: job.log.clone(),
            reach: if self.clerk.launcher.keeps_trees() { Reach::Process } else { Reach::Group },
        };
        Ok(session::start(start, self.session_events.clone())?)
    }

    /// What the process is told. Without a conversation to go on with, everything is said again.
    fn prompt(&self, job: &Job, purpose: &Purpose) -> String {
        let options = &self.options;
        let rest = match purpose {
            Purpose::Begin(left) => left.as_ref().map(|left| prompt::take_up(options, &job.issue, left)),
            Purpose::Answer { question, answer } => Some(prompt::answer(question, answer.as_deref())),
            Purpose::Retry => Some(prompt::retry(options, &job.issue, &job.judgement, job.rounds)),
            Purpose::GoOn { why } => Some(prompt::resume(options, &job.issue, why)),
        };
        match rest {
            Some(rest) if job.has_conversation() => rest,
            rest => {
                let tests = if self.isolates_tests { Tests::Isolated } else { Tests::InTurn };
                let task = prompt::task(options, self.clerk.repo.root(), &job.issue, &job.attempt, tests);
                rest.map_or(task.clone(), |rest| format!("{task}\n---\n\n{rest}"))
            }
        }
    }
}

/// Files for the client's eyes only: they may hold what the prompt holds.
fn write_files(spec: &LaunchSpec, folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if spec.files.is_empty() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    spec.files.iter().try_for_each(|(path, text)| fs::write(path, text))
}

/// An agent's name as the name of a file. Names that would look the same get something of their own at the end.
fn file_name(agent: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = agent.chars().map(plain).collect();
    let name = name.trim_start_matches('.');
    if name == agent {
        return name.to_owned();
    }
    format!("{name}-{}", Key::from_stored(agent.as_bytes().to_vec()).short_id())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::file_name;

    #[test]
    fn agents_of_different_names_have_files_of_different_names() {
        assert_eq!(file_name("script-bd-1.2_x-1"), "script-bd-1.2_x-1");
        let agents =
            ["x-a:b-1", "x-a~b-1", "x-a/b-1", "x-a_b-1", ".x-a_b-1", "..x-a_b-1", "x-\u{fc}-1", "x-_-1"];
        let files: BTreeSet<String> = agents.map(file_name).into();
        assert_eq!(files.len(), agents.len(), "{files:?}");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(files.iter().all(|file| file.chars().all(is_plain) && !file.starts_with('.')), "{files:?}");
        assert!(file_name(&":".repeat(200)).len() < 250, "there is room for `.log`");
    }
}
