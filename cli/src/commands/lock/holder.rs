use clap::Args;
use mala_core::Mode;
use serde_json::json;

use crate::commands::status::write_lock_table;
use crate::context::{Context, Paths, open};
use crate::error::{CliError, Code};
use crate::json;
use crate::ui::plain;

/// Show who holds a file
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala lock holder src/main.rs")]
pub(crate) struct HolderArgs {
    #[command(flatten)]
    paths: Paths,
}

pub(super) fn cmd_holder(args: &HolderArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope()?;
    let wants = context.wants(&scope, &args.paths, Mode::Exclusive)?;
    let mut store = open(&scope)?;
    let mut held = Vec::new();
    for want in &wants {
        held.push((want, store.holders(want)?));
    }
    let entries: Vec<_> = held
        .iter()
        .map(|(want, locks)| json!({ "path": want.target.to_string(), "holders": json::locks(locks) }))
        .collect();
    // One path is the usual question, and then its answer is the whole document.
    let body = match entries.as_slice() {
        [one] => one.clone(),
        many => json!({ "paths": many }),
    };
    context.ui.answer(&body, |out| {
        for (want, locks) in &held {
            if locks.is_empty() {
                writeln!(out, "`{}` is free", plain(&want.target))?;
            } else {
                writeln!(out, "`{}` is held", plain(&want.target))?;
                write_lock_table(out, locks)?;
            }
        }
        Ok(())
    })?;
    Ok(Code::SUCCESS)
}
