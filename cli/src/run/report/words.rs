//! Events in words.

use mala_core::shell::word;
use mala_core::{EntryId, IssueId, Timestamp};
use mala_engine::{Event, Held, Recovered};

use crate::ui::{BOLD, DIM, GREEN, RED, YELLOW, plain, span};

/// Files that are named at most.
const NAMED_FILES: usize = 5;

/// The lines that an event is worth, none for what would only be noise in a file.
pub(super) fn lines(event: &Event) -> Vec<String> {
    match event {
        Event::Validating { commit, command } => {
            let since = Timestamp::now();
            vec![format!("validating the branch at {}: `{}`, since {since}", commit.short(), plain(command))]
        }
        Event::Preparing { profile } => {
            vec![format!(
                "the client of the profile `{}` prepares itself for its first start here",
                plain(profile)
            )]
        }
        Event::RunStarted { run, max_agents } => {
            let agents = if *max_agents == 1 { "agent" } else { "agents" };
            vec![format!("{BOLD}run {run}{BOLD:#}, up to {max_agents} {agents}")]
        }
        Event::Recovered(Recovered { issue, agent, attempt, outcome, files, .. }) => {
            let first = format!("left by a run that was killed (`{agent}`): {}", plain(outcome));
            std::iter::once(line(issue, &first)).chain(way_back(issue, *attempt, files)).collect()
        }
        Event::Claimed { issue, title, profile, attempt, .. } => {
            vec![line(issue, &format!("{BOLD}{}{BOLD:#} (attempt {attempt}, {profile})", plain(title)))]
        }
        Event::PutBack { issue, why, .. } => {
            vec![line(issue, &format!("{YELLOW}not now{YELLOW:#}: {}", plain(why)))]
        }
        Event::Started { issue, agent, session, .. } => {
            let how = if session.is_some() { "goes on" } else { "started" };
            vec![line(issue, &format!("{DIM}`{agent}` {how}{DIM:#}"))]
        }
        Event::Parked { issue, awaits, issues, .. } => {
            vec![line(issue, &format!("{YELLOW}waits{YELLOW:#} for {}", awaited(awaits, issues)))]
        }
        Event::Yielded { issue, to, saved_ref, .. } => {
            let to = to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let saved = saved_ref.as_ref().map(|saved| format!(", its work is in {saved} meanwhile"));
            let saved = saved.unwrap_or_default();
            vec![line(issue, &format!("{YELLOW}yields{YELLOW:#} to {to}: each waited for the other{saved}"))]
        }
        Event::Paused { issue, why, until, .. } => {
            vec![line(issue, &format!("{YELLOW}pauses until {until}{YELLOW:#}: {}", plain(why)))]
        }
        Event::NeedsInput { issue, question, until, .. } => vec![line(
            issue,
            &format!(
                "{YELLOW}needs input{YELLOW:#} until {until}: {} (answer: mala issue note {} 'TEXT')",
                plain(question),
                word(issue.as_str())
            ),
        )],
        Event::Answered { issue, by, .. } => {
            let how = match by {
                Some(by) => format!("got its answer, by `{}`", plain(by)),
                None => "got no answer, and has to decide itself".to_owned(),
            };
            vec![line(issue, &how)]
        }
        Event::Unhooked { issue, profile, .. } => {
            let first = format!(
                "{RED}no hooks{RED:#}: the client of the profile `{}` has used a tool and called",
                plain(profile)
            );
            vec![
                line(issue, &format!("{first} none of mala's hooks")),
                "    only the kernel keeps its agents from the files of others; see why: mala doctor"
                    .to_owned(),
            ]
        }
        Event::Nudged { issue, why, .. } => {
            vec![line(issue, &format!("{YELLOW}told to go on{YELLOW:#}: {}", plain(why)))]
        }
        Event::Resting { issue, why, until } => {
            let span = span(until.since(Timestamp::now()));
            vec![line(issue, &format!("{DIM}again in {span}{DIM:#}, because {}", plain(why)))]
        }
        Event::Rejected { issue, round, rounds, is_sent_back, failed, .. } => {
            let told = is_sent_back.then(|| format!(", told (round {round} of {rounds})"));
            let first = format!("{YELLOW}gate: not accepted{YELLOW:#}{}", told.unwrap_or_default());
            let checks = failed.iter().map(|check| format!("    {}: {}", check.name, plain(&check.detail)));
            std::iter::once(line(issue, &first)).chain(checks).collect()
        }
        Event::Queued { issue, entry, commit, frees_files, .. } => {
            let free = if *frees_files { ", its files are free" } else { "" };
            vec![line(
                issue,
                &format!("offered {} (entry {entry} of the landing queue{free})", short(commit)),
            )]
        }
        Event::Held { issue, entry, why } => {
            vec![format!(
                "{}  {YELLOW}not landed yet{YELLOW:#}: {}",
                whose(issue.as_ref(), *entry),
                plain(why)
            )]
        }
        Event::Landed { issue, entry, commit } => {
            vec![format!("{}  {GREEN}landed{GREEN:#}: {}", whose(issue.as_ref(), *entry), short(commit))]
        }
        Event::EntryRejected { issue, entry, why } => {
            let whose = whose(issue.as_ref(), *entry);
            let more = format!("see it: mala queue show {entry}; try it once more: mala queue retry {entry}");
            vec![format!("{whose}  {RED}rejected{RED:#}: {}", plain(why)), format!("    {more}")]
        }
        Event::AuditBegun { commit, landings } => {
            let since = if *landings == 1 { "1 landing".to_owned() } else { format!("{landings} landings") };
            let commit = short(commit);
            vec![format!("{DIM}audit of {commit} in an emptied slot, {since} after the last one{DIM:#}")]
        }
        Event::AuditEnded { commit, why: None, .. } => {
            vec![format!("{GREEN}audit passed{GREEN:#}: {}", short(commit))]
        }
        Event::AuditEnded { why: Some(why), .. } => vec![
            format!("{RED}audit failed{RED:#}: {}", plain(why)),
            "    nothing lands until somebody has looked: mala queue; go on: mala queue resume".to_owned(),
        ],
        Event::Done { issue, commits, outcome, .. } => {
            let what = match outcome {
                Some(outcome) => plain(outcome),
                None => commits.iter().map(|commit| short(commit)).collect::<Vec<_>>().join(", "),
            };
            vec![line(issue, &format!("{GREEN}done{GREEN:#}: {what}"))]
        }
        Event::HandedOver { issue, attempt, reason, saved_ref, files, is_blocked, .. } => {
            let what = if *is_blocked { "blocked" } else { "handed over" };
            let saved =
                saved_ref.as_ref().map(|saved| format!("; work saved to {saved}")).unwrap_or_default();
            let first = format!("{RED}{what}{RED:#}: {}{saved}", plain(reason));
            std::iter::once(line(issue, &first)).chain(way_back(issue, *attempt, files)).collect()
        }
        Event::Waiting { for_what } => vec![format!("{DIM}waiting for {for_what}{DIM:#}")],
        Event::Warning { text } | Event::BranchRed { why: text } => {
            vec![format!("{YELLOW}warning{YELLOW:#}: {}", plain(text))]
        }
        Event::Stopping { how, .. } => vec![format!("{YELLOW}stopping{YELLOW:#}: {how}")],
        Event::Doing { .. }
        | Event::Used { .. }
        | Event::Resumed { .. }
        | Event::Gating { .. }
        | Event::RunEnded { .. } => Vec::new(),
    }
}

