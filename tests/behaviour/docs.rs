//! The documents say what is true.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use mala_tests::World;
use walkdir::{DirEntry, WalkDir};

use crate::cli::done;

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Names of all functions in the sources of the workspace.
fn functions() -> HashSet<String> {
    let is_source = |entry: &DirEntry| !matches!(entry.file_name().to_str(), Some("target" | ".git"));
    let files = WalkDir::new(workspace()).into_iter().filter_entry(is_source).filter_map(Result::ok);
    let mut names = HashSet::new();
    for file in files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(file.path()).unwrap();
        let words = text.lines().map(str::trim_start).map(|line| line.strip_prefix("async ").unwrap_or(line));
        let words = words.filter_map(|line| line.strip_prefix("fn "));
        names.extend(words.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
    }
    names
}

#[test]
fn every_test_that_a_guarantee_names_exists() {
    let guarantees = fs::read_to_string(workspace().join("docs/guarantees.md")).unwrap();
    let functions = functions();
    let rows =
        guarantees.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(2));
    let named: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 50, "the table was not understood");
    let missing: Vec<_> = named.into_iter().filter(|name| !functions.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/guarantees.md names tests that do not exist: {missing:?}");
}

/// The commands that do something, such as `lock-acquire`: the manual has a page for each, and one for each group.
fn commands() -> Vec<String> {
    let world = World::new();
    done(&world, "man --out pages");
    let pages = fs::read_dir(world.root().join("pages")).unwrap();
    let names: Vec<String> = pages
        .filter_map(|page| {
            page.unwrap().file_name().to_str()?.strip_prefix("mala-")?.strip_suffix(".1").map(str::to_owned)
        })
        .collect();
    let is_group = |name: &String| names.iter().any(|other| other.starts_with(&format!("{name}-")));
    names.iter().filter(|name| !is_group(name)).cloned().collect()
}

#[test]
fn every_command_is_in_the_page_about_json() {
    let page = fs::read_to_string(workspace().join("docs/json.md")).unwrap();
    let named: Vec<String> = page.split('`').skip(1).step_by(2).map(|text| text.replace(' ', "-")).collect();
    let is_named = |command: &String| {
        named.iter().any(|name| name == command || name.starts_with(&format!("{command}-")))
    };
    let commands = commands();
    assert!(commands.len() > 40, "the pages were not understood: {commands:?}");
    let missing: Vec<_> = commands.iter().filter(|command| !is_named(command)).collect();
    assert!(missing.is_empty(), "docs/json.md does not say what these answer: {missing:?}");
}
