//! Every real client as a profile of `mala run`.

use std::fs;

use mala_agents::Client;
use mala_tests::World;
use mala_tests::clients::{Installed, OPENCODE_OFFLINE, opencode_settings};
use mala_tests::model::{Reply, Talk, call};
use mala_tests::registry::Registry;
use serde_json::json;

use super::{Claude, Gemini, shell};
use crate::cli::{Answer, done, mala};
use crate::run::Run;

/// A checkout with one issue for a client.
pub(super) struct Checkout {
    pub(super) world: World,
    client: Client,
    /// What opencode installs wherever it finds settings.
    registry: Option<Registry>,
}

impl Checkout {
    /// Nothing if the client cannot be had.
    pub(super) fn of(client: Client, installed: &Installed) -> Option<Self> {
        let mut registry = None;
        if client == Client::Opencode {
            installed.opencode_or_skip()?;
            registry = Some(Registry::start("@opencode-ai/plugin", "1.18.33"));
        }
        Some(Self { world: World::new(), client, registry })
    }

    /// The client's shell.
    pub(super) fn shell(&self, command: &str) -> Reply {
        match self.client {
            Client::Claude => Claude(&self.world).bash(command),
            Client::Codex => shell(command),
            Client::Gemini => Gemini(&self.world).shell(command),
            Client::Opencode => {
                call("bash", json!({"command": command, "description": "as the script says"}))
            }
        }
    }

    /// Works the issue off, with this talk as the model. `settings` are added to those of the repository.
    pub(super) fn run(&self, installed: &Installed, talk: &Talk, settings: &str) -> Run {
        let Self { world, client, .. } = self;
        let profile = self.profile(installed, talk);
        world.write(
            "mala.toml",
            &format!(
                "[issues]\nsource = \"builtin\"\n[gate]\nissue_pattern = \"<id>\"\n[validate]\ncommands = [\"true\"]\n\
                 [run]\nprofile = \"{client}\"\nattempts = 1\n{settings}\n[agents.{client}]\n{profile}\n"
            ),
        );
        world.git(&["add", "."]);
        world.git(&["commit", "-q", "-m", "start"]);
        done(world, "issue add --id bd-1 Work");
        let mut command = mala(world, ["run", "--json"]);
        // Nothing of whoever runs the tests decides which model is asked.
        for name in [
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CODEX_HOME",
            "GEMINI_CLI_HOME",
        ] {
            command.env_remove(name);
        }
        command.env("MALA_RUN_STAGGER", "1ms").output().map(Answer::from).unwrap().into()
    }

    fn profile(&self, installed: &Installed, talk: &Talk) -> String {
        let (url, key) = (talk.url(), talk.key());
        let at_home = |path: &str, text: &str| {
            let path = self.world.home().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        match self.client {
            Client::Claude => format!(
                "command = [\"{}\"]\nmodel = \"claude-sonnet-4-5\"\nenv = {{ ANTHROPIC_BASE_URL = \"{url}\", ANTHROPIC_API_KEY = \
                 \"{key}\", DISABLE_AUTOUPDATER = \"1\", DISABLE_TELEMETRY = \"1\", DISABLE_ERROR_REPORTING = \"1\", \
                 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\" }}",
                installed.claude().display()
            ),
            Client::Codex => {
                let provider = format!(
                    "model_provider = \"test\"\n[model_providers.test]\nname = \"test\"\nbase_url = \"{url}/v1\"\nenv_key = \
                     \"TEST_MODEL_KEY\"\nwire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n"
                );
                at_home(".codex/config.toml", &provider);
                let program = installed.codex().display();
                format!(
                    "command = [\"{program}\"]\nmodel = \"gpt-5.5\"\nenv = {{ TEST_MODEL_KEY = \"{key}\" }}"
                )
            }
            Client::Gemini => {
                let settings = json!({
                    "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
                    "general": {"enableAutoUpdate": false},
                });
                at_home(".gemini/settings.json", &settings.to_string());
                format!(
                    "command = [\"node\", \"{}\"]\nmodel = \"gemini-2.5-pro\"\nenv = {{ GOOGLE_GEMINI_BASE_URL = \"{url}\", \
                     GEMINI_API_KEY = \"{key}\", GEMINI_CLI_NO_RELAUNCH = \"true\" }}",
                    installed.gemini().display()
                )
            }
            Client::Opencode => {
                at_home(".npmrc", &self.registry.as_ref().map(Registry::npmrc).unwrap_or_default());
                at_home(".config/opencode/opencode.json", &opencode_settings(talk).to_string());
                let variables: Vec<String> =
                    OPENCODE_OFFLINE.iter().map(|(name, value)| format!("{name} = \"{value}\"")).collect();
                let program = installed.opencode_or_skip().unwrap().display();
                format!("command = [\"{program}\"]\nenv = {{ {} }}", variables.join(", "))
            }
        }
    }
}
