//! One JSON-RPC message per line, over whatever carries the client's bytes.
//!
//! Stricter than what the library brings: a line that is no message is answered with what is wrong with it, as JSON-RPC
//! wants it, and the end of the input is announced the moment it comes, so that nothing goes on for a client that has left.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ledger::{Ledger, Taken, refusal};

/// The longest message. Far more than any argument that makes sense, and little enough to be held in memory.
pub(super) const LONGEST: usize = 8 << 20;

/// How long a client that has closed its side may leave an answer unread.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A client's two streams.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    output: Arc<Output<W>>,
    /// Messages of a batch that nobody has asked for yet.
    taken: VecDeque<ClientJsonRpcMessage>,
    /// Answers that are not written yet, and the one that is being written.
    unsaid: VecDeque<Value>,
    writing: Option<JoinHandle<io::Result<()>>>,
    /// What has come of the current line. It survives a `receive` that is dropped halfway.
    line: Vec<u8>,
    is_too_long: bool,
    has_begun: bool,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lines<R, W> {
    /// `ended` is cancelled when all that the client had to say is read. `left` may be cancelled before, when it is known that
    /// nothing will be added to that.
    pub(super) fn new(input: R, writer: W, ended: CancellationToken, left: CancellationToken) -> Self {
        let (writer, ledger) = (Mutex::new(writer), std::sync::Mutex::default());
        Self {
            input: BufReader::new(input),
            output: Arc::new(Output { writer, ledger, left, is_over: AtomicBool::new(false) }),
            taken: VecDeque::new(),
            unsaid: VecDeque::new(),
            writing: None,
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

    /// What is in the line: messages to act upon, and what to answer to it at once.
    fn take_line(&mut self) -> Option<Value> {
        let line = std::mem::take(&mut self.line);
        let refuse = |code, text| serde_json::to_value(refusal(code, text, None)).ok();
        if std::mem::take(&mut self.is_too_long) {
            let text = format!("this message is longer than {} MiB: send less at once", LONGEST >> 20);
            return refuse(ErrorCode::INVALID_REQUEST, text);
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            return None;
        }
        let value = match serde_json::from_slice::<Value>(text) {
            Ok(value) => value,
            Err(error) => {
                let text = format!("this line is not JSON ({error}): send one JSON-RPC message per line");
                return refuse(ErrorCode::PARSE_ERROR, text);
            }
        };
        let mut ledger = self.output.ledger();
        if let Value::Array(values) = value {
            let (messages, answer) = ledger.take_batch(values);
            self.taken.extend(messages);
            return answer;
        }
        match ledger.take(value) {
            Taken::Message(message) => self.taken.extend(in_order(&mut self.has_begun, *message)),
            Taken::Refused(refusal) => return serde_json::to_value(refusal).ok(),
            Taken::Ignored => {}
        }
        None
    }
}

/// Before the first request there is nothing that a notification or a response could be about.
fn in_order(has_begun: &mut bool, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
    *has_begun |= matches!(message, JsonRpcMessage::Request(_));
    has_begun.then_some(message)
}

/// What goes to the client.
struct Output<W> {
    writer: Mutex<W>,
    ledger: std::sync::Mutex<Ledger>,
    /// The client has closed its side.
    left: CancellationToken,
    /// Nothing more is written: the client does not read, and has left.
    is_over: AtomicBool,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Whoever panicked here had changed it completely or not at all.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one line. A client that has left and does not read either is not waited for.
    async fn write(&self, value: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let written = async {
            let mut writer = self.writer.lock().await;
            if self.is_over.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            writer.write_all(&line).await?;
            writer.flush().await
        };
        let abandoned = async {
            self.left.cancelled().await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        tokio::select! {
            written = written => written,
            () = abandoned => {
                // Half a line may have gone out.
                self.is_over.store(true, Ordering::Relaxed);
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    async fn answer(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let answer = self.ledger().answer(message)?;
        let written = match answer {
            Some(value) => self.write(&value).await,
            None => Ok(()),
        };
        self.ledger().close(message);
        written
    }
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
        async move { output.answer(&message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // Nothing more is read before it is written; half a line must not be left if this is dropped. A client that does
            // not listen will soon be gone.
            if let Some(writing) = &mut self.writing {
                let _ = writing.await;
                self.writing = None;
            }
            if let Some(answer) = self.unsaid.pop_front() {
                let output = Arc::clone(&self.output);
                self.writing = Some(tokio::spawn(async move { output.write(&answer).await }));
                continue;
            }
            if let Some(message) = self.taken.pop_front() {
                return Some(message);
            }
            // A stream that cannot be read is a stream that has ended.
            if !self.fill_line().await.unwrap_or(false) {
                self.output.left.cancel();
                self.ended.cancel();
                return None;
            }
            let answer = self.take_line();
            self.unsaid.extend(answer);
            self.unsaid.extend(self.output.ledger().finished_batches());
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Every answer was flushed when it was written.
        Ok(())
    }
}
