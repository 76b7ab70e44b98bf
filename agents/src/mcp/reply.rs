//! How an answer is told to a model.
//!
//! Clients differ in what they pass on: some the structured content, some the text. So both are complete: the structured
//! content is the command's own JSON, and whatever else a model must know to go on stands in it too.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::port::Ran;
use super::summary::summary;
use super::tools::{Nature, Tool};

/// The exit code of a no.
const REFUSED: u8 = 1;

/// The result of a call whose command has ended, and said `remarks` on the way.
pub(super) fn reply(tool: &Tool, ran: &Ran, remarks: &str) -> CallToolResult {
    let mut answer = document(&ran.answer);
    let is_error = match tool.nature {
        Nature::Looks => ran.code > REFUSED || answer.contains_key("error"),
        Nature::Judges | Nature::Changes => ran.code != 0,
    };
    if tool.name == "test_run" {
        answer.entry("output").or_insert_with(|| json!(remarks));
    }
    let hint = if is_error { hint(tool, ran.code, &answer, remarks) } else { None };
    let mut text = summary(tool.name, &answer, remarks);
    if text.is_empty() {
        text = if is_error { "failed".to_owned() } else { "done".to_owned() };
    }
    if let Some(hint) = hint {
        text = format!("{text}\nnext: {hint}");
        answer.insert("hint".to_owned(), json!(hint));
    }
    finish(answer, text, is_error)
}

/// The result of a call that could not be made.
pub(super) fn failure(message: &str, hint: &str) -> CallToolResult {
    let error = json!({ "kind": "usage", "message": message, "hints": [hint] });
    let mut answer = Map::new();
    answer.insert("error".to_owned(), error);
    answer.insert("hint".to_owned(), json!(hint));
    finish(answer, format!("{message}\nnext: {hint}"), true)
}

fn finish(answer: Map<String, Value>, text: String, is_error: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(text)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(Value::Object(answer));
    result
}

/// The first document of what was written. Clients want an object.
fn document(answer: &[u8]) -> Map<String, Value> {
    let mut documents = serde_json::Deserializer::from_slice(answer).into_iter::<Value>();
    match documents.next() {
        Some(Ok(Value::Object(fields))) => fields,
        Some(Ok(other)) => Map::from_iter([("answer".to_owned(), other)]),
        Some(Err(_)) | None => Map::new(),
    }
}

/// What to do next: what the command suggests, or the same in terms of the tools where it said no.
fn hint(tool: &Tool, code: u8, answer: &Map<String, Value>, remarks: &str) -> Option<String> {
    let own = answer.get("error").and_then(|error| error["hints"].as_array()).into_iter().flatten();
    let mut hints: Vec<&str> = own.filter_map(Value::as_str).collect();
    let is_plain_no = code == REFUSED && answer.get("deadlock").is_none_or(Value::is_null);
    if is_plain_no && !tool.when_refused.is_empty() {
        hints.insert(0, tool.when_refused);
    } else {
        hints.extend(remarks.lines().filter_map(|line| line.strip_prefix("hint: ")));
    }
    let mut once: Vec<&str> = Vec::new();
    for hint in hints {
        if !once.contains(&hint) {
            once.push(hint);
        }
    }
    (!once.is_empty()).then(|| once.join("; "))
}
