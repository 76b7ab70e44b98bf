//! The tools: their names, what they take, and which command each of them is.
//!
//! Every client shows all of this to its model in every conversation, so each word here is paid for again and again.

use std::sync::Arc;

use rmcp::model::{Tool as Listed, ToolAnnotations};

use super::arguments::Kind::{Flag, Number, OneOf, Text, Texts};
use super::arguments::{Arguments, Field, optional, required, schema};
use super::call::{self, Line};
use super::port::CommandLine;

/// One tool.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    about: &'static str,
    pub(super) fields: &'static [Field],
    pub(super) nature: Nature,
    /// What to do when the command says no, in terms of these tools.
    pub(super) when_refused: &'static str,
    line: fn(&Arguments) -> Line,
}

/// What a no of the command means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// It only looks: a no is an answer like any other.
    Looks,
    /// It judges and changes nothing: a no is a failure to be told of.
    Judges,
    /// It changes something: a no means that it did not.
    Changes,
}

const PATHS: &str = "files, folders or patterns like src/**";
const LITERAL: &str = "take * ? [ in paths literally";
const WAIT: &str = "queue so long, e.g. 5m; else refused at once";

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "lock_acquire",
        about: "Lock files before you change them; all or none. Others cannot write them meanwhile.",
        fields: &[
            required("paths", Texts, PATHS),
            optional("wait", Text, WAIT),
            optional("shared", Flag, "nobody may write, others may share"),
            optional("reason", Text, "shown to others"),
            optional("issue", Text, ""),
            optional("ttl", Text, "lease, e.g. 30m"),
            optional("literal", Flag, LITERAL),
        ],
        nature: Nature::Changes,
        when_refused: "nothing was locked: ask the holder with lock_ask, queue with `wait`, or work on something else first",
        line: call::lock_acquire,
    },
    Tool {
        name: "lock_release",
        about: "Give locks back as soon as you are done with the files.",
        fields: &[
            optional("paths", Texts, "as they were locked"),
            optional("all", Flag, "everything you hold"),
            optional("literal", Flag, LITERAL),
        ],
        nature: Nature::Changes,
        when_refused: "nothing was released: only its holder releases a lock; see who that is with lock_status",
        line: call::lock_release,
    },
    Tool {
        name: "lock_status",
        about: "Who works here and holds what; with paths: whether you could lock them now, and who is in the way.",
        fields: &[optional("paths", Texts, PATHS), optional("literal", Flag, LITERAL)],
        nature: Nature::Looks,
        when_refused: "",
        line: call::lock_status,
    },
    Tool {
        name: "lock_ask",
        about: "Ask the holder of a file to hand it to you. It is yours when the holder releases it.",
        fields: &[
            required("path", Text, ""),
            required("why", Text, "what you need it for"),
            optional("urgent", Flag, ""),
            optional("wait", Text, "stay until it is yours, e.g. 5m"),
            optional("shared", Flag, "only that nobody writes it"),
            optional("literal", Flag, LITERAL),
        ],
        nature: Nature::Changes,
        when_refused: "the ask stays open: work on something else and look again with lock_status",
        line: call::lock_ask,
    },
    Tool {
        name: "lock_answer",
        about: "Answer somebody who asks for a file you hold: release it to them, or defer.",
        fields: &[
            required("ask", Text, "its id"),
            required("answer", OneOf(&["release", "defer"]), ""),
            optional("eta", Text, "with defer: how much longer, e.g. 20m, at most 60m"),
        ],
        nature: Nature::Changes,
        when_refused: "nothing changed: see who asks for what with lock_status",
        line: call::lock_answer,
    },
    Tool {
        name: "lock_take",
        about: "Take what you asked for when the ask is overdue and its holder is gone or idle without changes.",
        fields: &[required("ask", Text, "its id")],
        nature: Nature::Changes,
        when_refused: "the ask stays open: work on something else and look again with lock_status",
        line: call::lock_take,
    },
    Tool {
        name: "lock_cancel",
        about: "Withdraw an ask of yours.",
        fields: &[required("ask", Text, "its id")],
        nature: Nature::Changes,
        when_refused: "nothing changed: see your asks with lock_status",
        line: call::lock_cancel,
    },
    Tool {
        name: "test_run",
        about: "Run a test command when its turn has come and record it as evidence for the gate. One runs at a time.",
        fields: &[
            optional(
                "command",
                Texts,
                "program and arguments, no shell; if left out, all required commands, in a checkout apart",
            ),
            optional("issue", Text, ""),
            optional("isolated", Flag, "in a snapshot with your changes only; no waiting"),
            optional("wait", Text, "give up if the turn does not come within, e.g. 10m"),
        ],
        nature: Nature::Judges,
        when_refused: "",
        line: call::test_run,
    },
    Tool {
        name: "commit",
        about: "Commit exactly your own changed files, or those named; nobody else's. In a run this offers them: mala lands them.",
        fields: &[
            optional("message", Text, "needed unless undo; name the issue in it"),
            optional("paths", Texts, ""),
            optional("issue", Text, ""),
            optional("undo", Flag, "take back your own last commit instead; no file changes"),
        ],
        nature: Nature::Changes,
        when_refused: "mend what is named and commit again",
        line: call::commit,
    },
    Tool {
        name: "gate_check",
        about: "Whether your commit is accepted, and what is missing.",
        fields: &[
            optional("issue", Text, ""),
            optional("commit", Text, "revision"),
            optional("rerun", Flag, "run the required commands on it, trusting no earlier run"),
        ],
        nature: Nature::Judges,
        when_refused: "mend what failed, run the required commands with test_run, and commit again",
        line: call::gate_check,
    },
    Tool {
        name: "message_send",
        about: "Write to other agents or people.",
        fields: &[
            required("body", Text, ""),
            optional("to", Texts, "names; everybody if left out"),
            optional("thread", Text, "e.g. an issue"),
            optional("importance", OneOf(&["low", "normal", "high", "urgent"]), ""),
            optional("ack", Flag, "want to know that it was noted"),
        ],
        nature: Nature::Changes,
        when_refused: "see who is there with lock_status",
        line: call::message_send,
    },
    Tool {
        name: "message_inbox",
        about: "Read messages to you, newest first.",
        fields: &[
            optional("unread", Flag, ""),
            optional("cursor", Number, "`next` of the page before"),
            optional("limit", Number, ""),
            optional("ack", Number, "acknowledge this message instead"),
        ],
        nature: Nature::Changes,
        when_refused: "",
        line: call::message_inbox,
    },
    Tool {
        name: "issue_wait",
        about: "Wait until an issue has landed. In a run, end your turn then: you are called again.",
        fields: &[required("issue", Text, ""), optional("timeout", Text, "outside of a run, e.g. 5m")],
        nature: Nature::Judges,
        when_refused: "work on something else, or go on without it",
        line: call::issue_wait,
    },
    Tool {
        name: "issue_note",
        about: "Add a note to an issue for whoever works on it next.",
        fields: &[required("issue", Text, ""), required("text", Text, "")],
        nature: Nature::Changes,
        when_refused: "name an issue that is there: mala issue list",
        line: call::issue_note,
    },
];

pub(super) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// The command that a call means.
    pub(super) fn command(&self, arguments: &Arguments) -> CommandLine {
        (self.line)(arguments).finish()
    }

    /// How clients are told of it.
    pub(super) fn listed(&self) -> Listed {
        let hints = ToolAnnotations::new().open_world(false);
        let hints = match self.nature {
            Nature::Looks => hints.read_only(true),
            Nature::Judges | Nature::Changes => hints.destructive(false),
        };
        Listed::new(self.name, self.about, Arc::new(schema(self.fields))).with_annotations(hints)
    }
}
