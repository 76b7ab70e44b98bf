//! Git's hooks: installed beside others' hooks, taken back without a trace, and strict with agents.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use mala_gate::hooks::{Hook, Installed, install, installed, pre_commit, undo};

use crate::world::{Locks, World, agent};

fn whats(done: &[mala_gate::hooks::Done]) -> Vec<Installed> {
    done.iter().map(|done| done.what).collect()
}

/// A `mala` that notes how it was called and ends with `exit_code`.
fn fake_mala(w: &World, exit_code: i32) {
    let log = w.base().join("calls");
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\ncat >> {0}\nexit {exit_code}\n", log.display());
    w.program("../bin/mala", &script);
}

fn calls(w: &World) -> String {
    fs::read_to_string(w.base().join("calls")).unwrap_or_default()
}

fn commit_in(w: &World, path: &str, variable: Option<&str>) -> Output {
    let mut command = w.command("git");
    command.env("PATH", path).env_remove("MALA_AGENT").env_remove("MALA_SUPERVISOR");
    if let Some(variable) = variable {
        command.env(variable, "x");
    }
    command.args(["commit", "-q", "--allow-empty", "-m", "message"]).output().unwrap()
}

fn with_mala(w: &World) -> Output {
    let path = format!("{}:{}", w.base().join("bin").display(), std::env::var("PATH").unwrap());
    commit_in(w, &path, None)
}

/// A path with everything but mala.
const WITHOUT_MALA: &str = "/usr/bin:/bin";

#[test]
fn installed_hooks_call_mala_and_obey_it() {
    let w = World::new();
    assert_eq!(whats(&install(&w.repo()).unwrap()), [Installed::New; 3]);
    assert!(installed(&w.repo()).unwrap().iter().all(|(_, is_ready)| *is_ready));
    fake_mala(&w, 0);
    assert!(with_mala(&w).status.success());
    assert_eq!(
        calls(&w),
        "gate pre-commit --index .git/index\ngate commit-msg .git/COMMIT_EDITMSG\ngate post-commit\n"
    );
    fake_mala(&w, 1);
    let head = w.head();
    assert!(!with_mala(&w).status.success());
    assert_eq!(w.head(), head);
}

#[test]
fn installing_twice_changes_nothing_and_an_old_text_is_updated() {
    let w = World::new();
    install(&w.repo()).unwrap();
    assert_eq!(whats(&install(&w.repo()).unwrap()), [Installed::Unchanged; 3]);
    let path = w.root.join(".git/hooks/pre-commit");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("checked", "looked at")).unwrap();
    assert_eq!(install(&w.repo()).unwrap()[0].what, Installed::Updated);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_hook_that_was_there_is_called_first_and_obeyed() {
    let w = World::new();
    w.hook("pre-commit", "echo theirs pre-commit \"$@\" >> ../calls");
    w.hook("commit-msg", "echo theirs commit-msg \"$@\" >> ../calls");
    assert_eq!(whats(&install(&w.repo()).unwrap()), [Installed::Chained, Installed::Chained, Installed::New]);
    fake_mala(&w, 0);
    assert!(with_mala(&w).status.success());
    assert_eq!(
        calls(&w),
        "theirs pre-commit\ngate pre-commit --index .git/index\ntheirs commit-msg .git/COMMIT_EDITMSG\n\
         gate commit-msg .git/COMMIT_EDITMSG\ngate post-commit\n"
    );
    w.hook("../hooks.before-mala/pre-commit", "exit 3");
    fs::write(w.base().join("calls"), "").unwrap();
    assert!(!with_mala(&w).status.success());
    assert_eq!(calls(&w), "", "mala is not asked about what is refused already");
}

#[test]
fn the_earlier_hook_gets_its_input_and_mala_does_not() {
    let w = World::new();
    w.hook("pre-commit", "cat > ../input");
    install(&w.repo()).unwrap();
    fake_mala(&w, 0);
    let path = format!("{}:{}", w.base().join("bin").display(), std::env::var("PATH").unwrap());
    let script = format!("printf given | PATH={path} .git/hooks/pre-commit");
    assert!(w.command("sh").args(["-c", &script]).status().unwrap().success());
    assert_eq!(w.read("../input"), "given");
    assert_eq!(calls(&w), "gate pre-commit\n");
}

#[test]
fn a_hook_that_git_would_not_run_is_not_run_by_mala_either() {
    let w = World::new();
    w.hook("pre-commit", "exit 1");
    w.set_mode(".git/hooks/pre-commit", 0o644);
    install(&w.repo()).unwrap();
    fake_mala(&w, 0);
    assert!(with_mala(&w).status.success());
}

