//! Commands put together from the manuals of shells and programs, judged, and then run for real where another agent holds
//! two files: what changes one of them must have been refused, or must be looked at again afterwards.
//!
//! `just fuzz-hooks` runs more of them, from a seed that it prints.

mod grammar;
mod manuals;
mod world;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use mala_agents::shell::{self, Plan, Surroundings};

use grammar::{Grammar, Random};
use world::World;

/// Commands that are made up beside those that are always run.
const MADE_UP: usize = 300;
const SEED: u64 = 20;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Past the test harness, which keeps what a test prints to itself.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error is open");
}

fn judge(world: &World, command: &str) -> Plan {
    let exists = |path: &std::path::Path| path.exists();
    let (cwd, home) = (world.repo(), world.home());
    shell::plan(
        command,
        Surroundings {
            cwd: &cwd,
            home: Some(&home),
            exists: &exists,
            alias: &|_| None,
            tests: &[],
            run: None,
        },
    )
}

#[derive(Default)]
struct Tally {
    run: usize,
    written: usize,
    refused: usize,
    /// Known to be harmless.
    quiet: usize,
    escaped: Vec<String>,
}

fn try_one(world: &World, shell: &str, command: &str, tally: &Mutex<Tally>) {
    world.reset();
    let plan = judge(world, command);
    let is_refused = !plan.objections.is_empty() || world.refuses(&plan);
    let is_written = world.run(shell, command);
    let mut tally = tally.lock().unwrap();
    tally.run += 1;
    tally.refused += usize::from(is_refused);
    tally.written += usize::from(is_written);
    tally.quiet += usize::from(!is_refused && plan.is_known());
    if is_written && !is_refused && plan.is_known() {
        tally.escaped.push(format!("{shell}: {command}\n    {plan:?}"));
    }
}

/// The shells that clients run commands in. Which one it is, a hook is not told.
fn shells() -> Vec<&'static str> {
    ["bash", "zsh"].into_iter().filter(|shell| manuals::is_here(shell)).collect()
}

fn try_all(commands: &[(&str, String)]) -> Tally {
    let (tally, next) = (Mutex::new(Tally::default()), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let world = World::new();
                while let Some((shell, command)) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_one(&world, shell, command, &tally);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

#[test]
fn whatever_writes_a_held_file_was_refused_or_is_looked_at_again() {
    let seed = number("MALA_FUZZ_SEED").unwrap_or(SEED);
    let count = number("MALA_FUZZ_HOOKS").map_or(MADE_UP, |count| usize::try_from(count).expect("a count"));
    for missing in world::missing_tools() {
        say(&format!("SKIPPED: no `{missing}`, so commands run without what it keeps from them"));
    }
    let missing = manuals::missing_programs();
    if !missing.is_empty() {
        say(&format!("SKIPPED: combinations with programs that are not here: {}", missing.join(", ")));
    }
    let mut grammar = Grammar::new(Random::new(seed));
    let shells = shells();
    let mut commands: Vec<(&str, String)> =
        grammar.fixed().into_iter().filter(|(shell, _)| shells.contains(shell)).collect();
    let fixed = commands.len();
    let mut seen: BTreeSet<(&str, String)> = commands.iter().cloned().collect();
    while commands.len() < fixed + count {
        let made_up = (*grammar.shell(&shells), grammar.command());
        commands.extend(Some(made_up).filter(|made_up| seen.insert(made_up.clone())));
    }
    let tally = try_all(&commands);
    say(&format!(
        "{} commands ({fixed} fixed, seed {seed}): {} wrote a held file, {} refused, {} known to be harmless, {} escaped",
        tally.run,
        tally.written,
        tally.refused,
        tally.quiet,
        tally.escaped.len()
    ));
    assert!(tally.written > 100, "only {} commands did what they are here for", tally.written);
    assert!(tally.quiet > 20, "only {} commands are known to be harmless", tally.quiet);
    assert!(tally.escaped.is_empty(), "{}", tally.escaped.join("\n"));
}

#[test]
fn what_agents_type_all_day_is_known_to_be_harmless() {
    let world = World::new();
    world.reset();
    let audited: Vec<String> = grammar::ORDINARY
        .iter()
        .map(|command| (command, judge(&world, command)))
        .filter(|(_, plan)| !plan.is_known() || !plan.objections.is_empty())
        .map(|(command, plan)| format!("{command}\n    {plan:?}"))
        .collect();
    assert!(audited.is_empty(), "{}", audited.join("\n"));
}
