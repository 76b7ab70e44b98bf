//! The required commands, run on one tree by mala itself.
//!
//! What passed is remembered by the tree and the commands, in a chained log: the same tree is not validated twice. A failure is
//! not remembered, because it may have been the weather.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use mala_config::{Cold, EmptyRun, Settings, Setup, SetupCommand};
use mala_core::file::read_tail;
use mala_core::shell::word;
use mala_core::{CheckName, CommandPattern, Oid, Timestamp};
use mala_gate::evidence::anchoring::{self, AnchorError};
use mala_gate::evidence::{Ended, EvidenceError};
use mala_gate::runner::{Manner, RunError, Task, Tee, run};
use mala_gate::{Check, Evidence, TestRunError};
use mala_git::landing::LandError;
use mala_git::salvage::SalvageError;
use mala_git::{GitError, OwnChangesError, Repo, RepoPath};
use mala_logs::chain::{ChainError, ChainReader, Order};
use mala_logs::secrets;
use mala_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::empty::ran_nothing;
use crate::running::RunningNote;
use crate::setup::{self, Preparation};
use crate::slot_test::SlotTest;
use crate::slots::{Lease, Placed, Pool, Slots, SlotsError};

/// So many of the last validations tell how long one takes.
const MAX_MEDIAN_TIMINGS: usize = 20;

/// How much of a command's output is searched for what its runner says.
const SUMMARY_BYTES: u64 = 1 << 20;
/// How far back a commit that has passed is looked for.
const MAX_HISTORY: usize = 200;
const NOT_IN_TIME: &str = "not done in time, see `queue.timeout` in the settings";
/// As a shell says that there is no such program.
const NOT_FOUND: i32 = 127;

/// There is no verdict: nothing is accepted, and nobody is to blame.
#[derive(Debug, Error)]
pub enum ValidationError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Slots(#[from] SlotsError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    OwnChanges(#[from] OwnChangesError),
    #[error(transparent)]
    Work(#[from] SalvageError),
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stack(#[from] LandError),
    #[error("there is nothing to test in a slot before the first commit: run without `--isolated`")]
    Unborn,
    #[error(
        "`{}` is not in the slot, which has only directories with committed files or your own: start from another one, \
         such as: cd {}", .directory.display(), word(.top.as_os_str().as_encoded_bytes())
    )]
    NoDirectory { directory: PathBuf, top: PathBuf },
    #[error("`{command}`, which prepares the slot, failed ({ending}): see `{log}`")]
    Setup { command: String, ending: String, log: String },
    #[error("the log of validations cannot be used")]
    Log(#[from] ChainError),
    #[error("cannot use `{}`", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl From<TestRunError> for ValidationError {
    fn from(error: TestRunError) -> Self {
        match error {
            TestRunError::Evidence(error) => error.into(),
            TestRunError::Store(error) => error.into(),
            TestRunError::Run(error) => error.into(),
        }
    }
}

impl From<AnchorError> for ValidationError {
    fn from(error: AnchorError) -> Self {
        match error {
            AnchorError::Log(error) => error.into(),
            AnchorError::Store(error) => error.into(),
        }
    }
}

/// What a tree must pass.
#[derive(Debug, Clone)]
pub struct Requirements {
    commands: Vec<String>,
    directory: String,
    empty: EmptyRun,
    timeout: Duration,
    setup: Setup,
    cold: Cold,
}

impl Requirements {
    pub fn of(settings: &Settings) -> Self {
        Self {
            commands: settings.required().iter().map(ToString::to_string).collect(),
            directory: settings.validate.directory.clone(),
            empty: settings.validate.empty,
            timeout: settings.queue.timeout,
            setup: settings.setup(),
            cold: settings.queue.cold,
        }
    }

    /// True if a change of this file changes which dependencies are installed before anything runs.
    pub(crate) fn is_lock_file(&self, path: &RepoPath) -> bool {
        setup::is_lock_file(path, &self.setup)
    }

    /// True if nothing is required, so that nothing can be proven.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(crate) fn cold(&self) -> Cold {
        self.cold
    }

    /// Commands whose program is not in `PATH`, with that program: those that prepare a slot of the checkout at `root` and, unless
    /// there are some, from which their programs may come, the required ones.
    pub fn missing_programs(&self, root: &Path) -> Vec<(String, String)> {
        let is_used =
            |setup: &&SetupCommand| setup.needs.as_ref().is_none_or(|file| root.join(file).exists());
        let setup: Vec<String> =
            self.setup.commands.iter().filter(is_used).map(|setup| setup.command.to_string()).collect();
        let needed = if setup.is_empty() { &self.commands } else { &setup };
        let program = |command: &String| {
            Some((command.clone(), command.parse::<CommandPattern>().ok()?.program().to_owned()))
        };
        needed.iter().filter_map(program).filter(|(_, program)| which::which(program).is_err()).collect()
    }

    /// Command lines, in order.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Remembers what the test said of its tree if it was all that is required.
    pub(crate) fn remember_if_whole(
        &self,
        repo: &Repo,
        (tree, commit): (&Oid, &Oid),
        (argv, directory): (&[OsString], &Path),
        evidence: &Evidence,
    ) -> Result<(), ValidationError> {
        let [command] = self.commands.as_slice() else { return Ok(()) };
        let is_whole = argv.iter().eq(command.split_whitespace()) && directory == Path::new(&self.directory);
        if !is_whole {
            return Ok(());
        }
        let result = self.judged(CommandResult::of(command, evidence));
        remember(
            repo,
            &Validation {
                tree: tree.clone(),
                commit: commit.clone(),
                started_at: evidence.started_at,
                directory: self.directory.clone(),
                results: vec![result],
                cold: false,
                timing: None,
                remembered: false,
            },
        )
    }

    /// With an objection to a run that executed no test, unless that is allowed.
    fn judged(&self, mut result: CommandResult) -> CommandResult {
        if result.has_passed() && self.empty == EmptyRun::Fail {
            result.objection = emptiness(&result);
        }
        result
    }
}

