//! What is out of an agent's reach: mala's state, hooks and settings, and commands that move the whole tree.

use std::fs;

use super::{exec, read, world};
use crate::cli::{Answer, MALA, done, held, mala, pair};

#[test]
fn agents_do_not_choose_what_is_asked_of_them() {
    let world = world();
    let rules = "[validate]\ncommands = [\"sh check.sh\"]\n";
    let script = "! echo x > mala.toml; ! rm -f mala.toml; echo '[validate]' > t; ! mv t mala.toml; ! ln -f t mala.toml";
    for is_there in [false, true] {
        if is_there {
            world.write("mala.toml", rules);
        }
        let answer = exec(&world, "me", script);
        assert!(answer.err.contains("`mala.toml` is protected"), "{}", answer.err);
        let now = fs::read_to_string(world.root().join("mala.toml")).ok();
        assert_eq!(now.as_deref(), is_there.then_some(rules), "{answer:?}");
    }
}

#[test]
fn git_does_not_move_a_shared_tree() {
    let world = world();
    world.git(&["branch", "elsewhere"]);
    world.write("free.txt", "changed\n");
    for attempt in [
        "git stash",
        "git reset -q --hard",
        "git checkout -q elsewhere",
        "git switch -q elsewhere",
        "git clean -fdx",
        "cd / && GIT_DIR=$OLDPWD/.git GIT_WORK_TREE=$OLDPWD git reset -q --hard",
        "ln -s \"$(command -v git)\" ../git-reset && ../git-reset -q --hard",
    ] {
        let answer = exec(&world, "me", attempt);
        assert_ne!(answer.code, 0, "{attempt}");
        assert!(answer.err.contains("is refused in a shared checkout"), "{attempt}: {}", answer.err);
    }
    assert_eq!(read(&world, "free.txt"), "changed\n");
    let own = exec(
        &world,
        "me",
        "git checkout -q -- free.txt && git commit -q --allow-empty -m 'git stash' 2>&1; git log -1 --format=%s",
    );
    assert_eq!(read(&world, "free.txt"), "anybody's\n", "one's own file is another matter: {own:?}");
    done(&world, "lock release --all --agent other");
    let whole = exec(
        &world,
        "me",
        &format!("echo x > free.txt && {MALA} lock acquire . && git stash -q && git stash list"),
    );
    assert!(whole.code == 0 && whole.out.contains("stash@{0}"), "who holds everything may: {whole:?}");
}

#[test]
fn a_refused_command_is_told_once_however_many_places_it_is_found_in() {
    let world = world();
    let script = "for i in 1 2 3; do mkdir -p node_modules/$i; ln -s \"$(command -v git)\" node_modules/$i/git; done; \
                  PATH=$PWD/node_modules/1:$PWD/node_modules/2:$PWD/node_modules/3:$PATH; git stash; git stash";
    let answer = exec(&world, "me", script);
    assert_eq!(answer.err.matches("`git stash` is refused").count(), 2, "{}", answer.err);
    assert!(answer.err.contains("refused 2: `git stash` (git)"), "{}", answer.err);
}

#[test]
fn hooks_configuration_and_state_are_out_of_reach() {
    let world = world();
    for attempt in [
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "git config user.name x",
        "echo x >> .git/config",
        "echo x > .git/mala/state.db",
        "rm -rf .git/mala",
        "mv .git/mala .git/elsewhere",
        "mv .git .elsewhere",
        "rm .git/HEAD",
    ] {
        assert_ne!(exec(&world, "me", attempt).code, 0, "{attempt}");
    }
    assert_eq!(held(&world), [pair("held.txt", "other")]);
    assert!(!world.root().join(".git/hooks/pre-commit").exists());
}

/// Has the store's files opened by whoever opens files for this process, and tells which of them are locked before and after.
const OPENED_FOR_ME: &str = r#"
import ctypes, os, struct, subprocess
files = ['.git/mala/state.db', '.git/mala/state.db-shm']
def locked():
    inodes = [line.split()[-3].split(':')[-1] for line in open('/proc/locks')]
    return [str(os.stat(file).st_ino) in inodes for file in files]
def openat2(file):
    how = struct.pack('QQQ', os.O_RDONLY, 0, 0)
    assert ctypes.CDLL(None).syscall(437, -100, file.encode(), how, len(how)) >= 0
def be_told(file):
    with open(file) as unwilling:
        subprocess.run(['sh', '-c', 'echo x > held.txt'], stderr=unwilling)
print(locked())
for ask in [openat2, be_told]:
    for file in files:
        ask(file)
    print(locked())
"#;

#[test]
fn whatever_is_opened_for_an_agent_the_locks_on_the_store_stay() {
    let world = world();
    let answer: Answer = mala(&world, ["exec", "--agent", "me", "--", "python3", "-c", OPENED_FOR_ME])
        .output()
        .unwrap()
        .into();
    assert_eq!(answer.out, "[True, True]\n".repeat(3), "{answer:?}");
}

#[test]
fn what_tells_git_what_to_run_is_out_of_reach_in_all_its_repositories() {
    let world = world();
    let lib = world.base().join("lib");
    world.git(&["init", "-q", lib.to_str().unwrap()]);
    world.git(&["-C", lib.to_str().unwrap(), "commit", "-q", "--allow-empty", "-m", "first"]);
    let add =
        ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.to_str().unwrap(), "lib"];
    world.git(&add);
    world.git(&["commit", "-q", "-m", "module"]);
    let beside = world.base().join("beside");
    world.git(&["worktree", "add", "-q", beside.to_str().unwrap(), "-b", "beside"]);
    for place in [
        "commondir",
        "worktrees/beside/commondir",
        "worktrees/beside/gitdir",
        "worktrees/beside/HEAD",
        "worktrees/beside/config.worktree",
        "modules/lib/config",
        "modules/lib/hooks/post-checkout",
        "modules/lib/commondir",
    ] {
        let place = format!(".git/{place}");
        let before = read(&world, &place);
        let answer = exec(&world, "me", &format!("echo evil >> {place}"));
        assert_ne!(answer.code, 0, "{place}: {answer:?}");
        let answer = exec(&world, "me", &format!("echo evil > $HOME/evil && mv $HOME/evil {place}"));
        assert_ne!(answer.code, 0, "{place}: {answer:?}");
        assert_eq!(read(&world, &place), before, "{place}");
    }
    let names = ["AUTHOR", "COMMITTER"].map(|who| format!("GIT_{who}_NAME=a GIT_{who}_EMAIL=a@b"));
    let commit = format!(
        "cd lib && {} git commit -q --allow-empty -m inside && git log -1 --format=%s",
        names.join(" ")
    );
    world.git(&["-C", world.root().join("lib").to_str().unwrap(), "checkout", "-q", "--detach"]);
    let answer = exec(&world, "me", &commit);
    assert_eq!(answer.out, "inside\n", "work in a submodule goes on: {answer:?}");
}
