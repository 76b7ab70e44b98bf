//! What `mala init` proposes, and how it is written into `mala.toml`.

use std::io::{self, Write};
use std::path::PathBuf;

use mala_config::{Preset, Proposal, ProposedCommand, render_new_file, with_preset};
use mala_core::Scope;
use mala_core::scope::SETTINGS_FILE;
use serde_json::{Value, json};

use super::{Action, InitArgs, Step, read};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::plain;

/// What is proposed here, or what follows from the preset that was named.
pub(super) fn proposal(args: &InitArgs, context: &Context, scope: &Scope) -> Result<Proposal, CliError> {
    let Some(name) = &args.preset else {
        return Ok(Proposal::of(scope.root(), &|program| which::which(program).ok()));
    };
    let preset = Preset::named(name).ok_or_else(|| {
        let known: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
        CliError::usage(format!("`{name}` is no preset")).hint(format!("choose one of {}", known.join(", ")))
    })?;
    let mut proposal = Proposal::for_preset(preset);
    if scope.settings_file().exists() {
        keep_own(&mut proposal, context, scope)?;
    }
    Ok(proposal)
}

/// Another preset for a repository that has settings: what they require stays required.
fn keep_own(proposal: &mut Proposal, context: &Context, scope: &Scope) -> Result<(), CliError> {
    let settings = context.load_settings(Some(scope), Vec::new())?.settings;
    let old = settings.project.preset;
    if old != proposal.preset {
        proposal.because = Some(format!("your choice in place of {}", old.name()));
    }
    let own = settings.validate.commands.into_iter().map(|command| ProposedCommand {
        program: which::which(command.program()).ok(),
        because: format!("[validate] in {SETTINGS_FILE}"),
        command,
    });
    proposal.commands = own.collect();
    Ok(())
}

/// The settings that are written: new ones, or those that are there with the preset that was asked for.
pub(super) fn settings_step(args: &InitArgs, scope: &Scope, proposal: &Proposal) -> Result<Step, CliError> {
    let path = scope.settings_file();
    let Some(text) = read(&path)? else {
        return Ok(Step { path, what: "new", action: Action::Write(render_new_file(proposal)) });
    };
    let unchanged = Step { path: path.clone(), what: "unchanged", action: Action::Nothing };
    if args.preset.is_none() {
        return Ok(unchanged);
    }
    let changed = with_preset(&text, proposal.preset).ok_or_else(|| {
        CliError::usage(format!("`{SETTINGS_FILE}` names no preset that could be changed")).hint(format!(
            "write `preset = \"{}\"` below `[project]` in `{SETTINGS_FILE}`",
            proposal.preset.name()
        ))
    })?;
    Ok(if changed == text {
        unchanged
    } else {
        Step { path, what: "changed", action: Action::Write(changed) }
    })
}

/// True if the settings are as `mala init` has written them, whatever it proposed then.
pub(super) fn is_as_written(text: &str, context: &Context, scope: &Scope) -> bool {
    let Ok(loaded) = context.load_settings(Some(scope), Vec::new()) else { return false };
    let settings = loaded.settings;
    let commands = settings.validate.commands.into_iter();
    let commands = commands.map(|command| ProposedCommand { command, because: String::new(), program: None });
    let written = Proposal {
        preset: settings.project.preset,
        because: None,
        commands: commands.collect(),
        setup: settings.queue.setup,
        left_out: Vec::new(),
    };
    render_new_file(&written) == text
}

/// What was found, what follows from it, and why.
pub(super) fn write(out: &mut dyn Write, proposal: &Proposal) -> io::Result<()> {
    let because =
        proposal.because.as_deref().map(|why| format!(", because of {}", plain(why))).unwrap_or_default();
    writeln!(out, "   preset  {}{because}", proposal.preset.name())?;
    for (command, program, because) in required(proposal) {
        let program = match program {
            Some(program) => plain(program.display()),
            None => "not in PATH yet".to_owned(),
        };
        writeln!(out, " required  {} ({program}{because})", plain(&command))?;
    }
    for command in &proposal.setup {
        writeln!(out, "    setup  {}", plain(command))?;
    }
    for (command, why) in &proposal.left_out {
        writeln!(out, " left out  {}: {}", plain(command), plain(why))?;
    }
    Ok(())
}

/// The same for programs.
pub(super) fn json(proposal: &Proposal) -> Value {
    let commands: Vec<_> = required(proposal)
        .map(|(command, program, _)| json!({ "command": command, "program": program }))
        .collect();
    let left_out: Vec<_> =
        proposal.left_out.iter().map(|(command, why)| json!({ "command": command, "why": why })).collect();
    json!({ "preset": proposal.preset.name(), "because": proposal.because, "commands": commands, "left_out": left_out })
}

/// Every required command with its program and, as the end of a sentence, its reason.
fn required(proposal: &Proposal) -> impl Iterator<Item = (String, Option<PathBuf>, String)> {
    let own = proposal.commands.iter().map(|one| {
        let because = format!("; {}", plain(&one.because));
        (one.command.to_string(), one.program.clone(), because)
    });
    let of_preset = proposal.preset.required();
    let of_preset = of_preset.into_iter().filter(|_| proposal.commands.is_empty()).map(|command| {
        (command.to_string(), which::which(command.program()).ok(), "; of the preset".to_owned())
    });
    own.collect::<Vec<_>>().into_iter().chain(of_preset)
}

/// Says what a person has to do before a run can land anything.
pub(super) fn warn(context: &Context, proposal: &Proposal) {
    if required(proposal).next().is_none() {
        context.ui.warning("no command is required, so nothing would be proven");
        context.ui.hint(&format!("name one in `{SETTINGS_FILE}`: [validate] commands = [\"make test\"]"));
    }
    for (command, program, _) in required(proposal) {
        let is_from_setup = proposal.commands.iter().any(|one| one.command.to_string() == command);
        if program.is_none() && !is_from_setup {
            context.ui.warning(&format!("`{}` is required and its program is not in PATH", plain(&command)));
        }
    }
}
