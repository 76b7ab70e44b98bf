//! Which process a lock lives with.

use std::fs;

use mala_tests::{World, eventually};

use super::{Answer, MALA, Sleeper, done, held, mala, pair, run};

#[test]
fn a_lock_ends_with_the_process_it_was_given() {
    let world = World::new();
    let mut owner = Sleeper::start();
    let acquire = format!("lock acquire a dir/** --agent A --owner-pid {}", owner.pid());
    done(&world, &acquire);
    assert_eq!(run(&world, "lock acquire a --agent B").code, 1);
    owner.kill();
    assert_eq!(held(&world), [], "dead locks are not shown");
    done(&world, "lock acquire a dir/x --agent B");
    let ends = done(&world, "logs list --kind lock.orphaned --json").json();
    assert_eq!(ends["events"].as_array().unwrap().len(), 2, "one event for each lock");
}

#[test]
fn without_a_name_the_session_is_the_agent() {
    let world = World::new();
    let owner = done(&world, "lock acquire a --json").json()["granted"][0].clone();
    assert_eq!(owner["owner"]["pid"], std::process::id(), "this test is the session");
    let name = owner["agent"].as_str().unwrap();
    assert!(name.ends_with(&format!("-{}", std::process::id())), "{name}");
    done(&world, "lock acquire a");
    assert_eq!(run(&world, "lock acquire a --agent B").code, 1);
}

#[test]
fn a_shell_that_runs_one_command_is_no_session() {
    let world = World::new();
    let line = format!("{MALA} lock acquire a --agent A; true");
    assert!(world.command("bash").args(["-c", &line]).status().unwrap().success());
    assert_eq!(held(&world), [pair("a", "A")], "the shell has ended, its caller has not");
}

#[test]
fn a_script_is_a_session_and_takes_its_locks_with_it() {
    let world = World::new();
    let script = format!("{MALA} lock acquire a --agent A\n{MALA} lock list\nsleep 0.01\n");
    fs::write(world.base().join("script.sh"), script).unwrap();
    let out: Answer = world.command("bash").arg(world.base().join("script.sh")).output().unwrap().into();
    assert!(out.out.contains("exclusive  A"), "held while the script runs: {out:?}");
    eventually("the script's lock is gone", || held(&world).is_empty());
}

#[test]
fn the_environment_can_name_the_agent_and_the_argument_wins() {
    let world = World::new();
    let acquire = |args: &[&str]| mala(&world, args).env("MALA_AGENT", "from-env").status().unwrap();
    assert!(acquire(&["lock", "acquire", "a"]).success());
    assert!(acquire(&["lock", "acquire", "b", "--agent", "from-arg"]).success());
    assert_eq!(held(&world), [pair("a", "from-env"), pair("b", "from-arg")]);
}

/// Root may write everywhere, so for root there is nothing to see.
#[test]
fn a_folder_of_malas_that_is_not_ours_is_named_with_what_to_type() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.git(&["commit", "-q", "--allow-empty", "-m", "start"]);
    let mut exec = mala(&world, ["exec", "--agent", "ann", "--", "true"]);
    let desk = world.state_dir().join("desk");
    std::fs::create_dir_all(&desk).unwrap();
    std::fs::set_permissions(&desk, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(desk.join("probe"), "").is_ok() {
        return;
    }
    let exec: Answer = exec.output().unwrap().into();
    let doctor: Answer = mala(&world, ["doctor"]).output().unwrap().into();
    for (code, text) in [(exec.code, exec.err), (doctor.code, doctor.out)] {
        assert_ne!(code, 0, "{text}");
        assert!(text.contains("mala/desk`") && text.contains("chmod -R u+rwX"), "{text}");
    }
}
