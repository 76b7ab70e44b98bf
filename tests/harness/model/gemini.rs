//! Google's `generateContent`.

use serde_json::{Value, json};

use super::request::{Entry, Request};
use super::script::{Call, Input, Refusal, Reply};
use super::{Refused, TOKENS_IN, TOKENS_OUT};

pub(super) fn request(body: Value) -> Request {
    let contents = body["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let history = contents.iter().flat_map(entries).collect();
    Request { body, history, part: 0 }
}

fn entries(content: &Value) -> Vec<Entry> {
    let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| entry(part, content["role"] == "model")).collect()
}

fn entry(part: &Value, from_model: bool) -> Option<Entry> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(call) = part.get("functionCall") {
        return Some(Entry::Called { id: text(&call["id"]), tool: text(&call["name"]) });
    }
    if let Some(result) = part.get("functionResponse") {
        let error = result["response"].get("error");
        let said = error.unwrap_or(&result["response"]["output"]);
        let said = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        return Some(Entry::Returned {
            id: text(&result["id"]),
            text: said,
            is_error: Some(error.is_some()),
        });
    }
    match part["text"].as_str()? {
        _ if from_model => Some(Entry::Said),
        words => Some(Entry::Told(words.to_owned())),
    }
}

pub(super) fn whole(request: &Request, reply: &Reply) -> Value {
    let call = |(place, call): (usize, &Call)| {
        let arguments = match &call.input {
            Input::Arguments(arguments) => arguments.clone(),
            Input::Text(text) => json!({"input": text}),
        };
        let id = format!("call_{}_{}_{place}", request.part, request.replies());
        json!({"functionCall": {"id": id, "name": call.tool, "args": arguments}})
    };
    let parts: Vec<Value> = match reply {
        Reply::Say(text) if text.is_empty() => Vec::new(),
        Reply::Say(text) => vec![json!({"text": text})],
        Reply::Refuse(_) => unreachable!("an error has no content"),
        Reply::Call(calls) => calls.iter().enumerate().map(call).collect(),
    };
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": TOKENS_IN, "candidatesTokenCount": TOKENS_OUT,
            "totalTokenCount": TOKENS_IN + TOKENS_OUT,
        },
    })
}

/// A stream of one event, which has no name.
pub(super) fn stream(request: &Request, reply: &Reply) -> String {
    format!("data: {}\n\n", whole(request, reply))
}

/// <https://ai.google.dev/gemini-api/docs/troubleshooting>
pub(super) fn refused(refusal: Refusal) -> Refused {
    let quota = |period: &str| {
        let id = format!("GenerateRequestsPer{period}PerProjectPerModel");
        json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]})
    };
    let retry = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"});
    let exceeded = "You exceeded your current quota, please check your plan and billing details.";
    let (status, name, message, details) = match refusal {
        Refusal::Account => (
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.".to_owned(),
            json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
                "domain": "googleapis.com"}]),
        ),
        Refusal::Rate => (
            429,
            "RESOURCE_EXHAUSTED",
            format!("{exceeded} Please retry in 1s."),
            json!([quota("Minute"), retry]),
        ),
        Refusal::Quota => (429, "RESOURCE_EXHAUSTED", exceeded.to_owned(), json!([quota("Day")])),
        Refusal::Words(status, words) => {
            let name = if status == 401 { "UNAUTHENTICATED" } else { "INVALID_ARGUMENT" };
            (status, name, words.to_owned(), json!([]))
        }
        Refusal::Overload => {
            (503, "UNAVAILABLE", "The model is overloaded. Please try again later.".to_owned(), json!([]))
        }
        Refusal::Length => (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
                .to_owned(),
            json!([]),
        ),
    };
    let error = json!({"code": status, "message": message, "status": name, "details": details});
    Refused { status, headers: &[], body: json!({ "error": error }) }
}
