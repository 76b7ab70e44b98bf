//! Arguments that clap is told of when their command was typed.
//!
//! A hook is asked before every write of an agent, and describing some seventy commands to clap takes longer than reading
//! the one that was typed. So what [`Later`] wraps is described when it is needed. Help and completions are about
//! commands that were not typed: [`all`] describes everything.

use std::cell::Cell;

use clap::{ArgMatches, Args, Command, CommandFactory, Error, FromArgMatches, Subcommand};

thread_local!(static IS_NEEDED: Cell<bool> = const { Cell::new(false) });

/// The program with all of its commands and what belongs to them.
pub(crate) fn all<T: CommandFactory>() -> Command {
    IS_NEEDED.set(true);
    let command = T::command();
    IS_NEEDED.set(false);
    command
}

#[derive(Debug)]
pub(crate) struct Later<T>(pub(crate) T);

fn describe(command: Command, describe: fn(Command) -> Command) -> Command {
    if IS_NEEDED.get() { describe(command) } else { command.defer(describe) }
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Later<T> {
    fn augment_args(command: Command) -> Command {
        describe(command, T::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        describe(command, T::augment_args_for_update)
    }
}

impl<T: Subcommand> Subcommand for Later<T> {
    fn augment_subcommands(command: Command) -> Command {
        describe(command, T::augment_subcommands)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        describe(command, T::augment_subcommands_for_update)
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}
