//! A home of its own for one process of Gemini CLI.
//!
//! It takes system settings only from files that belong to root, below directories of root's that nobody else may write
//! to; what is otherwise it leaves out, and says so at most on stderr. An ordinary user has no such place. But it may be
//! told of another home (`GEMINI_CLI_HOME`): there, all is the user's by symlinks, but for the settings, which are
//! those of the user with mala's hooks and tools added.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jsonc_parser::parse_to_serde_value;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::install::parse_options;

/// By this variable it is told of its home.
pub const VARIABLE: &str = "GEMINI_CLI_HOME";
/// Its directory in a home.
pub const DIRECTORY: &str = ".gemini";
/// Its settings in that directory.
pub const SETTINGS: &str = "settings.json";
/// What it looks for in a home besides its directory.
pub const BESIDE: [&str; 2] = [".agents", ".env"];
/// Where it keeps conversations. They outlive a home that is made for one process, so they must be the user's.
pub const LASTING: [&str; 2] = ["tmp", "history"];

/// Why there is no home to start it with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    #[error("they cannot be read: {0}")]
    Syntax(String),
    #[error("they are no JSON object")]
    Kind,
}

/// A home to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// An empty directory.
    pub path: PathBuf,
    /// What is added to the user's settings.
    pub(super) ours: Value,
}

impl Home {
    /// The settings in it, made of `users`, the text of the user's own.
    pub fn settings(&self, users: Option<&str>) -> Result<String, SettingsError> {
        let mut settings = users.map(parse).transpose()?.unwrap_or_default();
        if settings.get("hooksConfig").is_some_and(|config| config["enabled"] == false) {
            // Hooks are on again for mala's sake, and only mala's.
            settings.remove("hooks");
            settings["hooksConfig"]["enabled"] = json!(true);
        }
        for (event, groups) in self.ours["hooks"].as_object().into_iter().flatten() {
            let known = object(&mut settings, "hooks").entry(event).or_insert_with(|| json!([]));
            match known.as_array_mut() {
                Some(known) => known.extend(groups.as_array().into_iter().flatten().cloned()),
                None => *known = groups.clone(),
            }
        }
        for (name, server) in self.ours["mcpServers"].as_object().into_iter().flatten() {
            object(&mut settings, "mcpServers").insert(name.clone(), server.clone());
        }
        Ok(format!("{}\n", Value::from(settings)))
    }
}

/// The home that it would have in this environment.
pub fn users(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    [VARIABLE, "HOME"].into_iter().find_map(variable).map(PathBuf::from)
}

/// The settings file in this home.
pub(super) fn settings_file(home: &Path) -> PathBuf {
    home.join(DIRECTORY).join(SETTINGS)
}

/// The object under this name, made if there is none.
fn object<'a>(settings: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = settings.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it is an object by now")
}

fn parse(text: &str) -> Result<Map<String, Value>, SettingsError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match parse_to_serde_value(text, &parse_options(true)) {
        Ok(Value::Object(settings)) => Ok(settings),
        Ok(_) => Err(SettingsError::Kind),
        Err(error) => Err(SettingsError::Syntax(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        let group = json!([{ "hooks": [{ "type": "command", "command": "mala hook gemini --injected" }] }]);
        let ours =
            json!({ "hooks": { "BeforeTool": group }, "mcpServers": { "mala": { "command": "mala" } } });
        Home { path: PathBuf::from("/run/home"), ours }
    }

    fn merged(users: &str) -> Value {
        serde_json::from_str(&home().settings(Some(users)).unwrap()).unwrap()
    }

    #[test]
    fn the_settings_are_the_users_and_malas() {
        let users = r#"{
            // what I like
            "ui": { "theme": "GitHub" },
            "hooks": { "BeforeTool": [{ "hooks": [{ "type": "command", "command": "mine" }] }], "AfterTool": [1] },
            "mcpServers": { "files": { "command": "files" } },
        }"#;
        let settings = merged(users);
        assert_eq!(settings["ui"]["theme"], "GitHub");
        assert_eq!(settings["hooks"]["BeforeTool"][0]["hooks"][0]["command"], "mine");
        assert_eq!(settings["hooks"]["BeforeTool"][1]["hooks"][0]["command"], "mala hook gemini --injected");
        assert_eq!(settings["hooks"]["AfterTool"], json!([1]));
        let servers: Vec<&String> = settings["mcpServers"].as_object().unwrap().keys().collect();
        assert_eq!(servers, ["files", "mala"]);
        for none in [None, Some(""), Some("{}"), Some(r#"{"hooks": 1, "mcpServers": []}"#)] {
            let text = home().settings(none).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), home().ours, "{none:?}");
        }
    }

    #[test]
    fn hooks_that_the_user_has_switched_off_stay_off_and_malas_are_on() {
        let settings = merged(r#"{"hooksConfig": {"enabled": false, "x": 1}, "hooks": {"AfterTool": [1]}}"#);
        assert_eq!(settings["hooksConfig"], json!({ "enabled": true, "x": 1 }));
        assert_eq!(settings["hooks"], home().ours["hooks"]);
    }

    #[test]
    fn settings_that_cannot_be_read_are_no_empty_ones() {
        for broken in ["{", "[]", "hooks", r#"{"a": 1 "b": 2}"#] {
            assert!(home().settings(Some(broken)).is_err(), "{broken}");
        }
    }
}
