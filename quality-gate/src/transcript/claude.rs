//! Claude Code: `tool_use` of `Bash` in an assistant's line, `tool_result` in a user's.

use std::collections::HashMap;
use std::path::Path;

use mala_core::Timestamp;
use serde_json::Value;

use super::{Call, number_after, shell, text, time};

#[derive(Debug, Default)]
pub(super) struct Reader {
    open: HashMap<String, Call>,
}

impl Reader {
    pub(super) fn line(&mut self, line: &Value, calls: &mut Vec<Call>) {
        let Some(at) = time(line) else { return };
        let parts = line.pointer("/message/content").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            match text(part, "/type") {
                Some("tool_use") => self.begin(line, part, at),
                Some("tool_result") => calls.extend(self.end(line, part, at)),
                _ => {}
            }
        }
    }

    fn begin(&mut self, line: &Value, part: &Value, at: Timestamp) {
        // What runs in the background is reported as done when it has merely begun.
        let is_background = part.pointer("/input/run_in_background") == Some(&Value::Bool(true));
        let (Some(id), Some("Bash"), false) = (text(part, "/id"), text(part, "/name"), is_background) else {
            return;
        };
        let cwd = Path::new(text(line, "/cwd").unwrap_or("/"));
        let Some((argv, cwd)) = text(part, "/input/command").and_then(|line| shell::plain(line, cwd)) else {
            return;
        };
        let call = Call { id: id.to_owned(), argv, cwd, started_at: at, ended_at: at, exit_code: None };
        self.open.insert(id.to_owned(), call);
    }

    fn end(&mut self, line: &Value, part: &Value, at: Timestamp) -> Option<Call> {
        let mut call = self.open.remove(text(part, "/tool_use_id")?)?;
        call.ended_at = at;
        let is_interrupted = line.pointer("/toolUseResult/interrupted") == Some(&Value::Bool(true));
        let is_error = part.pointer("/is_error") == Some(&Value::Bool(true));
        call.exit_code = match (is_interrupted, is_error) {
            (true, _) => None,
            (false, false) => Some(0),
            // It failed, whatever number it has.
            (false, true) => Some(
                number_after(result(part).lines().take(1), &["Exit code "])
                    .filter(|code| *code != 0)
                    .unwrap_or(1),
            ),
        };
        Some(call)
    }
}

fn result(part: &Value) -> String {
    match part.pointer("/content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| text(part, "/text")).collect(),
        _ => String::new(),
    }
}
