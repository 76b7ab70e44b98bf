mod proposal;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use mala_agents::install::{self, server};
use mala_agents::{Client, install::InstallError};
use mala_config::Proposal;
use mala_core::Scope;
use mala_core::shell::word;
use mala_gate::hooks::{self, Done, Installed};
use mala_git::Repo;
use serde::Serialize;
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Set mala up in this checkout, or take it back
///
/// Writes `mala.toml` with the project's preset, puts mala into git's hooks (those already there are called first), and its hooks
/// and tools into the project settings of the agent clients that are installed. Doing it again changes nothing; `--undo` restores every
/// byte that was there before.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala init
  mala init --preset rust --client claude
  mala init --undo")]
pub(crate) struct InitArgs {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Kind of project: none, python, python-uv, rust, node or go; changes the one that is set [default: by the files in the checkout]
    #[arg(long, value_name = "PRESET", conflicts_with = "undo")]
    preset: Option<String>,
    /// Only these clients: claude, codex, gemini or opencode; repeatable [default: those that are installed]
    #[arg(long = "client", value_name = "CLIENT")]
    clients: Vec<Client>,
    /// Take everything back that `mala init` has added
    #[arg(long)]
    undo: bool,
}

/// One file, and what happens to it.
#[derive(Debug, Serialize)]
struct Step {
    path: PathBuf,
    what: &'static str,
    #[serde(skip)]
    action: Action,
}

#[derive(Debug)]
enum Action {
    Write(String),
    Remove,
    Nothing,
}

/// A file that could not be written or removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot change `{}`", plain(.path.display()))]
struct NotWritten {
    path: PathBuf,
    #[source]
    source: io::Error,
}

pub(crate) fn cmd_init(args: &InitArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    // Everything is read and understood before anything is written. Hooks could do nothing but refuse with bad settings.
    if !args.undo {
        context.load_settings(Some(&scope), Vec::new())?;
    }
    // With settings of its own, a repository needs no proposal.
    let is_asked_for = !args.undo && (args.preset.is_some() || !scope.settings_file().exists());
    let proposal = is_asked_for.then(|| proposal::proposal(args, context, &scope)).transpose()?;
    let steps =
        if args.undo { undo_steps(args, context, &scope)? } else { steps(args, &scope, proposal.as_ref())? };
    let is_asking = !args.yes && !context.ui.json && context.ui.is_live();
    if is_asking && !confirmed(args, context, &steps, proposal.as_ref())? {
        return Err(CliError::refused("nothing was changed"));
    }
    let repo = Repo::new(scope.clone());
    let hooks = if args.undo { hooks::undo(&repo)? } else { hooks::install(&repo)? };
    for step in &steps {
        step.perform(&scope).map_err(|source| NotWritten { path: step.path.clone(), source })?;
    }
    let shown: Vec<(String, &str)> = hooks
        .iter()
        .map(|done| (relative(&done.path, &scope), hook_words(done)))
        .chain(steps.iter().map(|step| (relative(&step.path, &scope), step.what)))
        .collect();
    let files: Vec<_> = shown.iter().map(|(path, what)| json!({ "path": path, "what": what })).collect();
    let said = proposal.as_ref().map(proposal::json);
    context.ui.answer(&json!({ "files": files, "proposal": said }), |out| {
        proposal.as_ref().filter(|_| !is_asking).map_or(Ok(()), |proposal| proposal::write(out, proposal))?;
        shown.iter().try_for_each(|(path, what)| writeln!(out, "{what:>9}  {}", plain(path)))
    })?;
    for kept in hooks::replaced(&repo)? {
        let kept = plain(kept.display());
        context.ui.hint(&format!("`{kept}` is kept and called by nobody: a later hook has taken its place"));
    }
    if args.undo
        && let Some(user) = hooks::used_by(&repo)?
    {
        let user = user.display().to_string();
        context.ui.hint(&format!(
            "`{user}` uses git's hooks, too, so they stay; to take them back: mala -C {} init --undo",
            word(&user)
        ));
    }
    if !args.undo {
        if let Some(proposal) = &proposal {
            proposal::warn(context, proposal);
        }
        next_steps(context, &chosen(args, &scope));
    }
    Ok(Code::SUCCESS)
}