/// What the required commands said about one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    pub tree: Oid,
    pub commit: Oid,
    #[serde(deserialize_with = "time")]
    pub started_at: Timestamp,
    /// Where the commands ran, from the top of the tree.
    #[serde(default)]
    pub directory: String,
    pub results: Vec<CommandResult>,
    /// The slot was emptied before.
    #[serde(default)]
    pub cold: bool,
    /// How long the commands took, and beside how many others of the same process, itself included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// It was not run now, but earlier on the same tree.
    #[serde(skip)]
    pub remembered: bool,
}

/// How long commands took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    #[serde(rename = "took_ms", with = "milliseconds")]
    pub took: Duration,
    /// How many validations were under way meanwhile, on average.
    pub at_once: usize,
}

mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_millis(u64::deserialize(deserializer)?))
    }
}

pub(crate) fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    mala_core::issue::parse_moment(&text).ok_or_else(|| serde::de::Error::custom("not a time"))
}

/// How one command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    pub command: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Why it does not count although it may have succeeded, or did not start at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
    pub output_sha256: Option<String>,
    pub output_log: String,
}

impl CommandResult {
    /// What a record says.
    fn of(command: &str, evidence: &Evidence) -> Self {
        Self {
            command: command.to_owned(),
            exit_code: evidence.exit_code,
            signal: evidence.signal,
            objection: None,
            output_sha256: evidence.output_sha256.clone(),
            output_log: evidence.output_log.clone().unwrap_or_default(),
        }
    }

    pub fn has_passed(&self) -> bool {
        self.exit_code == Some(0) && self.objection.is_none()
    }

    /// False if there was no such program.
    pub fn has_started(&self) -> bool {
        self.exit_code != Some(NOT_FOUND)
    }

    fn check(&self, when: &str) -> Check {
        let Self { command, output_log, .. } = self;
        if self.has_passed() {
            return Check::pass(
                CheckName::Command,
                format!("`{command}` passed on this very tree, run by mala{when}"),
            );
        }
        Check::fail(
            CheckName::Command,
            format!(
                "`{command}` failed on this very tree, run by mala ({}): see `{output_log}`",
                self.ending()
            ),
        )
    }

    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match (&self.objection, self.exit_code, self.signal) {
            (Some(objection), ..) => objection.clone(),
            (None, Some(code), _) => format!("exit code {code}"),
            (None, None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
        }
    }

    /// The end of what it printed, with secrets masked.
    pub fn output_tail(&self, most: u64) -> Option<String> {
        secrets::tail(Path::new(&self.output_log), most)
    }
}

impl Validation {
    pub fn has_passed(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(CommandResult::has_passed)
    }

    /// What failed first.
    pub fn failure(&self) -> Option<&CommandResult> {
        self.results.iter().find(|result| !result.has_passed())
    }

    fn proves(&self, tree: &Oid, requirements: &Requirements) -> bool {
        let ran = self.results.iter().map(|result| &result.command);
        let is_cold_enough = self.cold || requirements.cold != Cold::Always;
        self.is_of(tree, requirements)
            && self.has_passed()
            && is_cold_enough
            && ran.eq(&requirements.commands)
    }

