//! mala's tools in a project's own client settings: the server that the client starts is named there.
//!
//! The same promises as for hooks: other bytes stay, twice is once, and what was put in can be taken out again. A server called
//! `mala` that somebody else has set up is left alone.

use super::edit::{self, Place};
use super::{Change, InstallError, Removal};
use crate::Client;

/// Where `client` looks for the tool servers of a project; nothing for opencode, whose plugin brings it along.
pub fn path(client: Client) -> Option<&'static str> {
    match client {
        Client::Claude => Some(".mcp.json"),
        Client::Codex => Some(CODEX),
        Client::Gemini => Some(super::path(client)),
        Client::Opencode => None,
    }
}

/// The file at [`path`] with a server that is `mala`, a program's name or path. Nothing where there is no such file.
pub fn plan(client: Client, existing: Option<&str>, mala: &str) -> Result<Option<Change>, InstallError> {
    let Some(path) = path(client) else { return Ok(None) };
    // What an earlier version put there goes first.
    let clean = match existing {
        Some(text) => remove(client, text)?.apply(text),
        None => None,
    };
    let text = match (client, clean) {
        (Client::Codex, clean) => insert_toml(clean.as_deref(), mala)?,
        (_, None) => edit::fresh_server(client, mala),
        (_, Some(text)) => edit::insert_server(client, place(client, path), &text, mala)?,
    };
    Ok(Some(Change { path, text }))
}

/// The file without what [`plan`] has put there.
pub fn remove(client: Client, text: &str) -> Result<Removal, InstallError> {
    match (client, path(client)) {
        (Client::Codex, _) => Ok(remove_toml(text)),
        (_, Some(path)) => edit::remove_server(place(client, path), text),
        (_, None) => Ok(Removal::Unchanged),
    }
}

/// Program and arguments of the server called `mala` in `text`, the file at [`path`].
pub fn command(client: Client, text: &str) -> Option<Vec<String>> {
    if client != Client::Codex {
        return edit::server_command(place(client, path(client)?), text);
    }
    let table: toml::Table = toml::from_str(text).ok()?;
    let server = table.get("mcp_servers")?.get("mala")?;
    let args = server.get("args").and_then(toml::Value::as_array).into_iter().flatten();
    let words = std::iter::once(server.get("command")?).chain(args);
    Some(words.filter_map(|word| word.as_str().map(str::to_owned)).collect())
}

fn place(client: Client, file: &'static str) -> Place {
    Place { file, is_lenient: client == Client::Gemini }
}

const CODEX: &str = ".codex/config.toml";
/// How mala's lines among codex's settings begin.
const MARK: &str = "# mala: its tools; `mala init --undo` takes these lines out again.";

/// mala's lines, with the last line end.
fn lines(mala: &str, newline: &str) -> String {
    let command = format!("command = {}", serde_json::Value::from(mala));
    [MARK, "[mcp_servers.mala]", &command, "args = [\"mcp\"]", ""].join(newline)
}

/// A table stands at the end of the file, behind a line end of its own. So it is known where it began.
fn insert_toml(existing: Option<&str>, mala: &str) -> Result<String, InstallError> {
    let Some(text) = existing else { return Ok(lines(mala, "\n")) };
    let table: toml::Table = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    if table.get("mcp_servers").and_then(|servers| servers.get("mala")).is_some() {
        return Ok(text.to_owned());
    }
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let with = format!("{text}{newline}{}", lines(mala, newline));
    // Servers may be written in a way that nothing can be added to.
    toml::from_str::<toml::Table>(&with).map_err(|error| syntax(&with, &error))?;
    Ok(with)
}

fn remove_toml(text: &str) -> Removal {
    let program = command(Client::Codex, text).and_then(|words| words.into_iter().next());
    let Some(program) = program else { return Removal::Unchanged };
    if text == lines(&program, "\n") {
        return Removal::Delete;
    }
    let found = ["\r\n", "\n"].into_iter().find_map(|newline| {
        let ours = format!("{newline}{}", lines(&program, newline));
        let (before, behind) = text.split_once(&ours)?;
        Some(format!("{before}{behind}"))
    });
    found.map_or(Removal::Unchanged, Removal::Text)
}

fn syntax(text: &str, error: &toml::de::Error) -> InstallError {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..at).unwrap_or_default();
    InstallError::Syntax {
        file: CODEX,
        line: before.matches('\n').count() + 1,
        column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
        problem: error.message().to_owned(),
    }
}
