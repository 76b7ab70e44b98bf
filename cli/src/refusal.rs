//! Why somebody is refused a file, in words: who holds it, how that came about, and how to get it. The kernel tier, the hooks
//! and the command line say the same.

use mala_core::shell::word;
use mala_core::{AgentId, Conflict, Target, Timestamp};
use mala_store::Store;

use crate::ui::{plain, span};

/// "`a` is held by `bob` (issue x) for 3m", and if it was taken from this agent: by whom, when, and why.
pub(crate) fn held(store: &mut Store, agent: &AgentId, conflict: &Conflict) -> String {
    let Conflict { want, holder } = conflict;
    let issue = holder.issue.as_ref().map(|issue| format!(" (issue {issue})")).unwrap_or_default();
    let since = span(Timestamp::now().since(holder.acquired_at));
    let held = format!("`{}` is held by `{}`{issue} for {since}", plain(&want.target), holder.agent);
    match taken(store, agent, conflict) {
        Some(taken) => format!("{held}; {taken}"),
        None => held,
    }
}

/// That the file was taken from this agent by whoever holds it now: by whom, when, and why.
pub(crate) fn taken(store: &mut Store, agent: &AgentId, conflict: &Conflict) -> Option<String> {
    let Conflict { want, holder } = conflict;
    // Who cannot find out how it came about still says who holds it.
    let ask = store.taken_from(agent, &want.target).ok().flatten()?;
    let at = ask.answered_at.filter(|at| *at <= holder.acquired_at && ask.asker == holder.agent)?;
    Some(format!(
        "it was taken from you by `{}` {} ago: {} (more: mala msg thread {})",
        ask.ended_by.as_ref().unwrap_or(&ask.asker),
        span(Timestamp::now().since(at)),
        plain(&ask.why),
        ask.id
    ))
}

/// What to type to get it.
pub(crate) fn next_step(target: &Target) -> String {
    let path = word(&plain(target));
    format!(
        "ask for it: mala lock ask {path} --why REASON, or queue for it: mala lock acquire {path} --wait 5m"
    )
}
