//! The checkouts that a call concerns: the session's own, and those that its folder and its paths lie in.
//!
//! A path is judged where it lies, whatever folder the client is in. Where mala was never used nobody holds anything, and
//! nothing is begun there for the sake of one path.

use std::env;
use std::path::{Path, PathBuf};

use mala_agents::HookCall;
use mala_agents::git::RunAgent;
use mala_core::Scope;
use mala_core::scope::ScopeError;

use super::HookContext;
use super::session::Session;
use crate::SessionError;

pub(super) struct Places<'a> {
    pub(super) call: &'a HookCall,
    context: &'a HookContext<'a>,
    home: Option<Scope>,
    sessions: Vec<Session<'a>>,
}

impl<'a> Places<'a> {
    pub(super) fn of(call: &'a HookCall, context: &'a HookContext<'a>) -> Result<Self, SessionError> {
        // A supervisor, which answers here, acts on its agent's checkout alone.
        let home = match context.supervised {
            Some(supervised) => Some(supervised.guard.scope().clone()),
            None => home(call)?,
        };
        Ok(Self { call, context, home, sessions: Vec::new() })
    }

    /// True if the kernel holds this session to its locks.
    pub(super) fn is_enforced(&self) -> bool {
        self.context.supervised.is_some()
    }

    /// The session where it is at home; nothing outside of any checkout.
    pub(super) fn home(&mut self) -> Result<Option<&mut Session<'a>>, SessionError> {
        let home = self.home.clone();
        home.map(|home| self.session(&home)).transpose()
    }

    /// The agent as its run knows it, if it is one's.
    pub(super) fn run_agent(&mut self) -> Result<Option<RunAgent>, SessionError> {
        self.home()?.map_or(Ok(None), Session::run_agent)
    }

    /// The session as another checkout knows it.
    pub(super) fn session(&mut self, scope: &Scope) -> Result<&mut Session<'a>, SessionError> {
        let at = match self.sessions.iter().position(|session| session.scope == *scope) {
            Some(at) => at,
            None => {
                self.sessions.push(Session::open(self.call, self.context, scope.clone())?);
                self.sessions.len() - 1
            }
        };
        Ok(&mut self.sessions[at])
    }

    /// The checkouts in use that a path lies in, the innermost first.
    pub(super) fn around(&self, path: &Path) -> Result<Vec<Scope>, SessionError> {
        let is_home = |scope: &Scope| self.home.as_ref() == Some(scope);
        let is_meant = |scope: &Scope| is_home(scope) || (!self.is_enforced() && scope.is_in_use());
        let mut found = Scope::around(path)?;
        found.retain(is_meant);
        Ok(found)
    }

    /// The checkouts in which a command of unknown effect is looked at again: the session's own, and the one it runs in.
    pub(super) fn looked_at(&self, cwd: &Path) -> Result<Vec<Scope>, SessionError> {
        let mut scopes: Vec<Scope> = self.around(cwd)?.into_iter().take(1).collect();
        scopes.extend(self.home.clone().filter(|home| !scopes.contains(home)));
        Ok(scopes)
    }
}

/// The checkout of the project that the client names, else that of the folder it is in.
fn home(call: &HookCall) -> Result<Option<Scope>, SessionError> {
    let project = call.client.project_variable().and_then(env::var_os).map(PathBuf::from);
    for folder in project.iter().filter(|folder| folder.is_absolute()).chain([&call.cwd]) {
        match Scope::discover(folder) {
            Err(ScopeError::NotARepository { .. } | ScopeError::Bare { .. }) => {}
            found => return Ok(Some(found?)),
        }
    }
    Ok(None)
}
