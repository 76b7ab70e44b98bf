//! A model that says what a script tells it to, so that the real agent clients can run in tests.
//!
//! [`Model::start`] serves three APIs on a free port of the loopback, streaming or not: Anthropic's Messages
//! (`/v1/messages`), OpenAI's Responses (`/v1/responses`) and Google's `generateContent`. Every [`Talk`] has a key of its own; the client that sends the key
//! gets that talk's script, so one server serves any number of clients at once. What a client sent is kept word for
//! word: a test reads there what its model was shown.
//!
//! It promises no more of the APIs than the pinned clients use. Where a client asks for something else it is answered
//! 404, which all of them take as "not offered here".

mod anthropic;
mod gemini;
mod openai;
mod request;
mod script;

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tiny_http::{Header, Method, Response, Server};

pub use request::{Request, ToolResult};
pub use script::{Call, Refusal, Reply, Script, call, calls, javascript, patch, say};

/// What every answer claims to have cost.
pub const TOKENS_IN: u64 = 120;
/// What every answer claims to have cost.
pub const TOKENS_OUT: u64 = 30;

/// A running model server. It ends with the value.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    server: Server,
    talks: Mutex<HashMap<String, Arc<Record>>>,
    keys: AtomicUsize,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("talks", &lock(&self.talks).len()).finish_non_exhaustive()
    }
}

/// One client's side of the server: its script, and all that it was sent.
#[derive(Clone)]
pub struct Talk {
    address: SocketAddr,
    key: String,
    record: Arc<Record>,
}

struct Record {
    script: Script,
    requests: Mutex<Vec<Request>>,
    complaints: Mutex<Vec<String>>,
}

/// Requests are long, and what a failing test wants to show is what came of the calls.
impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("results", &self.results()).finish_non_exhaustive()
    }
}

/// Poisoned by a test that failed elsewhere: what is inside is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Model {
    pub fn start() -> Self {
        let server = Server::http((Ipv4Addr::LOCALHOST, 0)).expect("the loopback has a free port");
        let address = server.server_addr().to_ip().expect("it listens on an address");
        let shared = Arc::new(Shared { server, talks: Mutex::default(), keys: AtomicUsize::new(1) });
        let serving = Arc::clone(&shared);
        let accepting = thread::spawn(move || {
            // Each on its own thread: a script may wait for what another client does.
            while let Ok(request) = serving.server.recv() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || shared.answer(request));
            }
        });
        Self { address, shared, accepting: Some(accepting) }
    }

    /// Opens a talk. It belongs to the client that is given its key.
    pub fn talk(&self, script: impl Into<Script>) -> Talk {
        let key = format!("test-key-{}", self.shared.keys.fetch_add(1, Ordering::Relaxed));
        let record = Arc::new(Record {
            script: script.into(),
            requests: Mutex::default(),
            complaints: Mutex::default(),
        });
        lock(&self.shared.talks).insert(key.clone(), Arc::clone(&record));
        Talk { address: self.address, key, record }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.server.unblock();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Talk {
    /// Where the client must look for its model.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// All that the client sent to be answered by the script, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.record.requests).clone()
    }

    /// What came of every tool call, as the model was told, in order of the calls.
    pub fn results(&self) -> Vec<ToolResult> {
        let mut results: Vec<ToolResult> = Vec::new();
        for request in self.requests() {
            for result in request.results() {
                if !results.iter().any(|known| known.id == result.id) {
                    results.push(result);
                }
            }
        }
        results
    }

    /// Everything that the model was told beside the results of tools: prompts, reminders, what hooks added.
    pub fn told(&self) -> String {
        let mut told: Vec<String> = Vec::new();
        for text in self.requests().iter().flat_map(Request::told) {
            if !told.contains(&text) {
                told.push(text);
            }
        }
        told.join("\n")
    }

    /// What went wrong on the side of the model: requests beyond the script, or such as it cannot read.
    pub fn complaints(&self) -> Vec<String> {
        lock(&self.record.complaints).clone()
    }
}

/// What is asked for, and whether as a stream where the address says so.
enum Api {
    Messages,
    CountTokens,
    Responses,
    Gemini { stream: bool },
}

impl Api {
    fn of(method: &Method, url: &str) -> Option<Self> {
        let path = url.split('?').next().unwrap_or(url);
        match (method, path) {
            (Method::Post, "/v1/messages") => Some(Self::Messages),
            (Method::Post, "/v1/messages/count_tokens") => Some(Self::CountTokens),
            (Method::Post, "/v1/responses") => Some(Self::Responses),
            (Method::Post, path) if path.ends_with(":generateContent") => {
                Some(Self::Gemini { stream: false })
            }
            (Method::Post, path) if path.ends_with(":streamGenerateContent") => {
                Some(Self::Gemini { stream: true })
            }
            _ => None,
        }
    }
}

