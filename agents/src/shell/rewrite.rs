//! Putting a prefix in front of guarded commands.

use super::Plan;

/// `command` with `prefix` in front of every guarded command that `plan` found in it; nothing if there is none where that
/// would not change anything else.
///
/// What is set in front of a command stays in front: `A=1 pytest` becomes `A=1 mala test -- pytest`.
pub fn rewrite_tests(command: &str, plan: &Plan, prefix: &str) -> Option<String> {
    let mut places: Vec<usize> =
        plan.tests.iter().filter_map(|test| Some(test.range.as_ref()?.start)).collect();
    places.sort_unstable();
    places.dedup();
    if places.is_empty() {
        return None;
    }
    let mut text = String::with_capacity(command.len() + places.len() * (prefix.len() + 1));
    let mut done = 0;
    for place in places {
        text.push_str(command.get(done..place)?);
        text.push_str(prefix);
        text.push(' ');
        done = place;
    }
    text.push_str(command.get(done..)?);
    Some(text)
}
