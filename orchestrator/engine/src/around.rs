//! What an agent has of its own besides its files, and the commands that see to it: before its attempt, and after it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use mala_config::{ShareTemplate, Variables};
use mala_core::Attempt;
use mala_core::shell::word;
use mala_gate::runner::{Confinement, Manner, RunError, Task, Tee, run};
use mala_landing::{LeasedShare, NoFreePorts};
use mala_logs::secrets;
use thiserror::Error;

use crate::options::AroundOptions;

/// So much of a command's output is searched for its last line.
const TAIL_BYTES: u64 = 4 << 10;

/// Variables of this process that say nothing about an agent.
const OWN_PREFIX: &str = "MALA_";

#[derive(Debug, Error)]
pub enum AroundError {
    #[error("`{command}`, which runs {when} each attempt (`run.{when}`), {how}; its output is in {}", word(.log.as_os_str().as_encoded_bytes()))]
    Failed { command: String, when: &'static str, how: String, log: PathBuf },
    #[error("`{command}`, which runs {when} each attempt (`run.{when}`), cannot be run")]
    Run {
        command: String,
        when: &'static str,
        #[source]
        source: RunError,
    },
}

/// The variables that tell an agent, and what runs around it, what it is.
pub(crate) fn variables(
    attempt: &Attempt,
    share: &LeasedShare,
    env: &Variables,
) -> Result<Vec<(String, String)>, NoFreePorts> {
    let mut variables = share.variables(env)?;
    let told = [
        ("MALA_ISSUE", attempt.issue.to_string()),
        ("MALA_AGENT", attempt.agent.to_string()),
        ("MALA_RUN", attempt.run.to_string()),
        ("MALA_ATTEMPT", attempt.number.to_string()),
    ];
    variables.extend(told.map(|(name, value)| (name.to_owned(), value)));
    Ok(variables)
}

/// The commands around one attempt.
#[derive(Debug)]
pub(crate) struct Around {
    before: Vec<String>,
    after: Vec<String>,
    timeout: Duration,
    directory: PathBuf,
    /// The log of the agent. What the commands print lies beside it.
    log: PathBuf,
    confinement: Confinement,
}

impl Around {
    pub(crate) fn new(
        options: &AroundOptions,
        share: &LeasedShare,
        variables: Vec<(String, String)>,
        directory: &Path,
        log: &Path,
    ) -> Result<Self, NoFreePorts> {
        let commands = |templates: &[ShareTemplate]| -> Result<Vec<String>, NoFreePorts> {
            templates.iter().map(|one| share.command(one)).collect()
        };
        let own = env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with(OWN_PREFIX));
        let variables = variables.into_iter().map(|(name, value)| (OsString::from(name), value.into()));
        Ok(Self {
            before: commands(&options.before)?,
            after: commands(&options.after)?,
            timeout: options.timeout,
            directory: directory.to_owned(),
            log: log.to_owned(),
            // A person has named them, and may want anything.
            confinement: Confinement {
                variables: own.chain(variables).collect(),
                writable: vec!["/".into()],
            },
        })
    }

    /// One after the other, up to the first that fails.
    pub(crate) fn before(&self) -> Result<(), AroundError> {
        self.before.iter().enumerate().try_for_each(|(index, command)| self.run("before", index, command))
    }

    /// All of them, whatever comes of the others. The first failure is told.
    pub(crate) fn after(&self) -> Result<(), AroundError> {
        let ran = self.after.iter().enumerate().map(|(index, command)| self.run("after", index, command));
        ran.fold(Ok(()), Result::and)
    }

