//! Hooks for one run of a client, whatever the project's settings say.

use std::path::{Path, PathBuf};

use crate::Client;
use crate::install::{events, group, plugin, quoted_command, timeout};

/// What is added to a client's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injection {
    /// Arguments, before the prompt.
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Files that must be there before it starts.
    pub files: Vec<(PathBuf, String)>,
}

/// How `client` is started with hooks that call `mala`. `folder` takes files that belong to this run; it must be
/// absolute and out of the agents' reach.
pub fn injection(client: Client, mala: &str, folder: &Path) -> Injection {
    match client {
        Client::Claude => {
            // It outweighs every settings file, so that nobody switches the hooks off in the middle of a session.
            let settings = format!("{{\"disableAllHooks\":false,{}}}", hooks(client, mala));
            Injection { args: vec!["--settings".to_owned(), settings], ..Injection::default() }
        }
        Client::Codex => Injection { args: codex(mala), ..Injection::default() },
        Client::Gemini => {
            let file = folder.join("gemini-settings.json");
            Injection {
                env: vec![("GEMINI_CLI_SYSTEM_SETTINGS_PATH".to_owned(), file.display().to_string())],
                files: vec![(file, format!("{{{}}}\n", hooks(client, mala)))],
                ..Injection::default()
            }
        }
        Client::Opencode => {
            let file = folder.join("opencode-mala.js");
            let config = serde_json::json!({ "plugin": [format!("file://{}", file.display())] });
            Injection {
                env: vec![("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_string())],
                files: vec![(file, plugin(mala))],
                ..Injection::default()
            }
        }
    }
}

fn hooks(client: Client, mala: &str) -> String {
    let entries: Vec<String> =
        events(client).iter().map(|event| format!("\"{event}\":[{}]", group(client, event, mala))).collect();
    format!("\"hooks\":{{{}}}", entries.join(","))
}

fn codex(mala: &str) -> Vec<String> {
    let command = quoted_command(Client::Codex, mala);
    // Hooks that nobody looked at before do not run otherwise, and it says nothing.
    let mut args =
        vec!["--dangerously-bypass-hook-trust".to_owned(), "-c".to_owned(), "features.hooks=true".to_owned()];
    for event in events(Client::Codex) {
        args.push("-c".to_owned());
        let seconds = timeout(Client::Codex, event);
        args.push(format!(
            "hooks.{event}=[{{hooks=[{{type=\"command\",command={command},timeout={seconds}}}]}}]"
        ));
    }
    args
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn claude_gets_its_hooks_by_argument_and_they_cannot_be_switched_off() {
        let injection = injection(Client::Claude, "/opt/my tools/mala", Path::new("/run"));
        assert_eq!(injection.args[0], "--settings");
        let settings: Value = serde_json::from_str(&injection.args[1]).unwrap();
        assert_eq!(settings["disableAllHooks"], false);
        let hook = &settings["hooks"]["PreToolUse"][0];
        assert_eq!(hook["matcher"], "*");
        assert_eq!(hook["hooks"][0]["command"], "'/opt/my tools/mala' hook claude");
        assert_eq!(hook["hooks"][0]["onFailure"], "block");
        assert_eq!(settings["hooks"].as_object().unwrap().len(), 8);
        assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0].get("onFailure"), None);
    }

    #[test]
    fn codex_gets_settings_that_are_valid_toml() {
        let injection = injection(Client::Codex, "it's \"mala\"", Path::new("/run"));
        assert_eq!(injection.args[0], "--dangerously-bypass-hook-trust");
        let settings: Vec<&String> = injection.args[1..].chunks(2).map(|pair| &pair[1]).collect();
        assert_eq!(settings.len(), 8);
        let text = settings.iter().map(|setting| setting.as_str()).collect::<Vec<_>>().join("\n");
        let table: toml::Table = toml::from_str(&text).unwrap();
        let hook = &table["hooks"]["PreToolUse"][0]["hooks"][0];
        assert_eq!(hook["command"].as_str(), Some(r#"'it'\''s "mala"' hook codex"#));
        assert_eq!(hook["timeout"].as_integer(), Some(30));
    }

    #[test]
    fn gemini_and_opencode_get_files_of_this_run() {
        let gemini = injection(Client::Gemini, "mala", Path::new("/run/x"));
        let (file, text) = &gemini.files[0];
        assert_eq!(gemini.env, [("GEMINI_CLI_SYSTEM_SETTINGS_PATH".to_owned(), file.display().to_string())]);
        let settings: Value = serde_json::from_str(text).unwrap();
        assert_eq!(settings["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"], 30_000);
        let opencode = injection(Client::Opencode, "/a/mala", Path::new("/run/x"));
        assert!(opencode.files[0].1.contains("const MALA = \"/a/mala\""));
        assert_eq!(opencode.env[0].1, r#"{"plugin":["file:///run/x/opencode-mala.js"]}"#);
    }
}
