//! Showing things: answers on stdout, everything else on stderr, colour only on a terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstream::adapter::StripBytes;
use anstyle::{AnsiColor, Style};
use mala_agents::mcp::Remarks;
use mala_config::{ConfigError, Problem};
use mala_session::supervisor_socket::ClientStreams;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::error::CliError;
use crate::file_limit;

pub(crate) use mala_core::text::{plain, short, span};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();

/// So many characters of an issue's title are shown in lists.
pub(crate) const TITLE: usize = 120;

/// How this invocation talks, and to whom.
#[derive(Debug, Clone)]
pub(crate) struct Ui {
    pub(crate) json: bool,
    streams: Streams,
}

/// Where answers and remarks go.
#[derive(Debug, Clone)]
enum Streams {
    /// To this process's own stdout and stderr.
    Own,
    /// To those of a process that asked this one to act for it.
    Client(Arc<ClientStreams>),
    /// Into memory, for a caller inside this process.
    Kept(Arc<KeptStreams>),
}

/// What a command reads and says when it is run from inside this process.
#[derive(Debug)]
pub(crate) struct KeptStreams {
    input: Vec<u8>,
    out: Mutex<Vec<u8>>,
    remarks: Arc<Remarks>,
}

impl KeptStreams {
    pub(crate) fn new(input: &str, remarks: &Arc<Remarks>) -> Arc<Self> {
        let (input, remarks) = (input.as_bytes().to_vec(), Arc::clone(remarks));
        Arc::new(Self { input, out: Mutex::default(), remarks })
    }

    /// What has been answered so far; it is gone afterwards.
    pub(crate) fn take_answer(&self) -> Vec<u8> {
        std::mem::take(&mut self.out.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes the answer of a command into memory.
struct KeptOut(Arc<KeptStreams>);

impl Write for KeptOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.out.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes remarks on without their colours.
struct KeptErr {
    remarks: Arc<Remarks>,
    strip: StripBytes,
}

impl Write for KeptErr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.strip.strip_next(bytes).for_each(|part| self.remarks.push(part));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Ui {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, streams: Streams::Own }
    }

    #[cfg_attr(not(any(target_os = "linux", test)), expect(dead_code, reason = "only a desk has clients"))]
    pub(crate) fn for_client(json: bool, streams: Arc<ClientStreams>) -> Self {
        Self { json, streams: Streams::Client(streams) }
    }

    pub(crate) fn kept(json: bool, streams: Arc<KeptStreams>) -> Self {
        Self { json, streams: Streams::Kept(streams) }
    }

    /// Where the answer goes; colour is taken out unless it is a terminal.
    pub(crate) fn out(&self) -> Box<dyn Write> {
        match &self.streams {
            Streams::Own => Box::new(anstream::stdout()),
            Streams::Client(streams) => stream_to(&streams.out),
            Streams::Kept(streams) => Box::new(KeptOut(Arc::clone(streams))),
        }
    }

    /// Where remarks go.
    pub(crate) fn err(&self) -> Box<dyn Write> {
        match &self.streams {
            Streams::Own => Box::new(anstream::stderr()),
            Streams::Client(streams) => stream_to(&streams.err),
            Streams::Kept(streams) => {
                Box::new(KeptErr { remarks: Arc::clone(&streams.remarks), strip: StripBytes::new() })
            }
        }
    }

    /// What is handed to the command.
    pub(crate) fn input(&self) -> Box<dyn Read> {
        match &self.streams {
            Streams::Own => Box::new(io::stdin()),
            Streams::Client(streams) => match streams.input.try_clone() {
                Ok(input) => Box::new(input),
                Err(_) => Box::new(io::empty()),
            },
            Streams::Kept(streams) => Box::new(io::Cursor::new(streams.input.clone())),
        }
    }

    /// Waits until there is something to read, or the end of it. False if there is neither for so long.
    pub(crate) fn has_input(&self, patience: Duration) -> io::Result<bool> {
        let stdin = io::stdin();
        let input = match &self.streams {
            Streams::Own => stdin.as_fd(),
            Streams::Client(streams) => streams.input.as_fd(),
            Streams::Kept(_) => return Ok(true),
        };
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        loop {
            match poll(&mut [PollFd::new(input, PollFlags::POLLIN)], timeout) {
                Err(Errno::EINTR) => {}
                ready => return Ok(ready? > 0),
            }
        }
    }

    /// Whether a person reads the answer as it appears.
    pub(crate) fn is_live(&self) -> bool {
        match &self.streams {
            Streams::Own => io::stdout().is_terminal(),
            Streams::Client(streams) => streams.out.is_terminal(),
            Streams::Kept(_) => false,
        }
    }

    /// Whether whoever read the answer is gone.
    pub(crate) fn is_unread(&self) -> bool {
        // Some systems tell only those who ask for room to write.
        let is_gone = |out: BorrowedFd<'_>| {
            poll_now(out, PollFlags::POLLOUT).intersects(PollFlags::POLLERR | PollFlags::POLLHUP)
        };
        match &self.streams {
            Streams::Own => is_gone(io::stdout().as_fd()),
            Streams::Client(streams) => is_gone(streams.out.as_fd()),
            Streams::Kept(_) => false,
        }
    }

