//! `gemini -o stream-json`.

use serde_json::Value;

use super::{Progress, Report, Terminal, Tokens, doing, text, tool};

#[derive(Debug, Default)]
pub(super) struct State {
    /// What the agent is saying: it comes in pieces.
    said: String,
    /// The model that it began with.
    model: String,
}

pub(super) fn line(value: &Value, state: &mut State, report: &mut Report) -> Vec<Progress> {
    let kind = text(value, "/type");
    if kind != Some("message") {
        state.said.clear();
    }
    match kind {
        Some("init") => {
            state.model = text(value, "/model").unwrap_or_default().to_owned();
            let Some(id) = text(value, "/session_id") else { return Vec::new() };
            report.session = Some(id.to_owned());
            vec![Progress::Session(id.to_owned())]
        }
        Some("message") if text(value, "/role") == Some("assistant") => {
            let piece = text(value, "/content").unwrap_or_default();
            if value.get("delta").and_then(Value::as_bool) != Some(true) {
                state.said.clear();
            }
            state.said.push_str(piece);
            report.say(&state.said);
            vec![doing(&state.said)]
        }
        Some("tool_use") => {
            report.usage.turns += 1;
            let name = text(value, "/tool_name").unwrap_or("tool");
            vec![tool(name, &value["parameters"]), Progress::Usage]
        }
        Some("tool_result") if text(value, "/status") == Some("success") => vec![Progress::ToolEnded],
        Some("error") if text(value, "/severity") != Some("warning") => {
            report.fail("error", text(value, "/message").unwrap_or_default()).into_iter().collect()
        }
        Some("result") => result(value, &state.model, report),
        _ => Vec::new(),
    }
}

fn result(value: &Value, model: &str, report: &mut Report) -> Vec<Progress> {
    report.usage.models.clear();
    match value.pointer("/stats/models").and_then(Value::as_object) {
        Some(models) => models.iter().for_each(|(model, stats)| report.usage.add(model, tokens(stats))),
        None => report.usage.add(model, tokens(&value["stats"])),
    }
    let status = text(value, "/status").unwrap_or("unknown");
    let mut progress = vec![Progress::Usage];
    if status == "success" {
        report.terminal = Some(Terminal { reason: status.to_owned(), is_error: false, message: None });
        report.limited = None;
    } else {
        progress.extend(report.fail(status, text(value, "/error/message").unwrap_or_default()));
    }
    progress
}

/// Thoughts are in the total only, and are charged as output.
fn tokens(stats: &Value) -> Tokens {
    let at = |key: &str| stats[key].as_u64().unwrap_or(0);
    let input = at("input_tokens");
    let output = at("output_tokens").max(at("total_tokens").saturating_sub(input));
    Tokens { input, cached: at("cached"), output }
}
