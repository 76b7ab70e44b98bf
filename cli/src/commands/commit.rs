use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Args;
use mala_config::Land;
use mala_core::shell::word;
use mala_core::{Actor, EvidenceId, IssueId, Key, Scope};
use mala_gate::rules::{Foreign, Rules};
use mala_gate::{StoreOwnership, claim};
use mala_git::commit::{self, CommitError, GitHooks, Request, Selection};
use mala_git::{Oid, Ownership, Repo, RepoPath};
use mala_session::refusal::Reader;
use mala_session::{FileHandedOn, SupervisorOwnership, supervisor_socket};
use mala_store::process::{self, ProcessTable};
use mala_store::{EventKind, Party};
use serde_json::{Value, json};

use super::offer::Offered;
use super::whoami::Identity;
use super::{gate, lock};
use crate::context::{Caller, Context, open};
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Commit exactly one's own files
///
/// Takes the files that changed and that the agent holds, or those that are named, and nothing else: what others have staged
/// or changed stays as it is. The repository's own hooks run. If anything fails, everything is as it was before.
///
/// An agent of a run offers its commit instead: the branch moves to it when mala has run the required commands on it.
/// Each offer has all that the one before had, so the last one counts. With `gate.land = "queue"` the same holds outside of a
/// run, where each offer is an entry of its own in the landing queue.
///
/// With `--undo`, one's own last commit is taken back, if nobody has committed since: the files stay as they are.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala commit -m 'bd-12: parse empty files'
  mala commit -m 'bd-12: parse empty files' src/parse.rs tests/parse.rs
  mala commit --undo")]
pub(crate) struct CommitArgs {
    #[command(flatten)]
    caller: Caller,
    /// Issue that is worked on
    #[arg(long, value_name = "ID")]
    issue: Option<IssueId>,
    /// The message; `-` reads it from standard input
    #[arg(
        short,
        long,
        value_name = "MSG",
        required_unless_present = "undo",
        default_value = "",
        hide_default_value = true
    )]
    message: String,
    /// Take back one's own last commit, if it is still the last one of the branch; no file changes
    #[arg(long, conflicts_with_all = ["message", "paths", "issue"])]
    undo: bool,
    /// Files and folders [default: everything that changed and that the agent holds]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

impl CommitArgs {
    pub(crate) fn is_undo(&self) -> bool {
        self.undo
    }
}

pub(crate) fn cmd_commit(args: &CommitArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    if args.undo {
        return undo(args, context, &scope);
    }
    let (who, ownership) = committer(args, context, &scope)?;
    let repo = Repo::new(scope.clone());
    // What a killed commit left, git's index lock above all, would be in the way.
    commit::sweep(&repo, &ProcessTable)?;
    let request = Request {
        who: who.clone(),
        selection: selection(args, context, &scope)?,
        message: message(args, context)?,
        owner: process::current(),
    };
    let settings = context.settings(&scope, Vec::new())?;
    let foreign = Rules::of(&settings)?.foreign;
    if who.run.is_some() || settings.gate.land == Land::Queue {
        let required = settings.required().iter().map(ToString::to_string).collect();
        return offer(args, context, &Offering { repo, ownership, request, foreign, required });
    }
    if supervisor_socket::supervisor().is_none() {
        gate::refuse_overtaking(&repo, &mut open(&scope)?)?;
    }
    let made = mala_gate::commit(&repo, &*ownership, &GitHooks, &request, foreign)
        .map_err(|error| refused(error, &Reader::new(&scope, &context.here)))?;
    let handed = hand_on(args, context, &scope, made.files.iter().map(|path| repo.key(path)));
    let handed = handed.unwrap_or_else(|error| {
        let why = error.messages().join(": ");
        context.ui.warning(&format!("the commit stands, but files that others asked for stay yours: {why}"));
        Vec::new()
    });
    let body = json!({
        "commit": made.id.as_str(), "branch": made.branch, "files": made.files, "agent": who.agent, "issue": who.issue,
        "evidence": made.evidence, "fences": made.fences, "handed_on": handed,
    });
    context.ui.answer(&body, |out| {
        writeln!(out, "committed {} with {} of `{}`:", made.id.short(), count(made.files.len()), who.agent)?;
        made.files.iter().try_for_each(|file| writeln!(out, "  {}", plain(file)))?;
        if !made.evidence.is_empty() {
            writeln!(out, "tested as it is: {}", list(&made.evidence))?;
        }
        handed.iter().try_for_each(|FileHandedOn { path, agent }| {
            writeln!(out, "`{}` belongs to `{}` now, who asked for it", plain(path), plain(agent))
        })
    })?;
    if let Some(trouble) = made.after_hook {
        context.ui.warning(&format!("the commit stands, but the hook after it failed: {trouble}"));
    }
    Ok(Code::SUCCESS)
}

/// What an agent of a run offers, and by which rules.
struct Offering {
    repo: Repo,
    ownership: Box<dyn Ownership>,
    request: Request,
    foreign: Foreign,
    required: Vec<String>,
}

