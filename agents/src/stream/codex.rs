//! `codex exec --json`.

use serde_json::Value;

use super::{Progress, Report, Terminal, Tokens, Usage, doing, number, text};

pub(super) fn line(value: &Value, model: &str, spent: &Usage, report: &mut Report) -> Vec<Progress> {
    match text(value, "/type") {
        Some("thread.started") => {
            let Some(id) = text(value, "/thread_id") else { return Vec::new() };
            report.session = Some(id.to_owned());
            vec![Progress::Session(id.to_owned())]
        }
        Some("item.started" | "item.completed") => {
            item(value, report).into_iter().chain(has_run(value).then_some(Progress::ToolEnded)).collect()
        }
        Some("turn.completed") => {
            let at = |key: &str| number(value, &format!("/usage/{key}")).unwrap_or(0);
            let whole = Tokens {
                input: at("input_tokens"),
                cached: at("cached_input_tokens"),
                output: at("output_tokens"),
            };
            // It counts the whole conversation.
            report.usage.models.clear();
            report.usage.add(model, whole - spent.tokens());
            report.usage.turns += 1;
            report.terminal =
                Some(Terminal { reason: "turn.completed".to_owned(), is_error: false, message: None });
            report.limited = None;
            vec![Progress::Usage]
        }
        Some("turn.failed") => report
            .fail("turn.failed", text(value, "/error/message").unwrap_or_default())
            .into_iter()
            .collect(),
        Some("error") => {
            report.fail("error", text(value, "/message").unwrap_or_default()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// True if a command or a patch was carried out; it calls hooks before both.
fn has_run(value: &Value) -> bool {
    text(value, "/type") == Some("item.completed")
        && matches!(text(value, "/item/type"), Some("command_execution" | "file_change"))
        && text(value, "/item/status") == Some("completed")
}

fn item(value: &Value, report: &mut Report) -> Option<Progress> {
    let is_done = text(value, "/type") == Some("item.completed");
    match (text(value, "/item/type")?, is_done) {
        ("agent_message", true) => {
            let said = text(value, "/item/text")?;
            report.say(said);
            Some(doing(said))
        }
        ("command_execution", false) => Some(doing(&format!("shell: {}", text(value, "/item/command")?))),
        ("mcp_tool_call", false) => Some(doing(&format!("tool: {}", text(value, "/item/tool")?))),
        ("file_change", true) => {
            let paths = value.pointer("/item/changes")?.as_array()?.iter().filter_map(|it| text(it, "/path"));
            Some(doing(&format!("edit: {}", paths.collect::<Vec<_>>().join(", "))))
        }
        _ => None,
    }
}
