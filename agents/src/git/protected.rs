//! Git commands that write what no agent may write, besides other things: they would do a part of their work and fail.

use super::Facts;
use super::call::Call;
use super::rules::{LEAVE, asks_for_help};
use super::table::{Part, is_known, writes};
use crate::objection::Objection;

pub(super) fn judge(call: &Call<'_>, facts: &Facts<'_>) -> Option<Objection> {
    // What is not known may be a program of its own, and is judged as it does things.
    if asks_for_help(call) || !is_known(call.verb) {
        return None;
    }
    let parts = writes(call, facts.exists);
    let is_head = parts.contains(&Part::Head);
    if parts.contains(&Part::Config) {
        let why = "it changes the repository's settings, which are protected";
        return Some(Objection::new(call.typed(), why, without_settings(call)).protected());
    }
    if parts.contains(&Part::Hooks) && call.verb != "hook" {
        let why = "it changes the repository's hooks, which are protected";
        return Some(Objection::new(call.typed(), why, LEAVE).protected());
    }
    is_head
        .then(|| Objection::new(call.typed(), "it moves everybody to another branch", "stay on this branch"))
}

/// What does as much as can be done.
fn without_settings(call: &Call<'_>) -> &'static str {
    match call.verb {
        "config" => "for one command: git -c KEY=VALUE COMMAND",
        "branch" if call.has(&["-m", "-M", "--move"]) => {
            "make another one and delete the old: git branch NEW OLD; git branch -D OLD"
        }
        "branch" if call.has(&["-c", "-C", "--copy"]) => "make another one: git branch NEW OLD",
        "branch" if call.has(&["-u", "--set-upstream-to", "--unset-upstream", "--edit-description"]) => LEAVE,
        "branch" | "checkout" | "switch" | "worktree" => "make it without what it follows: --no-track",
        "push" | "fetch" | "pull" => "leave out -u, --set-upstream",
        "remote" => "name the address: git fetch URL",
        "init" | "init-db" => "name a directory of its own: git init DIRECTORY",
        _ => LEAVE,
    }
}
