use std::time::{Duration, Instant};

use clap::Args;
use mala_core::shell::word;
use mala_core::{AgentId, Entry, EntryId, EntryState, IssueId, Scope};
use mala_engine::source;
use mala_git::{Oid, Proposal, Repo, candidate};
use mala_store::{NewEntry, Store};
use serde_json::json;

use super::queue::{self, EntryJson, Pause, refuse_agents, short};
use crate::context::{Context, open};
use crate::error::{CliError, Code, REFUSED};
use crate::typed::duration;
use crate::ui::{GREEN, RED, YELLOW, plain};

/// How often an entry is looked at that somebody else works off.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Offer commits to the landing queue
///
/// All that REV has and the branch has not is offered as one commit. mala runs the required commands on it and moves the branch
/// if they pass. REV, the branch it is on and the checkout stay as they are.
///
/// Exit codes: 0 if it is queued, or with `--wait` if it has landed; 1 if it was rejected or still waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala land --target main
  mala land feature --target main --issue bd-12 --wait 30m")]
pub(crate) struct LandArgs {
    /// The last commit to land
    #[arg(value_name = "REV", default_value = "HEAD")]
    revision: String,
    /// The issue that it is for
    #[arg(long, value_name = "ID")]
    issue: Option<IssueId>,
    /// The branch to land on [default: the one that is checked out in the main checkout]
    #[arg(long, visible_alias = "branch", value_name = "BRANCH")]
    target: Option<String>,
    /// The lowest is served first [default: that of the issue, else 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=4))]
    priority: Option<i64>,
    /// Wait until it has landed or was rejected, for up to DURATION; works the queue off if nobody does
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "")]
    wait: Option<String>,
}

pub(crate) fn cmd_land(args: &LandArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let mut store = open(&scope)?;
    refuse_agents(context, &mut store)?;
    let patience = args.wait.as_deref().filter(|text| !text.is_empty());
    let patience = patience.map(|text| duration("--wait", text)).transpose()?;
    let repo = Repo::new(scope.clone());
    let branch = args.target(&repo)?;
    let there = queue::checkout_of(&repo, &branch)?;
    let offered = args.propose(&repo, &branch)?;
    let priority = args.priority(context, &scope)?;
    let agent = context.bound_party(&mut store)?.map(|party| party.agent);
    let entry = enqueue(&repo, &mut store, (args.issue.as_ref(), agent), &branch, (&offered, priority))?;
    if args.wait.is_none() {
        return queued(context, &mut open(&there)?, &entry, offered.commits);
    }
    let entry = wait(context, &there, entry.id, patience)?;
    settled(context, &mut open(&there)?, &entry)
}

/// What is offered, as one commit.
struct Offered {
    base: Oid,
    head: Oid,
    commits: usize,
}

impl LandArgs {
    fn target(&self, repo: &Repo) -> Result<String, CliError> {
        if let Some(typed) = &self.target {
            return queue::branch(repo, typed);
        }
        let main = repo.checkouts().map_err(CliError::failed)?.into_iter().next();
        main.and_then(|checkout| checkout.branch).ok_or_else(|| {
            CliError::usage("no branch is checked out in the main checkout")
                .hint("name the branch to land on: mala land --target BRANCH")
        })
    }

    fn propose(&self, repo: &Repo, branch: &str) -> Result<Offered, CliError> {
        let typed = plain(&self.revision);
        let name = short(branch);
        let Some(revision) = repo.resolve(&self.revision)? else {
            return Err(CliError::usage(format!("`{typed}` is no commit"))
                .hint("see which there are: git log --oneline"));
        };
        let Some(tip) = repo.resolve(branch)? else {
            return Err(CliError::usage(format!("there is no commit on `{name}` yet")));
        };
        let nothing = |why: String| CliError::usage(format!("nothing to land: {why}"));
        match repo.propose(&tip, &revision).map_err(CliError::failed)? {
            Proposal::Candidate { base, head, commits } => Ok(Offered { base, head, commits }),
            Proposal::OnBranch => Err(nothing(format!("{typed} is on {name} already"))
                .hint("name what is to land, and where: mala land REV --target BRANCH")),
            Proposal::Unchanged => Err(nothing(format!("{typed} changes no file of {name}"))),
            Proposal::Unrelated => {
                let hint = format!("bring them together first: git rebase {name}");
                Err(CliError::usage(format!("{typed} and {name} have no commit in common")).hint(hint))
            }
        }
    }

