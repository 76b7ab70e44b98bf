//! A client's session as an agent: who it is, what it is told, and when its locks end.

use std::collections::HashSet;
use std::fs;

use mala_agents::answer::carries_context;
use mala_agents::git::RunAgent;
use mala_agents::{Answer, HookCall, question};
use mala_config::Settings;
use mala_core::{AgentId, Attempt, Fence, Key, Scope, Target, Want};
use mala_gate::transcript::SessionTranscript;
use mala_gate::{Gate, JudgeError, Judged, Question};
use mala_git::{Oid, Repo, candidate};
use mala_store::{Agent, EventKind, Party, Store, Which};
use serde_json::json;

use super::{HookContext, audit, identity, news, waiting};
use crate::acquire::not_closed;
use crate::refusal::Reader;
use crate::{SessionError, hand_on, run_agent};

/// One call's view of its session.
pub(super) struct Session<'a> {
    pub(super) call: &'a HookCall,
    pub(super) context: &'a HookContext<'a>,
    pub(super) scope: Scope,
    pub(super) store: Store,
    pub(super) party: Party,
    /// The newest event before this call took anything.
    pub(super) began: Fence,
    settings: Option<Settings>,
}

impl<'a> Session<'a> {
    /// Finds the session's agent by its process; a session that is new here becomes one.
    pub(super) fn open(
        call: &'a HookCall,
        context: &'a HookContext<'a>,
        scope: Scope,
    ) -> Result<Self, SessionError> {
        let mut store = Store::open(&scope)?;
        let party = identity::agent_of(call, context, &mut store)?;
        let began = store.newest_event()?;
        Ok(Self { call, context, scope, store, party, began, settings: None })
    }

    /// The settings, read when first needed.
    pub(super) fn settings(&mut self) -> Result<&Settings, SessionError> {
        if self.settings.is_none() {
            self.settings = Some((self.context.load_settings)(&self.scope)?);
        }
        Ok(self.settings.get_or_insert_default())
    }

    /// True if the kernel holds this session to its locks.
    pub(super) fn is_enforced(&self) -> bool {
        self.context.supervised.is_some()
    }

    pub(super) fn holds_everything(&mut self) -> Result<bool, SessionError> {
        Ok(self.store.holds_everything(&self.party.agent)?)
    }

    /// This agent as its run knows it.
    pub(super) fn run_agent(&mut self) -> Result<Option<RunAgent>, SessionError> {
        if self.party.run.is_none() {
            return Ok(None);
        }
        let settings = self.settings()?.clone();
        Ok(run_agent(&self.party, &self.scope, &settings))
    }

