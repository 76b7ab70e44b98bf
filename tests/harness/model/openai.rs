//! OpenAI's Responses API.

use serde_json::{Value, json};

use super::request::{Entry, Request, text_of};
use super::script::{Call, Input, Refusal, Reply};
use super::{Refused, TOKENS_IN, TOKENS_OUT, events};

pub(super) fn request(body: Value) -> Request {
    let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    let history = items.iter().filter_map(entry).collect();
    Request { body, history, part: 0 }
}

fn entry(item: &Value) -> Option<Entry> {
    let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
    match item["type"].as_str()? {
        "message" if item["role"] == "assistant" => Some(Entry::Said),
        // What a sub-agent is told by its parent comes as a message of its own kind.
        "message" | "agent_message" => Some(Entry::Told(text_of(&item["content"]))),
        "function_call" | "custom_tool_call" => {
            Some(Entry::Called { id: text("call_id"), tool: text("name") })
        }
        // A search for tools that are not shown.
        "tool_search_call" => Some(Entry::Called { id: text("call_id"), tool: "tool_search".to_owned() }),
        "tool_search_output" => {
            Some(Entry::Returned { id: text("call_id"), text: item["tools"].to_string(), is_error: None })
        }
        "function_call_output" | "custom_tool_call_output" => {
            Some(Entry::Returned { id: text("call_id"), text: text_of(&item["output"]), is_error: None })
        }
        _ => None,
    }
}

fn items(request: &Request, reply: &Reply) -> Vec<Value> {
    let turn = format!("{}_{}", request.part, request.replies());
    match reply {
        Reply::Say(text) if text.is_empty() => Vec::new(),
        Reply::Say(text) => {
            let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
            vec![
                json!({"type": "message", "id": format!("msg_{turn}"), "role": "assistant", "status": "completed", "content": content}),
            ]
        }
        Reply::Refuse(_) => unreachable!("an error has no content"),
        Reply::Call(calls) => {
            calls.iter().enumerate().map(|(place, call)| tool_call(call, &turn, place)).collect()
        }
    }
}

/// A tool in a namespace is written `namespace.tool`.
fn tool_call(call: &Call, turn: &str, place: usize) -> Value {
    let (id, call_id) = (format!("fc_{turn}_{place}"), format!("call_{turn}_{place}"));
    let (namespace, name) = match call.tool.split_once('.') {
        Some((namespace, name)) => (json!(namespace), name),
        None => (Value::Null, call.tool.as_str()),
    };
    let mut item = json!({"id": id, "call_id": call_id, "name": name, "status": "completed"});
    if namespace.is_string() {
        item["namespace"] = namespace;
    }
    match &call.input {
        Input::Arguments(arguments) if call.tool == "tool_search" => {
            item["type"] = "tool_search_call".into();
            item["execution"] = "client".into();
            item["arguments"] = arguments.clone();
        }
        Input::Arguments(arguments) => {
            item["type"] = "function_call".into();
            item["arguments"] = arguments.to_string().into();
        }
        Input::Text(text) => {
            item["type"] = "custom_tool_call".into();
            item["input"] = text.as_str().into();
        }
    }
    item
}

fn response(request: &Request, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_{}", request.replies()), "object": "response", "status": status,
        "model": request.body["model"], "output": output,
        "usage": {
            "input_tokens": TOKENS_IN, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": TOKENS_OUT, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": TOKENS_IN + TOKENS_OUT,
        },
    })
}

pub(super) fn whole(request: &Request, reply: &Reply) -> Value {
    response(request, "completed", &items(request, reply))
}

pub(super) fn stream(request: &Request, reply: &Reply) -> String {
    let items = items(request, reply);
    let mut said = vec![("response.created", json!({"response": response(request, "in_progress", &[])}))];
    for (index, item) in items.iter().enumerate() {
        said.push(("response.output_item.added", json!({"output_index": index, "item": item})));
        said.push(("response.output_item.done", json!({"output_index": index, "item": item})));
    }
    said.push(("response.completed", json!({"response": response(request, "completed", &items)})));
    events(said.into_iter().enumerate().map(|(number, (name, mut data))| {
        data["type"] = name.into();
        data["sequence_number"] = number.into();
        (name, data)
    }))
}

/// <https://platform.openai.com/docs/guides/error-codes>
pub(super) fn refused(refusal: Refusal) -> Refused {
    let (status, code, message) = match refusal {
        Refusal::Account => (401, "invalid_api_key", "Incorrect API key provided: sk-x."),
        Refusal::Rate => {
            (429, "rate_limit_exceeded", "Rate limit reached for gpt-5.5. Please try again in 1s.")
        }
        Refusal::Quota => (
            429,
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        Refusal::Words(status, words) => {
            (status, if status == 401 { "invalid_api_key" } else { "invalid_request" }, words)
        }
        Refusal::Overload => (503, "server_is_overloaded", "Our servers are currently overloaded."),
        Refusal::Length => (
            400,
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
    };
    let kind = if refusal == Refusal::Quota { "insufficient_quota" } else { "invalid_request_error" };
    Refused { status, headers: &[], body: json!({"error": {"message": message, "type": kind, "code": code}}) }
}
