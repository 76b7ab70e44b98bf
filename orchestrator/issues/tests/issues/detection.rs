//! Which tracker serves a checkout.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mala_issues::{Choice, ChoiceError, Found, IssueError, Limits, Tracker, choose, detect, find};
use tempfile::TempDir;

use crate::stand_in::PROGRAM;

/// A checkout, and a folder on PATH.
struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        fs::create_dir(dir.path().join("checkout")).unwrap();
        Self { dir }
    }

    fn with_issues(self) -> Self {
        fs::create_dir(self.root().join(".beads")).unwrap();
        self
    }

    fn with(self, tracker: Tracker) -> Self {
        symlink(PROGRAM, self.program(tracker)).unwrap();
        self
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("checkout")
    }

    fn program(&self, tracker: Tracker) -> PathBuf {
        self.dir.path().join("bin").join(tracker.program())
    }

    fn path(&self) -> OsString {
        std::env::join_paths([Path::new("/nowhere"), &self.dir.path().join("bin")]).unwrap()
    }
}

#[test]
fn a_folder_and_a_program_make_a_tracker() {
    let world = World::new().with_issues().with(Tracker::Bd);
    let found = Found {
        kind: Tracker::Bd,
        program: world.program(Tracker::Bd),
        version: Some("1.3.0".parse().unwrap()),
    };
    assert_eq!(detect(&world.root(), &world.path()), std::slice::from_ref(&found));
    assert_eq!(choose(&world.root(), &world.path()), Ok(Choice::Tracker(found)));
}

#[test]
fn without_the_folder_no_program_is_even_started() {
    let world = World::new().with(Tracker::Br).with(Tracker::Bd);
    assert_eq!(detect(&world.root(), &world.path()), []);
    assert_eq!(choose(&world.root(), &world.path()), Ok(Choice::BuiltIn));
}

#[test]
fn with_both_programs_a_person_has_to_choose() {
    let world = World::new().with_issues().with(Tracker::Br).with(Tracker::Bd);
    let kinds: Vec<Tracker> =
        detect(&world.root(), &world.path()).into_iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [Tracker::Br, Tracker::Bd]);
    assert_eq!(
        choose(&world.root(), &world.path()),
        Err(ChoiceError::Several { folder: world.root().join(".beads") })
    );
    let error = ChoiceError::Several { folder: ".beads".into() };
    insta::assert_snapshot!(error, @r#"`.beads` can be read by `br` and by `bd`, and both are installed: set `issues.source` to "br", "bd" or "builtin""#);
}

#[test]
fn issues_without_a_program_are_an_error_that_says_what_to_install() {
    let world = World::new().with_issues();
    assert_eq!(
        choose(&world.root(), &world.path()),
        Err(ChoiceError::NoProgram { folder: world.root().join(".beads") })
    );
    let error = ChoiceError::NoProgram { folder: ".beads".into() };
    insta::assert_snapshot!(error, @r#"`.beads` holds issues, but neither `br` nor `bd` is installed: install one with `cargo +nightly install beads_rust --locked` or `npm install -g @beads/bd`, or set `issues.source` to "builtin""#);
    for tracker in Tracker::ALL {
        let missing = find(tracker, &world.path());
        assert!(matches!(missing, Err(IssueError::NotInstalled { tracker: named }) if named == tracker));
    }
}

#[test]
fn a_program_in_a_relative_folder_of_path_is_not_used() {
    let world = World::new().with_issues().with(Tracker::Bd);
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(world.dir.path().strip_prefix("/").unwrap()).join("bin");
    assert!(relative.join("bd").exists());
    assert_eq!(detect(&world.root(), relative.as_os_str()), []);
    assert_eq!(detect(&world.root(), "".as_ref()), []);
}

#[test]
fn a_version_that_is_too_old_is_refused_and_an_unknown_one_is_tried() {
    let found = |version: Option<&str>| Found {
        kind: Tracker::Br,
        program: PROGRAM.into(),
        version: version.map(|version| version.parse().unwrap()),
    };
    let open = |version| found(version).open(Path::new("/"), Limits::default());
    insta::assert_snapshot!(
        open(Some("0.6.9")).unwrap_err(),
        @"`br` 0.6.9 is too old, mala needs 0.7.0: update it with `cargo +nightly install beads_rust --locked`"
    );
    assert!(open(Some("0.7.0")).is_ok() && open(None).is_ok());
}
