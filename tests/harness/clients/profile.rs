//! What `mala run` needs to start a client as an agent of its own.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::client::{Kind, codex_settings, gemini_at_home, opencode_at_home, opencode_settings};
use super::install::Installed;
use crate::model::Talk;

/// The table of `mala.toml` for this client with the scripted model, or nothing and a loud word about it where the client cannot be
/// had. What a user would have set up in `home` is there then.
pub fn profile(kind: Kind, installed: &Installed, home: &Path, talk: &Talk) -> Option<String> {
    let program = installed.program_or_skip(kind)?;
    settle(kind, home, talk);
    let command = match kind {
        Kind::Gemini => json!(["node", program]),
        Kind::Claude | Kind::Codex | Kind::Opencode => json!([program]),
    };
    let set = |(name, value): (String, String)| format!("{name} = {}", json!(value));
    let env: Vec<String> = kind.environment(talk).into_iter().map(set).collect();
    Some(format!(
        "[agents.{}]\ncommand = {command}\nmodel = {}\nenv = {{ {} }}\n",
        kind.name(),
        json!(kind.model()),
        env.join(", ")
    ))
}

fn settle(kind: Kind, home: &Path, talk: &Talk) {
    let write = |path: &str, text: String| {
        let path = home.join(path);
        let folder = path.parent().expect("it lies in the home folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .expect("a client's home can be written");
    };
    match kind {
        Kind::Claude => {}
        Kind::Codex => write(".codex/config.toml", codex_settings(talk).join("\n")),
        Kind::Gemini => gemini_at_home(home, json!({})),
        Kind::Opencode => {
            opencode_at_home(&home.join(".config/opencode"));
            write(".config/opencode/opencode.json", opencode_settings(talk).to_string());
        }
    }
}
