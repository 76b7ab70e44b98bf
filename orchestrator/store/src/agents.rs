//! Agents: the sessions that ask for locks.

use std::time::Duration;

use mala_core::{AgentId, IssueId, Life, Lock, Owner, RunId, SteadyTime, Timestamp};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::json;

use crate::Store;
use crate::change::Change;
use crate::error::{Fault, Result, StoreError};
use crate::events::EventKind;
use crate::process::Process;
use crate::request::Party;
use crate::rows;
use crate::view::{Standing, View};

/// Signs of life closer together than this are noted once.
const SEEN_EVERY: Duration = Duration::from_secs(15);

/// One session, running or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub party: Party,
    pub profile: Option<String>,
    pub since: Timestamp,
    pub life: Life,
}

/// A client's session: an agent that everything below its process acts as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub party: Party,
    /// The client's own name for it, where a process may have several.
    pub conversation: Option<String>,
}

impl Store {
    /// Makes an agent known without locking anything.
    pub fn register(&mut self, party: &Party) -> Result<()> {
        self.write(|change| change.enroll(party))
    }

    /// The same, unless somebody else is running under its name. Who locked and tested by that name in a process further up, such
    /// as the shell that this one was started from, is nobody else: from now on this process is the agent.
    pub fn join(&mut self, party: &Party) -> Result<()> {
        let above: Vec<Owner> = Process::find(party.owner.pid)
            .map(|process| process.ancestors().map(|ancestor| ancestor.owner()).collect())
            .unwrap_or_default();
        self.write(|change| match change.session_named(&party.agent)? {
            Some((known, _)) if known.party.owner == party.owner => change.enroll(party),
            Some((Session { party: known, .. }, is_session)) => {
                if is_session || known.supervised || !above.contains(&known.owner) {
                    return Err(already_runs(known).into());
                }
                change.settle(party)?;
                change.enroll(party)
            }
            None => change.enroll(party),
        })
    }

    /// Makes a client's session known: everything below its process acts as this agent, whatever it says. A further
    /// conversation of the same process gets the same name with a number. Returns who the session is.
    pub fn join_session(&mut self, session: &Session, profile: &str) -> Result<Party> {
        self.write(|change| change.join_session(session, profile))
    }

    /// A session goes on under another name of its client's: after its history was cleared or another one was loaded.
    pub fn continue_session(&mut self, agent: &AgentId, conversation: &str) -> Result<()> {
        self.write(|change| {
            let sql = "UPDATE agent SET conversation = ?3 WHERE scope = ?1 AND name = ?2";
            change.sql.prepare_cached(sql)?.execute(params![change.scope, agent.as_str(), conversation])?;
            Ok(())
        })
    }

    /// The sessions of the first of these processes that has any, the one that was last heard of first.
    pub fn sessions_among(&mut self, processes: &[Owner]) -> Result<Vec<Session>> {
        self.read(|view| {
            for process in processes {
                let sessions = view.sessions_of(process)?;
                if !sessions.is_empty() {
                    return Ok(sessions);
                }
            }
            Ok(Vec::new())
        })
    }

    /// An agent says goodbye: its files and patterns are free, and so is its name. Returns what it held. Named locks stay
    /// with the command that runs under them. An agent that nobody knows has left already.
    pub fn leave(&mut self, agent: &AgentId) -> Result<Vec<Lock>> {
        self.write(|change| change.leave(agent))
    }
}

