//! Nothing but the tree decides.

use std::fs;
use std::time::Duration;

use mala_git::GitError;
use mala_git::slot::SlotError;
use mala_landing::{Pool, SlotsError, ValidationError, running};

use crate::world::{World, set_mode};

#[test]
fn only_what_is_committed_is_there() {
    let w = World::requiring("sh check.sh");
    let without = w.write("check.sh", "test -e helper\n").commit();
    w.write("helper", "not committed");
    assert!(!w.has_passed(&without));
    assert!(w.has_passed(&w.commit()));
}

#[test]
fn a_tree_that_passed_is_not_validated_again_and_one_that_failed_is() {
    let w = World::requiring("sh check.sh");
    let red = w.write("check.sh", "exit 1\n").commit();
    assert!(!w.has_passed(&red));
    assert!(!w.validate(&red).remembered, "a failure may have been the weather");
    let green = w.write("check.sh", "exit 0\n").commit();
    assert!(!w.validate(&green).remembered);
    assert!(w.validate(&w.commit()).remembered, "another commit, the same tree");
    let other = w.with("validate.commands", "sh check.sh,true");
    assert!(!other.validate(&green).remembered, "other commands");
    let elsewhere = other.with("validate.directory", ".");
    assert!(!elsewhere.validate(&green).remembered, "another directory");
}

#[test]
fn a_changed_log_remembers_nothing() {
    let w = World::requiring("true");
    let commit = w.commit();
    w.validate(&commit);
    let log = w.root.join(".git/mala/evidence/validations.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replace("\"true\"", "\"false\"")).unwrap();
    let forged = w.with("validate.commands", "false");
    assert!(!forged.try_validate(&commit).is_ok_and(|(validation, _)| validation.has_passed()));
}

#[test]
fn an_ignored_file_of_the_checkout_decides_nothing() {
    let w = World::requiring("sh check.sh");
    w.write(".gitignore", "answer\n")
        .write("check.sh", "test \"$(cat answer ../answer ../../answer)\" = yes\n");
    let commit = w.commit();
    w.write("answer", "yes");
    assert!(!w.has_passed(&commit));
}

#[test]
fn what_was_built_from_one_tree_does_not_stand_for_another() {
    // A build tool that compares times in whole seconds, as `make` and compiled Python do.
    let build =
        "if [ ! -e target/out ] || [ \"$(stat -c %Y src)\" != \"$(cat target/time 2>/dev/null)\" ]; then
mkdir -p target; cp src target/out; stat -c %Y src >target/time; fi
test \"$(cat target/out)\" = good\n";
    let w = World::requiring("sh check.sh").with("project.preset", "rust");
    for round in 0..4 {
        let good = w.write("check.sh", &format!("# {round}\n{build}")).write("src", "good").commit();
        assert!(w.has_passed(&good), "round {round}");
        let bad = w.write("src", "evil").commit();
        assert!(!w.has_passed(&bad), "round {round}: same size, same second, another content");
    }
}

#[test]
fn build_directories_stay_and_everything_else_goes() {
    let w = World::requiring("sh check.sh").with("project.preset", "rust");
    let first = "mkdir -p target __pycache__ sub/left; echo 1 >target/kept; echo 1 >__pycache__/x; echo 1 >sub/left/x\n";
    assert!(w.has_passed(&w.write("check.sh", first).commit()));
    let second = "test -e target/kept && test ! -e __pycache__ && test ! -e sub\n";
    assert!(w.has_passed(&w.write("check.sh", second).commit()));
}

#[test]
fn nothing_that_was_built_or_installed_in_a_checkout_decides_in_a_slot_nor_the_other_way_round() {
    for (preset, directory) in [("rust", "target"), ("python-uv", ".venv"), ("node", "node_modules")] {
        let w = World::requiring("sh check.sh").with("project.preset", preset);
        // As a build tool that takes what lies there for up to date.
        let check = format!(
            "mkdir -p {directory}; [ -e {directory}/out ] || cp src {directory}/out; grep -q good {directory}/out\n"
        );
        w.write("check.sh", &check).write(".gitignore", &format!("/{directory}\n"));
        let red = w.write("src", "evil").commit();
        w.write(&format!("{directory}/out"), "good");
        assert!(!w.has_passed(&red), "{directory} of the checkout");
        fs::remove_dir_all(w.root.join(directory)).unwrap();
        w.validate(&red);
        assert!(!w.root.join(directory).exists(), "{directory} of the slot");
    }
}