    /// Where hints are typed.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(&self.scope, &self.call.cwd)
    }

    pub(super) fn note(&mut self, kind: EventKind, target: Option<&Target>, detail: &serde_json::Value) {
        // What was decided stands, whether or not it can be noted.
        let _ = self.store.record_fact(&self.party, kind, target, detail);
    }

    /// Tells a new session where it is.
    pub(super) fn welcome(&mut self) -> Result<Answer, SessionError> {
        let source = self.call.source.clone();
        self.note(
            EventKind::SessionStarted,
            None,
            &json!({ "client": self.call.client.name(), "source": source, "transcript": self.call.transcript }),
        );
        let others: Vec<String> = self.others()?.iter().map(|agent| format!("`{agent}`")).collect();
        let others = if others.is_empty() { "nobody at the moment".to_owned() } else { others.join(", ") };
        Ok(Answer::Context(format!(
            "You are agent `{}` in a git checkout that other agents share ({others}). A file belongs to the first who writes \
             it; a refused write names its holder. See who holds what: `mala status`. Ask for a file: `mala lock ask FILE \
             --why REASON`; answer those who ask you. Commit only your own files: `mala commit -m 'what changes'`. Run tests with `mala test -- COMMAND`. Do \
             not use git commands that move the whole tree (switch, stash, reset, rebase, clean).",
            self.party.agent
        )))
    }

    fn others(&mut self) -> Result<Vec<AgentId>, SessionError> {
        let agents = self.store.agents()?;
        let is_other =
            |agent: &&Agent| agent.life != mala_core::Life::Dead && agent.party.agent != self.party.agent;
        Ok(agents.iter().filter(is_other).map(|agent| agent.party.agent.clone()).collect())
    }

    pub(super) fn prompted(&mut self) -> Result<Answer, SessionError> {
        Ok(self.news()?.map_or(Answer::Continue, Answer::Context))
    }

    /// What this agent has not heard yet, if this call can carry it.
    pub(super) fn news(&mut self) -> Result<Option<String>, SessionError> {
        if !carries_context(self.call) {
            return Ok(None);
        }
        // Nobody else may be there to see what has become overdue.
        self.store.escalate_due()?;
        let notices = self.store.take_notices(&self.party.agent)?;
        Ok((!notices.is_empty()).then(|| news::tell(&notices, &self.reader())))
    }

    /// The end of a turn. An agent with an issue is sent back with what the gate misses; then files without uncommitted
    /// changes are of no more use to this agent.
    pub(super) fn stop(&mut self) -> Result<Answer, SessionError> {
        if let Some(reason) = self.missing()? {
            return Ok(Answer::SendBack { reason });
        }
        // A run has the last word about the turn, and may send the agent back to these very files.
        if self.party.run.is_some() {
            return Ok(Answer::Continue);
        }
        let finished = self.finished_files()?;
        if !finished.is_empty() {
            // Whoever asked comes before those who merely wait.
            let keys: Vec<Key> = finished.iter().filter_map(|want| want.target.file().cloned()).collect();
            let (context, own) = (self.context, (&self.party.agent, keys.as_slice()));
            hand_on(&self.scope, &mut self.store, context.supervised, own, context.warn)?;
            self.release_closed(finished, &keys)?;
        }
        Ok(Answer::Continue)
    }

    /// What the gate misses, unless the agent has heard it often enough.
    fn missing(&mut self) -> Result<Option<String>, SessionError> {
        let most = self.settings()?.gate.stop_attempts;
        let notes = audit::folder(self, &self.party.agent);
        let count = notes.join("sent-back");
        let told: u64 = match fs::read_to_string(&count) {
            Ok(text) if self.call.was_sent_back => text.trim().parse().unwrap_or(0),
            _ => 0,
        };
        // Whoever waits for others is not sent back: it goes on when it has what it waits for.
        if self.party.issue.is_none() || told >= most || waiting::is_waiting(self)? || self.asks_a_person()? {
            return Ok(None);
        }
        let subject = Judged { agent: Some(self.party.agent.clone()), issue: self.party.issue.clone() };
        let path = self.call.transcript.clone();
        let transcript = path.and_then(|path| SessionTranscript::of_client(self.call.client.name(), path));
        let final_message = self.call.last_message.clone();
        let settings = self.settings()?.clone();
        let (repo, store) = (Repo::new(self.scope.clone()), Store::open(&self.scope)?);
        let gate = Gate::of(&settings).map_err(JudgeError::from)?;
        let verdict = match self.offer(&repo)? {
            Some((attempt, offer)) => {
                gate.candidate_checks(&repo, store, (&attempt, final_message.as_deref()), &offer)?
            }
            None => {
                let question = Question { subject, revision: None, final_message, transcript };
                gate.verdict(&repo, store, &question)?
            }
        };
        if verdict.is_pass() {
            return Ok(None);
        }
        fs::create_dir_all(&notes)?;
        fs::write(&count, (told + 1).to_string())?;
        let failures: Vec<String> =
            verdict.failures().map(|check| format!("- {}: {}", check.name, check.detail)).collect();
        Ok(Some(format!("mala: this is not accepted yet:\n{}", failures.join("\n"))))
    }

    /// True for an agent of a run that wants to know something before it has offered anything. Sent back, it would ask once more, or guess.
    fn asks_a_person(&mut self) -> Result<bool, SessionError> {
        let has_question = self.call.last_message.as_deref().and_then(question::of).is_some();
        if self.party.run.is_none() || !has_question {
            return Ok(false);
        }
        let repo = Repo::new(self.scope.clone());
        Ok(self.offer(&repo)?.is_none())
    }

    /// What this agent of a run has offered last, and for which attempt.
    fn offer(&mut self, repo: &Repo) -> Result<Option<(Attempt, Oid)>, SessionError> {
        let Some(run) = self.party.run.clone() else { return Ok(None) };
        let attempts = self.store.attempts_of_run(&run)?;
        let mut own = attempts.into_iter().rev().filter(|attempt| attempt.agent == self.party.agent);
        let Some(attempt) = own.next() else { return Ok(None) };
        let last = candidate::all(repo, &attempt.issue, attempt.number)?.pop();
        Ok(last.map(|offer| (attempt, offer.commit)))
    }

    /// Gives files back that nobody has open for writing any more; the others stay.
    fn release_closed(&mut self, mut files: Vec<Want>, keys: &[Key]) -> Result<(), SessionError> {
        let closing = self.context.supervised.map(|supervised| supervised.guard.leave(keys));
        let Ok(_closed) = closing.transpose() else { return Ok(()) };
        let open = not_closed(&self.scope, keys);
        files.retain(|want| want.target.file().is_none_or(|key| !open.contains(&key)));
        if !files.is_empty() {
            self.store.release(&self.party.agent, &Which::These(files))?;
        }
        Ok(())
    }

    /// The files this agent holds that are as the last commit has them.
    fn finished_files(&mut self) -> Result<Vec<Want>, SessionError> {
        let own = self.store.locks()?.into_iter().filter(|lock| lock.agent == self.party.agent);
        let files: Vec<(Key, Want)> = own
            .filter_map(|lock| match lock.target {
                Target::File(key) => {
                    let target = Target::File(key.clone());
                    Some((key, Want { target, aliases: lock.aliases, mode: lock.mode }))
                }
                Target::Pattern(_) | Target::Name(_) => None,
            })
            .collect();
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let repo = Repo::new(self.scope.clone());
        let status = repo.status()?;
        let dirty: HashSet<Key> = status.paths().map(|path| repo.key(path)).collect();
        Ok(files.into_iter().filter(|(key, _)| !dirty.contains(key)).map(|(_, want)| want).collect())
    }

    /// The session is over. Under a supervisor the tree goes on, and its locks with it.
    pub(super) fn end(&mut self) -> Result<Answer, SessionError> {
        self.note(EventKind::SessionEnded, None, &json!({ "client": self.call.client.name() }));
        if !self.is_enforced() {
            self.store.leave(&self.party.agent)?;
        }
        Ok(Answer::Continue)
    }
}
