//! Hooks and tools for one run of a client, whatever the project's settings say.
//!
//! Everything is handed to the one process that is started: no file of the user's or the project's is written, neither by
//! mala nor, where that can be helped, by the client. What the user has set up besides, other tool servers for example,
//! stays as it is.

pub mod home;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Client;
use crate::install::{INJECTED, Origin, events, group, plugin, plugin_command, quoted_command, timeout};

use home::Home;

/// What carries mala into opencode. A profile that set it itself would start a client without hooks.
pub(crate) const OPENCODE_CONFIG: &str = "OPENCODE_CONFIG_CONTENT";

/// What is added to a client's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injection {
    /// Arguments, before the prompt.
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Files that must be there before it starts.
    pub files: Vec<(PathBuf, String)>,
    /// A home that must be there before it starts.
    pub home: Option<Home>,
}

/// How `client` is started in the checkout `root` with hooks that call `mala` and with mala's own tools. `folder` takes
/// files that belong to this process; it must be absolute, and out of the agents' reach unless it becomes the client's
/// home.
pub fn injection(client: Client, mala: &str, root: &Path, folder: &Path) -> Injection {
    match client {
        Client::Claude => Injection { args: claude(mala), ..Injection::default() },
        Client::Codex => Injection { args: codex(mala, root), ..Injection::default() },
        Client::Gemini => {
            // Its user was not asked about this server, and nobody is there to be asked.
            let server = json!({ "command": mala, "args": ["mcp"], "trust": true });
            // What a hook says when a session starts becomes a message of the user. It drops that on resume, and the task with it.
            let events: Vec<&str> =
                events(client).iter().copied().filter(|event| *event != "SessionStart").collect();
            let text =
                format!("{{{},\"mcpServers\":{}}}", hooks(client, &events, mala), json!({ "mala": server }));
            let ours = serde_json::from_str(&text).expect("hooks are valid JSON");
            Injection {
                env: vec![(home::VARIABLE.to_owned(), folder.display().to_string())],
                home: Some(Home { path: folder.to_owned(), ours }),
                ..Injection::default()
            }
        }
        Client::Opencode => {
            let file = folder.join("opencode-mala.js");
            let server = json!({ "type": "local", "command": [mala, "mcp"], "enabled": true });
            let config =
                json!({ "plugin": [format!("file://{}", file.display())], "mcp": { "mala": server } });
            Injection {
                env: vec![(OPENCODE_CONFIG.to_owned(), config.to_string())],
                files: vec![(file, plugin(mala, Origin::Injected))],
                ..Injection::default()
            }
        }
    }
}

/// Arguments with which `client` does only what it does at its first start on a machine or in a checkout: it makes its database, in
/// which two that are started at once get in each other's way, and installs packages into the checkout.
pub fn first_visit(client: Client) -> Option<&'static [&'static str]> {
    // It waits for the packages because a plugin is configured: ours.
    (client == Client::Opencode).then_some(&["debug", "config"])
}

/// True if a client that was started with these arguments and this environment, both separated by NUL as the kernel shows
/// them, has hooks of [`injection`]. Then the project's hooks, which it calls as well, have nothing to add.
pub fn is_injected(client: Client, args: &[u8], env: &[u8]) -> bool {
    let variable = |name: &str| {
        let mut variables = env.split(|byte| *byte == 0).filter_map(|one| one.strip_prefix(name.as_bytes()));
        String::from_utf8(variables.find_map(|rest| rest.strip_prefix(b"="))?.to_vec()).ok()
    };
    let is_marked = |file: &str| std::fs::read_to_string(file).is_ok_and(|text| text.contains(INJECTED));
    match client {
        Client::Claude | Client::Codex => {
            String::from_utf8_lossy(args).contains(&format!("hook {client} {INJECTED}"))
        }
        Client::Gemini => variable(home::VARIABLE)
            .is_some_and(|home| is_marked(&home::settings_file(Path::new(&home)).to_string_lossy())),
        Client::Opencode => variable(OPENCODE_CONFIG).is_some_and(|config| {
            let config: Value = serde_json::from_str(&config).unwrap_or_default();
            let plugin = config["plugin"][0].as_str().and_then(|plugin| plugin.strip_prefix("file://"));
            plugin.is_some_and(is_marked)
        }),
    }
}