#[test]
fn a_mode_that_changed_is_another_tree() {
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "test -x check.sh\n");
    set_mode(&w.root.join("check.sh"), 0o755);
    assert!(w.has_passed(&w.commit()));
    set_mode(&w.root.join("check.sh"), 0o644);
    assert!(!w.has_passed(&w.commit()));
}

#[test]
fn objects_that_were_written_over_are_an_error_and_no_verdict() {
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "exit 0\n").commit();
    let good = w.git(&["rev-parse", "HEAD:check.sh"]);
    let red = w.write("check.sh", "exit 1\n").commit();
    let bad = w.git(&["rev-parse", "HEAD:check.sh"]);
    let place = |id: &str| w.root.join(".git/objects").join(&id[..2]).join(&id[2..]);
    set_mode(&place(&bad), 0o644);
    fs::copy(place(&good), place(&bad)).unwrap();
    let error = w.try_validate(&red).unwrap_err();
    let is_seen = matches!(&error, ValidationError::Slots(SlotsError::Slot(SlotError::Differs { .. })));
    assert!(is_seen, "{error:?}");
}

#[test]
fn a_commit_graph_that_lies_is_not_believed() {
    let w = World::requiring("sh check.sh");
    w.write("check.sh", "exit 0\n").commit();
    let good_tree = w.git(&["rev-parse", "HEAD^{tree}"]);
    let red = w.write("check.sh", "exit 1\n").commit();
    let red_tree = w.git(&["rev-parse", "HEAD^{tree}"]);
    w.git(&["commit-graph", "write", "--reachable"]);
    let graph = w.root.join(".git/objects/info/commit-graph");
    let mut bytes = fs::read(&graph).unwrap();
    let raw = |id: &str| -> Vec<u8> {
        (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
    };
    let (from, to) = (raw(&red_tree), raw(&good_tree));
    let at = bytes.windows(20).position(|window| window == from).unwrap();
    bytes[at..at + 20].copy_from_slice(&to);
    set_mode(&graph, 0o644);
    fs::write(&graph, bytes).unwrap();
    assert_eq!(w.git(&["log", "-1", "--format=%T"]), good_tree, "git itself believes it");
    assert!(!w.has_passed(&red));
    let history = w.repo().first_parents(&red, None, 1).unwrap();
    assert_eq!(history[0].tree.as_str(), red_tree, "nor where history is read");
}

#[test]
fn replaced_objects_and_grafts_are_not_believed() {
    let w = World::requiring("sh check.sh");
    let good = w.write("check.sh", "exit 0\n").commit();
    let red = w.write("check.sh", "exit 1\n").commit();
    w.git(&["replace", red.as_str(), good.as_str()]);
    assert!(!w.has_passed(&red));
}

#[test]
fn a_commit_that_was_written_over_is_an_error() {
    let w = World::requiring("true");
    let good = w.commit();
    let other = w.write("a", "1").commit();
    let place = |id: &str| w.root.join(".git/objects").join(&id[..2]).join(&id[2..]);
    set_mode(&place(other.as_str()), 0o644);
    fs::copy(place(good.as_str()), place(other.as_str())).unwrap();
    assert!(matches!(w.try_validate(&other), Err(ValidationError::Git(GitError::Forged { .. }))));
}

#[test]
fn a_run_that_executed_no_test_fails_unless_that_is_allowed() {
    let says_nothing = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out'\n";
    let w = World::requiring("sh check.sh");
    let commit = w.write("check.sh", says_nothing).commit();
    let validation = w.validate(&commit);
    assert!(!validation.has_passed());
    assert!(validation.failure().unwrap().ending().starts_with("it executed no test"));
    assert!(w.with("validate.empty", "pass").has_passed(&commit));
}

#[test]
fn commands_run_in_their_directory_and_in_their_order() {
    let w = World::requiring("sh one.sh,sh two.sh").with("validate.directory", "sub");
    w.write("sub/one.sh", "echo 1 >mark\n").write("sub/two.sh", "test -e mark\n").write("two.sh", "exit 1\n");
    assert!(w.has_passed(&w.commit()));
}

#[test]
fn what_a_command_leaves_running_is_ended_and_it_cannot_write_elsewhere() {
    let w = World::requiring("sh check.sh");
    let (pid, elsewhere) = (w.beside("pid"), w.beside("elsewhere"));
    w.write(
        "check.sh",
        &format!(
            "sleep 600 >/dev/null 2>&1 & echo $! >\"$TMPDIR/pid\"; cp \"$TMPDIR/pid\" \"$HOME/pid\"
echo x >{} && echo wrote; echo x >{}/.git/x && echo wrote; exit 0\n",
            elsewhere.display(),
            w.root.display()
        ),
    );
    let commit = w.commit();
    let (validation, output) = w.try_validate(&commit).unwrap();
    assert!(validation.has_passed(), "{output}");
    assert!(!output.contains("wrote") && !elsewhere.exists() && !pid.exists(), "{output}");
    let home = glob(&w.beside("cache"), "pid").unwrap();
    let pid = fs::read_to_string(home).unwrap();
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap(), "nothing survives");
}

