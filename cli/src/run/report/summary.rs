//! The end of a run, in words.

use std::collections::BTreeSet;
use std::io::{self, Write};

use mala_core::IssueId;
use mala_engine::{AttemptResult, AttemptSummary, Summary};

use super::words::short;
use crate::ui::{BOLD, GREEN, RED, plain, span, table};

pub(crate) fn write_summary(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let took = span(summary.ended_at.since(summary.started_at));
    writeln!(out, "\n{BOLD}run {}{BOLD:#}, {took}", summary.run)?;
    if !summary.attempts.is_empty() {
        let rows: Vec<[String; 5]> = summary.attempts.iter().map(row).collect();
        table(out, ["ISSUE", "RESULT", "TIME", "GATE", "WHAT"], &rows)?;
    }
    for left in &summary.left {
        writeln!(out, "  {}  left: {}", left.issue, plain(&left.why))?;
    }
    let done = issues(summary, |result| result == AttemptResult::Done);
    let failed = issues(summary, |result| result != AttemptResult::Done);
    let over = failed.difference(&done).count();
    let style = if over == 0 { GREEN } else { RED };
    write!(out, "{GREEN}{} done{GREEN:#}, {style}{over} handed over{style:#}", done.len())?;
    let on_the_way = failed.intersection(&done).count();
    if on_the_way > 0 {
        write!(out, ", {on_the_way} at a later attempt")?;
    }
    if !summary.left.is_empty() {
        write!(out, ", {} left", summary.left.len())?;
    }
    if let Some(cost) = summary.cost {
        write!(out, "; ${cost:.2}")?;
    }
    if summary.tokens > 0 {
        write!(out, "; {} tokens", summary.tokens)?;
    }
    writeln!(out)?;
    if let Some(why) = &summary.stopped {
        writeln!(out, "stopped, because {}; go on where it stopped: mala run --resume", plain(why))?;
    }
    write_contention(out, summary)
}

/// The issues that have an attempt with such a result.
fn issues(summary: &Summary, is_meant: impl Fn(AttemptResult) -> bool) -> BTreeSet<&IssueId> {
    summary.attempts.iter().filter(|it| is_meant(it.result)).map(|it| &it.issue).collect()
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn row(attempt: &AttemptSummary) -> [String; 5] {
    let result = match attempt.result {
        AttemptResult::Done => "done",
        AttemptResult::HandedOver => "handed over",
        AttemptResult::Blocked => "blocked",
    };
    let commits = || attempt.commits.iter().map(|commit| short(commit)).collect::<Vec<_>>().join(" ");
    let mut what = match (&attempt.reason, &attempt.outcome) {
        (Some(reason), _) => plain(reason),
        (None, Some(outcome)) => plain(outcome),
        (None, None) => commits(),
    };
    if let Some(saved) = &attempt.saved_ref {
        what.push_str(&format!("; saved to {saved}"));
    }
    let gates = match attempt.gates {
        0 => "-".to_owned(),
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    let issue = if attempt.attempt == 1 {
        attempt.issue.to_string()
    } else {
        format!("{} (attempt {})", attempt.issue, attempt.attempt)
    };
    [issue, result.to_owned(), span(attempt.took), gates, what]
}

fn write_contention(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let contention = &summary.contention;
    if contention.lock_tries > 0 {
        writeln!(
            out,
            "locks: {}, {}, {}",
            count(contention.lock_tries, "try", "tries"),
            count(contention.lock_waits, "wait", "waits"),
            count(contention.refusals, "refusal", "refusals")
        )?;
    }
    contention.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))?;
    writeln!(out, "more: mala logs list")
}
