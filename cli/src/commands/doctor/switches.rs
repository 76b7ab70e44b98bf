//! Settings by which a person, or an agent, has switched a client's hooks off, and what a client wants before it runs them.

use std::env;
use std::fs;
use std::path::PathBuf;

use mala_agents::{Client, install};
use mala_core::Scope;

use super::hooks::name;
use super::{Check, Verdict};

/// The check that fails because the client's hooks are switched off, if they are.
pub(super) fn off(client: Client, scope: &Scope) -> Option<Check> {
    let file = switched_off_by(client, scope)?;
    let shown = file.strip_prefix(scope.root()).unwrap_or(&file).display();
    let what = match client {
        Client::Claude => "`disableAllHooks`",
        Client::Gemini => "`hooksConfig.enabled`",
        Client::Codex => "`features.hooks`",
        Client::Opencode => "the plugin",
    };
    Some(Check {
        name: name(client),
        status: Verdict::Fail,
        detail: format!("set up, but switched off: {what} in `{shown}`"),
        fix: Some(format!("take that line out of `{shown}`")),
    })
}

/// The first file that decides, if it decides against hooks. What is nearer to the checkout counts more.
fn switched_off_by(client: Client, scope: &Scope) -> Option<PathBuf> {
    let here = |name: &str| scope.root().join(name);
    let reads = |file: &PathBuf| fs::read_to_string(file).unwrap_or_default();
    let is_off = |file: &PathBuf| install::switches_off(client, &reads(file));
    match client {
        Client::Claude => {
            // The project's own file says that they are on, so a person's settings do not count.
            [here(".claude/settings.local.json"), here(".claude/settings.json")].into_iter().find(is_off)
        }
        Client::Gemini => [Some(here(".gemini/settings.json")), home(".gemini/settings.json")]
            .into_iter()
            .flatten()
            .find(is_off),
        Client::Codex => codex_settings().into_iter().chain([here(".codex/config.toml")]).find(is_off),
        Client::Opencode => None,
    }
}

/// What is still missing before the client runs a project's hooks, as the end of a sentence.
pub(super) fn trust(client: Client, scope: &Scope) -> Option<String> {
    let root = scope.root().to_string_lossy();
    match client {
        Client::Codex => {
            let text = codex_settings().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
            let is_known = text.contains(&format!("{root}/{}:", install::path(client)));
            (!is_known).then(|| {
                "; codex runs them once you have trusted them: start codex here and accept".to_owned()
            })
        }
        Client::Gemini => {
            let file = home(".gemini/trustedFolders.json");
            let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
            let is_known =
                scope.root().ancestors().any(|folder| text.contains(&format!("\"{}\"", folder.display())));
            (!is_known).then(|| {
                "; gemini runs them in a folder that you trust: start gemini here and accept".to_owned()
            })
        }
        Client::Claude | Client::Opencode => None,
    }
}

fn home(name: &str) -> Option<PathBuf> {
    env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(name))
}

fn codex_settings() -> Option<PathBuf> {
    let own = env::var_os("CODEX_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    own.or_else(|| home(".codex")).map(|folder| folder.join("config.toml"))
}
