//! Which command line a call means.
//!
//! Nothing that a caller says can become an option: values stick to their option with `=`, paths come behind `--`, and
//! whole texts travel as standard input.

use super::arguments::Arguments;
use super::port::{CommandLine, How};

/// A command line in the making.
#[derive(Debug)]
pub(super) struct Line {
    line: CommandLine,
    operands: Vec<String>,
}

impl Line {
    fn new(words: &[&str]) -> Self {
        let words = words.iter().copied().chain(["--json"]).map(str::to_owned).collect();
        Self { line: CommandLine { words, input: String::new(), how: How::Here }, operands: Vec::new() }
    }

    fn value(mut self, option: &str, value: Option<impl std::fmt::Display>) -> Self {
        self.line.words.extend(value.map(|value| format!("--{option}={value}")));
        self
    }

    fn flag(mut self, option: &str, is_set: bool) -> Self {
        self.line.words.extend(is_set.then(|| format!("--{option}")));
        self
    }

    fn operands<'a>(mut self, operands: impl IntoIterator<Item = &'a str>) -> Self {
        self.operands.extend(operands.into_iter().map(str::to_owned));
        self
    }

    fn input(mut self, text: Option<&str>) -> Self {
        self.line.input = text.unwrap_or_default().to_owned();
        self
    }

    fn apart(mut self) -> Self {
        self.line.how = How::Apart;
        self
    }

    pub(super) fn finish(self) -> CommandLine {
        let Self { mut line, operands } = self;
        if !operands.is_empty() {
            line.words.push("--".to_owned());
            line.words.extend(operands);
        }
        line
    }
}

pub(super) fn lock_acquire(given: &Arguments) -> Line {
    Line::new(&["lock", "acquire"])
        .value("wait", given.text("wait"))
        .value("reason", given.text("reason"))
        .value("issue", given.text("issue"))
        .value("ttl", given.text("ttl"))
        .flag("shared", given.flag("shared"))
        .flag("literal", given.flag("literal"))
        .operands(given.texts("paths"))
}

pub(super) fn lock_release(given: &Arguments) -> Line {
    Line::new(&["lock", "release"])
        .flag("all", given.flag("all"))
        .flag("literal", given.flag("literal"))
        .operands(given.texts("paths"))
}

pub(super) fn lock_status(given: &Arguments) -> Line {
    if given.texts("paths").next().is_none() {
        return Line::new(&["status"]);
    }
    Line::new(&["lock", "check"]).flag("literal", given.flag("literal")).operands(given.texts("paths"))
}

pub(super) fn lock_ask(given: &Arguments) -> Line {
    Line::new(&["lock", "ask"])
        .value("why", given.text("why"))
        .flag("urgent", given.flag("urgent"))
        .value("wait", given.text("wait"))
        .flag("shared", given.flag("shared"))
        .flag("literal", given.flag("literal"))
        .operands(given.text("path"))
}

pub(super) fn lock_answer(given: &Arguments) -> Line {
    Line::new(&["lock", "answer"])
        .value("eta", given.text("eta"))
        .operands(given.text("ask"))
        .operands(given.text("answer"))
}

pub(super) fn lock_take(given: &Arguments) -> Line {
    Line::new(&["lock", "take"]).operands(given.text("ask"))
}

pub(super) fn lock_cancel(given: &Arguments) -> Line {
    Line::new(&["lock", "cancel"]).operands(given.text("ask"))
}

pub(super) fn test_run(given: &Arguments) -> Line {
    Line::new(&["test"])
        .value("issue", given.text("issue"))
        .flag("isolated", given.flag("isolated"))
        .value("wait", given.text("wait"))
        .operands(given.texts("command"))
        .apart()
}

pub(super) fn commit(given: &Arguments) -> Line {
    // Without a message it says itself that one is needed.
    Line::new(&["commit"])
        .flag("undo", given.flag("undo"))
        .value("issue", given.text("issue"))
        .value("message", given.text("message").map(|_| "-"))
        .input(given.text("message"))
        .operands(given.texts("paths"))
        .apart()
}

pub(super) fn gate_check(given: &Arguments) -> Line {
    let line = Line::new(&["gate", "check"])
        .value("issue", given.text("issue"))
        .value("commit", given.text("commit"))
        .flag("rerun", given.flag("rerun"));
    // It runs tests then.
    if given.flag("rerun") { line.apart() } else { line }
}

pub(super) fn message_send(given: &Arguments) -> Line {
    let is_to_all = given.texts("to").next().is_none();
    let line = Line::new(&["msg", "send"])
        .flag("all", is_to_all)
        .value("thread", given.text("thread"))
        .value("importance", given.text("importance"))
        .flag("ack", given.flag("ack"));
    let line = given.texts("to").fold(line, |line, name| line.value("to", Some(name)));
    line.input(given.text("body")).operands(["-"])
}

pub(super) fn message_inbox(given: &Arguments) -> Line {
    match given.number("ack") {
        Some(id) => Line::new(&["msg", "ack"]).operands([id.to_string().as_str()]),
        None => Line::new(&["msg", "inbox"])
            .flag("unread", given.flag("unread"))
            .value("cursor", given.number("cursor"))
            .value("limit", given.number("limit")),
    }
}

pub(super) fn issue_wait(given: &Arguments) -> Line {
    Line::new(&["wait"]).value("timeout", given.text("timeout")).operands(given.text("issue"))
}

pub(super) fn issue_note(given: &Arguments) -> Line {
    Line::new(&["issue", "note"]).input(given.text("text")).operands(given.text("issue")).operands(["-"])
}
