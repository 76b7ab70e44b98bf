//! Profiles: those that mala knows by itself, with what the settings say on top.

use std::time::Duration;

use mala_agents::start::{self, Kind, Profile, built_in_profiles};
use mala_config::{AgentKind, AgentTable, PromptBy, RunSettings, Settings};

use crate::error::{EngineError, Result};
use crate::limits::Limits;
use crate::options::Profiles;

impl Profiles {
    /// Every profile, and which one is used when.
    pub fn load(settings: &Settings, forced: Option<String>) -> Result<Self> {
        let limits = limits(&settings.run, None);
        let mut known: Vec<(Profile, Limits)> =
            built_in_profiles().into_iter().map(|profile| (profile, limits)).collect();
        for table in &settings.agents {
            let profile = profile(table, &known)?;
            known.retain(|(known, _)| known.name != profile.name);
            known.push((profile, self::limits(&settings.run, Some(table))));
        }
        let fallback = Some(settings.run.fallback.clone()).filter(|name| !name.is_empty());
        Ok(Self { known, forced, default: settings.run.profile.clone(), fallback })
    }

    /// The profiles that issues can get: the one that was asked for, else the default and those that a label may call for.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = &Profile> {
        let is_used = |profile: &&Profile| match &self.forced {
            Some(name) => profile.name == *name,
            None => {
                let is_named = |name: &String| *name == profile.name;
                is_named(&self.default)
                    || self.fallback.as_ref().is_some_and(is_named)
                    || !profile.labels.is_empty()
            }
        };
        self.known.iter().map(|(profile, _)| profile).filter(is_used)
    }
}

fn profile(table: &AgentTable, known: &[(Profile, Limits)]) -> Result<Profile> {
    let named = |name: &str| known.iter().map(|(profile, _)| profile).find(|profile| profile.name == name);
    let kind = table.kind.map(kind).or_else(|| named(&table.name).map(|profile| profile.kind));
    let Some(kind) = kind else { return Err(EngineError::NoKind { name: table.name.clone() }) };
    let base = named(&table.name).or_else(|| named(kind.name()));
    let or_base = |given: &[String], pick: fn(&Profile) -> &Vec<String>| match (given, base) {
        ([], Some(base)) => pick(base).clone(),
        (given, _) => given.to_vec(),
    };
    let command = or_base(&table.command, |base| &base.command);
    if command.is_empty() {
        return Err(EngineError::NoCommand { name: table.name.clone() });
    }
    Ok(Profile {
        name: table.name.clone(),
        kind,
        model: table.model.clone().or_else(|| base.and_then(|base| base.model.clone())),
        command,
        prompt_by: table.prompt.map(prompt_by).unwrap_or_default(),
        labels: or_base(&table.labels, |base| &base.labels),
        env: table.env.clone(),
        install: base.and_then(|base| base.install.clone()),
    })
}

fn kind(kind: AgentKind) -> Kind {
    match kind {
        AgentKind::Claude => Kind::Claude,
        AgentKind::Codex => Kind::Codex,
        AgentKind::Gemini => Kind::Gemini,
        AgentKind::Opencode => Kind::Opencode,
        AgentKind::Command => Kind::Command,
    }
}

fn prompt_by(by: PromptBy) -> start::PromptBy {
    match by {
        PromptBy::Stdin => start::PromptBy::Stdin,
        PromptBy::File => start::PromptBy::File,
        PromptBy::Argument => start::PromptBy::Argument,
    }
}

/// The limits of a profile: its own, else those of the run. Zero is no limit.
fn limits(run: &RunSettings, table: Option<&AgentTable>) -> Limits {
    let own = |pick: fn(&AgentTable) -> Option<Duration>| table.and_then(pick);
    let some = |span: Duration| Some(span).filter(|span| !span.is_zero());
    Limits {
        idle: some(own(|table| table.idle).unwrap_or(run.idle)),
        total: some(own(|table| table.total).unwrap_or(run.total)),
        turns: Some(table.and_then(|table| table.turns).unwrap_or(run.turns)).filter(|turns| *turns > 0),
        cost: Some(table.and_then(|table| table.cost).unwrap_or(run.cost)).filter(|cost| *cost > 0.0),
    }
}
