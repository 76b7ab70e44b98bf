//! One JSON-RPC message per line, over whatever carries the client's bytes.
//!
//! Stricter than what the library brings: a line that is no message is answered with what is wrong with it, as JSON-RPC
//! wants it, and the end of the input is announced the moment it comes, so that nothing goes on for a client that has left.

use std::io;
use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The longest message. Far more than any argument that makes sense, and little enough to be held in memory.
pub(super) const LONGEST: usize = 8 << 20;

/// A client's two streams.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    output: Arc<Mutex<W>>,
    /// What has come of the current line. It survives a `receive` that is dropped halfway.
    line: Vec<u8>,
    is_too_long: bool,
    has_begun: bool,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    /// `ended` is cancelled when the client has closed its side.
    pub(super) fn new(input: R, output: W, ended: CancellationToken) -> Self {
        Self {
            input: BufReader::new(input),
            output: Arc::new(Mutex::new(output)),
            line: Vec::new(),
            is_too_long: false,
            has_begun: false,
            ended,
        }
    }

    /// Waits until `self.line` is a whole line; false at the end of the input.
    async fn fill_line(&mut self) -> io::Result<bool> {
        loop {
            let come = self.input.fill_buf().await?;
            if come.is_empty() {
                // Half a line at the end is no message.
                return Ok(false);
            }
            let newline = come.iter().position(|byte| *byte == b'\n');
            let part = &come[..newline.unwrap_or(come.len())];
            if self.line.len() + part.len() > LONGEST {
                self.is_too_long = true;
                self.line.clear();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            let used = newline.map_or(come.len(), |end| end + 1);
            self.input.consume(used);
            if newline.is_some() {
                return Ok(true);
            }
        }
    }

    /// The message in the line, or what to answer to it. Neither for what needs no answer.
    fn take_message(&mut self) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            let text = format!("this message is longer than {} MiB: send less at once", LONGEST >> 20);
            return Err(refusal(ErrorCode::INVALID_REQUEST, text, None));
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            return Ok(None);
        }
        match serde_json::from_slice(text) {
            Ok(message) => Ok(self.in_order(message)),
            Err(error) => explain(text, &error),
        }
    }

    /// Before the first request there is nothing that a notification or a response could be about.
    fn in_order(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        self.has_begun |= matches!(message, JsonRpcMessage::Request(_));
        self.has_begun.then_some(message)
    }
}

/// What is wrong with a line that is no message that the library knows.
fn explain(
    text: &[u8],
    error: &serde_json::Error,
) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
    let Ok(value) = serde_json::from_slice::<Value>(text) else {
        let text = format!("this line is not JSON ({error}): send one JSON-RPC message per line");
        return Err(refusal(ErrorCode::PARSE_ERROR, text, None));
    };
    let id = match value.get("id") {
        Some(Value::String(id)) => Some(RequestId::String(id.as_str().into())),
        Some(Value::Number(id)) => id.as_i64().map(RequestId::Number),
        _ => None,
    };
    let is_notification = id.is_none() && value.get("method").is_some_and(Value::is_string);
    if is_notification {
        return Ok(None);
    }
    let text = "this is not a JSON-RPC 2.0 request: it needs `jsonrpc`, `id`, `method` and, if any, `params`";
    Err(refusal(ErrorCode::INVALID_REQUEST, text.to_owned(), id))
}

fn refusal(code: ErrorCode, text: String, id: Option<RequestId>) -> Box<ServerJsonRpcMessage> {
    Box::new(ServerJsonRpcMessage::error(ErrorData::new(code, text, None), id))
}

async fn write<W: AsyncWrite + Unpin>(output: &Mutex<W>, message: &ServerJsonRpcMessage) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move { write(&output, &message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // A stream that cannot be read is a stream that has ended.
            if !self.fill_line().await.unwrap_or(false) {
                self.ended.cancel();
                return None;
            }
            match self.take_message() {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(refusal) => {
                    // Whoever does not listen will soon be gone.
                    let _ = write(&self.output, &refusal).await;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.lock().await.flush().await
    }
}
