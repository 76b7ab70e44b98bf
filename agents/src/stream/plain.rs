//! Any program: what it prints is what it says.

use super::{LONGEST_MESSAGE, Progress, Report, doing, recognise};

pub(super) fn line(line: &str, report: &mut Report) -> Vec<Progress> {
    let mut said = report.message.take().unwrap_or_default();
    if !said.is_empty() {
        said.push('\n');
    }
    said.push_str(line);
    if said.len() > 2 * LONGEST_MESSAGE {
        said.drain(..said.ceil_char_boundary(said.len() - LONGEST_MESSAGE));
    }
    report.message = Some(said);
    if line.trim().is_empty() {
        return Vec::new();
    }
    report.usage.turns += 1;
    // Prose may speak of limits; only a line that is nothing else counts.
    report.limited = if line.starts_with("mala: rate limit") { recognise(line) } else { None };
    let limited = report.limited.clone().map(Progress::Limited);
    std::iter::once(doing(line)).chain(limited).collect()
}