/// What goes back over the wire.
enum Answer {
    Json(u16, Value),
    Stream(String),
    Refused(Refused),
}

/// A provider's words for a [`Refusal`].
struct Refused {
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: Value,
}

impl Shared {
    fn answer(&self, mut http: tiny_http::Request) {
        let mut body = String::new();
        let readable = http.as_reader().read_to_string(&mut body).is_ok();
        let probe = matches!(http.method(), Method::Head) || http.url() == "/";
        let answer = match Api::of(http.method(), http.url()) {
            _ if probe => Answer::Json(200, json!({})),
            None => {
                Answer::Json(404, json!({"error": {"type": "not_found_error", "message": "not offered"}}))
            }
            Some(_) if !readable => Answer::Json(400, json!({"error": {"message": "unreadable body"}})),
            Some(api) => match self.talk_of(&http) {
                Some(talk) => talk.answer(&api, &body),
                None => Answer::Json(401, json!({"error": {"message": "nobody gave out this key"}})),
            },
        };
        let (status, kind, text, headers): (_, _, _, &[_]) = match answer {
            Answer::Json(status, value) => (status, "application/json", value.to_string(), &[]),
            Answer::Stream(events) => (200, "text/event-stream", events, &[]),
            Answer::Refused(Refused { status, headers, body }) => {
                (status, "application/json", body.to_string(), headers)
            }
        };
        let mut response = Response::from_string(text).with_status_code(status);
        for (name, value) in headers.iter().chain(&[("content-type", kind)]) {
            response.add_header(Header::from_bytes(*name, *value).expect("headers are plain text"));
        }
        // A client that has gone away in the meantime misses nothing.
        let _ = http.respond(response);
    }

    fn talk_of(&self, http: &tiny_http::Request) -> Option<Arc<Record>> {
        let header = |name: &'static str| {
            http.headers().iter().find(|header| header.field.equiv(name)).map(|header| header.value.as_str())
        };
        let bearer = || header("authorization")?.strip_prefix("Bearer ");
        let key = header("x-api-key").or_else(|| header("x-goog-api-key")).or_else(bearer)?;
        lock(&self.talks).get(key).cloned()
    }
}

impl Record {
    fn answer(&self, api: &Api, body: &str) -> Answer {
        let body: Value = match serde_json::from_str(body) {
            Ok(body) => body,
            Err(error) => {
                let complaint = format!("a request that is no JSON: {error}");
                lock(&self.complaints).push(complaint.clone());
                return Answer::Json(400, json!({"error": {"message": complaint}}));
            }
        };
        let stream = body["stream"] == true;
        let mut request = match api {
            Api::CountTokens => return Answer::Json(200, json!({"input_tokens": TOKENS_IN})),
            Api::Messages => anthropic::request(body),
            Api::Responses => openai::request(body),
            Api::Gemini { .. } => gemini::request(body),
        };
        request.part = self.script.part(&request);
        let reply = self.reply(&request);
        if let Reply::Refuse(refusal) = reply {
            return Answer::Refused(match api {
                Api::Responses => openai::refused(refusal),
                Api::Gemini { .. } => gemini::refused(refusal),
                Api::Messages | Api::CountTokens => anthropic::refused(refusal),
            });
        }
        match (api, stream) {
            (Api::Responses, true) => Answer::Stream(openai::stream(&request, &reply)),
            (Api::Responses, false) => Answer::Json(200, openai::whole(&request, &reply)),
            (Api::Gemini { stream: true }, _) => Answer::Stream(gemini::stream(&request, &reply)),
            (Api::Gemini { stream: false }, _) => Answer::Json(200, gemini::whole(&request, &reply)),
            (_, true) => Answer::Stream(anthropic::stream(&request, &reply)),
            (_, false) => Answer::Json(200, anthropic::whole(&request, &reply)),
        }
    }

    /// Clients also ask small things on the side (a title, a summary). Those requests bring no tools and no script.
    fn reply(&self, request: &Request) -> Reply {
        if request.tools().is_empty() {
            return say("ok");
        }
        lock(&self.requests).push(request.clone());
        self.script.reply(request).unwrap_or_else(|| {
            let what =
                format!("the script has no reply number {} to {:?}", request.replies(), request.told());
            lock(&self.complaints).push(what);
            say("The script has ended.")
        })
    }
}

/// Server-sent events, each a name and its data.
fn events<'a>(events: impl IntoIterator<Item = (&'a str, Value)>) -> String {
    events.into_iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect()
}