    fn is_of(&self, tree: &Oid, requirements: &Requirements) -> bool {
        self.tree == *tree && self.directory == requirements.directory
    }

    /// True if one of the commands that are required now has failed.
    fn disproves(&self, tree: &Oid, requirements: &Requirements) -> bool {
        let is_required =
            self.failure().is_some_and(|failure| requirements.commands.contains(&failure.command));
        self.is_of(tree, requirements) && is_required
    }

    /// One line for each command.
    pub fn checks(&self) -> Vec<Check> {
        let when = if self.remembered { format!(" (on {})", self.started_at) } else { String::new() };
        self.results.iter().map(|result| result.check(&when)).collect()
    }
}

/// What a slot held before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warmth {
    /// What earlier trees have left.
    Warm,
    Cold,
}

/// One validation: where, of what, and for whom.
#[derive(Debug)]
pub struct Validate<'a> {
    pub repo: &'a Repo,
    pub slots: &'a Slots,
    pub pool: Pool,
    pub requirements: &'a Requirements,
    /// Becomes readable when nobody waits for the answer any more.
    pub asker: Option<BorrowedFd<'a>>,
}

/// Who follows a validation, command by command.
enum Observer<'a> {
    None,
    Told(&'a mut dyn FnMut(&str)),
    /// Every command is a test of an agent's as well.
    Tester(&'a SlotTest<'a>),
}

impl Validate<'_> {
    /// Runs the required commands on the tree of `commit`, unless it has passed them before.
    pub fn commit(&self, commit: &Oid, tee: &mut Tee<'_>) -> Result<Validation, ValidationError> {
        self.unless_passed(commit, &mut Observer::None, tee)
    }

    /// The same; `starts` hears of every command that has to be run, when it begins.
    pub fn commit_telling(
        &self,
        commit: &Oid,
        starts: &mut dyn FnMut(&str),
        tee: &mut Tee<'_>,
    ) -> Result<Validation, ValidationError> {
        self.unless_passed(commit, &mut Observer::Told(starts), tee)
    }

    /// The same, with every command recorded as a test of who asked for it.
    pub(crate) fn commit_as_test(
        &self,
        commit: &Oid,
        test: &SlotTest<'_>,
        tee: &mut Tee<'_>,
    ) -> Result<Validation, ValidationError> {
        self.unless_passed(commit, &mut Observer::Tester(test), tee)
    }

    fn unless_passed(
        &self,
        commit: &Oid,
        observer: &mut Observer<'_>,
        tee: &mut Tee<'_>,
    ) -> Result<Validation, ValidationError> {
        let tree = self.repo.commit(commit)?.tree;
        if let Some(earlier) = earlier_pass(self.repo, self.requirements, &tree)? {
            return Ok(earlier);
        }
        if self.requirements.cold == Cold::Always && self.pool == Pool::Validation {
            return self.cold(commit, observer, tee);
        }
        let lease = self.slots.take(self.pool, Some(commit), self.asker)?;
        self.run((lease, Warmth::Warm), (commit, tree), observer, tee)
    }

    /// The same in a slot that was emptied before, whatever is remembered: nothing that an earlier tree has left decides.
    pub fn commit_cold(&self, commit: &Oid, tee: &mut Tee<'_>) -> Result<Validation, ValidationError> {
        self.cold(commit, &mut Observer::None, tee)
    }

    fn cold(
        &self,
        commit: &Oid,
        observer: &mut Observer<'_>,
        tee: &mut Tee<'_>,
    ) -> Result<Validation, ValidationError> {
        let tree = self.repo.commit(commit)?.tree;
        let lease = self.slots.take(self.pool, None, self.asker)?;
        lease.empty()?;
        self.run((lease, Warmth::Cold), (commit, tree), observer, tee)
    }

    fn run(
        &self,
        (lease, warmth): (Lease, Warmth),
        (commit, tree): (&Oid, Oid),
        observer: &mut Observer<'_>,
        tee: &mut Tee<'_>,
    ) -> Result<Validation, ValidationError> {
        let started_at = Timestamp::now();
        let placed = lease.place(commit)?;
        placed.note_tree(&tree)?;
        let stay = self.slots.company().enter();
        let results = self.results(&placed, &tree, observer, tee)?;
        let timing = Some(stay.leave());
        self.slots.give_back(&placed)?;
        drop(placed);
        let directory = self.requirements.directory.clone();
        let (commit, cold) = (commit.clone(), warmth == Warmth::Cold);
        let validation =
            Validation { tree, commit, started_at, directory, results, cold, timing, remembered: false };
        // Also one that failed: whoever looks at the queue wants to know that the branch is red.
        remember(self.repo, &validation)?;
        Ok(validation)
    }

    fn results(
        &self,
        placed: &Placed,
        tree: &Oid,
        observer: &mut Observer<'_>,
        tee: &mut Tee<'_>,
    ) -> Result<Vec<CommandResult>, ValidationError> {
        let Requirements { commands, directory, timeout, setup, .. } = self.requirements;
        let deadline = Instant::now() + *timeout;
        let outputs = outputs_of(self.repo);
        if let Some(preparation) = Preparation::of(placed, tree, setup)? {
            match preparation.run(self.repo, placed, (deadline, self.asker), tee) {
                // A lock file that cannot be installed is as red as a test.
                Err(ValidationError::Setup { command, ending, log }) => {
                    let objection = Some(ending);
                    let (exit_code, signal, output_sha256) = (None, None, None);
                    return Ok(vec![CommandResult {
                        command,
                        exit_code,
                        signal,
                        objection,
                        output_sha256,
                        output_log: log,
                    }]);
                }
                prepared => prepared?,
            }
        }
        let mut results = Vec::new();
        for command in commands {
            let line = CommandLine { command, directory, deadline, asker: self.asker };
            if let Observer::Told(starts) = observer {
                starts(command);
            }
            let _note = RunningNote::leave(self.repo.scope(), placed.dir(), tree, command);
            let result = match observer {
                Observer::Tester(test) => line.run_as_test(placed, test, tee)?,
                Observer::Told(_) | Observer::None => line.run(placed, &outputs, tee)?,
            };
            results.push(self.requirements.judged(result));
        }
        Ok(results)
    }
}