/// A file of that name somewhere below.
fn glob(dir: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()).find_map(|path| match path.is_dir() {
        true => glob(&path, name),
        false => Some(path).filter(|path| path.file_name().is_some_and(|found| found == name)),
    })
}

#[test]
fn a_command_that_never_ends_is_ended_and_named() {
    let w = World::requiring("sleep 600").with("queue.timeout", "1s");
    let commit = w.commit();
    let began = std::time::Instant::now();
    let validation = w.validate(&commit);
    assert!(validation.failure().unwrap().ending().contains("queue.timeout"));
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_runs_now_can_be_seen_from_elsewhere_and_is_forgotten_when_it_ends() {
    let w = World::requiring("true,sh check.sh");
    // Its own slot is the place where it waits for being seen.
    let commit = w.write("check.sh", "until [ -e seen ]; do sleep 0.01; done\n").commit();
    let tree = w.repo().commit(&commit).unwrap().tree;
    let scope = w.repo().scope().clone();
    let slot =
        w.slots().take(Pool::Validation, None, None).unwrap().place(&commit).unwrap().root().to_owned();
    let seen = std::thread::spawn(move || {
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        loop {
            let found = running(&scope);
            if let Some(found) = found.into_iter().find(|found| found.command == "sh check.sh") {
                fs::write(slot.join("seen"), "").unwrap();
                return found;
            }
            assert!(std::time::Instant::now() < deadline, "it was never seen");
        }
    });
    assert!(w.has_passed(&commit));
    let seen = seen.join().unwrap();
    assert_eq!((seen.slot.as_str(), seen.tree), ("v1", tree));
    assert_eq!(running(w.repo().scope()), []);
    // What a killed mala has left is nothing.
    let note = r#"{"command":"x","tree":"TREE","slot":"v1","since":"2026-01-01T00:00:00.000Z","boot_id":"b","pid":1,"start_time":1}"#;
    let left = w.root.join(".git/mala/validating/v1-1");
    fs::write(&left, note.replace("TREE", commit.as_str())).unwrap();
    assert_eq!(running(w.repo().scope()), []);
    assert!(w.has_passed(&w.write("check.sh", "exit 0\n").commit()));
    assert!(!left.exists(), "it is cleared away");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let w = World::requiring("no-such-program --now");
    let validation = w.validate(&w.commit());
    assert!(!validation.results[0].has_started());
    assert!(validation.results[0].ending().starts_with("it cannot be started"));
}

#[test]
fn a_setup_runs_when_a_lock_file_changes_and_its_results_are_kept() {
    let setup =
        "mkdir -p node_modules; cat package-lock.json >node_modules/installed; echo x >>\"$HOME/setups\"\n";
    let w = World::requiring("sh check.sh").with("project.preset", "node").with("queue.setup", "sh setup.sh");
    w.write("setup.sh", setup).write(".gitignore", "node_modules\n");
    w.write("check.sh", "cmp package-lock.json node_modules/installed\n");
    let one = w.write("package-lock.json", "1\n").commit();
    let two = w.write("package-lock.json", "2\n").commit();
    let one_again = {
        w.write("package-lock.json", "1\n").write("other", "x");
        w.commit()
    };
    let setups = || {
        let file = glob(&w.beside("cache"), "setups").unwrap();
        fs::read_to_string(file).unwrap().lines().count()
    };
    assert!(w.has_passed(&one));
    assert!(w.has_passed(&two));
    assert_eq!(setups(), 2);
    assert!(w.has_passed(&one_again));
    assert_eq!(setups(), 2, "what was installed for it was kept aside");
    let broken = w.write("package-lock.json", "3\n").write("setup.sh", "exit 7\n").commit();
    let validation = w.validate(&broken);
    assert_eq!(validation.failure().unwrap().command, "sh setup.sh");
}
