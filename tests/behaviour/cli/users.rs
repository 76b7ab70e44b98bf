//! One checkout and several users of the system.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mala_tests::{World, copy_program};
use nix::unistd::geteuid;

use super::{Answer, MALA, mala, run};

const ANN: u32 = 65534;
const BOB: u32 = 65533;
const GROUP: u32 = 65534;

/// A checkout of Ann's with a program that everybody can reach. Nothing where nobody may act as somebody else.
fn anns() -> Option<World> {
    if !geteuid().is_root() {
        mala_tests::skip("only root can act as somebody else");
        return None;
    }
    let world = World::new();
    world.write("mala.toml", "[validate]\ncommands = [\"sh check.sh\"]\n");
    world.write("check.sh", "true\n");
    // Git works in a repository of somebody else only where its user says so.
    fs::write(world.home().join(".gitconfig"), "[safe]\n\tdirectory = *\n").unwrap();
    world.git(&["config", "user.name", "Ann"]);
    world.git(&["config", "user.email", "ann@example.invalid"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    copy_program(Path::new(MALA), &world.base().join("mala"));
    Some(world)
}

fn give_away(world: &World) {
    let chown = Command::new("chown").args(["-R", &format!("{ANN}:{GROUP}")]).arg(world.base()).status();
    assert!(chown.unwrap().success());
    fs::set_permissions(world.base(), fs::Permissions::from_mode(0o755)).unwrap();
}

fn as_user(world: &World, user: u32, program: &Path, line: &str) -> Answer {
    let mut command = world.command(program);
    command.args(line.split_whitespace()).env_remove("MALA_AGENT").uid(user).gid(GROUP);
    command.output().unwrap().into()
}

fn mala_as(world: &World, user: u32, line: &str) -> Answer {
    as_user(world, user, &world.base().join("mala"), line)
}

/// Everything below a folder that belongs to a user.
fn files_of(user: u32, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.uid() == user {
            found.push(path.clone());
        }
        if meta.is_dir() {
            found.extend(files_of(user, &path));
        }
    }
    found
}

#[test]
fn root_leaves_nothing_in_the_checkout_of_somebody_else_and_is_told_whom_to_be() {
    let Some(world) = anns() else { return };
    for has_state in [false, true] {
        if has_state {
            assert_eq!(mala_as(&world, ANN, "test --agent A -- true").code, 0);
        } else {
            give_away(&world);
        }
        for line in [
            "test -- sh check.sh",
            "test --isolated -- sh check.sh",
            "status",
            "status --json",
            "run",
            "exec --agent A -- true",
            "lock acquire a --agent A",
            "lock list",
            "commit -m work",
            "land",
            "issue add Work",
            "gate check",
            "clean --force",
            "init --yes",
            "queue run",
            "logs list",
        ] {
            let answer = run(&world, line);
            let said = format!("{}{}", answer.out, answer.err);
            assert!(
                answer.code == 1 && said.contains("sudo -u nobody mala ..."),
                "`mala {line}`: {answer:?}"
            );
        }
        let call = serde_json::json!({
            "hook_event_name": "PreToolUse", "session_id": "s", "cwd": world.root(), "tool_name": "Write",
            "tool_input": { "file_path": world.root().join("a.txt"), "content": "x" },
        });
        fs::write(world.home().join("call"), call.to_string()).unwrap();
        let call = fs::File::open(world.home().join("call")).unwrap();
        let hook: Answer = mala(&world, ["hook", "claude"]).stdin(call).output().unwrap().into();
        assert!(hook.code == 2 && hook.err.contains("sudo -u nobody mala ..."), "{hook:?}");
        assert_eq!(files_of(0, world.root()), Vec::<PathBuf>::new());
    }
    for line in ["test --agent A -- sh check.sh", "status", "lock acquire b --agent A", "logs verify"] {
        let answer = mala_as(&world, ANN, line);
        assert_eq!(answer.code, 0, "`mala {line}`: {answer:?}");
    }
}

#[test]
fn members_of_a_group_that_git_shares_with_use_one_checkout() {
    let Some(world) = anns() else { return };
    world.git(&["config", "core.sharedRepository", "group"]);
    give_away(&world);
    let shared = Command::new("chmod").args(["-R", "g+rwX"]).arg(world.base()).status();
    assert!(shared.unwrap().success());
    for round in 0..2 {
        for (user, name) in [(ANN, "ann"), (BOB, "bob")] {
            for line in [
                format!("lock acquire {name}.txt --agent {name} --owner-pid 1"),
                format!("issue add {name}{round}"),
                format!("test --agent {name} -- sh check.sh"),
                "status".to_owned(),
                "logs verify".to_owned(),
                format!("lock release {name}.txt --agent {name}"),
            ] {
                let answer = mala_as(&world, user, &line);
                assert_eq!(answer.code, 0, "`mala {line}` of {name}: {answer:?}");
            }
        }
    }
    assert!(!files_of(BOB, &world.state_dir()).is_empty(), "both have made files");
}
