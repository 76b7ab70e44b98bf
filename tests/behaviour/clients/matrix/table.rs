//! The table in `docs/clients.md` is whole, and says what is tested.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{claude, codex, gemini, opencode};

/// What must be said of every client.
const ROWS: [&str; 20] = [
    "edit",
    "refused edit",
    "sed",
    "ask and wait",
    "test",
    "commit",
    "`git commit` by habit",
    "rejected and resumed",
    "kill and resume",
    "401",
    "429",
    "529",
    "quota",
    "context overflow",
    "empty answer",
    "question",
    "hanging shell",
    "sub-agent",
    "background shell",
    "MCP",
];

/// The columns, and the scenarios that are tested with each client.
const COLUMNS: [(&str, &[&str]); 4] = [
    ("Claude Code", claude::SCENARIOS),
    ("Codex", codex::SCENARIOS),
    ("Gemini CLI", gemini::SCENARIOS),
    ("opencode", opencode::SCENARIOS),
];

/// Cells that no test shows yet. The number may only become smaller.
const UNVERIFIED: usize = 0;

/// The cells of every row, by the row's name.
fn table() -> (Vec<String>, BTreeMap<String, Vec<String>>) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/clients.md");
    let page = fs::read_to_string(page).unwrap();
    let mut lines = page.lines().filter(|line| line.starts_with('|')).map(|line| {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<String>>()
    });
    let columns = lines.next().expect("there is a table").split_off(2);
    let mut rows = BTreeMap::new();
    for mut row in lines.skip(1) {
        let cells = row.split_off(2);
        assert_eq!(cells.len(), COLUMNS.len(), "{row:?} has a cell for every client");
        assert!(rows.insert(row[0].clone(), cells).is_none(), "{row:?} is there once");
    }
    (columns, rows)
}

#[test]
fn every_cell_of_the_table_of_clients_is_a_test_or_has_a_reason() {
    let (columns, rows) = table();
    assert_eq!(columns, COLUMNS.map(|(name, _)| name));
    assert_eq!(rows.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(ROWS));
    let mut unverified = Vec::new();
    let mut shown = BTreeSet::new();
    for (row, cells) in &rows {
        for (cell, (client, scenarios)) in cells.iter().zip(COLUMNS) {
            if let Some(reason) = cell.strip_prefix("not possible: ") {
                assert!(reason.len() > 10, "{row}, {client}: a reason");
            } else if cell.starts_with("not yet verified") {
                unverified.push(format!("{row}, {client}"));
            } else {
                let tests: Vec<&str> = cell.split(", ").map(|name| name.trim_matches('`')).collect();
                let missing: Vec<_> = tests.iter().filter(|test| !scenarios.contains(*test)).collect();
                assert!(missing.is_empty(), "{row}, {client}: there is no such test: {missing:?}");
                shown.extend(tests.into_iter().map(|test| (client, test.to_owned())));
            }
        }
    }
    assert_eq!(unverified.len(), UNVERIFIED, "the count is true: {unverified:#?}");
    for (client, scenarios) in COLUMNS {
        let missing: Vec<_> =
            scenarios.iter().filter(|test| !shown.contains(&(client, (**test).to_owned()))).collect();
        assert!(missing.is_empty(), "docs/clients.md says what these show of {client}: {missing:?}");
    }
}