/// What was spent, where it is known or where something is known to be missing.
pub(crate) fn cost<'a>(
    exact: Option<f64>,
    at_least: f64,
    unpriced: impl Iterator<Item = &'a str>,
) -> Option<String> {
    if let Some(dollars) = exact {
        return Some(format!("${dollars:.2}"));
    }
    let models: Vec<String> = unpriced.map(|model| format!("`{}`", plain(model))).collect();
    let known = if at_least > 0.0 { format!("at least ${at_least:.2}, ") } else { String::new() };
    (!models.is_empty()).then(|| format!("cost unknown: {known}no price for {}", models.join(", ")))
}

/// "`a` (held by `ann`), `b` (held by `bob`)".
fn files(held: &[Held]) -> String {
    let files = held.iter().map(|held| format!("`{}` (held by `{}`)", plain(&held.file), held.by));
    files.collect::<Vec<_>>().join(", ")
}

/// The same, and the issues that have to land.
pub(super) fn awaited(held: &[Held], issues: &[IssueId]) -> String {
    let files = (!held.is_empty()).then(|| files(held));
    let issues = issues.iter().map(|issue| format!("{issue} to land"));
    files.into_iter().chain(issues).collect::<Vec<_>>().join(", ")
}

/// Which files were taken out of the checkout, and how they come back.
pub(super) fn way_back(issue: &IssueId, attempt: u32, files: &[String]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let work = word(format!("{issue}/{attempt}"));
    let named: Vec<String> = files.iter().take(NAMED_FILES).map(plain).collect();
    let more = files.len() - named.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let them = if files.len() == 1 { "it" } else { "them" };
    let named = named.join(", ");
    Some(format!("    {named}{rest}: taken out of the checkout; to get {them} back: mala restore {work}"))
}

/// Whom an entry of the landing queue belongs to.
fn whose(issue: Option<&IssueId>, entry: EntryId) -> String {
    issue.map_or_else(|| format!("entry {entry}"), ToString::to_string)
}

fn line(issue: &IssueId, text: &str) -> String {
    format!("{issue}  {text}")
}

/// The first digits of a commit's name.
pub(super) fn short(commit: &str) -> String {
    commit.chars().take(10).collect()
}
