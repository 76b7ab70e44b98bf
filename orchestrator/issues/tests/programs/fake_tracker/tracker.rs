//! Issues in a file, and what can be done to them.

use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::request::Request;
use crate::speech::Speech;

/// Why nothing was done.
#[derive(Debug)]
pub(crate) enum Refusal {
    NotSetUp,
    NotFound(String),
    Ambiguous(String),
    Taken(String),
    Closed,
    /// It is not what the caller saw.
    Stale,
    ReadOnly,
    UnknownOption(String),
}

type Outcome = Result<Vec<Value>, Refusal>;

pub(crate) fn answer(request: &Request, speech: Speech) -> Outcome {
    let seen = load();
    if speech == Speech::Br && request.get("--append-notes").is_some() {
        // `br` looks at the notes before its transaction begins. What comes in between is lost.
        thread::sleep(Duration::from_millis(20));
    }
    let turn = File::create(".beads/lock").expect("the folder can be written");
    turn.lock().expect("the file can be locked");
    let mut issues = load();
    let outcome = match request.verb.as_str() {
        "create" => Ok(create(request, &mut issues)),
        "ready" => return ready(request, &issues, speech),
        "show" => return show(request, &issues, speech),
        "update" => update(request, &mut issues, if speech == Speech::Br { Some(&seen) } else { None }),
        "close" => close(request, &mut issues),
        verb => Err(Refusal::UnknownOption(verb.to_owned())),
    };
    if outcome.is_ok() {
        // Readers take no turn: they see the whole file, before or after.
        fs::write(".beads/issues.new", Value::from(issues).to_string()).expect("the folder can be written");
        fs::rename(".beads/issues.new", ".beads/issues.json").expect("the folder can be written");
    }
    outcome
}

fn load() -> Vec<Value> {
    let stored = fs::read_to_string(".beads/issues.json").unwrap_or_else(|_| "[]".to_owned());
    serde_json::from_str(&stored).expect("it is whole")
}

fn create(request: &Request, issues: &mut Vec<Value>) -> Vec<Value> {
    let needs = request.options.iter().filter(|(name, _)| name == "--deps").map(|(_, id)| id);
    let id = format!("bd-a{:03}", issues.len());
    let links: Vec<Value> =
        needs.map(|other| json!({"issue_id": id, "depends_on_id": other, "type": "blocks"})).collect();
    let text = |name: &str| request.get(name).unwrap_or_default().to_owned();
    issues.push(json!({
        "id": id, "title": text("--title"), "description": text("--description"), "status": "open",
        "priority": text("--priority").parse::<u8>().unwrap_or(2), "issue_type": text("--type"),
        "created_at": "2026-11-16T03:03:49.007123+01:00", "updated_at": stamp(0), "dependencies": links,
    }));
    issues.last().cloned().into_iter().collect()
}

/// A time that is another one after every change.
fn stamp(changes: u64) -> String {
    format!("2026-11-16T03:03:49.{changes:06}Z")
}

fn ready(request: &Request, issues: &[Value], speech: Speech) -> Outcome {
    let known = match speech {
        Speech::Br => ["--unassigned", "--brief", "--limit", "--sort", "--json"].as_slice(),
        Speech::Bd => &["--unassigned", "-n", "--sort", "--json"],
    };
    refuse_others(request, known)?;
    let closed = |id: &Value| issues.iter().any(|issue| issue["id"] == *id && issue["status"] == "closed");
    let links = |issue: &Value| issue["dependencies"].as_array().cloned().unwrap_or_default();
    let free = |issue: &&Value| links(issue).iter().all(|link| closed(&link["depends_on_id"]));
    let mine = |issue: &&Value| request.get("--unassigned").is_none() || holder(issue).is_none();
    let open = issues.iter().filter(|issue| issue["status"] == "open").filter(mine).filter(free);
    let default = if speech == Speech::Bd { "100" } else { "0" };
    let limit = request.get("-n").or(request.get("--limit")).unwrap_or(default);
    let limit: usize = limit.parse().expect("a limit is a number");
    Ok(open.take(if limit == 0 { usize::MAX } else { limit }).cloned().collect())
}

fn refuse_others(request: &Request, known: &[&str]) -> Result<(), Refusal> {
    let unknown = request.options.iter().find(|(name, _)| !known.contains(&name.as_str()));
    unknown.map_or(Ok(()), |(name, _)| Err(Refusal::UnknownOption(name.clone())))
}

