//! Answers in a line or two.

use serde_json::{Map, Value};

/// Names that are listed before the rest is only counted.
const MOST: usize = 20;
/// How much of a test's output stands in the text.
const OUTPUT: usize = 4_000;

/// What the answer says, in words; for an error, what the command said.
pub(super) fn summary(tool: &str, answer: &Map<String, Value>, remarks: &str) -> String {
    if let Some(message) = answer.get("error").and_then(|error| error["message"].as_str()) {
        return message.to_owned();
    }
    match tool {
        "lock_acquire" | "lock_ask" | "lock_release" | "lock_take" => locks(answer, remarks),
        "lock_cancel" => answer.get("ask").map_or_else(|| said(remarks), ask),
        "lock_answer" => answered(answer),
        "lock_status" => status(answer, remarks),
        "test_run" => test(answer, remarks),
        "commit" => commit(answer, remarks),
        "gate_check" => gate(answer),
        "message_send" => format!("sent message {}", plain(answer.get("id"))),
        "message_inbox" => inbox(answer),
        "issue_wait" => waited(answer, remarks),
        "issue_note" => format!("noted on {}", plain(answer.get("issue"))),
        _ => said(remarks),
    }
}

/// What was said beside the answer, without the hints: those come last.
fn said(remarks: &str) -> String {
    let lines: Vec<&str> = remarks.lines().filter(|line| !line.starts_with("hint: ")).collect();
    lines.join("\n").trim().to_owned()
}

/// A value without the quotes.
fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// The named field of every element of a list.
fn names(list: Option<&Value>, field: &str) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.map(|item| if field.is_empty() { plain(Some(item)) } else { plain(item.get(field)) }).collect()
}

fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn locks(answer: &Map<String, Value>, remarks: &str) -> String {
    let mut lines = Vec::new();
    for (field, verb) in [("granted", "locked"), ("released", "released")] {
        let paths = names(answer.get(field), "path");
        if !paths.is_empty() {
            lines.push(format!("{verb} {}", listed(&paths)));
        }
    }
    if lines.is_empty() {
        lines.extend(answer.get("asks").and_then(Value::as_array).into_iter().flatten().map(ask));
    }
    let said = said(remarks);
    if !said.is_empty() {
        lines.push(said);
    }
    if lines.is_empty() { "nothing to do".to_owned() } else { lines.join("\n") }
}

fn ask(ask: &Value) -> String {
    let field = |name| plain(ask.get(name));
    let (id, path, state) = (field("id"), field("path"), field("state"));
    let (asker, holder, due) = (field("asker"), field("holder"), field("due_at"));
    format!("ask {id} of `{asker}` for `{path}`, held by `{holder}`, is {state}, due {due}")
}

fn answered(answer: &Map<String, Value>) -> String {
    let Some(asked) = answer.get("ask") else { return String::new() };
    let paths = names(answer.get("granted"), "path");
    if paths.is_empty() {
        ask(asked)
    } else {
        format!("handed {} to `{}`", listed(&paths), plain(asked.get("asker")))
    }
}

fn status(answer: &Map<String, Value>, remarks: &str) -> String {
    if let Some(available) = answer.get("available") {
        let said = said(remarks);
        return if available == true { "available".to_owned() } else { said };
    }
    let agents = names(answer.get("agents"), "id");
    let locks = answer.get("locks").and_then(Value::as_array).into_iter().flatten();
    let mut lines = vec![match agents.as_slice() {
        [] => "no agents".to_owned(),
        agents => format!("agents: {}", listed(agents)),
    }];
    let held: Vec<String> =
        locks.map(|lock| format!("{} ({})", plain(lock.get("path")), plain(lock.get("agent")))).collect();
    lines.push(if held.is_empty() { "no locks".to_owned() } else { format!("locks: {}", listed(&held)) });
    lines.extend(answer.get("asks").and_then(Value::as_array).into_iter().flatten().map(ask));
    lines.join("\n")
}

fn test(answer: &Map<String, Value>, remarks: &str) -> String {
    if let Some(results) = answer.get("results").and_then(Value::as_array) {
        let line = |result: &Value| {
            let word =
                if result["exit_code"] == 0 && result["objection"].is_null() { "passed" } else { "failed" };
            format!("{word}: {}", plain(result.get("command")))
        };
        let lines: Vec<String> = results.iter().map(line).collect();
        return format!("{}\n{}", lines.join("\n"), tail(remarks)).trim_end().to_owned();
    }
    let ended = match (answer.get("exit_code").and_then(Value::as_i64), answer.get("signal")) {
        (Some(0), _) => "passed".to_owned(),
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => return said(remarks),
    };
    let evidence = plain(answer.get("id"));
    format!("{ended} (evidence {evidence})\n{}", tail(remarks)).trim_end().to_owned()
}

/// The end of a long text, from the start of a line.
fn tail(text: &str) -> &str {
    let Some(surplus) = text.len().checked_sub(OUTPUT) else { return text };
    let start = text.as_bytes()[surplus..].iter().position(|byte| *byte == b'\n');
    start.map_or("", |line| &text[surplus + line + 1..])
}

fn commit(answer: &Map<String, Value>, remarks: &str) -> String {
    let files = listed(&names(answer.get("files"), ""));
    if let Some(undone) = answer.get("undone") {
        return format!("took back {}; as before and uncommitted: {files}", plain(Some(undone)));
    }
    if let Some(Value::String(_)) = answer.get("candidate") {
        let commit = plain(answer.get("commit"));
        return format!(
            "offered {commit}: {files}\nmala lands it after your turn if the required commands pass on it; until then the branch does \
             not move, and git status shows these files as modified: that is right, do not commit again"
        );
    }
    let text =
        format!("committed {} on {}: {files}", plain(answer.get("commit")), plain(answer.get("branch")));
    format!("{text}\n{}", said(remarks)).trim_end().to_owned()
}

fn gate(answer: &Map<String, Value>) -> String {
    let is_pass = answer.get("verdict").is_some_and(|verdict| verdict == "pass");
    let mut lines = vec![if is_pass { "accepted".to_owned() } else { "not accepted".to_owned() }];
    let checks = answer.get("checks").and_then(Value::as_array).into_iter().flatten();
    let failed = checks.filter(|check| check["status"] == "fail");
    lines.extend(
        failed.map(|check| format!("- {}: {}", plain(check.get("name")), plain(check.get("detail")))),
    );
    lines.join("\n")
}

fn waited(answer: &Map<String, Value>, remarks: &str) -> String {
    let issue = plain(answer.get("issue"));
    match answer.get("state").and_then(Value::as_str) {
        Some("noted") => {
            format!(
                "end your turn now: you are called again when {issue} has landed or is given up; your files stay yours"
            )
        }
        Some("landed") => format!("{issue} has landed"),
        Some(_) => format!("{issue} has not landed: {}", plain(answer.get("why"))),
        None => said(remarks),
    }
}

fn inbox(answer: &Map<String, Value>) -> String {
    if answer.contains_key("message") {
        return "acknowledged".to_owned();
    }
    let messages: Vec<&Value> =
        answer.get("messages").and_then(Value::as_array).into_iter().flatten().collect();
    if messages.is_empty() {
        return "no messages".to_owned();
    }
    let told = messages.iter().take(MOST).map(|message| {
        let from = message.get("from").and_then(|from| from.get("name"));
        format!("{} from `{}`: {}", plain(message.get("id")), plain(from), plain(message.get("body")))
    });
    told.collect::<Vec<_>>().join("\n")
}
