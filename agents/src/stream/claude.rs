//! `claude -p --output-format stream-json --verbose`.

use std::collections::HashMap;

use serde_json::Value;

use super::limit::Limited;
use super::{Progress, Report, Terminal, Tokens, Usage, doing, number, text, tool};

#[derive(Debug, Default)]
pub(super) struct State {
    /// Model and tokens of each message: it comes in several lines, each with the totals so far.
    messages: HashMap<String, (String, Tokens)>,
    /// Of the last message of the agent itself.
    model: String,
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
        Some("result") => result(value, spent, state, report, &mut progress),
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
    let model = text(value, "/message/model").unwrap_or_default();
    if !is_sub_agent {
        model.clone_into(&mut state.model);
    }
    let used = tokens(value.pointer("/message/usage"));
    state.messages.insert(id.to_owned(), (model.to_owned(), used));
    (report.limited, report.denied) = (None, None);
    report.usage.turns = state.messages.len() as u64;
    report.usage.models.clear();
    state.messages.values().for_each(|(model, used)| report.usage.add(model, *used));
    progress.push(Progress::Usage);
}

/// What is written to the cache is charged like input, or a little more.
fn tokens(usage: Option<&Value>) -> Tokens {
    let at = |key: &str| usage.and_then(|usage| usage[key].as_u64()).unwrap_or(0);
    let cached = at("cache_read_input_tokens");
    Tokens {
        input: at("input_tokens") + at("cache_creation_input_tokens") + cached,
        cached,
        output: at("output_tokens"),
    }
}

fn result(value: &Value, spent: &Usage, state: &State, report: &mut Report, progress: &mut Vec<Progress>) {
    let all = tokens(value.get("usage"));
    // What no message has told.
    report.usage.add(&state.model, all - report.usage.tokens());
    report.usage.cost = cost(value, spent, all.sum()).or(report.usage.cost);
    report.usage.turns = number(value, "/num_turns").unwrap_or(report.usage.turns);
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
    let before = spent.tokens().sum();
    let is_of_all = before > 0 && counted >= before + own_tokens;
    let cost_before = spent.cost.filter(|_| is_of_all).unwrap_or(0.0);
    Some((total - cost_before).max(0.0))
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
