//! Which file is meant: aliases, folders, patterns, odd names.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use mala_tests::World;

use super::{Answer, done, held, mala, pair, run};

#[test]
fn every_way_to_name_a_file_meets_its_lock() {
    let world = World::new();
    world.write("src/a.rs", "");
    symlink("src", world.root().join("lib")).unwrap();
    symlink("src/a.rs", world.root().join("link.rs")).unwrap();
    fs::hard_link(world.root().join("src/a.rs"), world.root().join("hard.rs")).unwrap();
    symlink(world.root(), world.base().join("alias")).unwrap();
    done(&world, "lock acquire src/a.rs --agent A");
    let absolute = world.root().join("src/a.rs").display().to_string();
    let through_alias = world.base().join("alias/lib/a.rs").display().to_string();
    for alias in
        ["./src//a.rs", "src/../src/a.rs", "lib/a.rs", "link.rs", "hard.rs", &absolute, &through_alias]
    {
        assert_eq!(run(&world, &format!("lock acquire {alias} --agent B")).code, 1, "{alias}");
    }
    done(&world, "lock acquire src/b.rs src/A.rs --agent B");
}

#[test]
fn commands_work_from_any_folder_and_for_any_checkout() {
    let world = World::new();
    world.write("src/deep/a.rs", "");
    let from = |dir: &str, line: &str| -> Answer {
        mala(&world, line.split_whitespace()).current_dir(world.root().join(dir)).output().unwrap().into()
    };
    assert_eq!(from("src/deep", "lock acquire a.rs ../b.rs --agent A").code, 0);
    assert_eq!(held(&world), [pair("src/b.rs", "A"), pair("src/deep/a.rs", "A")]);
    assert_eq!(from("src", "lock acquire *.md --agent A").code, 0);
    assert_eq!(held(&world)[0], pair("src/*.md", "A"), "a pattern is relative to where it was typed");
    let root = world.root().display().to_string();
    let elsewhere: Answer =
        mala(&world, ["-C", &root, "lock", "list", "--json"]).current_dir("/").output().unwrap().into();
    assert_eq!(elsewhere.json()["locks"].as_array().unwrap().len(), 3);
}

#[test]
fn a_folder_means_everything_below_it() {
    let world = World::new();
    world.write("src/a.rs", "");
    done(&world, "lock acquire src/ --agent A");
    assert_eq!(held(&world), [pair("src/**", "A")]);
    assert_eq!(run(&world, "lock acquire src/new/file --agent B").code, 1);
    done(&world, "lock release src --agent A");
    done(&world, "lock acquire . --agent B");
    assert_eq!(held(&world), [pair("**", "B")]);
}

#[test]
fn names_with_pattern_characters_are_files_where_they_exist() {
    let world = World::new();
    world.write("app/[slug]/page.tsx", "");
    done(&world, "lock acquire app/[slug]/page.tsx app/[slug]/new.tsx --agent A");
    assert_eq!(held(&world), [pair("app/[slug]/new.tsx", "A"), pair("app/[slug]/page.tsx", "A")]);
    done(&world, "lock acquire app/s/page.tsx --agent B");
    done(&world, "lock acquire --literal new/[id].tsx --agent A");
    done(&world, "lock acquire new/i.tsx --agent B");
    assert_eq!(
        run(&world, "lock acquire new/\\[id\\].tsx --agent B").code,
        1,
        "an escaped name is that file too"
    );
}

#[test]
fn a_backslash_before_a_letter_is_no_silent_nothing() {
    let world = World::new();
    for typed in [r"src\main.rs", r"src/[\d]*", r"src/\ü", r"a\\\b"] {
        let refused = run(&world, &format!("lock acquire {typed} --agent A"));
        assert_eq!(refused.code, 2, "{typed}: {refused:?}");
        assert!(
            refused.err.contains("write `/` between folders") && refused.err.contains("--literal"),
            "{refused:?}"
        );
    }
    assert!(held(&world).is_empty());
    done(&world, r"lock acquire a\\b c\*d e\.f --agent A");
    done(&world, r"lock acquire --literal x\y --agent A");
    assert_eq!(held(&world), [pair(r"a\b", "A"), pair("c*d", "A"), pair("e.f", "A"), pair(r"x\y", "A")]);
    world.write(r"src\main.rs", "");
    done(&world, r"lock acquire src\main.rs --agent A");
    assert_eq!(held(&world)[3], pair(r"src\main.rs", "A"), "what exists is that file");
}

#[test]
fn hostile_names_are_data() {
    let world = World::new();
    let trap = world.root().join("trap");
    let names = [
        "quote\"'`.txt".to_owned(),
        format!("$(touch {})", trap.display()),
        "new\nline\r\x1b[31m".to_owned(),
        "🦀/ünï".to_owned(),
        "-rf".to_owned(),
        "x".repeat(300),
        "y".repeat(4_000),
    ];
    for name in &names {
        let acquire = ["lock", "acquire", "--literal", "--agent", "A", "--json", "--", name];
        let answer: Answer = mala(&world, acquire).output().unwrap().into();
        assert_eq!(answer.code, 0, "{answer:?}");
        assert_eq!(answer.json()["granted"][0]["path"], **name);
        let refused: Answer = mala(&world, ["lock", "acquire", "--literal", "--agent", "B", "--", name])
            .output()
            .unwrap()
            .into();
        assert_eq!(refused.code, 1);
        assert_eq!(refused.err.lines().count(), 2, "one line and a hint: {}", refused.err);
        assert!(!refused.err.contains('\x1b'), "no escape sequence reaches the terminal");
    }
    assert_eq!(held(&world).len(), names.len());
    assert!(!trap.exists());
}

#[test]
fn names_that_are_not_utf_8_are_kept_exactly() {
    let world = World::new();
    let acquire = |agent: &str| -> Answer {
        let args = ["lock", "acquire", "--agent", agent, "--json"].map(OsStr::new);
        mala(&world, args.into_iter().chain([OsStr::from_bytes(b"f\xff")])).output().unwrap().into()
    };
    let granted = acquire("A").json();
    assert_eq!(
        (&granted["granted"][0]["path"], &granted["granted"][0]["path_hex"]),
        (&"f\\xFF".into(), &"66ff".into())
    );
    assert_eq!(acquire("B").code, 1);
    assert_eq!(
        run(&world, "lock check f\\\\xFF --agent B").code,
        0,
        "a file that is really called so is another one"
    );
}
