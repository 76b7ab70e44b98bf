use std::io::Write;

use clap::Args;
use mala_core::IssueId;
use mala_engine::{Plan, Recovers, Summary};

use crate::context::Context;
use crate::error::{CliError, Code, REFUSED};
use crate::run::report::write_blocked;
use crate::run::{self, Wish};
use crate::typed::duration;
use crate::ui::{DIM, TITLE, YELLOW, plain, short, table};

/// Work issues off: agents, gate, commits or handoffs
///
/// Every issue ends in a commit that the gate has accepted, or in a note that lets the next attempt start where this
/// one stopped. Ctrl-C once judges what is there and hands over the rest; twice is faster; three times is now. Nothing is
/// lost in each case, nor if mala is killed: the next start makes it good.
///
/// Exit codes: 0 if every issue that was begun is done, or if nothing was ready; 1 if an issue was handed over or left, or if
/// a run is under way already; 2 for wrong usage or settings; 3 if mala itself failed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala run
  mala run --issue bd-12 --issue bd-13 --profile codex
  mala run --dry-run")]
pub(crate) struct RunArgs {
    /// Agents at work at the same time [default: `run.max_agents` in the settings]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_agents: Option<u16>,
    /// Issues to begin at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_issues: Option<u32>,
    /// Work on this issue, and no other; may be repeated, and the order is kept
    #[arg(long = "issue", value_name = "ID")]
    issues: Vec<IssueId>,
    /// Give every issue to this profile
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// One agent at a time
    #[arg(long, conflicts_with = "max_agents")]
    sequential: bool,
    /// Wait for more issues instead of ending
    #[arg(long)]
    watch: bool,
    /// Go on where the last run was killed or stopped: with what it was asked to do, with the sessions of its agents, and
    /// with their uncommitted work back in its place
    #[arg(long, conflicts_with_all = ["issues", "watch"])]
    resume: bool,
    /// Agents may offer files in which somebody has left uncommitted changes
    #[arg(long)]
    allow_dirty: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// End after this time; what is under way is judged and handed over
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Stop when the run has cost more than this; what is under way is judged and handed over [default: `run.budget` in the
    /// settings]
    #[arg(long, value_name = "DOLLARS")]
    budget: Option<String>,
}

pub(crate) fn cmd_run(args: &RunArgs, context: &Context) -> Result<Code, CliError> {
    let wish = Wish {
        max_agents: if args.sequential { Some(1) } else { args.max_agents.map(usize::from) },
        max_issues: args.max_issues.map(|most| most as usize),
        issues: args.issues.clone(),
        profile: args.profile.clone(),
        watch: args.watch,
        resume: args.resume,
        allow_dirty: args.allow_dirty,
        queue_only: false,
        timeout: args.timeout.as_deref().map(|timeout| duration("--timeout", timeout)).transpose()?,
        budget: args.budget.clone(),
    };
    if args.dry_run {
        let plan = run::plan(context, &wish)?;
        context.ui.answer(&plan, |out| write_plan(out, &plan))?;
        return Ok(Code::SUCCESS);
    }
    let summary = run::run(context, &wish)?;
    Ok(code(&summary))
}

/// Success only if everything that was to be done is done.
fn code(summary: &Summary) -> Code {
    if summary.is_all_done() { Code::SUCCESS } else { Code(REFUSED) }
}

fn write_plan(out: &mut dyn Write, plan: &Plan) -> std::io::Result<()> {
    for Recovers { issue, agent, attempt } in &plan.recovers {
        writeln!(
            out,
            "{YELLOW}{issue} was left by a run that was killed{YELLOW:#} (`{agent}`): attempt {attempt} is judged first, and is done \
             or handed over"
        )?;
    }
    if plan.issues.is_empty() {
        let more = if plan.recovers.is_empty() { "nothing" } else { "nothing else" };
        writeln!(out, "{more} is ready")?;
    } else {
        let rows: Vec<[String; 5]> = plan
            .issues
            .iter()
            .map(|planned| {
                [
                    planned.issue.to_string(),
                    planned.priority.number().to_string(),
                    planned.profile.clone().unwrap_or_else(|| "-".to_owned()),
                    if planned.files.is_empty() { "-".to_owned() } else { planned.files.join(" ") },
                    short(&plain(&planned.title), TITLE),
                ]
            })
            .collect();
        table(out, ["ISSUE", "PRIORITY", "PROFILE", "FILES", "TITLE"], &rows)?;
    }
    for planned in &plan.issues {
        for held in &planned.held {
            let by = &held.by;
            writeln!(out, "{YELLOW}held{YELLOW:#}: {} needs `{}`, held by `{by}`", planned.issue, held.file)?;
        }
        for on in &planned.waits_for {
            writeln!(out, "{DIM}{} waits for {on}{DIM:#}", planned.issue)?;
        }
        if planned.attempts > 0 {
            let times =
                if planned.attempts == 1 { "once".to_owned() } else { format!("{} times", planned.attempts) };
            writeln!(out, "{DIM}{} was tried {times}{DIM:#}", planned.issue)?;
        }
    }
    for collision in &plan.collisions {
        let (first, second, file) = (&collision.first, &collision.second, &collision.file);
        writeln!(out, "{YELLOW}not together{YELLOW:#}: {first} and {second}, because of `{file}`")?;
    }
    write_blocked(out, &plan.blocked)?;
    plan.warnings.iter().try_for_each(|text| writeln!(out, "{YELLOW}warning{YELLOW:#}: {}", plain(text)))
}
