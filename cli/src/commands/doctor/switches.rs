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

/// The warning that the client does not run a project's hooks yet, where it wants a person's trust first.
pub(super) fn untrusted(client: Client, scope: &Scope) -> Option<Check> {
    let (file, sign) = match client {
        Client::Codex => {
            let key = format!("{}/{}:", scope.root().display(), install::path(client));
            (codex_settings(), vec![key])
        }
        Client::Gemini => {
            let folders = scope.root().ancestors().map(|folder| format!("\"{}\"", folder.display()));
            (home(".gemini/trustedFolders.json"), folders.collect())
        }
        Client::Claude | Client::Opencode => return None,
    };
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    if sign.iter().any(|sign| text.contains(sign)) {
        return None;
    }
    Some(Check {
        name: name(client),
        status: Verdict::Warn,
        detail: format!("set up, and they work when called; {client} calls them once you have trusted them"),
        fix: Some(format!("start {client} here and accept what it asks")),
    })
}

fn home(name: &str) -> Option<PathBuf> {
    env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(name))
}

fn codex_settings() -> Option<PathBuf> {
    let own = env::var_os("CODEX_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    own.or_else(|| home(".codex")).map(|folder| folder.join("config.toml"))
}