    fn run(&self, when: &'static str, index: usize, command: &str) -> Result<(), AroundError> {
        let argv: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
        let log = self.log.with_extension(format!("{when}-{}.log", index + 1));
        if let Some(directory) = log.parent() {
            // If it cannot be made, the log cannot either.
            let _ = fs::create_dir_all(directory);
        }
        let manner = Manner::Slot { confinement: &self.confinement, timeout: self.timeout, asker: None };
        let task = Task { argv: &argv, cwd: &self.directory, log: &log, manner };
        let (mut out, mut err) = (io::sink(), io::sink());
        let how = match run(&task, &mut Tee { out: &mut out, err: &mut err }) {
            Ok(ended) if ended.exit_code == Some(0) => return Ok(()),
            Ok(ended) => match (ended.exit_code, ended.signal) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, signal) => format!("was killed by signal {}", signal.unwrap_or_default()),
            },
            Err(RunError::Timeout(_)) => {
                format!("was not done after {:?} (`run.command_timeout`)", self.timeout)
            }
            Err(source) => return Err(AroundError::Run { command: command.to_owned(), when, source }),
        };
        let how = match last_line(&log) {
            Some(line) => format!("{how}: {line}"),
            None => how,
        };
        Err(AroundError::Failed { command: command.to_owned(), when, how, log })
    }
}

fn last_line(log: &Path) -> Option<String> {
    let text = secrets::tail(log, TAIL_BYTES)?;
    text.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use mala_config::{Settings, Sources};
    use tempfile::TempDir;

    use super::*;

    struct World {
        directory: TempDir,
        share: LeasedShare,
    }

    impl World {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), share: LeasedShare::lease("7".to_owned()) }
        }

        fn around(&self, before: &[&str], after: &[&str]) -> Around {
            let toml = format!("[run]\nbefore = {before:?}\nafter = {after:?}\n");
            let file = self.directory.path().join("mala.toml");
            fs::write(&file, toml).unwrap();
            let sources = Sources { repo_file: Some(file), ..Sources::default() };
            let run = Settings::load(&sources).unwrap().settings.run;
            let timeout = Duration::from_secs(1);
            let options = AroundOptions { before: run.before, after: run.after, timeout };
            let variables = self.share.variables(&Variables::default()).unwrap();
            let root = self.directory.path();
            Around::new(&options, &self.share, variables, root, &root.join("logs/agent.log")).unwrap()
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.directory.path().join(name)).unwrap()
        }
    }

    #[test]
    fn commands_run_in_their_order_in_the_checkout_with_what_the_agent_has() {
        let world = World::new();
        world
            .around(&["touch db_{slot}", "cp db_{slot} second", "printenv MALA_SLOT"], &[])
            .before()
            .unwrap();
        assert_eq!(world.read("second"), "");
        assert_eq!(world.read("logs/agent.before-3.log"), "7\n");
    }

    #[test]
    fn the_first_that_fails_before_an_attempt_is_named_with_what_it_said_and_is_the_last() {
        let world = World::new();
        let error =
            world.around(&["ls /nothing/{slot}", "touch second"], &[]).before().unwrap_err().to_string();
        assert!(
            error.starts_with("`ls /nothing/7`, which runs before each attempt (`run.before`), ended with"),
            "{error}"
        );
        assert!(error.contains("No such file") && error.contains("agent.before-1.log"), "{error}");
        assert!(!world.directory.path().join("second").exists());
    }

    #[test]
    fn a_program_that_is_not_there_and_one_that_never_ends_are_named() {
        let world = World::new();
        let error = world.around(&["no-such-program"], &[]).before().unwrap_err();
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
        let error = world.around(&["sleep 600"], &[]).before().unwrap_err().to_string();
        assert!(error.contains("was not done after 1s (`run.command_timeout`)"), "{error}");
    }

    #[test]
    fn after_an_attempt_all_of_them_run_and_the_first_failure_is_told() {
        let world = World::new();
        let error =
            world.around(&[], &["false", "touch second", "ls /nothing"]).after().unwrap_err().to_string();
        assert!(
            error.contains("`false`, which runs after each attempt") && error.contains("exit code 1"),
            "{error}"
        );
        assert_eq!(world.read("second"), "");
    }
}