impl View<'_> {
    pub(crate) fn agents(&self) -> std::result::Result<Vec<Agent>, Fault> {
        let sql = "SELECT a.name, a.supervised, a.issue, a.run, p.host, p.boot_id, p.pid, p.start_time, p.node, a.profile, a.since
             FROM agent a LEFT JOIN process p ON p.id = a.root WHERE a.scope = ?1 ORDER BY a.joined, a.since, a.name";
        let mut statement = self.sql.prepare_cached(sql)?;
        let agents = statement.query_map([self.scope], |row| {
            let party = party(row)?;
            let life = self.life(&party.owner);
            Ok(Agent { party, profile: row.get(9)?, since: rows::timestamp(row, 10)?, life })
        })?;
        Ok(agents.collect::<std::result::Result<_, _>>()?)
    }

    fn sessions_of(&self, process: &Owner) -> std::result::Result<Vec<Session>, Fault> {
        let sql = "SELECT a.name, a.supervised, a.issue, a.run, p.host, p.boot_id, p.pid, p.start_time, p.node, a.conversation
             FROM process p JOIN agent a ON a.root = p.id
             WHERE p.pid = ?1 AND p.start_time = ?2 AND p.boot_id = ?3 AND p.host = ?4
               AND a.scope = ?5 AND a.profile IS NOT NULL
             ORDER BY a.seen_at DESC, a.joined DESC, a.name";
        let start_time = i64::from_ne_bytes(process.start_time.to_ne_bytes());
        let row = params![process.pid, start_time, process.boot_id, process.host, self.scope];
        let mut statement = self.sql.prepare_cached(sql)?;
        let session = |row: &Row<'_>| Ok(Session { party: party(row)?, conversation: row.get(9)? });
        let sessions = statement.query_map(row, session)?;
        Ok(sessions.collect::<std::result::Result<_, _>>()?)
    }

    /// The agent of this name if it may still run, and whether it is a client's session.
    fn session_named(&self, name: &AgentId) -> std::result::Result<Option<(Session, bool)>, Fault> {
        let sql = "SELECT a.name, a.supervised, a.issue, a.run, p.host, p.boot_id, p.pid, p.start_time, p.node, a.conversation,
             a.profile IS NOT NULL
             FROM agent a LEFT JOIN process p ON p.id = a.root WHERE a.scope = ?1 AND a.name = ?2";
        let mut statement = self.sql.prepare_cached(sql)?;
        let session = |row: &Row<'_>| {
            Ok((Session { party: party(row)?, conversation: row.get(9)? }, row.get::<_, bool>(10)?))
        };
        let known = statement.query_row(params![self.scope, name.as_str()], session).optional()?;
        Ok(known.filter(|(session, _)| self.life(&session.party.owner) != Life::Dead))
    }

    /// Who is behind the name, running or not.
    pub(crate) fn party(&self, name: &AgentId) -> std::result::Result<Option<Party>, Fault> {
        Ok(self.party_seen(name)?.map(|(party, _)| party))
    }

    /// The same, and when it last asked for something.
    pub(crate) fn party_seen(
        &self,
        name: &AgentId,
    ) -> std::result::Result<Option<(Party, SteadyTime)>, Fault> {
        let sql =
            "SELECT a.name, a.supervised, a.issue, a.run, p.host, p.boot_id, p.pid, p.start_time, p.node, a.seen_at
             FROM agent a LEFT JOIN process p ON p.id = a.root WHERE a.scope = ?1 AND a.name = ?2";
        let mut statement = self.sql.prepare_cached(sql)?;
        let known = |row: &Row<'_>| Ok((party(row)?, SteadyTime::from_millis(row.get(9)?)));
        Ok(statement.query_row(params![self.scope, name.as_str()], known).optional()?)
    }

    pub(crate) fn must_know(&self, agent: &AgentId) -> std::result::Result<Party, Fault> {
        self.party(agent)?.ok_or_else(|| StoreError::UnknownAgent { agent: agent.clone() }.into())
    }
}

fn already_runs(rival: Party) -> StoreError {
    StoreError::AgentRuns { agent: rival.agent, owner: Box::new(rival.owner) }
}

/// The names of the first, second, ... conversation of a process: `codex-4242`, `codex-4242-2`, ...
fn numbered(name: &AgentId) -> impl Iterator<Item = AgentId> {
    let others = (2_u32..).map_while(move |number| AgentId::new(format!("{name}-{number}")).ok());
    std::iter::once(name.clone()).chain(others)
}

fn party(row: &Row<'_>) -> rusqlite::Result<Party> {
    Ok(Party {
        agent: rows::name(row, 0, AgentId::new)?,
        supervised: row.get(1)?,
        issue: rows::optional_name(row, 2, IssueId::new)?,
        run: rows::optional_name(row, 3, RunId::new)?,
        owner: rows::owner(row, 4)?,
    })
}