/// What is left for a person to do.
fn next_steps(context: &Context, clients: &[Client]) {
    if clients.is_empty() {
        context.ui.hint("no agent client was found; set one up all the same: mala init --client claude");
    }
    for client in clients {
        match client {
            Client::Claude => context.ui.hint("claude asks once whether to use mala's tools: start it here and accept"),
            Client::Codex | Client::Gemini => context.ui.hint(&format!(
                "{client} uses these hooks and tools once you have trusted them: start {client} here and accept"
            )),
            Client::Opencode => {}
        }
    }
    context.ui.hint("see what protects you now: mala doctor");
}

fn steps(args: &InitArgs, scope: &Scope, proposal: Option<&Proposal>) -> Result<Vec<Step>, CliError> {
    let mut steps = vec![match proposal {
        Some(proposal) => proposal::settings_step(args, scope, proposal)?,
        None => Step { path: scope.settings_file(), what: "unchanged", action: Action::Nothing },
    }];
    for client in chosen(args, scope) {
        if let Some(file) = install::overriding(client)
            && read(&scope.root().join(file))?.is_some_and(|text| install::switches_off(client, &text))
        {
            return Err(InstallError::SwitchedOff { file }.into());
        }
        steps.extend(client_steps(client, scope)?);
    }
    Ok(steps)
}

/// Hooks and tools of one client. Where they share a file, the tools were put in last and so are taken out first.
fn client_steps(client: Client, scope: &Scope) -> Result<Vec<Step>, CliError> {
    let (mala, hooks, tools) = (program(), install::path(client), server::path(client));
    let existing = read(&scope.root().join(hooks))?;
    let clean = match &existing {
        Some(text) if tools == Some(hooks) => server::remove(client, text)?.apply(text),
        existing => existing.clone(),
    };
    let mut text = install::plan(client, clean.as_deref(), &mala)?.text;
    let mut steps = Vec::new();
    if tools == Some(hooks) {
        text = server::plan(client, Some(&text), &mala)?.map_or(text, |change| change.text);
    } else if let Some(tools) = tools {
        let existing = read(&scope.root().join(tools))?;
        let change = server::plan(client, existing.as_deref(), &mala)?;
        steps.extend(change.map(|change| step(scope, tools, existing.as_deref(), change.text)));
    }
    steps.insert(0, step(scope, hooks, existing.as_deref(), text));
    Ok(steps)
}

fn step(scope: &Scope, path: &str, existing: Option<&str>, text: String) -> Step {
    let path = scope.root().join(path);
    match existing {
        Some(before) if before == text => Step { path, what: "unchanged", action: Action::Nothing },
        Some(_) => Step { path, what: "changed", action: Action::Write(text) },
        None => Step { path, what: "new", action: Action::Write(text) },
    }
}

fn undo_steps(args: &InitArgs, context: &Context, scope: &Scope) -> Result<Vec<Step>, CliError> {
    let path = scope.settings_file();
    let text = read(&path)?;
    let mut steps = vec![match text {
        Some(text) if proposal::is_as_written(&text, context, scope) => {
            Step { path, what: "removed", action: Action::Remove }
        }
        Some(_) => Step { path, what: "kept", action: Action::Nothing },
        None => Step { path, what: "absent", action: Action::Nothing },
    }];
    let clients: &[Client] = if args.clients.is_empty() { &Client::ALL } else { &args.clients };
    for client in clients {
        let (hooks, tools) = (install::path(*client), server::path(*client));
        for file in std::iter::once(hooks).chain(tools.filter(|tools| *tools != hooks)) {
            let path = scope.root().join(file);
            let Some(before) = read(&path)? else { continue };
            let mut rest = Some(before.clone());
            if tools == Some(file) {
                rest = server::remove(*client, &before)?.apply(&before);
            }
            if let Some(text) = rest.take_if(|_| file == hooks) {
                rest = install::remove(*client, &text)?.apply(&text);
            }
            steps.push(match rest {
                Some(text) if text == before => Step { path, what: "unchanged", action: Action::Nothing },
                Some(text) => Step { path, what: "restored", action: Action::Write(text) },
                None => Step { path, what: "removed", action: Action::Remove },
            });
        }
    }
    Ok(steps)
}

