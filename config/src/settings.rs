//! The settings as the rest of mala sees them: plain typed values, already checked.
//!
//! What each one may hold is in `table.rs`, what it is unless somebody says otherwise in `defaults.toml`.

use std::time::Duration;

use mala_core::CommandPattern;

use crate::preset::Preset;
use crate::price::Prices;
use crate::tables::{AgentTable, MutexTable};
use crate::variables::{ShareTemplate, Variables};

/// Every setting, resolved over all layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `[project]`
    pub project: ProjectSettings,
    /// `[issues]`
    pub issues: IssueSettings,
    /// `[lock]`
    pub lock: LockSettings,
    /// `[enforcement]`
    pub enforcement: EnforcementSettings,
    /// `[test]`
    pub test: TestSettings,
    /// `[validate]`
    pub validate: ValidateSettings,
    /// `[gate]`
    pub gate: GateSettings,
    /// `[queue]`
    pub queue: QueueSettings,
    /// `[transcripts]`
    pub transcripts: TranscriptSettings,
    /// `[asks]`
    pub asks: AskSettings,
    /// `[run]`
    pub run: RunSettings,
    /// `[notify]`
    pub notify: NotifySettings,
    /// `[keep]`
    pub keep: KeepSettings,
    /// `[status]`
    pub status: StatusSettings,
    /// `[health]`
    pub health: HealthSettings,
    /// `[retain]`
    pub retain: RetainSettings,
    /// `[env]`
    pub env: Variables,
    /// `[mutex.NAME]`, in the order of their names.
    pub mutexes: Vec<MutexTable>,
    /// `[agents.NAME]`, in the order of their names.
    pub agents: Vec<AgentTable>,
    /// `[price.MODEL]`
    pub prices: Prices,
}

/// `[notify]`: who is told what a person should know while nobody watches. Empty texts mean nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    pub command: String,
    pub webhook: String,
    pub desktop: bool,
    /// How long each of them may take.
    pub timeout: Duration,
}

/// `[keep]`: how much of what git does not hold is put back if an agent removes it. In bytes; zero is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepSettings {
    pub max_file: u64,
    pub max_total: u64,
    pub max_files: u64,
}

/// `[project]`: what kind of project it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectSettings {
    pub preset: Preset,
}

/// `[issues]`: where work comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct IssueSettings {
    pub source: Source,
}

/// `[test]`: commands that take turns.
#[derive(Debug, Clone, PartialEq)]
pub struct TestSettings {
    /// Besides those of the preset; see [`Settings::guarded`].
    pub commands: Vec<CommandPattern>,
    /// Longest wait for a turn.
    pub wait: Duration,
}

/// `[validate]`: what a commit must have passed.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidateSettings {
    /// Empty means those of the preset; see [`Settings::required`].
    pub commands: Vec<CommandPattern>,
    /// Commands that test the same: whoever ran one of a group has run all of them.
    pub equivalents: Vec<Vec<CommandPattern>>,
    /// Where they run, relative to the top of the checkout.
    pub directory: String,
    /// What a run counts as that executed no test.
    pub empty: EmptyRun,
    /// Others' changes during a run make it worthless, instead of merely being named.
    pub strict: bool,
    /// Nothing of the agent may be left uncommitted.
    pub clean: bool,
    /// Patterns of documentation.
    pub docs: Vec<String>,
}

/// `[gate]`: rules for commits.
#[derive(Debug, Clone, PartialEq)]
pub struct GateSettings {
    /// How a message names its issue, with `<id>` for the id.
    pub issue_pattern: String,
    /// People are held to the rules, too.
    pub people: bool,
    /// How often an agent that wants to stop is sent back.
    pub stop_attempts: u64,
    /// Where commits land that `mala commit` makes outside of a run.
    pub land: Land,
}

/// `[queue]`: checkouts of mala's own that commands run in.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSettings {
    pub slots: u64,
    /// Entries that are validated together at most.
    pub window: u64,
    pub timeout: Duration,
    /// Empty means those of the preset; see [`Settings::setup`].
    pub setup: Vec<CommandPattern>,
    /// Besides those of the preset; see [`Settings::build_directories`].
    pub build: Vec<String>,
    /// Empty means the user's cache directory.
    pub directory: String,
    /// What slots may take, in bytes. Zero is no bound.
    pub max_disk: u64,
    pub cold: Cold,
}

