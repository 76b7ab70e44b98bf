//! `mala config`: what the settings are here, what each one is for, and who has set it.

use clap::{Args, Subcommand};
use mala_config::{Entry, Key, Loaded, Origin, Settings};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Code};
use crate::ui::plain;

/// Show the settings: each with its value and where that comes from
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mala config
  mala config --set
  mala config get run.max_agents
  mala config explain queue.slots")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    List(ListArgs),
    /// Print the value of one setting
    #[command(after_help = "Example:
  mala config get run.max_agents")]
    Get(KeyArgs),
    /// Say what a setting is for, what it may hold, and who has set it
    #[command(after_help = "Example:
  mala config explain queue.slots")]
    Explain(KeyArgs),
}

/// List all settings, as they would stand in mala.toml
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mala config list --set")]
struct ListArgs {
    /// Only those that somebody has set
    #[arg(long)]
    set: bool,
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// The setting, such as `lock.ttl`
    key: String,
}

pub(crate) fn cmd_config(args: &ConfigArgs, context: &Context) -> Result<Code, CliError> {
    let scope = context.scope().ok();
    let loaded = context.load_settings(scope.as_ref(), Vec::new())?;
    match &args.command {
        None => list(&loaded, &args.list, context),
        Some(ConfigCommand::List(args)) => list(&loaded, args, context),
        Some(ConfigCommand::Get(args)) => get(&entry(&loaded, &args.key)?, context),
        Some(ConfigCommand::Explain(args)) => explain(&entry(&loaded, &args.key)?, context),
    }
}

fn entry<'a>(loaded: &'a Loaded, name: &str) -> Result<Entry<'a>, CliError> {
    let key = Key::named(name)
        .map_err(|help| CliError::usage(format!("there is no setting `{}`", plain(name))).hint(help))?;
    Ok(loaded.entries().find(|entry| entry.key == key).expect("every setting is listed"))
}

fn is_set(entry: &Entry<'_>) -> bool {
    !matches!(entry.origin, Origin::Default)
}

fn list(loaded: &Loaded, args: &ListArgs, context: &Context) -> Result<Code, CliError> {
    let entries: Vec<Entry<'_>> = loaded.entries().filter(|entry| !args.set || is_set(entry)).collect();
    let tables = tables(&loaded.settings);
    let document = json!({ "settings": entries.iter().map(as_json).collect::<Vec<_>>(), "tables": tables });
    context.ui.answer(&document, |out| {
        let mut section = "";
        for entry in &entries {
            if entry.key.section() != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                section = entry.key.section();
                writeln!(out, "{gap}[{section}]")?;
            }
            let line = format!("{} = {}", entry.key.name(), plain(&entry.value));
            match is_set(entry) {
                true => writeln!(out, "{line}  # {}", plain(entry.origin.to_string()))?,
                false => writeln!(out, "{line}")?,
            }
        }
        match tables.is_empty() {
            true => Ok(()),
            false => writeln!(out, "\n# and these tables: {}", plain(tables.join(", "))),
        }
    })?;
    Ok(Code::SUCCESS)
}

/// What is set besides, under names of the user's own.
fn tables(settings: &Settings) -> Vec<String> {
    let agents = settings.agents.iter().map(|agent| format!("agents.{}", agent.name));
    let mutexes = settings.mutexes.iter().map(|mutex| format!("mutex.{}", mutex.name));
    let env = settings.env.names().map(|name| format!("env.{name}"));
    agents.chain(mutexes).chain(env).collect()
}

fn get(entry: &Entry<'_>, context: &Context) -> Result<Code, CliError> {
    context.ui.answer(&as_json(entry), |out| writeln!(out, "{}", plain(&entry.plain)))?;
    Ok(Code::SUCCESS)
}

fn explain(entry: &Entry<'_>, context: &Context) -> Result<Code, CliError> {
    let Entry { key, value, default, origin, .. } = entry;
    context.ui.answer(&as_json(entry), |out| {
        writeln!(out, "{key} = {}", plain(value))?;
        writeln!(out, "  {}", key.about())?;
        match origin {
            Origin::Default => writeln!(out, "  nobody has set it here")?,
            origin => writeln!(out, "  set in {}; the default is {default}", plain(origin.to_string()))?,
        }
        writeln!(
            out,
            "  to set it: `{} = ...` below `[{}]` in mala.toml, or the variable {}",
            key.name(),
            key.section(),
            key.variable()
        )
    })?;
    Ok(Code::SUCCESS)
}

fn as_json(entry: &Entry<'_>) -> Value {
    json!({
        "key": entry.key.to_string(),
        "value": typed(&entry.value),
        "default": typed(&entry.default),
        "origin": entry.origin.to_string(),
        "set": is_set(entry),
        "variable": entry.key.variable(),
        "about": entry.key.about(),
    })
}

/// A value as it would be written in a file, as JSON: a number is a number.
fn typed(value: &str) -> Value {
    let table: Option<toml::Table> = toml::from_str(&format!("value = {value}")).ok();
    table.and_then(|mut table| serde_json::to_value(table.remove("value")?).ok()).unwrap_or_default()
}
