//! `claude -p --output-format stream-json --verbose`.

use std::collections::HashMap;

use serde_json::Value;

use super::limit::Limited;
use super::{Progress, Report, Terminal, Usage, doing, number, text, tool};

/// Tokens per message: a message comes in several lines, each with the totals so far.
#[derive(Debug, Default)]
pub(super) struct State {
    messages: HashMap<String, (u64, u64)>,
}

pub(super) fn line(value: &Value, spent: &Usage, state: &mut State, report: &mut Report) -> Vec<Progress> {
    let mut progress = Vec::new();
    if let Some(session) = text(value, "/session_id")
        && report.session.as_deref() != Some(session)
    {
        report.session = Some(session.to_owned());
        progress.push(Progress::Session(session.to_owned()));
    }
    match text(value, "/type") {
        Some("assistant") => assistant(value, state, report, &mut progress),
        Some("user") => {
            let parts = value.pointer("/message/content").and_then(Value::as_array).into_iter().flatten();
            let has_run =
                |part: &&Value| text(part, "/type") == Some("tool_result") && part["is_error"] != true;
            progress.extend(parts.filter(has_run).map(|_| Progress::ToolEnded));
        }
        Some("result") => result(value, spent, report, &mut progress),
        Some("rate_limit_event") => progress.extend(rate_limit(value)),
        Some("system") if text(value, "/subtype") == Some("api_retry") => {
            progress.extend(api_retry(value, report));
        }
        _ => {}
    }
    progress
}

fn assistant(value: &Value, state: &mut State, report: &mut Report, progress: &mut Vec<Progress>) {
    // A sub-agent's words are not the agent's.
    let is_sub_agent = text(value, "/parent_tool_use_id").is_some();
    for part in value.pointer("/message/content").and_then(Value::as_array).into_iter().flatten() {
        match (text(part, "/type"), text(part, "/text"), text(part, "/name")) {
            (Some("text"), Some(said), _) => {
                progress.push(doing(said));
                if !is_sub_agent {
                    report.say(said);
                }
            }
            (Some("tool_use"), _, Some(name)) => progress.push(tool(name, &part["input"])),
            _ => {}
        }
    }
    let Some(id) = text(value, "/message/id") else { return };
    let at = |key: &str| number(value, &format!("/message/usage/{key}")).unwrap_or(0);
    let input = at("input_tokens") + at("cache_creation_input_tokens") + at("cache_read_input_tokens");
    state.messages.insert(id.to_owned(), (input, at("output_tokens")));
    (report.limited, report.denied) = (None, None);
    report.usage.turns = state.messages.len() as u64;
    report.usage.input_tokens = state.messages.values().map(|(input, _)| input).sum();
    report.usage.output_tokens = state.messages.values().map(|(_, output)| output).sum();
    progress.push(Progress::Usage);
}

fn result(value: &Value, spent: &Usage, report: &mut Report, progress: &mut Vec<Progress>) {
    let at = |key: &str| number(value, &format!("/usage/{key}")).unwrap_or(0);
    let input = at("input_tokens") + at("cache_creation_input_tokens") + at("cache_read_input_tokens");
    report.usage = Usage {
        input_tokens: input.max(report.usage.input_tokens),
        output_tokens: at("output_tokens").max(report.usage.output_tokens),
        cost: cost(value, spent, input + at("output_tokens")).or(report.usage.cost),
        turns: number(value, "/num_turns").unwrap_or(report.usage.turns),
    };
    progress.push(Progress::Usage);
    let reason = text(value, "/terminal_reason").or_else(|| text(value, "/subtype")).unwrap_or("unknown");
    let said = text(value, "/result").unwrap_or_default();
    if value.get("is_error").and_then(Value::as_bool) == Some(true) {
        progress.extend(report.fail(reason, said));
        return;
    }
    if !said.is_empty() {
        report.say(said);
    }
    report.terminal = Some(Terminal { reason: reason.to_owned(), is_error: false, message: None });
}

/// What this process has cost. The client adds what the conversation had cost before, but only if no other session of the
/// same folder has ended in between: then the tokens of all models are those of before as well.
fn cost(value: &Value, spent: &Usage, own_tokens: u64) -> Option<f64> {
    const TOKENS: [&str; 4] =
        ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    let total = value.get("total_cost_usd").and_then(Value::as_f64)?;
    let models = value.get("modelUsage").and_then(Value::as_object).into_iter().flatten();
    let counted: u64 = models.flat_map(|(_, model)| TOKENS.map(|key| model[key].as_u64().unwrap_or(0))).sum();
    let is_of_all = spent.tokens() > 0 && counted >= spent.tokens() + own_tokens;
    let before = spent.cost.filter(|_| is_of_all).unwrap_or(0.0);
    Some((total - before).max(0.0))
}

/// The client tries again by itself, for minutes. A person is to see why nothing happens; and where no further try can help, nobody
/// has to wait for the last one.
fn api_retry(value: &Value, report: &mut Report) -> Vec<Progress> {
    let at = |key: &str| number(value, &format!("/{key}")).unwrap_or(0);
    let error = text(value, "/error").unwrap_or("error");
    let status = number(value, "/error_status").map(|status| format!(" ({status})")).unwrap_or_default();
    let seconds = at("retry_delay_ms").div_ceil(1000);
    let told = format!("retry {} of {} in {seconds} s: {error}{status}", at("attempt"), at("max_retries"));
    let denied = (error == "authentication_failed").then(|| report.deny(&format!("{error}{status}")));
    std::iter::once(doing(&told)).chain(denied).collect()
}

/// Only a refusal is a limit; the client also tells how much is left.
fn rate_limit(value: &Value) -> Option<Progress> {
    let info = value.get("rate_limit_info")?;
    if text(info, "/status") != Some("rejected") {
        return None;
    }
    let until = info.get("resetsAt").and_then(Value::as_i64);
    let kind = text(info, "/rateLimitType").unwrap_or("usage");
    Some(Progress::Limited(Limited::until_seconds(until, &format!("{kind} limit reached"))))
}