/// The command that a client started with `injection` runs before each tool, as a shell reads it.
pub fn hook_command(client: Client, injection: &Injection) -> Option<String> {
    let command = |settings: &Value, event: &str| {
        settings.pointer(&format!("/hooks/{event}/0/hooks/0/command"))?.as_str().map(str::to_owned)
    };
    match client {
        Client::Claude => {
            let at = injection.args.iter().position(|arg| arg == "--settings")?;
            command(&serde_json::from_str(injection.args.get(at + 1)?).ok()?, "PreToolUse")
        }
        Client::Codex => {
            let given = injection.args.iter().find(|arg| arg.starts_with("hooks.PreToolUse="))?;
            let table: toml::Table = toml::from_str(given).ok()?;
            command(&serde_json::to_value(table).ok()?, "PreToolUse")
        }
        Client::Gemini => command(&injection.home.as_ref()?.ours, "BeforeTool"),
        Client::Opencode => plugin_command(&injection.files.first()?.1),
    }
}

fn claude(mala: &str) -> Vec<String> {
    let server = json!({ "mcpServers": { "mala": { "command": mala, "args": ["mcp"] } } });
    // It outweighs every settings file, so that nobody switches the hooks off in the middle of a session.
    let settings =
        format!("{{\"disableAllHooks\":false,{}}}", hooks(Client::Claude, events(Client::Claude), mala));
    // The first takes any number of values: something else has to follow.
    ["--mcp-config", &server.to_string(), "--settings", &settings].map(str::to_owned).to_vec()
}

fn hooks(client: Client, events: &[&str], mala: &str) -> String {
    let entries: Vec<String> = events
        .iter()
        .map(|event| format!("\"{event}\":[{}]", group(client, event, mala, Origin::Injected)))
        .collect();
    format!("\"hooks\":{{{}}}", entries.join(","))
}

