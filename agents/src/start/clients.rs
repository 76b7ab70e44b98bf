//! One function per client.

use std::path::Path;

use super::{Kind, LONGEST_ARGUMENT, LaunchError, LaunchSpec, Order, PromptBy};
use crate::Client;
use crate::launch::{Injection, injection};

impl LaunchSpec {
    fn args<'a>(&mut self, args: impl IntoIterator<Item = &'a str>) {
        self.command.extend(args.into_iter().map(str::to_owned));
    }

    /// Adds the hooks and tools of this run.
    fn inject(&mut self, client: Client, order: &Order<'_>) {
        let Injection { args, env, files, home } = injection(client, order.mala, order.root, order.folder);
        self.command.extend(args);
        self.env.extend(env);
        self.files.extend(files);
        self.home = home.map(|home| (home, order.home.to_owned()));
    }

    fn option(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.args([name, value]);
        }
    }
}

pub(super) fn claude(order: &Order<'_>, spec: &mut LaunchSpec) {
    spec.args([
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
    ]);
    spec.option("--model", order.profile.model.as_deref());
    spec.option("--resume", order.session);
    let budget = order.budget.map(|budget| format!("{budget:.4}"));
    spec.option("--max-budget-usd", budget.as_deref());
    spec.inject(Client::Claude, order);
    if order.is_root {
        // The client refuses to skip its questions as root unless it is told that it is held by something else.
        spec.env.entry("IS_SANDBOX".to_owned()).or_insert_with(|| "1".to_owned());
    }
    spec.stdin = Some(order.prompt.to_owned());
}

pub(super) fn codex(order: &Order<'_>, spec: &mut LaunchSpec) {
    spec.args(["exec"]);
    if order.session.is_some() {
        spec.args(["resume"]);
    }
    spec.args(["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]);
    spec.inject(Client::Codex, order);
    spec.option("-m", order.profile.model.as_deref());
    spec.args(order.session);
    spec.args(["-"]);
    spec.stdin = Some(order.prompt.to_owned());
}

pub(super) fn gemini(order: &Order<'_>, spec: &mut LaunchSpec) -> Result<(), LaunchError> {
    spec.args(["-o", "stream-json", "--approval-mode", "yolo", "--skip-trust"]);
    spec.option("-m", order.profile.model.as_deref());
    spec.option("--resume", order.session);
    spec.inject(Client::Gemini, order);
    spec.args(["-p", argument(order)?]);
    Ok(())
}

pub(super) fn opencode(order: &Order<'_>, spec: &mut LaunchSpec) -> Result<(), LaunchError> {
    spec.args(["run", "--format", "json"]);
    spec.option("--model", order.profile.model.as_deref());
    spec.option("--session", order.session);
    spec.inject(Client::Opencode, order);
    spec.args([argument(order)?]);
    Ok(())
}

pub(super) fn command(order: &Order<'_>, spec: &mut LaunchSpec) -> Result<(), LaunchError> {
    if order.session.is_some() {
        return Err(LaunchError::NoSessions { kind: Kind::Command.name() });
    }
    match order.profile.prompt_by {
        PromptBy::Stdin => spec.stdin = Some(order.prompt.to_owned()),
        PromptBy::File => {
            let file = order.folder.join("prompt.md");
            place(&mut spec.command, &text(&file));
            spec.files.push((file, order.prompt.to_owned()));
        }
        PromptBy::Argument => place(&mut spec.command, argument(order)?),
    }
    Ok(())
}

/// Puts `value` where `{prompt}` stands, else at the end.
fn place(command: &mut Vec<String>, value: &str) {
    match command.iter().skip(1).position(|arg| arg.contains("{prompt}")) {
        Some(at) => command[at + 1] = command[at + 1].replace("{prompt}", value),
        None => command.push(value.to_owned()),
    }
}

fn argument<'a>(order: &Order<'a>) -> Result<&'a str, LaunchError> {
    let len = order.prompt.len();
    if len > LONGEST_ARGUMENT {
        return Err(LaunchError::TooLong { profile: order.profile.name.clone(), len });
    }
    Ok(order.prompt)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
