//! Which crate may depend on which.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cargo_metadata::{Metadata, MetadataCommand};
use walkdir::WalkDir;

/// What each crate may use of ours. `*` is everything.
const ARROWS: &[(&str, &[&str])] = &[
    ("mala-core", &[]),
    ("mala-store", &["mala-core", "mala-logs"]),
    ("mala-config", &["mala-core"]),
    ("mala-sandbox", &["mala-core"]),
    ("mala-issues", &["mala-core"]),
    ("mala-logs", &["mala-core"]),
    ("mala-agents", &["mala-core"]),
    ("mala-git", &["mala-core"]),
    ("mala-gate", &["mala-config", "mala-core", "mala-git", "mala-logs", "mala-sandbox", "mala-store"]),
    ("mala-landing", &["mala-config", "mala-core", "mala-gate", "mala-git", "mala-logs", "mala-store"]),
    (
        "mala-session",
        &[
            "mala-agents",
            "mala-config",
            "mala-core",
            "mala-gate",
            "mala-git",
            "mala-logs",
            "mala-sandbox",
            "mala-store",
        ],
    ),
    (
        "mala-engine",
        &[
            "mala-agents",
            "mala-config",
            "mala-core",
            "mala-gate",
            "mala-git",
            "mala-issues",
            "mala-landing",
            "mala-logs",
            "mala-sandbox",
            "mala-session",
            "mala-store",
        ],
    ),
    ("mala", &["*"]),
    ("mala-tests", &["*"]),
];

/// The one crate that talks to the kernel without a safety net.
const MAY_BE_UNSAFE: &str = "mala-sandbox";

fn workspace() -> Metadata {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = MetadataCommand::new();
    command.manifest_path(root.join("Cargo.toml")).no_deps().other_options(["--offline".to_owned()]);
    command.exec().expect("cargo describes the workspace")
}

/// Every crate of the workspace with those it uses of ours, for building or for testing.
fn arrows(workspace: &Metadata) -> BTreeMap<String, Vec<String>> {
    let packages = workspace.workspace_packages();
    let ours = |package: &&cargo_metadata::Package| {
        let dependencies = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
        (package.name.to_string(), dependencies.map(|dependency| dependency.name.clone()).collect())
    };
    packages.iter().map(ours).collect()
}

fn wrong_arrows(arrows: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (from, targets) in arrows {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| name == from) else {
            let place = "add it to ARROWS in tests/behaviour/arrows.rs and to docs/architecture.md";
            wrong.push(format!("`{from}` is a new crate: {place}"));
            continue;
        };
        let allows = |to: &str| allowed.contains(&"*") || allowed.contains(&to);
        wrong.extend(
            targets.iter().filter(|to| !allows(to)).map(|to| format!("`{from}` must not use `{to}`")),
        );
    }
    wrong
}

#[test]
fn crates_depend_on_each_other_only_along_the_arrows() {
    assert_eq!(wrong_arrows(&arrows(&workspace())), Vec::<String>::new());
}

#[test]
fn a_wrong_arrow_and_an_unknown_crate_are_told_apart() {
    let arrows = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), vec![to.to_owned()])]);
    assert_eq!(wrong_arrows(&arrows("mala-core", "mala-store")), ["`mala-core` must not use `mala-store`"]);
    assert_eq!(
        wrong_arrows(&arrows("mala-gate", "mala-session")),
        ["`mala-gate` must not use `mala-session`"]
    );
    assert_eq!(wrong_arrows(&arrows("mala", "mala-store")), Vec::<String>::new());
    assert!(wrong_arrows(&arrows("mala-new", "mala-core"))[0].contains("add it to ARROWS"));
}

#[test]
fn the_table_of_crates_says_what_the_arrows_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let crates = rows.filter_map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        name.starts_with("mala").then(|| (name, *cells.last().unwrap()))
    });
    let told: BTreeMap<&str, &str> = crates.collect();
    for (name, allowed) in ARROWS {
        let short: Vec<&str> = allowed.iter().map(|name| name.trim_start_matches("mala-")).collect();
        let expected = match short.as_slice() {
            [] => "nothing of ours".to_owned(),
            ["*"] => "all".to_owned(),
            some => some.join(", "),
        };
        assert_eq!(told.get(name).copied(), Some(expected.as_str()), "docs/architecture.md about `{name}`");
    }
    assert_eq!(told.len(), ARROWS.len(), "{told:?}");
}

/// The sources of a directory of the workspace, with their paths in it.
fn sources(directory: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = WalkDir::new(root.join(directory)).into_iter().map(|entry| entry.unwrap().into_path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    rust.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn the_command_line_has_no_rules_that_others_need() {
    for crates in ["orchestrator", "quality-gate", "agents", "logs", "config"] {
        for (path, text) in sources(crates) {
            assert!(!text.contains("CliError"), "{path} speaks the command line's errors");
        }
    }
    for (path, text) in sources("cli/src") {
        let is_command = path.starts_with("cli/src/commands/") || path == "cli/src/lib.rs";
        assert!(is_command || !text.contains("commands::"), "{path} uses a command");
    }
}

#[test]
fn every_crate_but_the_sandbox_forbids_unsafe_code() {
    let workspace = workspace();
    let manifest = |path: &Path| fs::read_to_string(path).unwrap().parse::<toml::Table>().unwrap();
    let root = manifest(workspace.workspace_root.join("Cargo.toml").as_std_path());
    assert_eq!(root["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
    for package in workspace.workspace_packages() {
        if *package.name != MAY_BE_UNSAFE {
            let lints = manifest(package.manifest_path.as_std_path()).get("lints").cloned();
            let inherits = lints.and_then(|lints| lints.get("workspace")?.as_bool());
            assert_eq!(inherits, Some(true), "`{}` needs `[lints] workspace = true`", package.name);
        }
    }
}