    /// The issue, if there is one, must exist.
    fn priority(&self, context: &Context, scope: &Scope) -> Result<i64, CliError> {
        let Some(issue) = &self.issue else {
            return Ok(self.priority.unwrap_or_else(NewEntry::default_priority));
        };
        let (source, _) = source::choose(scope, &context.settings(scope, Vec::new())?)?;
        let issue =
            source.show(issue).map_err(|error| CliError::from(mala_engine::EngineError::from(error)))?;
        Ok(self.priority.unwrap_or_else(|| i64::from(issue.priority.number())))
    }
}

fn enqueue(
    repo: &Repo,
    store: &mut Store,
    (issue, agent): (Option<&IssueId>, Option<AgentId>),
    branch: &str,
    (offered, priority): (&Offered, i64),
) -> Result<Entry, CliError> {
    let pinned = candidate::pin_proposal(repo, issue, &offered.head).map_err(CliError::failed)?;
    Ok(store.enqueue(&NewEntry {
        branch: branch.to_owned(),
        base: offered.base.clone(),
        head: offered.head.clone(),
        pin: pinned.name,
        issue: issue.cloned(),
        agent,
        run: None,
        attempt: None,
        priority,
    })?)
}

fn queued(context: &Context, store: &mut Store, entry: &Entry, commits: usize) -> Result<Code, CliError> {
    let (is_worked, paused) = (store.current_run()?.is_some(), Pause::of(store, &entry.branch)?);
    let body = json!({ "entry": EntryJson::from(entry), "branch": entry.branch, "candidate": entry.pin });
    context.ui.answer(&body, |out| {
        let (head, name) = (entry.head.short(), short(&entry.branch));
        let what = if commits == 1 { head.to_string() } else { format!("{commits} commits as {head}") };
        writeln!(out, "queued {what} for `{name}` as entry {}", entry.id)?;
        match (paused, is_worked) {
            (Some(pause), _) => {
                writeln!(out, "{YELLOW}paused{YELLOW:#}: {} (go on: mala queue resume)", plain(&pause.why))
            }
            (None, true) => writeln!(out, "a run works the queue off: mala queue"),
            (None, false) => {
                writeln!(out, "nobody works the queue off now: mala queue run --branch {}", word(&name))
            }
        }
    })?;
    Ok(Code::SUCCESS)
}

/// Waits until the entry is over, nothing moves it any more, or the time is up. Works the queue off where nobody does.
fn wait(
    context: &Context,
    there: &Scope,
    id: EntryId,
    patience: Option<Duration>,
) -> Result<Entry, CliError> {
    let deadline = patience.map(|patience| Instant::now() + patience);
    let mut store = open(there)?;
    loop {
        let entry = queue::entry(&mut store, id)?;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if entry.state.is_over() || left.is_some_and(|left| left.is_zero()) {
            return Ok(entry);
        }
        if store.current_run()?.is_some() {
            context.pause(LOOK_AGAIN)?;
            continue;
        }
        queue::run::work_off(context, there, &entry.branch, left)?;
        return queue::entry(&mut store, id);
    }
}

fn settled(context: &Context, store: &mut Store, entry: &Entry) -> Result<Code, CliError> {
    let paused = Pause::of(store, &entry.branch)?;
    let body = json!({
        "entry": EntryJson::from(entry), "branch": entry.branch, "candidate": entry.pin, "landed": entry.landed,
    });
    let name = short(&entry.branch);
    context.ui.answer(&body, |out| match (&entry.landed, entry.state) {
        (Some(landed), EntryState::Landed) => {
            writeln!(out, "{GREEN}landed{GREEN:#} on `{name}` as {}", landed.short())
        }
        (_, state) => {
            let why = match (&entry.reason, &paused) {
                (Some(reason), _) => format!(": {}", plain(reason)),
                (None, Some(pause)) => format!(": the queue is paused: {}", plain(&pause.why)),
                (None, None) => String::new(),
            };
            writeln!(out, "{RED}not landed{RED:#} on `{name}`, entry {} is {state}{why}", entry.id)?;
            writeln!(out, "see more: mala queue show {}", entry.id)?;
            match state {
                EntryState::Conflict => {
                    writeln!(out, "bring it up to date, then offer it again: git rebase {name}")
                }
                state if state.is_over() => writeln!(out, "mend it and offer it again: mala land"),
                _ => writeln!(out, "it stays in the queue: mala queue run"),
            }
        }
    })?;
    Ok(if entry.state == EntryState::Landed { Code::SUCCESS } else { Code(REFUSED) })
}