fn codex(mala: &str, root: &Path) -> Vec<String> {
    let command = quoted_command(Client::Codex, mala, Origin::Injected);
    let quoted = |text: &str| Value::from(text).to_string();
    let mut settings = vec![
        "features.hooks=true".to_owned(),
        // A login shell reads the user's profile, which may put another `PATH` in the place of the one with mala in it.
        "allow_login_shell=false".to_owned(),
        // It trusts a folder in which it asks nothing, and would write that into the user's own settings.
        format!("projects={{{}={{trust_level=\"trusted\"}}}}", quoted(&root.to_string_lossy())),
        format!("mcp_servers.mala={{command={},args=[\"mcp\"]}}", quoted(mala)),
    ];
    settings.extend(events(Client::Codex).iter().map(|event| {
        let seconds = timeout(Client::Codex, event);
        format!("hooks.{event}=[{{hooks=[{{type=\"command\",command={command},timeout={seconds}}}]}}]")
    }));
    // Hooks that nobody looked at before do not run otherwise, and it says nothing.
    let trust = "--dangerously-bypass-hook-trust".to_owned();
    std::iter::once(trust).chain(settings.into_iter().flat_map(|one| ["-c".to_owned(), one])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injected(client: Client, mala: &str) -> Injection {
        injection(client, mala, Path::new("/home/ann/my \"checkout\""), Path::new("/run/x"))
    }

    /// The value behind an option.
    fn option(injection: &Injection, name: &str) -> Value {
        let at = injection.args.iter().position(|arg| arg == name).unwrap();
        serde_json::from_str(&injection.args[at + 1]).unwrap()
    }

    #[test]
    fn claude_gets_its_hooks_by_argument_and_they_cannot_be_switched_off() {
        let injection = injected(Client::Claude, "/opt/my tools/mala");
        let settings = option(&injection, "--settings");
        assert_eq!(settings["disableAllHooks"], false);
        let hook = &settings["hooks"]["PreToolUse"][0];
        assert_eq!(hook["matcher"], "*");
        assert_eq!(hook["hooks"][0]["command"], "'/opt/my tools/mala' hook claude --injected");
        assert_eq!(hook["hooks"][0]["onFailure"], "block");
        assert_eq!(settings["hooks"].as_object().unwrap().len(), 8);
        assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0].get("onFailure"), None);
    }

    #[test]
    fn claude_gets_malas_tools_beside_the_users_own() {
        let injection = injected(Client::Claude, "/opt/my tools/mala");
        let server = json!({ "command": "/opt/my tools/mala", "args": ["mcp"] });
        assert_eq!(option(&injection, "--mcp-config"), json!({ "mcpServers": { "mala": server } }));
        assert!(!injection.args.contains(&"--strict-mcp-config".to_owned()));
        let last = injection.args.iter().rposition(|arg| arg.starts_with("--")).unwrap();
        assert_eq!(injection.args[last], "--settings", "nothing that follows is taken for a server");
    }

    #[test]
    fn codex_gets_settings_that_are_valid_toml() {
        let injection = injected(Client::Codex, "it's \"mala\"");
        assert_eq!(injection.args[0], "--dangerously-bypass-hook-trust");
        let settings: Vec<&String> = injection.args[1..].chunks(2).map(|pair| &pair[1]).collect();
        let text = settings.iter().map(|setting| setting.as_str()).collect::<Vec<_>>().join("\n");
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["hooks"].as_table().unwrap().len(), 7);
        assert_eq!(table["allow_login_shell"].as_bool(), Some(false));
        let hook = &table["hooks"]["PreToolUse"][0]["hooks"][0];
        assert_eq!(hook["command"].as_str(), Some(r#"'it'\''s "mala"' hook codex --injected"#));
        assert_eq!(hook["timeout"].as_integer(), Some(30));
        let server = &table["mcp_servers"]["mala"];
        assert_eq!(
            (server["command"].as_str(), server["args"][0].as_str()),
            (Some("it's \"mala\""), Some("mcp"))
        );
        let project = &table["projects"]["/home/ann/my \"checkout\""];
        assert_eq!(project["trust_level"].as_str(), Some("trusted"), "it need not note that down itself");
    }

    #[test]
    fn gemini_gets_a_home_and_opencode_a_file() {
        let gemini = injected(Client::Gemini, "mala");
        assert_eq!(gemini.env, [("GEMINI_CLI_HOME".to_owned(), "/run/x".to_owned())]);
        let settings: Value = serde_json::from_str(&gemini.home.unwrap().settings(None).unwrap()).unwrap();
        assert_eq!(settings["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"], 30_000);
        assert_eq!(settings["mcpServers"]["mala"]["args"], json!(["mcp"]));
        assert_eq!(settings["hooks"].get("SessionStart"), None, "its context would cost the task on resume");
        let opencode = injected(Client::Opencode, "/a/mala");
        assert!(opencode.files[0].1.contains("const MALA = \"/a/mala\""));
        let config: Value = serde_json::from_str(&opencode.env[0].1).unwrap();
        assert_eq!(config["plugin"], json!(["file:///run/x/opencode-mala.js"]));
        assert_eq!(config["mcp"]["mala"]["command"], json!(["/a/mala", "mcp"]));
    }

    #[test]
    fn the_hook_that_a_client_runs_can_be_told_from_what_it_is_given() {
        for (client, command) in [
            (Client::Claude, Some("'my mala' hook claude --injected")),
            (Client::Codex, Some("'my mala' hook codex --injected")),
            (Client::Gemini, Some("'my mala' hook gemini --injected")),
            (Client::Opencode, Some("'my mala' hook opencode --injected")),
        ] {
            assert_eq!(hook_command(client, &injected(client, "my mala")).as_deref(), command);
        }
    }

    #[test]
    fn a_client_that_was_started_with_hooks_is_told_from_one_that_was_not() {
        let folder = tempfile::tempdir().unwrap();
        for client in Client::ALL {
            let injection = injection(client, "/opt/mala", Path::new("/w"), folder.path());
            for (file, text) in &injection.files {
                std::fs::write(file, text).unwrap();
            }
            if let Some(home) = &injection.home {
                let file = home::settings_file(&home.path);
                std::fs::create_dir(file.parent().unwrap()).unwrap();
                std::fs::write(file, home.settings(None).unwrap()).unwrap();
            }
            let args = injection.args.join("\0");
            let env: Vec<String> =
                injection.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert!(is_injected(client, args.as_bytes(), env.join("\0").as_bytes()), "{client}");
            let other = format!("HOME=/root\0{}=/dev\0{OPENCODE_CONFIG}={{}}", home::VARIABLE);
            assert!(!is_injected(client, b"claude\0-p\0hello", other.as_bytes()), "{client}");
        }
    }
}
