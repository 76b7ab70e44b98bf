//! Codex: `function_call` and `function_call_output` in a rollout, joined by their `call_id`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mala_core::Timestamp;
use serde_json::Value;

use super::{Call, number_after, shell, text, time};

#[derive(Debug, Default)]
pub(super) struct Reader {
    cwd: PathBuf,
    open: HashMap<String, Call>,
}

impl Reader {
    pub(super) fn line(&mut self, line: &Value, calls: &mut Vec<Call>) {
        if let Some(cwd) = text(line, "/payload/cwd") {
            self.cwd = PathBuf::from(cwd);
        }
        let (Some(at), Some(payload)) = (time(line), line.pointer("/payload")) else { return };
        match text(payload, "/type") {
            Some("function_call") => self.begin(payload, at),
            Some("function_call_output") => calls.extend(self.end(payload, at)),
            _ => {}
        }
    }

    fn begin(&mut self, payload: &Value, at: Timestamp) {
        let (Some(id), Some(arguments)) = (text(payload, "/call_id"), text(payload, "/arguments")) else {
            return;
        };
        let Ok(arguments) = serde_json::from_str::<Value>(arguments) else { return };
        let cwd =
            text(&arguments, "/workdir").map_or_else(|| self.cwd.clone(), |folder| self.cwd.join(folder));
        let Some((argv, cwd)) = command(&arguments, &cwd) else { return };
        let call = Call { id: id.to_owned(), argv, cwd, started_at: at, ended_at: at, exit_code: None };
        self.open.insert(id.to_owned(), call);
    }

    fn end(&mut self, payload: &Value, at: Timestamp) -> Option<Call> {
        let mut call = self.open.remove(text(payload, "/call_id")?)?;
        call.ended_at = at;
        call.exit_code = exit_code(payload.pointer("/output")?);
        Some(call)
    }
}

/// As a list of arguments or as one line for a shell.
fn command(arguments: &Value, cwd: &Path) -> Option<(Vec<String>, PathBuf)> {
    match arguments.pointer("/command").or_else(|| arguments.pointer("/cmd"))? {
        Value::String(line) => shell::plain(line, cwd),
        Value::Array(args) => {
            let args: Option<Vec<String>> = args.iter().map(|arg| arg.as_str().map(str::to_owned)).collect();
            shell::plain_args(&args?, cwd)
        }
        _ => None,
    }
}

/// As a number, in JSON within the text, or in the first words of the text. The command's own output comes after them.
fn exit_code(output: &Value) -> Option<i32> {
    let number =
        |value: &Value| value.pointer("/metadata/exit_code")?.as_i64().and_then(|code| code.try_into().ok());
    if let Some(code) = number(output) {
        return Some(code);
    }
    let said = output.as_str()?;
    if let Ok(inner) = serde_json::from_str::<Value>(said) {
        return number(&inner);
    }
    let head = said.lines().take_while(|line| !line.starts_with("Output:"));
    number_after(head, &["Exit code", "Process exited with code"])
}
