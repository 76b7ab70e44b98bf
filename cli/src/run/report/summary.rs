//! The end of a run, in words.

use std::io::{self, Write};

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
    let done = summary.count(AttemptResult::Done);
    let over = summary.count(AttemptResult::HandedOver) + summary.count(AttemptResult::Blocked);
    let style = if over == 0 { GREEN } else { RED };
    write!(out, "{GREEN}{done} done{GREEN:#}, {style}{over} handed over{style:#}")?;
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
    write_contention(out, summary)
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
            "locks: {} tries, {} waits, {} refusals",
            contention.lock_tries, contention.lock_waits, contention.refusals
        )?;
    }
    contention.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))?;
    writeln!(out, "more: mala logs list")
}
