//! `mala issue`: what was typed, and where.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn add(world: &World, folder: &Path, args: &[&OsStr]) -> Answer {
    let words = ["issue", "add", "x", "--json"].map(OsStr::new);
    mala(world, words.iter().chain(args)).current_dir(folder).output().unwrap().into()
}

/// The files of an issue that was added with `--file` in some folder.
fn files(world: &World, folder: &str, typed: &[&str]) -> Value {
    let args: Vec<&OsStr> = typed.iter().flat_map(|file| ["--file", file]).map(OsStr::new).collect();
    let answer = add(world, &world.root().join(folder), &args);
    assert_eq!(answer.code, 0, "{typed:?}: {answer:?}");
    answer.json()["issue"]["files"].clone()
}

#[test]
fn files_are_named_as_they_are_called_in_the_current_folder() {
    let world = World::new();
    for path in ["src/deep/a.rs", "docs/b.md", "src/[id]/page.ts"] {
        world.write(path, "");
    }
    let typed = ["a.rs", "*.txt", "../new.rs", "../../docs/**", "../../docs", "./b.rs"];
    assert_eq!(
        files(&world, "src/deep", &typed),
        json!(["src/deep/a.rs", "src/deep/*.txt", "src/new.rs", "docs/**", "docs/**", "src/deep/b.rs"])
    );
    assert_eq!(files(&world, "", &["src/deep/a.rs", "docs/*"]), json!(["src/deep/a.rs", "docs/*"]));
    assert_eq!(files(&world, "src", &["[id]/page.ts"]), json!(["src/\\[id]/page.ts"]));
    let absolute = world.root().join("docs/b.md").display().to_string();
    assert_eq!(files(&world, "src", &[&absolute]), json!(["docs/b.md"]));
    let elsewhere: Answer =
        mala(&world, ["-C", "checkout/src", "issue", "add", "x", "--file", "c.rs", "--json"])
            .current_dir(world.base())
            .output()
            .unwrap()
            .into();
    assert_eq!(elsewhere.json()["issue"]["files"], json!(["src/c.rs"]));
    for outside in ["../../../x", "/etc/passwd", "../../../*.rs"] {
        let answer = add(&world, &world.root().join("src/deep"), &["--file", outside].map(OsStr::new));
        assert!(answer.code == 2 && answer.err.contains("outside this checkout"), "{outside}: {answer:?}");
    }
}
