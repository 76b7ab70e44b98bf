//! How each client is started.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::install::Installed;
use super::run::{Ended, Running};
use crate::World;
use crate::model::Talk;

/// What a client keeps of the environment: enough to find programs, nothing that says who the user is.
const KEPT: &[&str] =
    &["PATH", "LANG", "LC_ALL", "PYENV_ROOT", "RUSTUP_HOME", "CARGO_HOME", "LD_LIBRARY_PATH"];

/// A client about to be started.
#[derive(Debug)]
pub struct Client<'a> {
    kind: Kind,
    program: &'a Path,
    world: &'a World,
    talk: &'a Talk,
    home: PathBuf,
    prompt: String,
    model: &'static str,
    agent: Option<(PathBuf, String)>,
    issue: Option<&'static str>,
    settings: Option<Value>,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
}

/// Which client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

/// A model that codex knows to work with JavaScript, from which it calls its tools, rather than with the tools themselves.
pub const CODE_MODE: &str = "gpt-6.1-sol";

impl Kind {
    /// What it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// A name that the client knows: it decides which tools the model gets.
    pub(super) fn model(self) -> &'static str {
        match self {
            Self::Claude => "claude-sonnet-4-5",
            Self::Codex => "gpt-5.5",
            Self::Gemini => "gemini-2.5-pro",
            Self::Opencode => "anthropic/claude-sonnet-4-5",
        }
    }
}

impl<'a> Client<'a> {
    pub fn claude(installed: &'a Installed, world: &'a World, talk: &'a Talk) -> Self {
        Self::new(Kind::Claude, installed.claude(), world, talk)
    }

    pub fn codex(installed: &'a Installed, world: &'a World, talk: &'a Talk) -> Self {
        Self::new(Kind::Codex, installed.codex(), world, talk)
    }

    pub fn gemini(installed: &'a Installed, world: &'a World, talk: &'a Talk) -> Self {
        Self::new(Kind::Gemini, installed.gemini(), world, talk)
    }

    /// `program` is [`Installed::opencode_or_skip`].
    pub fn opencode(program: &'a Path, world: &'a World, talk: &'a Talk) -> Self {
        Self::new(Kind::Opencode, program, world, talk)
    }

    /// The client of this kind, or nothing and a loud word about it where it cannot be had.
    pub fn of(kind: Kind, installed: &'a Installed, world: &'a World, talk: &'a Talk) -> Option<Self> {
        Some(Self::new(kind, installed.program_or_skip(kind)?, world, talk))
    }

