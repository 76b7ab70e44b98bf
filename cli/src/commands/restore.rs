use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use mala_core::{AgentId, Mode, Target, Want};
use mala_git::saved_work::{Obstacle, SavedWork};
use mala_git::{Repo, RepoPath};
use mala_session::supervisor_socket;
use serde_json::json;

use super::diff::{WorkArg, refs_json};
use crate::context::{Context, open};
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Put saved, offered or rejected work of an issue back into the checkout
///
/// All of it or nothing: nothing if one of its files has uncommitted changes, was changed on the branch since, or is held by
/// another agent. The index stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala restore bd-12
  mala restore bd-12/2 --to /tmp/bd-12")]
pub(crate) struct RestoreArgs {
    /// The issue, and which attempt at it [default: the newest that has left work]
    #[arg(value_name = "ISSUE[/N]")]
    work: WorkArg,
    /// Write the files below DIR instead, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn cmd_restore(args: &RestoreArgs, context: &Context) -> Result<Code, CliError> {
    let repo = Repo::new(context.scope()?).without_hooks();
    let work = args.work.find(&repo)?;
    match &args.to {
        Some(to) => write_elsewhere(args, context, &repo, &work, to),
        None => put_back(args, context, &repo, work),
    }
}

fn write_elsewhere(
    args: &RestoreArgs,
    context: &Context,
    repo: &Repo,
    work: &SavedWork,
    to: &Path,
) -> Result<Code, CliError> {
    let directory = context.cwd.join(to);
    let shown = plain(directory.display());
    match fs::read_dir(&directory).map(|mut entries| entries.next().is_some()) {
        Ok(false) => {}
        Ok(true) => {
            return Err(CliError::refused(format!("`{shown}` is not empty"))
                .hint("name a directory that does not exist"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(CliError::usage(format!("cannot use `{shown}`: {error}"))),
    }
    fs::create_dir_all(&directory)
        .map_err(|error| CliError::usage(format!("cannot make `{shown}`: {error}")))?;
    work.write_to(repo, &directory).map_err(CliError::failed)?;
    answer(args, context, work, Some(&directory))
}

fn put_back(args: &RestoreArgs, context: &Context, repo: &Repo, work: SavedWork) -> Result<Code, CliError> {
    let obstacles = work.obstacles(repo).map_err(CliError::failed)?;
    if !obstacles.is_empty() {
        let named = obstacles.iter().map(|(path, why)| format!("`{}` {}", plain(path), said(*why)));
        let text = format!("nothing was restored: {}", named.collect::<Vec<_>>().join(", "));
        return Err(elsewhere(CliError::refused(text), args));
    }
    let work = work.missing(repo).map_err(CliError::failed)?;
    let files: Vec<&RepoPath> = work.changes().map(|change| &change.path).collect();
    if !files.is_empty() {
        match supervisor_socket::supervisor() {
            // The supervisor takes the locks, all of them or none; then the writes are allowed.
            Some(supervisor) => {
                let mut words: Vec<OsString> = vec!["mala".into(), "-C".into(), repo.root().into()];
                words.extend(["lock", "acquire", "--literal", "--json", "--"].map(OsString::from));
                words.extend(files.iter().map(|path| path.as_path().into()));
                let (code, _) = supervisor_socket::query(&supervisor, words.into_iter())?;
                if Code(code) != Code::SUCCESS {
                    return Ok(Code(code));
                }
            }
            None => refuse_held(args, context, repo, &files)?,
        }
        work.put_back(repo).map_err(CliError::failed)?;
    }
    answer(args, context, &work, None)
}

fn said(why: Obstacle) -> &'static str {
    match why {
        Obstacle::Uncommitted => "has uncommitted changes",
        Obstacle::ChangedSince => "was changed on the branch since",
    }
}

fn elsewhere(error: CliError, args: &RestoreArgs) -> CliError {
    let issue = &args.work.issue;
    error
        .hint(format!("write it elsewhere: mala restore {issue} --to DIR"))
        .hint(format!("look at it: mala diff {issue}"))
}

fn refuse_held(
    args: &RestoreArgs,
    context: &Context,
    repo: &Repo,
    files: &[&RepoPath],
) -> Result<(), CliError> {
    let mut store = open(repo.scope())?;
    let agent = match context.bound_party(&mut store)? {
        Some(party) => party.agent,
        None => AgentId::nobody(),
    };
    let want = |path: &&RepoPath| Want {
        target: Target::File(repo.key(path)),
        aliases: Vec::new(),
        mode: Mode::Exclusive,
    };
    let wants: Vec<Want> = files.iter().map(want).collect();
    let conflicts = store.check(&agent, &wants)?;
    if conflicts.is_empty() {
        return Ok(());
    }
    let held = conflicts.iter().map(|conflict| {
        format!("`{}` is held by `{}`", plain(conflict.contended()), plain(&conflict.holder.agent))
    });
    let text = format!("nothing was restored: {}", held.collect::<Vec<_>>().join(", "));
    Err(elsewhere(CliError::refused(text), args))
}

fn answer(
    args: &RestoreArgs,
    context: &Context,
    work: &SavedWork,
    to: Option<&Path>,
) -> Result<Code, CliError> {
    let (there, gone): (Vec<_>, Vec<_>) = work.changes().partition(|change| change.after.is_some());
    let paths = |changes: &[&mala_git::FileChange]| -> Vec<RepoPath> {
        changes.iter().map(|change| change.path.clone()).collect()
    };
    let (files, deleted) = (paths(&there), paths(&gone));
    let body = json!({
        "issue": args.work.issue, "attempt": work.attempt, "refs": refs_json(work), "files": files,
        "deleted": deleted, "to": to.map(|to| to.to_string_lossy()),
    });
    context.ui.answer(&body, |out| {
        let whose = format!("attempt {} at {}", work.attempt, plain(&args.work.issue));
        if files.is_empty() && deleted.is_empty() {
            return writeln!(out, "the branch has all that {whose} has left");
        }
        match to {
            Some(to) => writeln!(out, "wrote the work of {whose} to `{}`:", plain(to.display()))?,
            None => writeln!(out, "restored the work of {whose}:")?,
        }
        files.iter().try_for_each(|file| writeln!(out, "  {}", plain(file)))?;
        let how = if to.is_some() { "deletes" } else { "deleted" };
        deleted.iter().try_for_each(|file| writeln!(out, "  {how} {}", plain(file)))
    })?;
    Ok(Code::SUCCESS)
}