/// `[transcripts]`: what clients wrote themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptSettings {
    pub evidence: bool,
}

/// `[asks]`: when a request to a holder is overdue.
#[derive(Debug, Clone, PartialEq)]
pub struct AskSettings {
    pub due: Duration,
    pub urgent: Duration,
    /// How long a holder must have been silent before anything can be taken from it.
    pub idle: Duration,
}

/// `[run]`: how a batch is worked through. A limit of 0 is no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    pub max_agents: u64,
    pub profile: String,
    /// Takes over while another one is limited; empty for none.
    pub fallback: String,
    pub stagger: Duration,
    pub attempts: u64,
    /// Before an issue whose agent failed is tried again; longer each time.
    pub retry_pause: Duration,
    pub gate_attempts: u64,
    pub idle: Duration,
    pub total: Duration,
    pub turns: u64,
    pub cost: f64,
    pub budget: f64,
    /// How long a question waits for an answer.
    pub answer_wait: Duration,
    pub no_change: NoChange,
    pub take_added: TakeAdded,
    pub hold: Hold,
    /// Commands before each attempt, and after it.
    pub before: Vec<ShareTemplate>,
    pub after: Vec<ShareTemplate>,
    /// How long each of them may take.
    pub command_timeout: Duration,
}

/// `[lock]`: leases, waiting, and what is locked together.
#[derive(Debug, Clone, PartialEq)]
pub struct LockSettings {
    /// Lease of a lock taken without `--ttl`; never longer than `max_ttl`.
    pub ttl: Duration,
    /// Longest lease anybody may ask for.
    pub max_ttl: Duration,
    /// Longest `--wait`.
    pub max_wait: Duration,
    /// Besides those of the preset; see [`Settings::lock_groups`].
    pub groups: Vec<String>,
}

/// `[enforcement]`: what `mala exec` does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnforcementSettings {
    /// What happens to a write on a file that nobody holds.
    pub unlocked: Unlocked,
    /// Refuse to run an agent where the kernel cannot enforce.
    pub require_kernel: bool,
}

/// What happens to a write on a file that nobody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlocked {
    /// The writer takes the lock.
    Acquire,
    /// It is refused: locks have to be taken beforehand. New files are still the writer's.
    Deny,
}

/// What a run counts as that executed no test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyRun {
    Fail,
    Pass,
}

/// Where a commit of `mala commit` lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Land {
    /// On the branch that is checked out, at once.
    Branch,
    /// In the landing queue, which moves the branch when it has passed.
    Queue,
}

/// When validations run in an emptied slot, where nothing that an earlier tree has left can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cold {
    /// From time to time, for the tip of the branch.
    Audit,
    Always,
    Never,
}

/// What becomes of an issue whose agent says that there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoChange {
    /// A person decides.
    Ask,
    /// It is closed on the agent's word.
    Close,
}

/// How long an agent of a run holds the files of what it has offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Until the offer where validating takes long, else until it has landed.
    Auto,
    /// Until it has landed or comes back.
    Landing,
    /// Until it has left the checkout. Who takes them next starts from the branch and is merged.
    Offer,
}

/// When issues are begun that agents have added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeAdded {
    /// By the run after the one that they were added in.
    NextRun,
    /// By the run under way.
    Now,
}

/// Where issues come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// br or bd where the project uses one, else built in.
    Auto,
    Builtin,
    Br,
    Bd,
}

/// One of a few words, as a setting.
pub(crate) trait Word: Copy + PartialEq + 'static {
    const WORDS: &[(&str, Self)];

    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, meaning)| *meaning == self);
        found.map_or("", |(word, _)| word)
    }
}

impl Word for Unlocked {
    const WORDS: &[(&str, Self)] = &[("acquire", Self::Acquire), ("deny", Self::Deny)];
}

impl Word for EmptyRun {
    const WORDS: &[(&str, Self)] = &[("fail", Self::Fail), ("pass", Self::Pass)];
}

impl Word for Land {
    const WORDS: &[(&str, Self)] = &[("branch", Self::Branch), ("queue", Self::Queue)];
}

impl Word for Cold {
    const WORDS: &[(&str, Self)] =
        &[("audit", Self::Audit), ("always", Self::Always), ("never", Self::Never)];
}

