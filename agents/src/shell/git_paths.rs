//! Which files of the checkout a git command changes.

use super::expand::{Arg, Known};
use super::notes::typed;
use super::options::{self, Syntax};
use super::programs::{Call as Command, HOOKS, NOT_KNOWN};
use super::state::State;
use super::table::{self, Program, Role};
use super::walk::{Stdin, Walker};
use crate::git::Call;

impl Walker<'_> {
    /// Files that a git command changes in the checkout.
    pub(super) fn git_paths(&mut self, call: &Call<'_>, args: &[Arg], state: &mut State, stdin: &Stdin) {
        let quote = || format!("git {} {}", call.verb, typed(args));
        for arg in args.iter().filter(|arg| arg.text.starts_with("--output=")) {
            self.write(&arg.tail("--output=".len()), state);
        }
        self.plan.commits |= call.verb == "commit";
        let known = command_of(call.verb, args);
        let (options, rest) = match known {
            Some((program, rest)) => (options::read(rest, program.syntax), rest),
            None => (options::read(args, table::OPEN), args),
        };
        if known.is_none() {
            let runs_hooks = matches!(call.verb, "commit" | "push");
            self.unknown(&quote(), if runs_hooks { HOOKS } else { NOT_KNOWN });
        } else if let Some(option) = options.stranger {
            self.unknown(
                &quote(),
                &format!("mala does not know what `{}` does there", typed(std::slice::from_ref(option))),
            );
        }
        let paths: Vec<Arg> = options.operands.iter().map(|arg| pathspec(arg)).collect();
        if matches!(call.verb, "rm" | "mv" | "checkout" | "restore")
            && paths.iter().any(|path| path.known != Known::All)
        {
            self.unknown(&quote(), "the files it changes are not known");
        }
        let options = options.with_operands(&paths);
        let is_dry = options.has(&["n", "dry-run"]);
        if let Some((Program { role: Role::WritesValue(names), .. }, _)) = known {
            options.values(names).for_each(|output| self.write(output, state));
        }
        match call.verb {
            "add" | "stage" | "reset" => self.git_stage(call, args, state),
            "rm" if !is_dry && options.has(&["cached"]) => self.git_stage(call, args, state),
            "rm" if !is_dry => self.remove(&options, state),
            "mv" | "clone" if !is_dry => {
                let all = [vec![Arg::literal(format!("git {}", call.verb))], args.to_vec()].concat();
                self.transfer(&Command { name: call.verb, all: &all, args: rest, options }, state);
            }
            "checkout" | "restore" => self.git_restore(call, args, state),
            "apply" if !options.has(&["check", "stat", "numstat", "summary"]) => {
                if let Stdin::Text(text) = stdin {
                    self.diff(text, 1, args, state);
                }
            }
            "archive" if !options.has(&["o", "output"]) => {
                self.unknown(&quote(), "the files it makes are not known");
            }
            "format-patch" if !options.has(&["stdout"]) => {
                self.unknown(&quote(), "the files it makes are not known");
            }
            "config" if !reads_settings(call) => {
                self.unknown(&quote(), "it changes what git does from then on");
            }
            _ => {}
        }
    }

    /// Files whose entries in the index a command changes.
    fn git_stage(&mut self, call: &Call<'_>, args: &[Arg], state: &State) {
        if call.has(&["-n", "--dry-run"]) {
            return;
        }
        let behind = args.iter().position(|arg| arg.is("--")).map(|at| &args[at + 1..]);
        let options = options::read(
            args,
            Syntax { options: "* -s: --source= --chmod= --pathspec-from-file=", in_order: false },
        );
        let files: Vec<&Arg> =
            behind.map_or_else(|| options.operands.clone(), |files| files.iter().collect());
        // A commit is named like a file only by accident.
        let is_commit = |arg: &Arg| behind.is_none() && matches!(arg.text.as_str(), "HEAD" | "@");
        files.into_iter().filter(|file| !is_commit(file)).for_each(|file| self.stage(file, state));
    }

    fn git_restore(&mut self, call: &Call<'_>, args: &[Arg], state: &State) {
        let is_index_only =
            call.verb == "restore" && call.has(&["--staged", "-S"]) && !call.has(&["--worktree", "-W"]);
        if is_index_only {
            return self.git_stage(call, args, state);
        }
        let behind = args.iter().position(|arg| arg.is("--")).map(|at| &args[at + 1..]);
        let options =
            options::read(args, table::find("git/restore").map_or(table::OPEN, |restore| restore.syntax));
        let files: Vec<Arg> = match behind {
            Some(files) => files.iter().map(pathspec).collect(),
            None => options.operands.iter().map(|arg| pathspec(arg)).collect(),
        };
        files.iter().for_each(|file| self.write_files(file, state));
    }
}

/// What is known of one of git's commands with these arguments, and what is left of them: `git stash list` is `git/stash/list`.
fn command_of<'a>(verb: &str, args: &'a [Arg]) -> Option<(&'static Program, &'a [Arg])> {
    let deeper =
        args.first().and_then(Arg::as_literal).and_then(|word| table::find(&format!("git/{verb}/{word}")));
    deeper.map(|program| (program, &args[1..])).or_else(|| Some((table::find(&format!("git/{verb}"))?, args)))
}

/// git takes wildcards by itself, and in them a `*` for any number of folders.
fn pathspec(arg: &Arg) -> Arg {
    let wild = arg.text.find(['*', '?', '[', '\\']).unwrap_or(arg.text.len());
    if arg.text.starts_with(':') {
        return Arg::unknown();
    }
    if arg.known == Known::Head || wild == arg.text.len() {
        return arg.clone();
    }
    let folder = arg.text[..wild].rfind('/').map_or("", |slash| &arg.text[..=slash]);
    Arg { text: format!("{folder}**"), known: Known::Pattern, span: None }
}

/// True if `git config` only tells.
fn reads_settings(call: &Call<'_>) -> bool {
    let operands = call.operands();
    match operands.first() {
        Some(&("get" | "list")) => true,
        Some(&("set" | "unset" | "edit" | "rename-section" | "remove-section")) => false,
        _ => {
            let reads = ["--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch"];
            call.has(&reads) || operands.len() < 2
        }
    }
}
