//! What the model does in a test, step by step, and what it was told of each step.

use std::collections::HashMap;
use std::sync::Arc;

use mala_tests::clients::Kind;
use mala_tests::model::{Model, Reply, Request, Script, Talk, call, say};
use serde_json::{Value, json};

use super::hands::Hands;

/// A conversation in the making. Steps that matter later have a name.
pub(super) struct Story {
    pub(super) hands: Hands,
    script: Script,
    replies: usize,
    names: HashMap<&'static str, usize>,
}

/// A conversation that is under way.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) talk: Talk,
    names: HashMap<&'static str, usize>,
}

impl Story {
    pub(super) fn new(hands: &Hands) -> Self {
        Self { hands: hands.clone(), script: Script::default(), replies: 0, names: HashMap::new() }
    }

    pub(super) fn then(self, name: &'static str, reply: Reply) -> Self {
        self.then_by(name, move |_| reply.clone())
    }

    pub(super) fn then_by(
        mut self,
        name: &'static str,
        step: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        self.names.insert(name, self.replies);
        self.replies += 1;
        self.script = self.script.then_by(step);
        self
    }

    /// These calls one after the other, each once the one before it has a result; the last one offers the work, and is due until it has.
    /// Then words. `instead` may reply in place of the next one, whose number it is given. It does not matter what the client has
    /// kept of replies that were cut off.
    pub(super) fn in_order(
        mut self,
        calls: Vec<Reply>,
        instead: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let next = Arc::new(move |request: &Request| {
            // A client that finds its conversation too long has it summed up, and goes on with that.
            if request.told().last().is_some_and(|told| told.contains("create a detailed summary")) {
                return say("The work has begun.");
            }
            let results = request.results();
            if results.iter().any(|result| result.text.contains("offered ")) {
                return say("done");
            }
            let due = results.len().min(calls.len() - 1);
            instead(due).unwrap_or_else(|| calls[due].clone())
        });
        // Some replies leave nothing behind, and some are asked for again.
        for _ in 0..20 {
            let next = Arc::clone(&next);
            self.script = self.script.then_by(move |request| next(request));
        }
        self
    }

    /// An edit, after a look at the file where the client wants one.
    pub(super) fn edit(self, name: &'static str, path: &str, old: &str, new: &str) -> Self {
        let mut calls = self.hands.look_and_edit(path, old, new);
        let edit = calls.pop().expect("an edit is the last of them");
        calls.into_iter().fold(self, |story, look| story.then("a look", look)).then(name, edit)
    }

    pub(super) fn shell(self, name: &'static str, command: &str) -> Self {
        let shell = self.hands.shell(command);
        self.then(name, shell)
    }

    /// A sub-agent with this prompt, whose end is awaited.
    pub(super) fn delegate(self, prompt: &str) -> Self {
        let delegate = self.hands.delegate(prompt);
        let story = self.then("a sub-agent", delegate);
        if story.hands.kind != Kind::Codex {
            return story;
        }
        story.then_by("its end", |request| {
            let spawned = request.results().pop().expect("it was just started").text;
            let id = serde_json::from_str::<Value>(&spawned).unwrap()["agent_id"].clone();
            call("multi_agent_v1.wait_agent", json!({"targets": [id], "timeout_ms": 60_000}))
        })
    }

    /// Two clients show their models no tool of a server before it was searched for.
    pub(super) fn find_tools(self, words: &str) -> Self {
        match self.hands.find_tools(words) {
            Some(search) => self.then("search", search),
            None => self,
        }
    }

    /// Ends a turn.
    pub(super) fn say(self, text: &str) -> Self {
        self.then("words", say(text))
    }

    /// What the sub-agent does whose prompt contains `marker`: it edits a file.
    pub(super) fn part(mut self, marker: &str, path: &str, old: &str, new: &str) -> Self {
        self.script = self.script.when(marker);
        for reply in self.hands.look_and_edit(path, old, new) {
            self.script = self.script.then(reply);
        }
        self.script = self.script.then(self.hands.end_part());
        self
    }

    pub(super) fn begin(self, model: &Model) -> Told {
        Told { talk: model.talk(self.script), names: self.names }
    }
}

impl Told {
    /// What the model was told of the step of this name.
    pub(super) fn of(&self, name: &str) -> String {
        let reply = self.names[name];
        let results = self.talk.results();
        let result = results.iter().find(|result| (result.part, result.reply) == (0, reply));
        result.unwrap_or_else(|| panic!("nothing came of `{name}`: {results:#?}")).text.clone()
    }

    /// What sub-agents were told of their calls.
    pub(super) fn of_parts(&self) -> String {
        let results = self.talk.results().into_iter().filter(|result| result.part > 0);
        results.map(|result| result.text).collect::<Vec<_>>().join("\n")
    }
}
