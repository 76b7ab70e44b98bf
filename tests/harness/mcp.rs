//! A client of `mala mcp` that says exactly what a test wants said.
//!
//! The server is started by a shell script, which stands for the client's own process: it is what locks live with, and its
//! name is the session's.

use std::cell::RefCell;
use std::fs;
use std::process::{Command, ExitStatus};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{Program, World, children};

/// A client and its server. Both die with the value.
#[derive(Debug)]
pub struct Mcp {
    program: Program,
    next: i64,
    /// What was heard before it was asked for.
    heard: RefCell<Vec<Value>>,
}

impl Mcp {
    /// Starts `server`, a command without its streams, and shakes hands.
    pub fn start(world: &World, server: &Command) -> Self {
        let mut mcp = Self::start_silent(world, server);
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let id = mcp.ask("initialize", &hello);
        let answer = mcp.answer(id);
        assert_eq!(answer["result"]["serverInfo"]["name"], "mala", "{answer}");
        mcp.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        mcp
    }

    /// Starts it without a word.
    pub fn start_silent(world: &World, server: &Command) -> Self {
        let script = world.base().join("client.sh");
        fs::write(&script, "\"$@\"\nexit $?\n").expect("files can be written beside the checkout");
        let mut command = world.command("bash");
        command.arg(script).arg(server.get_program()).args(server.get_args()).env_remove("MALA_AGENT");
        for (name, value) in server.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self { program: Program::start(&mut command), next: 0, heard: RefCell::default() }
    }

    /// The process that the session lives with.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// What the session is called if nobody named it.
    pub fn agent(&self) -> String {
        format!("bash-{}", self.pid())
    }

    /// The server's own process.
    pub fn server_pid(&self) -> u32 {
        *children(self.pid()).first().expect("it has started its server")
    }

    pub fn tell(&mut self, message: &Value) {
        self.program.tell(&message.to_string());
    }

    /// Says something that need not be a message.
    pub fn say(&mut self, line: &str) {
        self.program.tell(line);
    }

    /// The next thing that the server says.
    pub fn hear(&self) -> Value {
        let line = self.program.hear();
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("nothing but JSON is said ({error}): {line}"))
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.tell(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Calls a tool and goes on.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> i64 {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and waits for its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.result(id)
    }

    /// Calls a tool that must do what it is asked for, and returns what it answers.
    pub fn done(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool} {arguments}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must fail, and returns the whole result.
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        result
    }

    pub fn cancel(&mut self, id: i64) {
        self.tell(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
        );
    }

    /// The message that answers a request; what comes before it is kept.
    pub fn answer(&self, id: i64) -> Value {
        let is_meant = |message: &Value| message["id"] == id;
        let mut heard = self.heard.borrow_mut();
        if let Some(place) = heard.iter().position(is_meant) {
            return heard.remove(place);
        }
        loop {
            let message = self.hear();
            if is_meant(&message) {
                return message;
            }
            heard.push(message);
        }
    }

    pub fn result(&self, id: i64) -> Value {
        let answer = self.answer(id);
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// What was heard beside answers so far.
    pub fn heard(&self) -> Vec<Value> {
        self.heard.borrow().clone()
    }

    pub fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    /// Kills the client as `kill -9` does.
    pub fn kill(&mut self) {
        self.program.kill();
    }

    /// Leaves, as clients do: by closing the server's input. Returns how it ended and what it said last.
    pub fn leave(self) -> (ExitStatus, Vec<String>) {
        self.program.finish()
    }
}
