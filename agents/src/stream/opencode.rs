//! `opencode run --format json`.

use serde_json::Value;

use super::{Progress, Report, Terminal, Tokens, doing, number, text, tool};

#[derive(Debug, Default)]
pub(super) struct State {
    /// An error was told. It goes on after some, such as a conversation that is too long.
    has_erred: bool,
}

pub(super) fn line(value: &Value, model: &str, state: &mut State, report: &mut Report) -> Vec<Progress> {
    let mut progress = Vec::new();
    if let Some(session) = text(value, "/sessionID")
        && report.session.as_deref() != Some(session)
    {
        report.session = Some(session.to_owned());
        progress.push(Progress::Session(session.to_owned()));
    }
    match text(value, "/type") {
        Some("text") => {
            let said = text(value, "/part/text").unwrap_or_default();
            report.say(said);
            progress.push(doing(said));
        }
        Some("tool_use") => {
            let name = text(value, "/part/tool").unwrap_or("tool");
            progress.push(tool(name, value.pointer("/part/state/input").unwrap_or(&Value::Null)));
            let has_run = text(value, "/part/state/status") == Some("completed");
            progress.extend(has_run.then_some(Progress::ToolEnded));
        }
        Some("step_finish") => {
            step(value, model, report);
            let reason = text(value, "/part/reason").unwrap_or("unknown").to_owned();
            report.has_recovered = state.has_erred && reason == "stop";
            report.terminal = Some(Terminal { reason, is_error: false, message: None });
            report.limited = None;
            progress.push(Progress::Usage);
        }
        Some("error") => {
            state.has_erred = true;
            report.has_recovered = false;
            let message = text(value, "/error/data/message").or_else(|| text(value, "/error/message"));
            let message = message.unwrap_or_default();
            let told = report.fail("error", message);
            let is_denied = number(value, "/error/data/statusCode") == Some(401) && report.denied.is_none();
            progress.extend(if is_denied { Some(report.deny(message)) } else { told });
        }
        _ => {}
    }
    progress
}

fn step(value: &Value, model: &str, report: &mut Report) {
    let at = |key: &str| number(value, &format!("/part/tokens/{key}")).unwrap_or(0);
    let (read, write) = (at("cache/read"), at("cache/write"));
    let tokens =
        Tokens { input: at("input") + read + write, cached: read, output: at("output") + at("reasoning") };
    let usage = &mut report.usage;
    usage.add(model, tokens);
    usage.turns += 1;
    // Models that the client has no price for cost nothing, says the client.
    let cost = value.pointer("/part/cost").and_then(Value::as_f64).filter(|cost| *cost > 0.0);
    usage.cost = cost.map(|cost| usage.cost.unwrap_or(0.0) + cost).or(usage.cost);
}