    fn new(kind: Kind, program: &'a Path, world: &'a World, talk: &'a Talk) -> Self {
        let home = world.base().join(format!("home-of-{}", talk.key()));
        fs::create_dir_all(home.join("tmp")).expect("a folder can be made in the temporary folder");
        let (prompt, model) = ("Do what the script says.".to_owned(), kind.model());
        Self {
            kind,
            program,
            world,
            talk,
            home,
            prompt,
            model,
            agent: None,
            issue: None,
            settings: None,
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Runs it under `mala exec` as this agent. `mala` is the program under test.
    #[must_use]
    pub fn under(mut self, mala: impl Into<PathBuf>, agent: &str) -> Self {
        self.agent = Some((mala.into(), agent.to_owned()));
        self
    }

    /// Gives the agent an issue to work on.
    #[must_use]
    pub fn on_issue(mut self, issue: &'static str) -> Self {
        self.issue = Some(issue);
        self
    }

    #[must_use]
    pub fn prompt(mut self, prompt: &str) -> Self {
        prompt.clone_into(&mut self.prompt);
        self
    }

    #[must_use]
    pub fn model(mut self, model: &'static str) -> Self {
        self.model = model;
        self
    }

    /// Claude's `--settings`, or gemini's settings of the user. The others have none.
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = Some(settings);
        self
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Shares the HOME of another session.
    #[must_use]
    pub fn at_home(mut self, home: &Path) -> Self {
        home.clone_into(&mut self.home);
        self
    }

    /// Its HOME, where it keeps settings and transcripts.
    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn start(self) -> Running {
        let mut argv: Vec<&OsStr> = Vec::new();
        if let Some((mala, agent)) = &self.agent {
            argv.extend([mala.as_os_str(), "exec".as_ref(), "--agent".as_ref(), agent.as_ref()]);
            argv.extend(self.issue.iter().flat_map(|issue| ["--issue".as_ref(), OsStr::new(issue)]));
            argv.push("--".as_ref());
        }
        if let Kind::Gemini = self.kind {
            argv.push("node".as_ref());
        }
        argv.push(self.program.as_os_str());
        let mut command = self.world.command(argv[0]);
        command.args(&argv[1..]);
        self.environment(&mut command);
        match self.kind {
            Kind::Claude => self.claude_args(&mut command),
            Kind::Codex => self.codex_args(&mut command),
            Kind::Gemini => self.gemini_args(&mut command),
            Kind::Opencode => self.opencode_args(&mut command),
        }
        Running::start(command, self.talk.clone())
    }

    /// Starts it and waits for its end.
    pub fn run(self) -> Ended {
        self.start().finish()
    }

    fn environment(&self, command: &mut Command) {
        command.env_clear();
        command.envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs([("HOME", self.home.clone()), ("TMPDIR", self.home.join("tmp"))]);
        command.env("XDG_CONFIG_HOME", self.home.join(".config")).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_CONFIG_GLOBAL", self.world.home().join(".gitconfig"));
        match self.kind {
            // Says that an outer sandbox is there; root may not work without questions otherwise.
            Kind::Claude => command.env("IS_SANDBOX", "1"),
            Kind::Codex => command.env("CODEX_HOME", self.home.join(".codex")),
            Kind::Gemini | Kind::Opencode => command,
        };
        command.envs(self.kind.environment(self.talk));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
    }

    fn claude_args(&self, command: &mut Command) {
        command.args(["-p", &self.prompt, "--output-format", "stream-json", "--verbose"]);
        command.args(["--permission-mode", "bypassPermissions", "--model", self.model]);
        if let Some(settings) = &self.settings {
            command.args(["--settings", &settings.to_string()]);
        }
        command.args(&self.args);
    }

    fn codex_args(&self, command: &mut Command) {
        fs::create_dir_all(self.home.join(".codex")).expect("a folder can be made in a client's home");
        command.args(["exec", "--json", "--skip-git-repo-check", "-m", self.model]);
        command.arg("--dangerously-bypass-approvals-and-sandbox");
        for setting in codex_settings(self.talk) {
            command.args(["-c", &setting]);
        }
        command.args(&self.args).arg(&self.prompt);
    }

    fn opencode_args(&self, command: &mut Command) {
        let folder = self.home.join(".config/opencode");
        opencode_at_home(&folder);
        let project = self.world.root().join(".opencode");
        if project.is_dir() {
            opencode_at_home(&project);
        }
        fs::write(folder.join("opencode.json"), opencode_settings(self.talk).to_string())
            .expect("a client's home can be written");
        command.args(["run", "--format", "json"]).args(&self.args).arg(&self.prompt);
    }

    fn gemini_args(&self, command: &mut Command) {
        gemini_at_home(&self.home, self.settings.clone().unwrap_or_else(|| json!({})));
        command.args(["-p", &self.prompt, "-o", "stream-json", "--approval-mode", "yolo", "--skip-trust"]);
        command.args(["-m", self.model]).args(&self.args);
    }
}

impl Kind {
    /// The environment in which it speaks with the scripted model and with nobody else.
    pub(super) fn environment(self, talk: &Talk) -> Vec<(String, String)> {
        let url = talk.url();
        let variables: &[(&str, &str)] = match self {
            Self::Claude => &[
                ("ANTHROPIC_BASE_URL", &url),
                ("ANTHROPIC_API_KEY", talk.key()),
                ("DISABLE_AUTOUPDATER", "1"),
                ("DISABLE_TELEMETRY", "1"),
                ("DISABLE_ERROR_REPORTING", "1"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ],
            Self::Codex => &[("TEST_MODEL_KEY", talk.key())],
            Self::Gemini => &[
                ("GOOGLE_GEMINI_BASE_URL", &url),
                ("GEMINI_API_KEY", talk.key()),
                // Otherwise it starts itself a second time, with more memory than a test needs.
                ("GEMINI_CLI_NO_RELAUNCH", "true"),
            ],
            Self::Opencode => OPENCODE_OFFLINE,
        };
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }
}

/// Lines of codex's settings that make the scripted model its own.
pub(super) fn codex_settings(talk: &Talk) -> [String; 2] {
    let provider = format!(
        r#"model_providers.test={{name="test",base_url="{}/v1",env_key="TEST_MODEL_KEY",wire_api="responses"}}"#,
        talk.url()
    );
    [r#"model_provider="test""#.to_owned(), provider]
}

/// Gemini's settings of a user who has chosen how to sign in.
pub(super) fn gemini_at_home(home: &Path, mut settings: Value) {
    settings["security"] = json!({"auth": {"selectedType": "gemini-api-key"}});
    settings["privacy"] = json!({"usageStatisticsEnabled": false});
    // Otherwise it tries again by itself for minutes when its provider says no.
    settings["general"] = json!({"enableAutoUpdate": false, "maxAttempts": 1});
    let folder = home.join(".gemini");
    fs::create_dir_all(&folder).expect("a folder can be made in a client's home");
    fs::write(folder.join("settings.json"), settings.to_string()).expect("a client's home can be written");
}

/// Keeps opencode from looking for models, updates and language servers on the network.
pub const OPENCODE_OFFLINE: &[(&str, &str)] = &[
    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
];

/// Makes a folder of settings one in which opencode has been before. It would fetch a package of types for plugins there
/// otherwise, from the network, and wait for it.
pub(super) fn opencode_at_home(folder: &Path) {
    let lock = json!({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}});
    fs::create_dir_all(folder.join("node_modules")).expect("a folder can be made for a client's settings");
    fs::write(folder.join("package-lock.json"), lock.to_string())
        .expect("a client's settings can be written");
}

/// A user's settings for opencode, in which the model is the scripted one and nobody is asked.
pub fn opencode_settings(talk: &Talk) -> Value {
    let options = json!({"baseURL": format!("{}/v1", talk.url()), "apiKey": talk.key()});
    json!({
        "model": Kind::Opencode.model(), "small_model": Kind::Opencode.model(), "permission": "allow",
        "autoupdate": false, "share": "disabled", "provider": {"anthropic": {"options": options}},
    })
}

/// Gemini's settings for one hook command on each of these events.
pub fn gemini_hooks(command: &str, events: &[&str]) -> Value {
    let entry =
        json!([{"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": 30000}]}]);
    let hooks: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), entry.clone())).collect();
    json!({"hooks": hooks})
}

/// Claude's settings for one hook command on each of these events. A hook that fails blocks.
pub fn claude_hooks(command: &str, events: &[&str]) -> Value {
    let hook = json!({"type": "command", "command": command, "timeout": 30, "onFailure": "block"});
    let entry = json!([{"matcher": "*", "hooks": [hook]}]);
    let hooks: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), entry.clone())).collect();
    json!({"disableAllHooks": false, "hooks": hooks})
}

/// Gives codex one hook command for each of these events.
pub fn codex_hooks<'a>(client: Client<'a>, command: &str, events: &[&str]) -> Client<'a> {
    let trusting = client.arg("--dangerously-bypass-hook-trust");
    events.iter().fold(trusting, |client, event| {
        let hook = format!(r#"[{{hooks=[{{type="command",command={},timeout=30}}]}}]"#, json!(command));
        client.arg("-c").arg(format!("hooks.{event}={hook}"))
    })
}
