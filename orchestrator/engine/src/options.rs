//! How a run is to be done: everything that was typed or configured, resolved.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mala_agents::start::Profile;
use mala_agents::start::prompt::{Template, Which};
use mala_config::{
    HealthSettings, Hold, LockSettings, NoChange, NotifySettings, Prices, ShareTemplate, TakeAdded, Variables,
};
use mala_core::{Issue, IssueId, Owner};
use mala_gate::rules::IssuePattern;
use mala_git::salvage;

use crate::limits::Limits;

#[derive(Debug, Clone)]
pub struct Options {
    /// The process that runs it.
    pub owner: Owner,
    pub max_agents: usize,
    /// Issues to begin at most.
    pub max_issues: Option<usize>,
    /// Exactly these, in this order; whatever is ready if empty.
    pub issues: Vec<IssueId>,
    /// Wait for more work instead of ending.
    pub watch: bool,
    pub timeout: Option<Duration>,
    /// Time between two starts.
    pub stagger: Duration,
    /// Attempts at an issue, over all runs, before it is left to a person.
    pub attempts: u32,
    /// Before an issue whose agent failed is tried again; longer each time.
    pub retry_pause: Duration,
    /// How long a question of an agent waits for an answer.
    pub answer_wait: Duration,
    /// What becomes of an issue whose agent says that there is nothing to do.
    pub no_change: NoChange,
    /// When issues are begun that agents of the run have added.
    pub take_added: TakeAdded,
    /// Go on where attempts were interrupted: with their sessions, and with their work in its place.
    pub resume: bool,
    /// Agents may offer files in which a person had left uncommitted changes.
    pub allow_dirty: bool,
    /// Only the landing queue is worked off: no issue is begun.
    pub queue_only: bool,
    /// How long the files of what was offered are held.
    pub hold: Hold,
    /// How often the gate sends an agent back.
    pub gate_attempts: u32,
    /// Dollars for the whole run.
    pub budget: Option<f64>,
    /// The same if it was typed: then a run that goes on with this one keeps it.
    pub typed_budget: Option<f64>,
    /// What models charge whose clients do not tell.
    pub prices: Arc<Prices>,
    pub profiles: Profiles,
    /// How a commit message names an issue.
    pub mark: IssuePattern,
    /// Commands whose success the gate asks for.
    pub required: Vec<String>,
    pub prompts: Prompts,
    pub keeping: Keeping,
    /// What agents have in their environment besides.
    pub env: Variables,
    pub around: AroundOptions,
    pub notify: NotifySettings,
    pub lock: LockSettings,
    pub health: HealthSettings,
    pub unversioned: UnversionedOptions,
    /// The program that agents' hooks call.
    pub mala: String,
    /// Where each agent's output is kept, below a folder for the run.
    pub logs: PathBuf,
    /// How often the tracker is asked while there is nothing to do.
    pub poll: Duration,
    /// How long an agent that was asked to end may take.
    pub grace: Duration,
}

/// What is copied of people's files that git does not hold.
#[derive(Debug, Clone)]
pub struct UnversionedOptions {
    pub limits: salvage::Limits,
    /// Build directories, which are not.
    pub build: Vec<String>,
}

/// Commands before and after each attempt.
#[derive(Debug, Clone)]
pub struct AroundOptions {
    pub before: Vec<ShareTemplate>,
    pub after: Vec<ShareTemplate>,
    /// How long each of them may take.
    pub timeout: Duration,
}

/// Who keeps the issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// The store: what an ending does to an issue is part of its transaction.
    Store,
    /// Another tracker, which is told before the store is.
    Tracker,
}

/// Which agent an issue is given to.
#[derive(Debug, Clone)]
pub struct Profiles {
    pub known: Vec<(Profile, Limits)>,
    /// For everything, whatever labels say.
    pub forced: Option<String>,
    pub default: String,
    /// Takes over while the one that an issue would get is limited or cannot work.
    pub fallback: Option<String>,
}

impl Profiles {
    pub fn named(&self, name: &str) -> Option<&(Profile, Limits)> {
        self.known.iter().find(|(profile, _)| profile.name == name)
    }

    /// The profile for an issue: the one that was asked for, else the first that one of its labels names, else the
    /// default.
    pub fn choose(&self, issue: &Issue) -> Option<&(Profile, Limits)> {
        let suits = |profile: &Profile| profile.labels.iter().any(|label| issue.labels.contains(label));
        match &self.forced {
            Some(name) => self.named(name),
            None => {
                self.known.iter().find(|(profile, _)| suits(profile)).or_else(|| self.named(&self.default))
            }
        }
    }
}

/// The prompts in use.
#[derive(Debug, Clone)]
pub struct Prompts {
    pub task: Template,
    pub retry: Template,
    pub resume: Template,
}

impl Default for Prompts {
    fn default() -> Self {
        Self {
            task: Template::built_in(Which::Task),
            retry: Template::built_in(Which::Retry),
            resume: Template::built_in(Which::Continue),
        }
    }
}