    /// Gives the answer: `value` as JSON if that was asked for, else what `text` writes.
    pub(crate) fn answer(
        &self,
        value: &impl Serialize,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CliError> {
        if self.json {
            return self.json_line(value);
        }
        let mut shown = Vec::new();
        text(&mut shown)?;
        self.say(&shown)
    }

    /// One JSON document on a line of its own.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), CliError> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
        line.push(b'\n');
        self.say(&line)
    }

    fn say(&self, bytes: &[u8]) -> Result<(), CliError> {
        let mut out = self.out();
        let said = out.write_all(bytes).and_then(|()| out.flush());
        let unheard = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
        };
        Ok(said.map_err(unheard)?)
    }

    /// A remark that is not part of the answer.
    pub(crate) fn note(&self, label: &str, style: Style, text: &str) {
        // Nothing can be done about a closed stderr.
        let _ = writeln!(self.err(), "{style}{label}{style:#}: {text}");
    }

    pub(crate) fn warning(&self, text: &str) {
        self.note("warning", YELLOW, text);
    }

    pub(crate) fn hint(&self, text: &str) {
        self.note("hint", GREEN, text);
    }

    pub(crate) fn error(&self, error: &CliError) {
        self.error_document(error);
        if let Some(config) = error.source.downcast_ref::<ConfigError>() {
            config.problems().for_each(|problem| self.problem(problem));
            return;
        }
        self.note("error", RED, &error.messages().join(": "));
        for hint in &error.hints {
            self.hint(hint);
        }
        if let Some(hint) = file_limit::hint() {
            self.hint(hint);
        }
    }

    /// What stands in place of the answer, for programs.
    pub(crate) fn error_document(&self, error: &CliError) {
        if self.json {
            let message = error.messages().join(": ");
            let body = json!({ "error": { "kind": error.kind, "message": message, "hints": error.hints } });
            let _ = self.json_line(&body);
        }
    }
}

impl Ui {
    /// A bad setting: in a file with the place shown, else in a line.
    fn problem(&self, problem: &Problem) {
        if problem.source_code().is_some() {
            let _ = write!(self.err(), "{}", rendered(problem));
            return;
        }
        self.note("error", RED, &problem.to_string());
        if let Some(help) = problem.help() {
            self.hint(&help.to_string());
        }
    }
}

/// What is true of the file at this moment; nothing if that cannot be found out.
pub(crate) fn poll_now(file: BorrowedFd<'_>, asked: PollFlags) -> PollFlags {
    let mut files = [PollFd::new(file, asked)];
    let seen = poll(&mut files, PollTimeout::ZERO).ok().and_then(|_| files[0].revents());
    seen.unwrap_or(PollFlags::empty())
}

fn stream_to(file: &File) -> Box<dyn Write> {
    match file.try_clone() {
        Ok(file) => Box::new(anstream::AutoStream::auto(file)),
        Err(_) => Box::new(io::sink()),
    }
}

/// A diagnostic with its source and the place in it.
fn rendered(diagnostic: &dyn Diagnostic) -> String {
    let theme = if io::stderr().is_terminal() { GraphicalTheme::unicode() } else { GraphicalTheme::none() };
    let mut text = String::new();
    let done = GraphicalReportHandler::new_themed(theme).render_report(&mut text, diagnostic);
    done.map_or_else(|_| diagnostic.to_string(), |()| text)
}

/// Writes rows in aligned columns under a heading, indented by two.
pub(crate) fn table<const N: usize>(
    out: &mut dyn Write,
    heading: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let mut widths = heading.map(UnicodeWidthStr::width);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut line = |style: Style, cells: [&str; N]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            text.push_str(cell);
            text.push_str(&" ".repeat(width - cell.width() + 2));
        }
        writeln!(out, "  {style}{}{style:#}", text.trim_end())
    };
    line(DIM, heading)?;
    rows.iter().try_for_each(|row| line(Style::new(), row.each_ref().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_display_width() {
        let mut out = Vec::new();
        let rows = [["日本".to_owned(), "x".to_owned()], ["a".to_owned(), "y".to_owned()]];
        table(&mut out, ["N", "V"], &rows).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(text, "  N     V\n  日本  x\n  a     y\n");
    }
}