impl Change<'_> {
    /// Notes who is there. A name belongs to the process that used it first, for as long as that lives.
    pub(crate) fn enroll(&mut self, party: &Party) -> std::result::Result<(), Fault> {
        let known = self.party_seen(&party.agent)?;
        let issue = party.issue.as_ref().map(IssueId::as_str);
        let run = party.run.as_ref().map(RunId::as_str);
        match known {
            Some((known, seen_at)) if known == *party || self.life(&known.owner) != Life::Dead => {
                if self.steady.since(seen_at) >= SEEN_EVERY {
                    self.see(&party.agent)?;
                }
                if known == *party {
                    return Ok(());
                }
                let sql = "UPDATE agent SET issue = coalesce(?3, issue), run = coalesce(?4, run)
                     WHERE scope = ?1 AND name = ?2 AND (issue IS NOT coalesce(?3, issue) OR run IS NOT coalesce(?4, run))";
                let row = params![self.scope, party.agent.as_str(), issue, run];
                self.sql.prepare_cached(sql)?.execute(row)?;
                return Ok(());
            }
            Some(_) => self.forget(&party.agent)?,
            None => {}
        }
        let process = self.process_row(&party.owner)?;
        let sql = "INSERT INTO agent (scope, name, root, issue, run, supervised, since, seen_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (since, seen_at) = (self.now.as_millis(), self.steady.as_millis());
        let name = party.agent.as_str();
        let row = params![self.scope, name, process, issue, run, party.supervised, since, seen_at];
        self.sql.prepare_cached(sql)?.execute(row)?;
        let joined = self.record_joined(party)?;
        let sql = "UPDATE agent SET joined = ?3 WHERE scope = ?1 AND name = ?2";
        self.sql.prepare_cached(sql)?.execute(params![self.scope, party.agent.as_str(), joined])?;
        Ok(())
    }

    fn join_session(&mut self, session: &Session, profile: &str) -> std::result::Result<Party, Fault> {
        let Session { party: wanted, conversation } = session;
        for agent in numbered(&wanted.agent) {
            let party = Party { agent, ..wanted.clone() };
            match self.session_named(&party.agent)? {
                Some((other, _)) if other.party.owner != party.owner => {
                    if party.agent == wanted.agent {
                        return Err(already_runs(other.party).into());
                    }
                }
                Some((known, true)) if known.conversation != *conversation => {}
                _ => {
                    self.enroll(&party)?;
                    let sql =
                        "UPDATE agent SET profile = ?3, conversation = ?4 WHERE scope = ?1 AND name = ?2";
                    let row = params![self.scope, party.agent.as_str(), profile, conversation];
                    self.sql.prepare_cached(sql)?.execute(row)?;
                    return Ok(party);
                }
            }
        }
        Err(already_runs(wanted.clone()).into())
    }

    /// Lets a known agent live in another process.
    fn settle(&mut self, party: &Party) -> std::result::Result<(), Fault> {
        let process = self.process_row(&party.owner)?;
        let sql = "UPDATE agent SET root = ?3, supervised = ?4 WHERE scope = ?1 AND name = ?2";
        let row = params![self.scope, party.agent.as_str(), process, party.supervised];
        self.sql.prepare_cached(sql)?.execute(row)?;
        self.record_joined(party)?;
        Ok(())
    }

    fn record_joined(&mut self, party: &Party) -> std::result::Result<i64, Fault> {
        let detail = json!({ "pid": party.owner.pid, "host": party.owner.host });
        self.record(EventKind::AgentJoined, party, None, &detail)
    }

    /// Notes a sign of life.
    fn see(&mut self, agent: &AgentId) -> std::result::Result<(), Fault> {
        let sql = "UPDATE agent SET seen_at = ?3 WHERE scope = ?1 AND name = ?2";
        self.sql.prepare_cached(sql)?.execute(params![
            self.scope,
            agent.as_str(),
            self.steady.as_millis()
        ])?;
        Ok(())
    }

    pub(crate) fn leave(&mut self, agent: &AgentId) -> std::result::Result<Vec<Lock>, Fault> {
        let Some(party) = self.party(agent)? else { return Ok(Vec::new()) };
        let mut locks = self.locks_of(agent)?;
        locks.retain(|lock| !lock.is_named() || self.standing(lock) != Standing::Held);
        for lock in &locks {
            let kind = EventKind::end_of(self.standing(lock)).unwrap_or(EventKind::LockReleased);
            self.remove_lock(lock, kind)?;
        }
        self.forget_bases(&locks)?;
        self.withdraw_asks_of(agent)?;
        self.record(EventKind::AgentLeft, &party, None, &json!({ "locks": locks.len() }))?;
        self.forget(agent)?;
        self.hand_over()?;
        Ok(locks)
    }

    fn forget(&mut self, agent: &AgentId) -> std::result::Result<(), Fault> {
        for sql in [
            "DELETE FROM agent WHERE scope = ?1 AND name = ?2",
            "DELETE FROM issue_wait WHERE scope = ?1 AND agent = ?2",
        ] {
            self.sql.prepare_cached(sql)?.execute(params![self.scope, agent.as_str()])?;
        }
        self.forget_notices(agent)
    }
}
