//! The documents say what is true.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

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
