//! Which requests wait for an answer, and which of them came together.
//!
//! Every request gets exactly one answer: an id that is in use, or that is none, is answered with an error at once, and so
//! is what is too much. The answers to a batch go out together, as JSON-RPC wants it.

use std::collections::HashSet;

use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, InitializeResult, JsonRpcMessage, ProtocolVersion, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde_json::Value;

/// Requests that may wait for their answers at once. An answer counts until it is written, so a client that does not read is
/// not read from either.
pub(super) const MAX_OPEN: usize = 256;

/// What becomes of a message.
#[derive(Debug)]
pub(super) enum Taken {
    Message(Box<ClientJsonRpcMessage>),
    /// Not to be acted upon, and this is why.
    Refused(Box<ServerJsonRpcMessage>),
    /// Not to be acted upon, and nobody is told.
    Ignored,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: HashSet<RequestId>,
    batches: Vec<Batch>,
    /// What was agreed upon, once it was.
    version: Option<ProtocolVersion>,
}

/// Requests that came in one message.
#[derive(Debug)]
struct Batch {
    open: HashSet<RequestId>,
    answers: Vec<Value>,
}

impl Ledger {
    /// A message by itself.
    pub(super) fn take(&mut self, value: Value) -> Taken {
        match request_id(&value) {
            Err(text) => Taken::Refused(refusal(ErrorCode::INVALID_REQUEST, text, None)),
            Ok(None) => self.notification(&value),
            Ok(Some(id)) => self.request(id, value),
        }
    }

    fn request(&mut self, id: RequestId, value: Value) -> Taken {
        let refuse = |code, text: String| Taken::Refused(refusal(code, text, Some(id.clone())));
        if self.open.contains(&id) {
            return refuse(
                ErrorCode::INVALID_REQUEST,
                "this id is that of a request that is not answered yet".to_owned(),
            );
        }
        if self.open.len() >= MAX_OPEN {
            let text =
                format!("{MAX_OPEN} requests are not answered yet: wait for an answer before you send more");
            return refuse(ErrorCode::INTERNAL_ERROR, text);
        }
        match serde_json::from_value::<ClientJsonRpcMessage>(value) {
            Ok(message @ JsonRpcMessage::Request(_)) => {
                self.open.insert(id);
                Taken::Message(Box::new(message))
            }
            _ => refuse(
                ErrorCode::INVALID_REQUEST,
                "this is not a JSON-RPC 2.0 request: it needs `jsonrpc`, `id`, `method` and, if any, `params`".to_owned(),
            ),
        }
    }

    /// What wants no answer: a notification, or an answer of the client's.
    fn notification(&mut self, value: &Value) -> Taken {
        let Ok(message) = serde_json::from_value::<ClientJsonRpcMessage>(value.clone()) else {
            return Taken::Ignored;
        };
        if value["method"] == "notifications/cancelled"
            && let Ok(id) = serde_json::from_value::<RequestId>(value["params"]["requestId"].clone())
        {
            // Who takes a request back gets no answer to it.
            self.open.remove(&id);
            for batch in &mut self.batches {
                batch.open.remove(&id);
            }
        }
        Taken::Message(Box::new(message))
    }

    /// Messages that came in one, and what is to be answered at once.
    pub(super) fn take_batch(&mut self, values: Vec<Value>) -> (Vec<ClientJsonRpcMessage>, Option<Value>) {
        let is_allowed = self.version == Some(ProtocolVersion::V_2025_03_26);
        if values.is_empty() || !is_allowed {
            let text = match (&self.version, values.is_empty()) {
                (_, true) => "this batch holds no message".to_owned(),
                (Some(version), _) => {
                    format!("version {version} of the protocol has no batches: send one message per line")
                }
                (None, _) => "a session does not begin with a batch".to_owned(),
            };
            let refusal = refusal(ErrorCode::INVALID_REQUEST, text, None);
            return (Vec::new(), serde_json::to_value(refusal).ok());
        }
        let mut batch = Batch { open: HashSet::new(), answers: Vec::new() };
        let mut messages = Vec::new();
        for value in values {
            match self.take(value) {
                Taken::Message(message) => {
                    if let JsonRpcMessage::Request(request) = &*message {
                        batch.open.insert(request.id.clone());
                    }
                    messages.push(*message);
                }
                Taken::Refused(refusal) => batch.answers.extend(serde_json::to_value(refusal).ok()),
                Taken::Ignored => {}
            }
        }
        if batch.open.is_empty() {
            return (messages, (!batch.answers.is_empty()).then_some(Value::Array(batch.answers)));
        }
        self.batches.push(batch);
        (messages, None)
    }

    /// What goes out for `message`: nothing while other answers to the same batch are missing.
    pub(super) fn answer(&mut self, message: &ServerJsonRpcMessage) -> serde_json::Result<Option<Value>> {
        let value = serde_json::to_value(message)?;
        let Some(id) = answered(message) else { return Ok(Some(value)) };
        if let JsonRpcMessage::Response(response) = message
            && let ServerResult::InitializeResult(InitializeResult { protocol_version, .. }) =
                &response.result
        {
            self.version = Some(protocol_version.clone());
        }
        let Some(at) = self.batches.iter().position(|batch| batch.open.contains(id)) else {
            return Ok(Some(value));
        };
        let batch = &mut self.batches[at];
        batch.open.remove(id);
        batch.answers.push(value);
        if !batch.open.is_empty() {
            return Ok(None);
        }
        Ok(Some(Value::Array(self.batches.swap_remove(at).answers)))
    }

    /// The answer to a request has been written.
    pub(super) fn close(&mut self, message: &ServerJsonRpcMessage) {
        if let Some(id) = answered(message) {
            self.open.remove(id);
        }
    }

    /// Answers to batches that are whole because what was missing has been taken back.
    pub(super) fn finished_batches(&mut self) -> Vec<Value> {
        let (whole, rest) =
            std::mem::take(&mut self.batches).into_iter().partition(|batch| batch.open.is_empty());
        self.batches = rest;
        let whole: Vec<Batch> = whole;
        whole
            .into_iter()
            .filter(|batch| !batch.answers.is_empty())
            .map(|batch| Value::Array(batch.answers))
            .collect()
    }
}

/// The request that a message answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// The id of a request; none for what is no request. What has an id that cannot be one is answered, too.
fn request_id(value: &Value) -> Result<Option<RequestId>, String> {
    let fields = value.as_object().ok_or("a message is a JSON object")?;
    let is_request = fields.contains_key("method");
    let is_answer = !is_request && (fields.contains_key("result") || fields.contains_key("error"));
    match fields.get("id") {
        None if is_request || is_answer => Ok(None),
        Some(_) if is_answer => Ok(None),
        Some(Value::String(id)) => Ok(Some(RequestId::String(id.as_str().into()))),
        Some(Value::Number(id)) if id.is_i64() => Ok(id.as_i64().map(RequestId::Number)),
        _ => Err(
            "a request has an `id`, which is a string or a whole number of at most 63 bits, and a `method`"
                .to_owned(),
        ),
    }
}

pub(super) fn refusal(code: ErrorCode, text: String, id: Option<RequestId>) -> Box<ServerJsonRpcMessage> {
    Box::new(ServerJsonRpcMessage::error(ErrorData::new(code, text, None), id))
}