impl Step {
    fn perform(&self, scope: &Scope) -> io::Result<()> {
        match &self.action {
            Action::Nothing => Ok(()),
            Action::Write(text) => {
                let folder = self.path.parent().map_or(Ok(()), fs::create_dir_all);
                let written = folder.and_then(|()| replace(&self.path, text));
                written.inspect_err(|_| self.remove_folders(scope))
            }
            Action::Remove => {
                fs::remove_file(&self.path)?;
                self.remove_folders(scope);
                Ok(())
            }
        }
    }

    /// A folder that is empty without the file was made for it.
    fn remove_folders(&self, scope: &Scope) {
        let mut folder = self.path.parent();
        while let Some(empty) = folder.filter(|folder| *folder != scope.root()) {
            if fs::remove_dir(empty).is_err() {
                break;
            }
            folder = empty.parent();
        }
    }
}

/// Old or new content, whatever happens meanwhile; the file's permissions stay.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let beside = target.with_file_name(format!(
        ".{}.mala-{}",
        target.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let permissions = fs::metadata(&target).ok().map(|metadata| metadata.permissions());
    let written = write(&beside, text, permissions).and_then(|()| fs::rename(&beside, &target));
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn write(path: &Path, text: &str, permissions: Option<fs::Permissions>) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

fn read(path: &Path) -> Result<Option<String>, CliError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::usage(format!("cannot read `{}`: {error}", path.display()))
            .hint("make it a readable text file, or move it away")),
    }
}

/// The clients to set up: those that were named, else those that are installed or already used in this project.
fn chosen(args: &InitArgs, scope: &Scope) -> Vec<Client> {
    if !args.clients.is_empty() {
        return args.clients.clone();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |client: &Client| std::env::split_paths(&path).any(|dir| dir.join(client.name()).exists());
    let is_used = |client: &Client| scope.root().join(format!(".{}", client.name())).is_dir();
    Client::ALL.into_iter().filter(|client| is_installed(client) || is_used(client)).collect()
}

/// What the hooks call: `mala` where that finds a program, else this very one.
fn program() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&path).any(|dir| dir.join("mala").is_file());
    let own = std::env::current_exe().ok().filter(|_| !is_found);
    own.map_or_else(|| "mala".to_owned(), |own| own.display().to_string())
}

fn confirmed(
    args: &InitArgs,
    context: &Context,
    steps: &[Step],
    proposal: Option<&Proposal>,
) -> Result<bool, CliError> {
    let mut err = context.ui.err();
    if let Some(proposal) = proposal {
        proposal::write(&mut err, proposal)?;
    }
    let does = if args.undo { "takes mala out of" } else { "puts mala into" };
    writeln!(err, "This {does} git's hooks and touches:")?;
    for step in steps.iter().filter(|step| !matches!(step.action, Action::Nothing)) {
        writeln!(err, "{:>9}  {}", step.what, step.path.display())?;
    }
    write!(err, "Go on? [Y/n] ")?;
    err.flush()?;
    let mut answer = String::new();
    // Nothing at all is not even an empty line: whoever ends the input there does not want to go on.
    let is_answered = io::stdin().read_line(&mut answer)? > 0;
    Ok(is_answered && matches!(answer.trim(), "" | "y" | "Y" | "yes"))
}

fn hook_words(done: &Done) -> &'static str {
    match done.what {
        Installed::New => "new",
        Installed::Chained => "chained",
        Installed::Updated => "changed",
        Installed::Unchanged => "unchanged",
        Installed::Removed => "removed",
        Installed::Restored => "restored",
        Installed::Foreign => "kept",
        Installed::InUse => "in use",
        Installed::Absent => "absent",
    }
}

fn relative(path: &Path, scope: &Scope) -> String {
    path.strip_prefix(scope.root()).unwrap_or(path).display().to_string()
}

impl From<NotWritten> for CliError {
    fn from(error: NotWritten) -> Self {
        Self::failed(error).hint("what was done before stays; the same command goes on with the rest")
    }
}

impl From<InstallError> for CliError {
    fn from(error: InstallError) -> Self {
        Self::usage(error).hint("nothing was changed")
    }
}