/// Makes a commit and leaves the branch where it is: the landing queue proves it first.
fn offer(args: &CommitArgs, context: &Context, offering: &Offering) -> Result<Code, CliError> {
    let Offering { repo, ownership, request, foreign, required } = offering;
    let earlier = match ask_to_offer(args, context, None)? {
        Asked::Answer(earlier) => earlier,
        Asked::Refused(code) => return Ok(code),
    };
    let made = mala_gate::offer(repo, &**ownership, &GitHooks, (request, &earlier.files), *foreign)
        .map_err(|error| refused(error, &Reader::new(repo.scope(), &context.here)))?;
    let Offered { candidate: pinned, entry, merged, conflicts, .. } =
        match ask_to_offer(args, context, Some(&made.id))? {
            Asked::Answer(offered) => offered,
            Asked::Refused(code) => return Ok(code),
        };
    let who = &request.who;
    let body = json!({
        "commit": made.id.as_str(), "candidate": pinned, "entry": entry, "branch": null, "base": made.base, "files": made.files,
        "agent": who.agent, "issue": who.issue, "evidence": made.evidence, "fences": [], "handed_on": [],
        "merged": merged, "conflicts": conflicts,
    });
    context.ui.answer(&body, |out| {
        writeln!(out, "offered {} with {} of `{}`:", made.id.short(), count(made.files.len()), who.agent)?;
        made.files.iter().try_for_each(|file| writeln!(out, "  {}", plain(file)))?;
        if !made.evidence.is_empty() {
            writeln!(out, "tested as it is: {}", list(&made.evidence))?;
        }
        for file in &merged {
            writeln!(out, "`{}` has landed in another version since you took it; yours is merged with that", plain(file))?;
        }
        let commands = required.iter().map(|command| format!("`{}`", plain(command)));
        let commands = commands.collect::<Vec<_>>().join(", ");
        match (entry, required.as_slice()) {
            (Some(entry), []) => writeln!(out, "it is entry {entry} of the landing queue: mala queue run")?,
            (Some(entry), _) => writeln!(
                out,
                "it is entry {entry} of the landing queue; mala runs {commands} on it and lands it if that passes: mala queue run"
            )?,
            (None, []) => writeln!(out, "it lands when you end your turn")?,
            (None, _) => {
                writeln!(out, "when you end your turn, mala runs {commands} on it and lands it if that passes")?;
            }
        }
        writeln!(out, "the branch has not moved: `git status` shows these files as modified until they land")
    })?;
    for file in &conflicts {
        context.ui.warning(&format!(
            "`{}` has landed in another version since you took it, and yours does not merge with it: it comes back to you when \
             you end your turn; the branch's version: git show HEAD:{}",
            plain(file),
            word(file.to_text())
        ));
    }
    Ok(Code::SUCCESS)
}

/// What was said to an offer.
enum Asked {
    Answer(Offered),
    /// It has said why.
    Refused(Code),
}

/// Has a commit pinned, or asks for the files of the last offer. Inside an agent's tree its supervisor does that.
fn ask_to_offer(args: &CommitArgs, context: &Context, commit: Option<&Oid>) -> Result<Asked, CliError> {
    let Some(socket) = supervisor_socket::supervisor() else {
        return Ok(Asked::Answer(super::offer::answer(&args.caller, context, commit)?));
    };
    let words = ["mala", "offer"].map(OsString::from).into_iter();
    let words = words.chain(commit.map(|commit| commit.as_str().into()));
    let (code, answer) = supervisor_socket::query(&socket, words)?;
    if Code(code) != Code::SUCCESS {
        return Ok(Asked::Refused(Code(code)));
    }
    Ok(Asked::Answer(serde_json::from_slice(&answer).map_err(CliError::failed)?))
}

fn undo(args: &CommitArgs, context: &Context, scope: &Scope) -> Result<Code, CliError> {
    let mut store = open(scope)?;
    let Party { agent, run, .. } = args.caller.party(context, &mut store, None, None)?;
    let repo = Repo::new(scope.clone());
    // Hooks may be the agent's own, and would run out here with rights that its tree does not have.
    let repo = if context.supervised.is_some() { repo.without_hooks() } else { repo };
    let Some(id) = repo.resolve("HEAD")? else {
        return Err(CliError::refused("there is no commit to take back"));
    };
    let commit = repo.commit(&id)?;
    let made = store.facts(&agent, &[EventKind::CommitMade], None)?;
    let is_this = |detail: &Value| {
        // Whoever moved the branch to a commit that was there already has not made it.
        let is_new = detail["parent"]
            .as_str()
            .is_none_or(|parent| commit.parents.first().is_some_and(|first| first.as_str() == parent));
        detail["commit"] == id.as_str() && is_new
    };
    let is_seen = made.iter().any(|fact| is_this(&fact.detail));
    // What has landed is signed by its agent, too.
    if run.is_some() && !is_seen {
        return Err(CliError::refused("there is nothing to take back: the branch has not moved")
            .hint("the last offer counts; offer again: mala commit -m 'what changes'"));
    }
    if !is_seen && !commit::is_signed_by(&commit, &agent) {
        let id = id.short();
        return Err(CliError::refused(format!("the last commit, {id}, is not known to be one of `{agent}`"))
            .hint("only one's own commit can be taken back, and only the last; leave the rest to a person: git revert COMMIT"));
    }
    let files = commit::undo(&repo, &StoreOwnership::new(store), &agent, &process::current(), &commit)
        .map_err(|error| not_undone(error, &Reader::new(scope, &context.here)))?;
    let files: Vec<String> = files.iter().map(ToString::to_string).collect();
    context.ui.answer(&json!({ "undone": id.as_str(), "files": files, "agent": agent }), |out| {
        writeln!(out, "took back {}; {} as before:", id.short(), is_as_before(files.len()))?;
        files.iter().try_for_each(|file| writeln!(out, "  {}", plain(file)))
    })?;
    Ok(Code::SUCCESS)
}