fn show(request: &Request, issues: &[Value], speech: Speech) -> Outcome {
    let mut shown = Vec::new();
    for id in &request.ids {
        match resolve(id, issues) {
            Ok(at) => shown.push(with_other_links(&issues[at], issues)),
            // `bd` shows the others.
            Err(_) if speech == Speech::Bd && request.ids.len() > 1 => eprintln!("Issue {id} not found"),
            Err(refusal) => return Err(refusal),
        }
    }
    if shown.is_empty() { Err(Refusal::NotFound(String::new())) } else { Ok(shown) }
}

/// A single issue shows its dependencies as issues, a list shows them as links.
fn with_other_links(issue: &Value, issues: &[Value]) -> Value {
    let mut issue = issue.clone();
    let links = issue["dependencies"].as_array().cloned().unwrap_or_default();
    let other = |link: &Value| issues.iter().find(|issue| issue["id"] == link["depends_on_id"]).cloned();
    let whole = links.iter().filter_map(|link| {
        let mut other = other(link)?;
        other["dependency_type"] = link["type"].clone();
        Some(other)
    });
    issue["dependencies"] = whole.collect();
    issue
}

fn resolve(id: &str, issues: &[Value]) -> Result<usize, Refusal> {
    let ids: Vec<&str> = issues.iter().filter_map(|issue| issue["id"].as_str()).collect();
    if let Some(at) = ids.iter().position(|known| *known == id) {
        return Ok(at);
    }
    let fits = |known: &str| known.starts_with(id) || known.ends_with(id);
    let mut places = ids.iter().enumerate().filter(|(_, known)| fits(known)).map(|(at, _)| at);
    match (places.next(), places.next()) {
        (None, _) => Err(Refusal::NotFound(id.to_owned())),
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(Refusal::Ambiguous(id.to_owned())),
    }
}

fn holder(issue: &Value) -> Option<&str> {
    issue["assignee"].as_str().filter(|name| !name.is_empty())
}

/// `seen` is what notes are added to, where that is not what is there.
fn update(request: &Request, issues: &mut [Value], seen: Option<&[Value]>) -> Outcome {
    let [id] = request.ids.as_slice() else { return Err(Refusal::NotFound(String::new())) };
    let at = resolve(id, issues)?;
    let notes = seen.and_then(|seen| seen.get(at)).unwrap_or(&issues[at])["notes"].clone();
    let issue = &mut issues[at];
    let actor = request.get("--actor").unwrap_or("somebody").to_owned();
    if seen.is_some() && request.get("--if-unchanged").is_some_and(|seen| issue["updated_at"] != seen) {
        return Err(Refusal::Stale);
    }
    for (name, value) in &request.options {
        match name.as_str() {
            "--claim" => claim(issue, &actor)?,
            "--assignee" if seen.is_none() && holder(issue).is_some_and(|holder| holder != actor) => {
                return Err(Refusal::Taken(issue["assignee"].to_string()));
            }
            "--assignee" => issue["assignee"] = json!(value),
            "--status" => issue["status"] = json!(value),
            "--append-notes" => {
                let notes = notes.as_str().unwrap_or_default();
                let between = if notes.is_empty() || notes.ends_with('\n') { "" } else { "\n" };
                issue["notes"] = json!(format!("{notes}{between}{value}"));
            }
            "--add-label" | "--remove-label" => label(issue, name, value),
            "--if-unchanged" if seen.is_some() => {}
            "--actor" | "--json" => {}
            unknown => return Err(Refusal::UnknownOption(unknown.to_owned())),
        }
    }
    let changes = issue["changes"].as_u64().unwrap_or_default() + 1;
    issue["changes"] = json!(changes);
    issue["updated_at"] = json!(stamp(changes));
    Ok(vec![issue.clone()])
}

fn claim(issue: &mut Value, actor: &str) -> Result<(), Refusal> {
    if issue["status"] == "closed" {
        return Err(Refusal::Closed);
    }
    if let Some(by) = holder(issue).filter(|by| *by != actor) {
        return Err(Refusal::Taken(by.to_owned()));
    }
    issue["assignee"] = json!(actor);
    issue["status"] = json!("in_progress");
    Ok(())
}

fn label(issue: &mut Value, name: &str, value: &str) {
    let mut labels = issue["labels"].as_array().cloned().unwrap_or_default();
    labels.retain(|label| label != value);
    if name == "--add-label" {
        labels.push(json!(value));
    }
    issue["labels"] = json!(labels);
}

fn close(request: &Request, issues: &mut [Value]) -> Outcome {
    let mut closed = Vec::new();
    for id in &request.ids {
        let at = resolve(id, issues)?;
        if issues[at]["status"] != "closed" {
            issues[at]["status"] = json!("closed");
            issues[at]["close_reason"] = json!(request.get("--reason"));
        }
        closed.push(issues[at].clone());
    }
    Ok(closed)
}
