//! The end of a run, in words.

use std::collections::BTreeSet;
use std::io::{self, Write};

use mala_core::IssueId;
use mala_core::shell::word;
use mala_engine::{AttemptResult, AttemptSummary, NotAccepted, Summary};

use super::words::{cost, short, way_back};
use crate::ui::{BOLD, GREEN, RED, YELLOW, plain, span, table};

/// Issues that are named at most.
const NAMED_ISSUES: usize = 5;

pub(crate) fn write_summary(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let took = span(summary.took);
    writeln!(out, "\n{BOLD}run {}{BOLD:#}, {took}", summary.run)?;
    if !summary.attempts.is_empty() {
        let rows: Vec<[String; 5]> = summary.attempts.iter().map(row).collect();
        table(out, ["ISSUE", "RESULT", "TIME", "GATE", "WHAT"], &rows)?;
    }
    for left in &summary.left {
        writeln!(out, "  {}  left: {}", left.issue, plain(&left.why))?;
    }
    write_way_back(out, summary)?;
    write_not_accepted(out, summary)?;
    write_unhooked(out, summary)?;
    let done = issues(summary, |result| result == AttemptResult::Done);
    let failed = issues(summary, |result| result != AttemptResult::Done);
    let blocked = issues(summary, |result| result == AttemptResult::Blocked);
    let (blocked, failed_all) = (blocked.difference(&done).count(), failed.difference(&done).count());
    let over = failed_all - blocked;
    let style = if over == 0 { GREEN } else { RED };
    write!(out, "{GREEN}{} done{GREEN:#}, {style}{over} handed over{style:#}", done.len())?;
    if blocked > 0 {
        write!(out, ", {RED}{blocked} blocked{RED:#}")?;
    }
    let on_the_way = failed.intersection(&done).count();
    if on_the_way > 0 {
        write!(out, ", {on_the_way} at a later attempt")?;
    }
    if !summary.left.is_empty() {
        write!(out, ", {} left", summary.left.len())?;
    }
    if let Some(cost) = cost(summary.cost.exact(), summary.cost.at_least(), summary.cost.unpriced()) {
        write!(out, "; {cost}")?;
    }
    if summary.tokens > 0 {
        write!(out, "; {} tokens", summary.tokens)?;
    }
    writeln!(out)?;
    if let Some(why) = &summary.stopped {
        writeln!(out, "{}; go on where it stopped: mala run --resume", plain(why))?;
    }
    write_blocked(out, &summary.blocked)?;
    for why in &summary.unnotified {
        writeln!(out, "{YELLOW}not told{YELLOW:#}: {}", plain(why))?;
    }
    write_contention(out, summary)
}

/// What was taken out of the checkout and that no later attempt has made good.
fn write_way_back(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let is_done_later = |issue: &IssueId, attempt: u32| {
        let is_later = |it: &&AttemptSummary| it.issue == *issue && it.attempt > attempt;
        summary.attempts.iter().filter(is_later).any(|it| it.result == AttemptResult::Done)
    };
    let earlier = summary.recovered.iter().map(|it| (&it.issue, it.attempt, &it.files));
    let now = summary.attempts.iter().map(|it| (&it.issue, it.attempt, &it.files));
    for (issue, attempt, files) in earlier.chain(now) {
        if let Some(line) = way_back(issue, attempt, files).filter(|_| !is_done_later(issue, attempt)) {
            writeln!(out, "  {issue}  {}", line.trim_start())?;
        }
    }
    Ok(())
}

/// Commits that stay on the branch although the gate did not accept them; the newest first, as they have to be undone.
fn write_not_accepted(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let mut listed: Vec<(&IssueId, u32)> = Vec::new();
    for NotAccepted { issue, attempt, .. } in &summary.not_accepted {
        if !listed.contains(&(issue, *attempt)) {
            listed.push((issue, *attempt));
        }
    }
    for (issue, attempt) in listed {
        let its = summary.not_accepted.iter().rev().filter(|it| it.issue == *issue && it.attempt == attempt);
        let commits: Vec<String> = its.map(|it| short(&it.commit)).collect();
        let what = if commits.len() == 1 { "a commit" } else { "commits" };
        writeln!(
            out,
            "  {issue}  {YELLOW}not accepted, and still on the branch{YELLOW:#}: {what} of attempt {attempt}, to undo: git revert {}",
            commits.join(" ")
        )?;
    }
    Ok(())
}

fn write_unhooked(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let issues: BTreeSet<&str> =
        summary.attempts.iter().filter(|it| it.is_unhooked).map(|it| it.issue.as_str()).collect();
    if issues.is_empty() {
        return Ok(());
    }
    let named: Vec<&str> = issues.iter().take(NAMED_ISSUES).copied().collect();
    let rest = if issues.len() > named.len() { ", ..." } else { "" };
    writeln!(
        out,
        "{RED}without mala's hooks{RED:#}: {}{rest}; only the kernel kept their agents from the files of others; see why: mala doctor",
        named.join(", ")
    )
}

/// Issues that nobody works on before a person has looked at them.
pub(crate) fn write_blocked(out: &mut dyn Write, blocked: &[IssueId]) -> io::Result<()> {
    let Some(first) = blocked.first().map(|issue| word(issue.as_str())) else { return Ok(()) };
    let named: Vec<&str> = blocked.iter().take(NAMED_ISSUES).map(IssueId::as_str).collect();
    let rest = if blocked.len() > named.len() { ", ..." } else { "" };
    let number = u64::try_from(blocked.len()).unwrap_or(u64::MAX);
    writeln!(
        out,
        "{YELLOW}{} blocked{YELLOW:#}: {}{rest}; see why: mala issue show {first}; try once more: mala run --issue {first}",
        count(number, "issue is", "issues are"),
        named.join(", ")
    )
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
    if let Some(sentence) = contention.time.sentence() {
        writeln!(out, "{}", plain(sentence))?;
    }
    contention.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))?;
    writeln!(out, "more: mala logs list")
}