fn is_as_before(files: usize) -> String {
    format!("{} {} uncommitted", count(files), if files == 1 { "is" } else { "are" })
}

fn refused(error: CommitError, reader: &Reader<'_>) -> CliError {
    let hints: Vec<String> = match &error {
        CommitError::NotYours(files) | CommitError::HookAdded { files, .. } => reader.about(files).collect(),
        CommitError::Nothing(_) => {
            vec!["a commit of yours that is on the branch already is judged by: mala gate check".to_owned()]
        }
        _ => Vec::new(),
    };
    hints.into_iter().fold(CliError::from(error), CliError::hint)
}

fn not_undone(error: CommitError, reader: &Reader<'_>) -> CliError {
    let mut hints: Vec<String> = match &error {
        CommitError::PassedOn(files) => reader.about(files).collect(),
        _ => Vec::new(),
    };
    hints.push("nothing was taken back; the branch, files and staged changes are as they were".to_owned());
    CliError { hints, ..error.into() }
}

/// Files that are done go to whoever asked for them. Inside an agent's tree its supervisor does that.
fn hand_on(
    args: &CommitArgs,
    context: &Context,
    scope: &Scope,
    keys: impl Iterator<Item = Key>,
) -> Result<Vec<FileHandedOn>, CliError> {
    let keys: Vec<Key> = keys.collect();
    let Some(socket) = supervisor_socket::supervisor() else {
        let mut store = open(scope)?;
        let agent = args.caller.agent(context, &mut store)?;
        return lock::hand_on::hand_on(context, &mut store, &agent, &keys);
    };
    let words = ["mala", "lock", "hand-on", "--json", "--"].map(OsString::from);
    let keys = keys.iter().map(|key| OsStr::from_bytes(key.as_bytes()).to_owned());
    let (code, answer) = supervisor_socket::query(&socket, words.into_iter().chain(keys))?;
    if Code(code) != Code::SUCCESS {
        return Err(CliError::failed("the supervisor of this agent could not hand them on"));
    }
    serde_json::from_slice(&answer).map_err(CliError::failed)
}

fn list(proofs: &[EvidenceId]) -> String {
    proofs.iter().map(EvidenceId::as_str).collect::<Vec<_>>().join(", ")
}

fn count(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// Who commits, and whom to ask what belongs to whom. Inside an agent's tree that is its supervisor.
fn committer(
    args: &CommitArgs,
    context: &Context,
    scope: &Scope,
) -> Result<(Actor, Box<dyn Ownership>), CliError> {
    let (mut who, ownership): (Actor, Box<dyn Ownership>) = match supervisor_socket::supervisor() {
        Some(socket) => (supervisor_identity(&socket)?, Box::new(SupervisorOwnership::new(socket))),
        None => {
            let mut store = open(scope)?;
            let Party { agent, issue, run, .. } = args.caller.party(context, &mut store, None, None)?;
            let issue = if issue.is_some() { issue } else { claim::issue_of(&mut store, &agent)? };
            (Actor { agent, issue, run }, Box::new(StoreOwnership::new(store)))
        }
    };
    who.issue = args.issue.clone().or(who.issue);
    Ok((who, ownership))
}

pub(super) fn supervisor_identity(socket: &Path) -> Result<Actor, CliError> {
    let words = ["mala", "whoami", "--json"].map(OsString::from);
    let (_, answer) = supervisor_socket::query(socket, words.into_iter())?;
    let identity: Identity = serde_json::from_slice(&answer).map_err(CliError::failed)?;
    Ok(identity.try_into()?)
}

fn selection(args: &CommitArgs, context: &Context, scope: &Scope) -> Result<Selection, CliError> {
    if args.paths.is_empty() {
        return Ok(Selection::Owned);
    }
    let path = |typed: &OsString| {
        let key = scope.key(&context.cwd, Path::new(typed))?;
        Ok(RepoPath::from_bytes(key.as_bytes()))
    };
    Ok(Selection::Paths(args.paths.iter().map(path).collect::<Result<_, CliError>>()?))
}

fn message(args: &CommitArgs, context: &Context) -> Result<String, CliError> {
    if args.message != "-" {
        return Ok(args.message.clone());
    }
    let mut text = String::new();
    context.ui.input().read_to_string(&mut text)?;
    Ok(text)
}