/// The validation that a tree has passed before.
pub fn earlier_pass(
    repo: &Repo,
    requirements: &Requirements,
    tree: &Oid,
) -> Result<Option<Validation>, ValidationError> {
    let earlier = newest(repo, |record| record.proves(tree, requirements))?;
    Ok(earlier.map(|record| Validation { remembered: true, ..record }))
}

/// The newest commit on the line of first parents that ends in `tip` whose tree has passed. Nothing if none is known.
pub fn last_green(
    repo: &Repo,
    requirements: &Requirements,
    tip: &Oid,
) -> Result<Option<Oid>, ValidationError> {
    if requirements.is_empty() || !log_of(repo).exists() {
        return Ok(None);
    }
    let mut passed = HashSet::new();
    newest(repo, |record| {
        if record.proves(&record.tree, requirements) {
            passed.insert(record.tree.clone());
        }
        false
    })?;
    for commit in repo.first_parent_line(tip).take(MAX_HISTORY) {
        let commit = commit?;
        if passed.contains(&commit.tree) {
            return Ok(Some(commit.id));
        }
    }
    Ok(None)
}

/// The newest validation of which this is true. A log that was changed remembers nothing.
fn newest(
    repo: &Repo,
    mut is_wanted: impl FnMut(&Validation) -> bool,
) -> Result<Option<Validation>, ValidationError> {
    let log = log_of(repo);
    match anchoring::verify(&mut Store::open(repo.scope())?, repo.scope(), &log) {
        Ok(_) => {}
        Err(AnchorError::Log(ChainError::Broken(_))) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    for record in ChainReader::open(&log)?.records::<Validation>(Order::NewestFirst) {
        let record = record?;
        if is_wanted(&record) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

fn remember(repo: &Repo, validation: &Validation) -> Result<(), ValidationError> {
    Ok(anchoring::append(repo.scope(), &log_of(repo), validation).map(drop)?)
}

/// How long the last validations took that passed in a slot that held an earlier tree, at most so many.
pub(crate) fn timings(repo: &Repo, most: usize) -> Result<Vec<Timing>, ValidationError> {
    let log = log_of(repo);
    if !log.exists() {
        return Ok(Vec::new());
    }
    let mut timings = Vec::new();
    for record in ChainReader::open(&log)?.records::<Validation>(Order::NewestFirst) {
        let record = record?;
        timings.extend(record.timing.filter(|_| record.has_passed() && !record.cold));
        if timings.len() == most {
            break;
        }
    }
    Ok(timings)
}

/// How long a validation takes, by the median of the last ones, as [`timings`] has them.
pub fn median_validation(repo: &Repo) -> Result<Option<Duration>, ValidationError> {
    let mut times: Vec<Duration> =
        timings(repo, MAX_MEDIAN_TIMINGS)?.into_iter().map(|timing| timing.took).collect();
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied())
}

/// Whether a tree passes, as far as that was ever found out. One that has passed once does, as for [`earlier_pass`].
pub fn last_verdict(
    repo: &Repo,
    requirements: &Requirements,
    tree: &Oid,
) -> Result<Option<bool>, ValidationError> {
    if requirements.is_empty() || !log_of(repo).exists() {
        return Ok(None);
    }
    if earlier_pass(repo, requirements, tree)?.is_some() {
        return Ok(Some(true));
    }
    Ok(newest(repo, |record| record.disproves(tree, requirements))?.map(|_| false))
}

fn log_of(repo: &Repo) -> PathBuf {
    repo.scope().state_dir().join("evidence/validations.jsonl")
}

/// Where outputs are kept.
pub(crate) fn outputs_of(repo: &Repo) -> PathBuf {
    repo.scope().state_dir().join("evidence/output")
}

/// One command in a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandLine<'a> {
    pub(crate) command: &'a str,
    /// From the top of the tree.
    pub(crate) directory: &'a str,
    pub(crate) deadline: Instant,
    pub(crate) asker: Option<BorrowedFd<'a>>,
}

impl CommandLine<'_> {
    pub(crate) fn run(
        &self,
        placed: &Placed,
        outputs: &Path,
        tee: &mut Tee<'_>,
    ) -> Result<CommandResult, ValidationError> {
        fs::create_dir_all(outputs)
            .map_err(|source| ValidationError::Io { path: outputs.to_owned(), source })?;
        let output = outputs.join(format!("validation-{:016x}.log", fastrand::u64(..)));
        let (argv, directory) = self.parts();
        let confinement = placed.confinement();
        let timeout = self.deadline.saturating_duration_since(Instant::now());
        let manner = Manner::Slot { confinement: &confinement, timeout, asker: self.asker };
        let cwd = placed.root().join(directory);
        match run(&Task { argv: &argv, cwd: &cwd, log: &output, manner }, tee) {
            Ok(ended) => Ok(self.result(ended, &output, None)),
            Err(error) => self.failed(error, &output),
        }
    }

    /// Program and arguments, and where they run: from the top of the tree.
    fn parts(&self) -> (Vec<OsString>, PathBuf) {
        let (below, line) = match self.command.parse::<CommandPattern>() {
            Ok(pattern) => (pattern.directory().to_owned(), pattern.line()),
            Err(_) => (String::new(), self.command.to_owned()),
        };
        (line.split_whitespace().map(Into::into).collect(), Path::new(self.directory).join(below))
    }

    /// The same, recorded as a test of who asked for it.
    fn run_as_test(
        &self,
        placed: &Placed,
        test: &SlotTest<'_>,
        tee: &mut Tee<'_>,
    ) -> Result<CommandResult, ValidationError> {
        let (argv, directory) = self.parts();
        match test.run(placed, (&argv, &directory), self.deadline, tee) {
            Ok(evidence) if evidence.signal.is_some() && Instant::now() >= self.deadline => {
                let objection = Some(NOT_IN_TIME.to_owned());
                Ok(CommandResult { objection, ..CommandResult::of(self.command, &evidence) })
            }
            Ok(evidence) => Ok(CommandResult::of(self.command, &evidence)),
            Err(ValidationError::Run(error)) => self.failed(error, Path::new("")),
            Err(error) => Err(error),
        }
    }

    /// What counts as a failure of the command, and not of mala.
    fn failed(&self, error: RunError, output: &Path) -> Result<CommandResult, ValidationError> {
        match error {
            RunError::Start { source, .. } => {
                let ended = Ended { exit_code: Some(NOT_FOUND), signal: None, output_sha256: None };
                Ok(self.result(ended, output, Some(format!("it cannot be started: {source}"))))
            }
            RunError::Timeout(ended) => Ok(self.result(ended, output, Some(NOT_IN_TIME.to_owned()))),
            error => Err(error.into()),
        }
    }

    fn result(&self, ended: Ended, output: &Path, objection: Option<String>) -> CommandResult {
        CommandResult {
            command: self.command.to_owned(),
            exit_code: ended.exit_code,
            signal: ended.signal,
            objection,
            output_sha256: ended.output_sha256,
            output_log: output.to_string_lossy().into_owned(),
        }
    }
}

fn emptiness(result: &CommandResult) -> Option<String> {
    let is_empty =
        read_tail(Path::new(&result.output_log), SUMMARY_BYTES).is_some_and(|text| ran_nothing(&text));
    is_empty.then(|| "it executed no test; allow that with `empty = \"pass\"` in [validate]".to_owned())
}