#[test]
fn undo_restores_every_byte_mode_and_link() {
    let w = World::new();
    w.write(".git/hooks/pre-commit", b"#!/bin/sh\nodd \xff bytes");
    w.set_mode(".git/hooks/pre-commit", 0o751);
    w.write(".git/hooks/real", "#!/bin/sh\n");
    symlink("real", w.root.join(".git/hooks/commit-msg")).unwrap();
    let photo = || {
        let mut names: Vec<_> =
            fs::read_dir(w.root.join(".git/hooks")).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        let see = |path: &Path| {
            let meta = fs::symlink_metadata(path).unwrap();
            (path.to_owned(), meta.permissions().mode(), fs::read(path).unwrap(), fs::read_link(path).ok())
        };
        names.iter().map(|path| see(path)).collect::<Vec<_>>()
    };
    let before = photo();
    install(&w.repo()).unwrap();
    install(&w.repo()).unwrap();
    assert_ne!(photo(), before);
    assert_eq!(
        whats(&undo(&w.repo()).unwrap()),
        [Installed::Restored, Installed::Restored, Installed::Removed]
    );
    assert_eq!(photo(), before);
    assert_eq!(
        whats(&undo(&w.repo()).unwrap()),
        [Installed::Foreign, Installed::Foreign, Installed::Absent],
        "undoing twice touches nothing"
    );
    assert_eq!(photo(), before);
}

#[test]
fn a_folder_made_for_the_hooks_goes_with_them() {
    let w = World::new();
    install(&w.repo()).unwrap();
    undo(&w.repo()).unwrap();
    assert!(!w.root.join(".git/hooks").exists());
}

#[test]
fn a_folder_of_hooks_inside_the_repository_is_used_and_one_outside_is_not() {
    let w = World::new();
    w.git(&["config", "core.hooksPath", "tools/hooks"]);
    let done = install(&w.repo()).unwrap();
    assert_eq!(done[0].path, w.root.join("tools/hooks/pre-commit"));
    fs::create_dir(w.base().join("shared")).unwrap();
    for outside in ["../shared", "/dev/null", "tools/../../shared"] {
        w.git(&["config", "core.hooksPath", outside]);
        let error = install(&w.repo()).unwrap_err().to_string();
        assert!(error.starts_with("git's hooks lie outside this repository"), "{outside}: {error}");
    }
    symlink(w.base().join("shared"), w.root.join("link")).unwrap();
    w.git(&["config", "core.hooksPath", "link"]);
    assert!(install(&w.repo()).is_err(), "a link leads outside, too");
    assert_eq!(fs::read_dir(w.base().join("shared")).unwrap().count(), 0);
}

#[test]
fn without_mala_people_may_commit_and_agents_may_not() {
    let w = World::new();
    install(&w.repo()).unwrap();
    let out = commit_in(&w, WITHOUT_MALA, None);
    assert!(out.status.success());
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("mala: not in PATH, so this commit is not checked")
    );
    for variable in ["MALA_AGENT", "MALA_SUPERVISOR"] {
        let out = commit_in(&w, WITHOUT_MALA, Some(variable));
        assert!(!out.status.success(), "{variable}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("mala: refused: agents share this checkout"));
    }
}

#[test]
fn the_scripts_are_plain_shell() {
    let w = World::new();
    for hook in Hook::ALL {
        w.write("../script", mala_gate::hooks::script(hook));
        assert!(w.command("sh").args(["-n", "../script"]).status().unwrap().success());
    }
}

#[test]
fn staged_files_of_others_are_found_under_both_names_of_a_rename() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.git(&["add", "a.txt"]);
    w.git(&["mv", "b.txt", "moved.txt"]);
    w.write("src/lib.rs", "not staged\n");
    let locks = Locks::new(&[("A", "a.txt"), ("A", "moved.txt"), ("B", "b.txt"), ("B", "src/lib.rs")]);
    let found = |name: Option<&str>| {
        let name = name.map(agent);
        let offending = pre_commit(&w.repo(), &locks, name.as_ref(), None).unwrap();
        offending.into_iter().map(|file| (file.path.to_string(), file.holder)).collect::<Vec<_>>()
    };
    assert_eq!(found(Some("A")), [("b.txt".into(), Some("B".into()))]);
    let held = |path: &str, name: &str| (path.to_owned(), Some(name.to_owned()));
    assert_eq!(found(None), [held("a.txt", "A"), held("b.txt", "B"), held("moved.txt", "A")]);
    w.git(&["reset", "-q", "--", "b.txt", "moved.txt"]);
    assert_eq!(found(Some("A")), []);
    w.write("loose.txt", "nobody's\n");
    w.git(&["add", "loose.txt"]);
    assert_eq!(found(Some("A")), [("loose.txt".into(), None)]);
}

#[test]
fn the_index_that_git_commits_is_the_one_that_is_judged() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.write("b.txt", "theirs\n");
    w.hook("pre-commit", "cp \"$GIT_INDEX_FILE\" ../judged; exit 1");
    w.try_git(&["commit", "-qam", "everything"]);
    let locks = Locks::new(&[("A", "a.txt"), ("B", "b.txt")]);
    let judged = w.base().join("judged");
    assert_eq!(pre_commit(&w.repo(), &locks, Some(&agent("A")), None).unwrap().len(), 0);
    assert_eq!(pre_commit(&w.repo(), &locks, Some(&agent("A")), Some(&judged)).unwrap().len(), 1);
}

#[test]
fn the_first_commit_is_judged_as_well() {
    let w = World::empty();
    w.write("b.txt", "theirs\n");
    w.git(&["add", "b.txt"]);
    let locks = Locks::new(&[("B", "b.txt")]);
    assert_eq!(pre_commit(&w.repo(), &locks, Some(&agent("A")), None).unwrap().len(), 1);
}