impl Word for NoChange {
    const WORDS: &[(&str, Self)] = &[("ask", Self::Ask), ("close", Self::Close)];
}

impl Word for Hold {
    const WORDS: &[(&str, Self)] =
        &[("auto", Self::Auto), ("landing", Self::Landing), ("offer", Self::Offer)];
}

impl Word for TakeAdded {
    const WORDS: &[(&str, Self)] = &[("next-run", Self::NextRun), ("now", Self::Now)];
}

impl Word for Source {
    const WORDS: &[(&str, Self)] =
        &[("auto", Self::Auto), ("builtin", Self::Builtin), ("br", Self::Br), ("bd", Self::Bd)];
}

/// `[status]`: the live view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatusSettings {
    /// Redraw interval of `mala status --watch`.
    pub refresh: Duration,
}

/// `[health]`: when contention is worth a warning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HealthSettings {
    /// Share of agents' time, 0 to 1, that may go into waiting for files, and into waiting for turns, before it is a warning.
    pub waited_share: f64,
    /// A longer wait for a turn to test is a warning.
    pub mutex_wait: Duration,
}

/// `[retain]`: what `mala clean` keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetainSettings {
    /// Events, evidence, saved outputs, logs of runs and what agents printed are dropped when they are older.
    pub age: Duration,
    /// When outputs and logs take more bytes than this, the oldest are dropped first; 0 is no bound.
    pub size: u64,
    /// Saved work and candidates are dropped so long after their issue was closed.
    pub refs: Duration,
}

impl Settings {
    /// What the default layer is written into. Not a `Default`: these are no settings, and a test proves that the
    /// default layer replaces every one of them.
    pub(crate) const BLANK: Self = Self {
        project: ProjectSettings { preset: Preset::Go },
        issues: IssueSettings { source: Source::Bd },
        lock: LockSettings {
            ttl: Duration::ZERO,
            max_ttl: Duration::ZERO,
            max_wait: Duration::ZERO,
            groups: Vec::new(),
        },
        enforcement: EnforcementSettings { unlocked: Unlocked::Deny, require_kernel: true },
        test: TestSettings { commands: Vec::new(), wait: Duration::ZERO },
        validate: ValidateSettings {
            commands: Vec::new(),
            equivalents: Vec::new(),
            directory: String::new(),
            empty: EmptyRun::Pass,
            strict: true,
            clean: true,
            docs: Vec::new(),
        },
        gate: GateSettings {
            issue_pattern: String::new(),
            people: true,
            stop_attempts: 0,
            land: Land::Queue,
        },
        queue: QueueSettings {
            window: 0,
            slots: 0,
            timeout: Duration::ZERO,
            setup: Vec::new(),
            build: Vec::new(),
            directory: String::new(),
            max_disk: 1,
            cold: Cold::Never,
        },
        transcripts: TranscriptSettings { evidence: true },
        asks: AskSettings { due: Duration::ZERO, urgent: Duration::ZERO, idle: Duration::ZERO },
        run: RunSettings {
            max_agents: 0,
            profile: String::new(),
            fallback: String::new(),
            stagger: Duration::ZERO,
            attempts: 0,
            retry_pause: Duration::ZERO,
            gate_attempts: 0,
            idle: Duration::ZERO,
            total: Duration::ZERO,
            turns: 1,
            cost: 1.0,
            budget: 1.0,
            answer_wait: Duration::ZERO,
            no_change: NoChange::Close,
            take_added: TakeAdded::Now,
            hold: Hold::Offer,
            before: Vec::new(),
            after: Vec::new(),
            command_timeout: Duration::ZERO,
        },
        notify: NotifySettings {
            command: String::new(),
            webhook: String::new(),
            desktop: true,
            timeout: Duration::ZERO,
        },
        keep: KeepSettings { max_file: 1, max_total: 1, max_files: 0 },
        status: StatusSettings { refresh: Duration::ZERO },
        health: HealthSettings { waited_share: 0.0, mutex_wait: Duration::ZERO },
        retain: RetainSettings { age: Duration::ZERO, size: 1, refs: Duration::ZERO },
        env: Variables::NONE,
        mutexes: Vec::new(),
        agents: Vec::new(),
        prices: Prices::NONE,
    };
}
