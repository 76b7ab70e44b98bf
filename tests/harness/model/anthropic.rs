//! Anthropic's Messages API.

use serde_json::{Value, json};

use super::request::{Entry, Request, text_of};
use super::script::{Call, Input, Refusal, Reply};
use super::{Refused, TOKENS_IN, TOKENS_OUT, events};

pub(super) fn request(body: Value) -> Request {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let history = messages.iter().flat_map(entries).collect();
    Request { body, history, part: 0 }
}

fn entries(message: &Value) -> Vec<Entry> {
    let from_model = message["role"] == "assistant";
    match &message["content"] {
        Value::Array(blocks) => blocks.iter().filter_map(|block| entry(block, from_model)).collect(),
        Value::String(_) if from_model => vec![Entry::Said],
        Value::String(text) => vec![Entry::Told(text.clone())],
        _ => Vec::new(),
    }
}

fn entry(block: &Value, from_model: bool) -> Option<Entry> {
    let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str()? {
        "text" if from_model => Some(Entry::Said),
        "text" => Some(Entry::Told(text("text"))),
        "tool_use" => Some(Entry::Called { id: text("id"), tool: text("name") }),
        "tool_result" => Some(Entry::Returned {
            id: text("tool_use_id"),
            text: text_of(&block["content"]),
            is_error: Some(block["is_error"] == true),
        }),
        _ => None,
    }
}

/// The reply's blocks, and why the model stopped there.
fn blocks(request: &Request, reply: &Reply) -> (Vec<Value>, &'static str) {
    match reply {
        Reply::Say(text) if text.is_empty() => (Vec::new(), "end_turn"),
        Reply::Say(text) => (vec![json!({"type": "text", "text": text})], "end_turn"),
        Reply::Refuse(_) => unreachable!("an error has no content"),
        Reply::Call(calls) => {
            let id = |place: usize| {
                request.unused(format!("toolu_{}_{}_{place}", request.part, request.replies()))
            };
            let block = |(place, call): (usize, &Call)| json!({"type": "tool_use", "id": id(place), "name": call.tool, "input": arguments(call)});
            (calls.iter().enumerate().map(block).collect(), "tool_use")
        }
    }
}

fn arguments(call: &Call) -> Value {
    match &call.input {
        Input::Arguments(arguments) => arguments.clone(),
        Input::Text(text) => json!({"input": text}),
    }
}

fn message(request: &Request, content: &[Value], stop_reason: Option<&str>) -> Value {
    json!({
        "id": format!("msg_{}", request.replies()), "type": "message", "role": "assistant",
        "model": request.body["model"], "content": content, "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT},
    })
}

pub(super) fn whole(request: &Request, reply: &Reply) -> Value {
    let (blocks, stop_reason) = blocks(request, reply);
    message(request, &blocks, Some(stop_reason))
}

pub(super) fn stream(request: &Request, reply: &Reply) -> String {
    let (blocks, stop_reason) = blocks(request, reply);
    let mut said = vec![("message_start", json!({"message": message(request, &[], None)}))];
    for (index, block) in blocks.iter().enumerate() {
        let (start, delta) = match block["type"].as_str() {
            Some("text") => {
                (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": block["text"]}))
            }
            _ => (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
            ),
        };
        said.push(("content_block_start", json!({"index": index, "content_block": start})));
        said.push(("content_block_delta", json!({"index": index, "delta": delta})));
        said.push(("content_block_stop", json!({"index": index})));
    }
    let usage = json!({"output_tokens": TOKENS_OUT});
    let end = json!({"delta": {"stop_reason": stop_reason, "stop_sequence": null}, "usage": usage});
    said.push(("message_delta", end));
    said.push(("message_stop", json!({})));
    events(said.into_iter().map(|(name, mut data)| {
        data["type"] = name.into();
        (name, data)
    }))
}

/// <https://docs.anthropic.com/en/api/errors>
pub(super) fn refused(refusal: Refusal) -> Refused {
    let (status, kind, message) = match refusal {
        Refusal::Account => (401, "authentication_error", "invalid x-api-key"),
        Refusal::Rate => (
            429,
            "rate_limit_error",
            "This request would exceed your rate limit. Please try again in 1 second.",
        ),
        Refusal::Quota => (429, "rate_limit_error", "You have reached your specified API usage limits."),
        Refusal::Words(status, words) => {
            let kind = if status == 401 { "authentication_error" } else { "invalid_request_error" };
            (status, kind, words)
        }
        Refusal::Overload => (529, "overloaded_error", "Overloaded"),
        Refusal::Length => {
            (400, "invalid_request_error", "prompt is too long: 212345 tokens > 200000 maximum")
        }
    };
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    // The provider says so where it is of no use to try again at once.
    Refused { status, headers: &[("x-should-retry", "false")], body }
}
