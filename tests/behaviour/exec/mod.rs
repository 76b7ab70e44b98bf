//! `mala exec`: ownership is physical.

mod deputy;
mod fallback;
mod hand_overs;
mod programs;
mod signals;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use mala_tests::{World, eventually};
use nix::sys::signal::Signal;
use walkdir::WalkDir;

use crate::cli::{Answer, MALA, done, held, mala, pair};

/// Runs a shell script as an agent under enforcement.
fn exec(world: &World, agent: &str, script: &str) -> Answer {
    mala(world, ["exec", "--agent", agent, "--", "sh", "-c", script]).output().unwrap().into()
}

fn read(world: &World, path: &str) -> String {
    fs::read_to_string(world.root().join(path)).unwrap_or_default()
}

/// A checkout in which `other` holds `held.txt`.
fn world() -> World {
    let world = World::new();
    world.write("held.txt", "theirs\n");
    world.write("free.txt", "anybody's\n");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other --issue bd-7");
    world
}

#[test]
fn whatever_does_the_writing_a_held_file_stays_as_it_is() {
    let world = world();
    for attempt in [
        "echo x > held.txt",
        "echo x >> held.txt",
        "sed -i s/theirs/mine/ held.txt",
        "python3 -c 'open(\"held.txt\", \"w\").write(\"x\")'",
        "truncate -s 0 held.txt",
        "rm -f held.txt",
        "mv held.txt elsewhere.txt",
        "cp free.txt held.txt",
        "ln -f free.txt held.txt",
        "ln -s held.txt alias && echo x > alias",
        "chmod 000 held.txt",
        "dd if=/dev/zero of=held.txt bs=1 count=1 2>/dev/null",
        "git checkout -q HEAD~0 -- held.txt; git rm -q -f held.txt",
        "(setsid sh -c 'echo x > held.txt' &) ; sleep 0.2; false",
        "cd /proc/self/cwd && echo x > ./held.txt",
    ] {
        let answer = exec(&world, "me", attempt);
        assert_eq!(read(&world, "held.txt"), "theirs\n", "{attempt}: {answer:?}");
        assert_ne!(answer.code, 0, "{attempt}: {answer:?}");
    }
}

#[test]
fn an_agent_that_has_ended_leaves_nothing_in_malas_folder() {
    let world = world();
    let files = || -> BTreeSet<PathBuf> {
        let all = WalkDir::new(world.root().join(".git/mala")).into_iter().flatten();
        all.filter(|entry| !entry.file_type().is_dir()).map(|entry| entry.into_path()).collect()
    };
    let killed_git = "sh -c 'set -C; : > .git/index.lock; kill -9 $$'; git add free.txt; echo > new";
    // Who removes git's left lock files takes turns, by a file that stays.
    assert_eq!(exec(&world, "me", killed_git).code, 0);
    let before = files();
    assert!(
        !before.iter().any(|file| file.extension().is_some_and(|ending| ending == "jsonl")),
        "{before:?}"
    );
    for script in ["true", "false", "kill -9 $$", "sleep 100 & echo > new", killed_git] {
        let answer = exec(&world, "me", script);
        assert_eq!(files(), before, "{script}: {answer:?}");
    }
}

#[test]
fn a_refused_write_names_the_holder_and_the_next_step() {
    let world = world();
    let answer = exec(&world, "me", "echo x > held.txt");
    assert!(answer.err.contains("mala: `held.txt` is held by `other` (issue bd-7)"), "{}", answer.err);
    assert!(answer.err.contains("mala lock acquire held.txt --wait"), "{}", answer.err);
    assert!(
        answer.err.contains("mala exec: refused 1: `held.txt` (sh)"),
        "and the end sums it up: {}",
        answer.err
    );
    let log = done(&world, "logs list --kind lock.refused --agent me --json").json();
    assert_eq!(log["events"][0]["path"], "held.txt");
}

#[test]
fn the_first_writer_takes_a_free_file_and_gives_it_back_at_its_end() {
    let world = world();
    let answer = exec(&world, "me", &format!("echo x > free.txt; echo y > new.txt; {MALA} lock list --json"));
    assert_eq!(answer.code, 0, "{answer:?}");
    let inside: Vec<_> =
        answer.json()["locks"].as_array().unwrap().iter().map(|l| l["path"].clone()).collect();
    assert_eq!(inside, ["free.txt", "held.txt", "new.txt"]);
    assert_eq!((read(&world, "free.txt").as_str(), read(&world, "new.txt").as_str()), ("x\n", "y\n"));
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}

#[test]
fn two_agents_in_one_checkout_keep_off_each_others_files() {
    let world = world();
    let mut first = mala(&world, ["exec", "--agent", "ann", "--", "sh", "-c", "echo ann > free.txt; cat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("ann holds the file", || held(&world).contains(&pair("free.txt", "ann")));
    assert_ne!(exec(&world, "bob", "sed -i s/ann/bob/ free.txt").code, 0);
    assert_eq!(read(&world, "free.txt"), "ann\n");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(exec(&world, "bob", "sed -i s/ann/bob/ free.txt").code, 0);
    assert_eq!(read(&world, "free.txt"), "bob\n");
}

#[test]
fn inside_the_tree_nobody_is_anybody_else() {
    let world = world();
    let script = format!(
        "MALA_AGENT=other {MALA} lock release held.txt --agent other; {MALA} lock acquire x --agent other --json"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.json()["granted"][0]["agent"], "me");
    assert!(answer.err.contains("you act as `me`"), "{}", answer.err);
    let hidden = exec(&world, "me", &format!("unset MALA_SUPERVISOR; {MALA} lock acquire x --agent other"));
    assert_eq!(hidden.code, 3, "without its supervisor it gets nothing: {hidden:?}");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}

/// Talks to the supervisor without mala: whatever is in `args`, with its own standard streams.
const FORGED: &str = r#"
import os, socket, struct, sys
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MALA_SUPERVISOR"])
socket.send_fds(s, [b"\0"], [0, 1, 2])
for text in [os.getcwd(), "mala"] + sys.argv[1:]:
    s.sendall(struct.pack("<Q", len(text)) + text.encode())
s.shutdown(socket.SHUT_WR); answer = s.recv(1); sys.exit(answer[0] if answer else 99)
"#;

#[test]
fn the_supervisor_is_no_deputy() {
    let world = world();
    fs::write(world.base().join("forged.py"), FORGED).unwrap();
    let forged = format!("python3 {}", world.base().join("forged.py").display());
    assert_eq!(
        exec(&world, "me", &format!("{forged} lock check free.txt")).code,
        0,
        "the forgery itself works"
    );
    for command in [
        "exec --agent evil -- cp free.txt held.txt",
        "man --out .",
        "demo --folder demo",
        "test -- cp free.txt held.txt",
    ] {
        assert_eq!(exec(&world, "me", &format!("{forged} {command}")).code, 2, "{command}");
    }
    assert_eq!(exec(&world, "me", &format!("{MALA} lock transfer --from other --to me")).code, 1);
    assert_eq!(exec(&world, "me", &format!("{MALA} clean --force")).code, 1);
    assert_eq!(read(&world, "held.txt"), "theirs\n");
    assert_eq!(held(&world), [pair("held.txt", "other")]);
    assert_eq!(world.git(&["status", "--short"]), "", "and nothing was made");
}

#[test]
fn strict_agents_lock_before_they_write() {
    let world = world();
    let strict = |script: &str| -> Answer {
        mala(&world, ["exec", "--agent", "me", "--strict", "--", "sh", "-c", script]).output().unwrap().into()
    };
    let refused = strict("echo x > free.txt");
    assert!(refused.code != 0 && refused.err.contains("mala lock acquire free.txt"), "{refused:?}");
    assert_eq!(read(&world, "free.txt"), "anybody's\n");
    assert_eq!(
        strict(&format!("{MALA} lock acquire free.txt && echo x > free.txt && echo y > new.txt")).code,
        0
    );
    assert_eq!(read(&world, "free.txt"), "x\n");
    let configured = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", "echo z > free.txt"])
        .env("MALA_ENFORCEMENT_UNLOCKED", "deny")
        .status();
    assert!(!configured.unwrap().success(), "the settings can ask for it too");
}

#[test]
fn ignored_files_need_no_lock_and_git_goes_on_working() {
    let world = world();
    world.write(".gitignore", "target/\n");
    let script = format!(
        "mkdir -p target/deep && echo x > target/deep/out && {MALA} lock list --json && echo mine >> free.txt && \
         git add free.txt && git -c user.name=a -c user.email=a@example.invalid commit -q -m mine"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["locks"].as_array().unwrap().len(), 1, "only what `other` holds");
    assert_eq!(world.git(&["log", "-1", "--format=%s"]), "mine");
}

#[test]
fn in_ignored_folders_agents_do_as_they_like_and_what_leaves_them_needs_a_lock() {
    let world = world();
    world.write(".gitignore", "build/\nnode_modules\ntracked/\n");
    world.write("tracked/file.txt", "known to git\n");
    world.git(&["add", "-f", "tracked/file.txt", ".gitignore"]);
    world.git(&["commit", "-q", "-m", "more"]);
    fs::create_dir(world.root().join("build")).unwrap();
    // One folder was there, the others are made: at the root, further down, again, and below one that is ignored.
    let script = format!(
        "set -e; echo 1 > build/a; mkdir -p node_modules/x sub/node_modules; echo 2 > node_modules/x/b; \
         echo 3 > sub/node_modules/c; rm -r build; mkdir build; echo 4 > build/d; mv build/d node_modules/x/; \
         {MALA} lock list --json; mv node_modules/x/b out.txt; mv free.txt build/; echo 5 > tracked/file.txt; \
         {MALA} lock list --json"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    let keys = |line: &str| -> Vec<String> {
        let locks: serde_json::Value = serde_json::from_str(line).unwrap();
        let keys =
            locks["locks"].as_array().unwrap().iter().map(|lock| lock["path"].as_str().unwrap().to_owned());
        keys.collect()
    };
    let lists: Vec<&str> = answer.out.lines().collect();
    assert_eq!(keys(lists[0]), ["held.txt"], "only what `other` holds");
    let mut held = keys(lists[1]);
    held.sort();
    assert_eq!(held, ["free.txt", "held.txt", "out.txt", "tracked/file.txt"]);
    assert_eq!(read(&world, "node_modules/x/d"), "4\n");
    assert_eq!(read(&world, "build/free.txt"), "anybody's\n");
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

/// The index and the rules are the agent's to change.
#[test]
fn what_was_tracked_when_the_agent_began_is_never_ignored() {
    let world = world();
    world.write("tracked/file.txt", "theirs\n");
    world.git(&["add", "tracked"]);
    world.git(&["commit", "-qm", "tracked"]);
    let script = format!(
        "git rm -rq --cached tracked && mkdir -p .git/info && echo tracked >> .git/info/exclude && git check-ignore -q tracked/file.txt && \
         mv tracked moved && mv moved tracked && echo x >> tracked/file.txt && {MALA} lock list --json"
    );
    let answer = exec(&world, "me", &script);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.out.contains("\"tracked/file.txt\""), "it was written without a lock: {answer:?}");
    done(&world, "lock acquire tracked/file.txt --agent other");
    let script = "git rm -rq --cached tracked; mv tracked .git/moved && echo x > .git/moved/file.txt";
    let answer = exec(&world, "me", script);
    assert_ne!(answer.code, 0, "{answer:?}");
    assert_eq!(read(&world, "tracked/file.txt"), "theirs\nx\n");
}

#[test]
fn an_ignored_folder_does_not_move_while_somebody_holds_something_in_it() {
    let world = world();
    world.write(".gitignore", "node_modules\n");
    for held in ["node_modules/deep/held.js", "node_modules/other/**"] {
        world.write("node_modules/deep/held.js", "theirs\n");
        world.write("node_modules/other/file.js", "theirs\n");
        done(&world, &format!("lock acquire {held} --agent other"));
        for script in [
            "mv node_modules moved",
            "mv node_modules .git/moved",
            "mv node_modules/deep node_modules/other .git/",
        ] {
            let answer = exec(&world, "me", script);
            assert_ne!(answer.code, 0, "{held}: {script}: {answer:?}");
        }
        done(&world, &format!("lock release {held} --agent other"));
    }
}

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
fn what_agents_are_kept_from_stays_so_in_ignored_folders() {
    let world = world();
    world.write(".gitignore", ".claude/\n.gemini/\n");
    fs::create_dir(world.root().join(".claude")).unwrap();
    let script = "echo x > .claude/notes && mkdir .gemini && echo y > .gemini/notes && \
                  ! echo x > .claude/settings.json && ! echo x > .gemini/settings.json && ! mv .claude/notes .claude/settings.json";
    let answer = exec(&world, "me", script);
    assert_eq!(answer.code, 0, "{answer:?}");
    for file in [".claude/settings.json", ".gemini/settings.json"] {
        assert!(answer.err.contains(&format!("`{file}` is protected")), "{}", answer.err);
        assert!(!world.root().join(file).exists());
    }
}

#[test]
fn a_question_that_git_does_not_answer_is_not_the_last_one() {
    let world = world();
    world.write(".gitignore", "*.log\n");
    let module = world.base().join("module");
    world.git(&["init", "-q", module.to_str().unwrap()]);
    world.git(&["-C", module.to_str().unwrap(), "commit", "-q", "--allow-empty", "-m", "first"]);
    world.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        module.to_str().unwrap(),
        "module",
    ]);
    let answer =
        exec(&world, "me", &format!("echo x > module/b.log && echo y > a.log && {MALA} lock list --json"));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(!answer.out.contains("a.log"), "{answer:?}");
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
        let answer = exec(&world, "me", &format!("echo evil > /tmp/evil-$$ && mv /tmp/evil-$$ {place}"));
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

#[test]
fn what_is_held_does_not_become_free_by_being_ignored() {
    let world = world();
    world.write("new/theirs.txt", "theirs\n");
    world.git(&["add", "held.txt"]);
    done(&world, "lock acquire new/theirs.txt --agent other");
    let attempts = [
        "git rm -q --cached held.txt; mkdir -p .git/info; echo held.txt >> .git/info/exclude",
        "echo theirs.txt > new/.gitignore; echo x > free.txt",
        "echo new/ > .gitignore; echo x > free.txt",
    ];
    for attempt in attempts {
        // In the same session, and in a later one.
        for script in [
            &format!("{attempt}; echo x > held.txt; echo x > new/theirs.txt"),
            "echo x > held.txt; echo x > new/theirs.txt",
        ] {
            let answer = exec(&world, "me", script);
            let now = [read(&world, "held.txt"), read(&world, "new/theirs.txt")];
            assert_eq!(now, ["theirs\n", "theirs\n"], "{script}: {answer:?}");
        }
    }
}

#[test]
fn a_file_is_not_handed_on_under_a_new_name_or_unreadable() {
    let world = world();
    world.write("folder/file", "");
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "folder"]);
    for (script, file) in [
        ("exec 3>>free.txt; chmod 200 free.txt; mala lock release free.txt", "free.txt"),
        ("exec 3>>folder/file; mv folder moved; mala lock release --all", "moved/file"),
    ] {
        let script = script.replace("mala", MALA);
        let mut agent =
            mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", &format!("{script}; echo $?")]);
        let out = agent.stderr(Stdio::piped()).output().unwrap();
        assert!(out.stdout.starts_with(b"1\n"), "{file}: {out:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("still open for writing"), "{file}: {out:?}");
    }
}

#[test]
fn to_delete_what_is_not_there_takes_no_lock() {
    let world = world();
    let unlink = "python3 -c 'import os; os.unlink(\"nothing.txt\")'";
    let answer = exec(&world, "me", &format!("{unlink}; {MALA} lock list --agent me --json"));
    assert!(answer.err.contains("FileNotFoundError"), "{answer:?}");
    assert_eq!(answer.json()["locks"], serde_json::json!([]));
}

#[test]
fn a_temporary_file_that_becomes_the_real_one_leaves_one_lock() {
    let world = world();
    let answer =
        exec(&world, "me", &format!("sed -i s/anybody/some/ free.txt && {MALA} lock list --agent me --json"));
    let locks = answer.json()["locks"].clone();
    assert_eq!((locks.as_array().unwrap().len(), &locks[0]["path"]), (1, &"free.txt".into()), "{locks}");
}

#[test]
fn exit_codes_signals_and_streams_pass_through() {
    let world = world();
    let answer = exec(&world, "me", "echo out; echo err >&2; exit 7");
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (7, "out\n", "err\n"));
    assert_eq!(exec(&world, "me", "kill -TERM $$").code, 128 + 15);
    let missing: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "no-such-program"]).output().unwrap().into();
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("cannot start `no-such-program`"), "{missing:?}");
}

#[test]
fn one_name_is_one_agent_at_a_time() {
    let world = world();
    let answer = exec(&world, "other", "true");
    assert!(answer.code == 1 && answer.err.contains("is running already"), "{answer:?}");
    let nested = exec(&world, "me", &format!("{MALA} exec --agent inner -- true"));
    assert!(nested.code == 1 && nested.err.contains("`mala exec` does not nest"), "{nested:?}");
    assert!(!nested.err.contains("does not protect") && nested.err.contains("hint: "), "{nested:?}");
}

#[test]
fn the_doctor_knows_that_an_agent_is_held_to_its_locks() {
    let world = world();
    let doctor = exec(&world, "me", &format!("{MALA} doctor --json")).json();
    let checks = doctor["checks"].as_array().unwrap();
    for name in ["store", "enforcement"] {
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        assert_eq!(check["status"], "ok", "{check}");
        assert!(check["detail"].as_str().unwrap().contains("supervisor"), "{check}");
    }
}

#[test]
fn output_into_a_file_of_the_checkout_is_refused_in_words() {
    let world = world();
    let out = fs::File::create(world.root().join("out.txt")).unwrap();
    let answer: Answer =
        mala(&world, ["exec", "--agent", "me", "--", "true"]).stdout(out).output().unwrap().into();
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.err.contains("standard output goes to a file in the checkout"), "{answer:?}");
    assert!(answer.err.contains("hint: send it elsewhere"), "{answer:?}");
}

#[test]
fn the_whole_tree_ends_with_its_agent() {
    let world = world();
    let pid = world.base().join("pid");
    let file = pid.display();
    let script = format!(
        "(setsid sh -c 'echo $$ > {file}; exec sleep 600' >/dev/null 2>&1 &); while ! [ -s {file} ]; do sleep 0.01; done"
    );
    assert_eq!(exec(&world, "me", &script).code, 0);
    let daemon = fs::read_to_string(&pid).unwrap();
    assert!(!std::path::Path::new("/proc").join(daemon.trim()).exists(), "the daemon was reaped");
}

#[test]
fn a_killed_supervisor_takes_the_tree_and_the_locks_with_it() {
    let world = world();
    let pid = world.base().join("pid");
    // One writer opens the file again and again, another one has it open.
    let script = format!(
        "echo $$ > {}; exec 3>> free.txt; (while :; do echo again >> free.txt; done) & while :; do echo open >&3; done",
        pid.display()
    );
    let mut supervisor = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("both write", || ["again", "open"].iter().all(|word| read(&world, "free.txt").contains(word)));
    supervisor.kill().unwrap();
    // Nobody has asked yet how it ended: what is left of it holds nothing.
    done(&world, "lock acquire free.txt --agent other --wait 2s");
    let then = read(&world, "free.txt");
    assert_eq!(supervisor.wait().unwrap().signal(), Some(9));
    let root = fs::read_to_string(&pid).unwrap();
    eventually("the tree is dead", || !std::path::Path::new("/proc").join(root.trim()).join("exe").exists());
    assert!(read(&world, "free.txt") == then, "nobody wrote to the file of another agent");
    let spares = || fs::read_dir(world.root().join(".git/mala/spares")).unwrap().count();
    assert_eq!(spares(), 1, "folders that it had made in advance");
    eventually("they are put away", || {
        done(&world, "clean");
        spares() == 0
    });
}

/// A process that does nothing for as long as this value lives.
struct Stopped(nix::unistd::Pid);

impl Stopped {
    fn now(pid: i32) -> Self {
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        nix::sys::signal::kill(self.0, Signal::SIGCONT).unwrap();
    }
}

#[test]
fn a_lock_of_the_dead_is_worth_nothing_while_their_programs_write_on() {
    let world = world();
    let script = "exec 3>> free.txt; while :; do echo open >&3; done";
    let mut supervisor = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it writes", || read(&world, "free.txt").contains("open"));
    // Whoever ends the tree when its supervisor is gone is slow.
    let children = format!("/proc/{0}/task/{0}/children", supervisor.id());
    let keeper: i32 = fs::read_to_string(children)
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .find(|pid| fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"mala-keeper\n"))
        .unwrap();
    let stopped = Stopped::now(keeper);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    let mut asking = mala(&world, ["lock", "acquire", "free.txt", "--agent", "other"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it is promised", || held(&world).contains(&pair("free.txt", "other")));
    std::thread::sleep(Duration::from_millis(100));
    assert!(asking.try_wait().unwrap().is_none(), "it has the lock while somebody else writes");
    drop(stopped);
    assert!(asking.wait().unwrap().success());
    let then = read(&world, "free.txt");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(read(&world, "free.txt").len(), then.len());
}

#[test]
fn a_file_that_is_still_open_for_writing_is_not_handed_on() {
    let world = world();
    let script = format!(
        "exec 3>> free.txt; {MALA} lock release free.txt; echo first $?; {MALA} lock transfer --from me --to other; \
         echo second $?; exec 3>&-; {MALA} lock release free.txt; echo third $?"
    );
    let answer = exec(&world, "me", &script);
    assert!(answer.out.contains("first 1") && answer.out.contains("second 1"), "{answer:?}");
    assert!(answer.out.contains("third 0"), "{answer:?}");
    assert!(answer.err.contains("`free.txt` is still open for writing by"), "{}", answer.err);
}

#[test]
fn a_file_opened_under_a_pattern_is_drained_too() {
    let world = world();
    let script = format!(
        "{MALA} lock acquire '*.txt' 2>/dev/null; {MALA} lock acquire 'src/**'; mkdir -p src; \
         exec 3> src/new.txt; {MALA} lock release 'src/**'; echo first $?"
    );
    let answer = exec(&world, "me", &script);
    assert!(answer.out.contains("first 1"), "{answer:?}");
    assert!(answer.err.contains("`src/new.txt` is still open for writing by sh"), "{}", answer.err);
}

#[test]
fn a_lock_lost_while_the_file_is_open_is_reported_loudly_and_recorded() {
    let world = world();
    let mut agent = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c", "exec 3>> free.txt; cat"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the agent holds the file", || held(&world).contains(&pair("free.txt", "me")));
    // Nothing in mala takes a lock from a live agent just like that; somebody with a database at hand can.
    world.sql().execute("DELETE FROM lock WHERE agent = 'me'", []).unwrap();
    let lost = || done(&world, "logs list --kind lock.lost --agent me --json").json();
    eventually("it is noticed", || lost()["events"].as_array().unwrap().len() == 1);
    assert_eq!(lost()["events"][0]["path"], "free.txt");
    drop(agent.stdin.take());
    let answer: Answer = agent.wait_with_output().unwrap().into();
    assert!(answer.err.contains("lock lost: `free.txt` is still open in sh"), "{}", answer.err);
}

#[test]
fn a_lock_lost_while_the_file_is_open_fails_the_gate() {
    let world = world();
    let script = format!(
        "exec 3>> free.txt; echo more > new.txt; {MALA} commit -m 'bd-1: more' new.txt >/dev/null; \
         {MALA} gate check --issue bd-1 --json; read line; {MALA} gate check --issue bd-1 --json"
    );
    let mut agent = mala(&world, ["exec", "--agent", "me", "--issue", "bd-1", "--", "sh", "-c", &script])
        .envs([("GIT_AUTHOR_NAME", "me"), ("GIT_AUTHOR_EMAIL", "me@example.invalid")])
        .envs([("GIT_COMMITTER_NAME", "me"), ("GIT_COMMITTER_EMAIL", "me@example.invalid")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let verdicts = "logs list --kind gate.passed --agent me --json";
    eventually("the commit is accepted", || !done(&world, verdicts).json()["events"][0].is_null());
    let free = "DELETE FROM lock WHERE agent = 'me' AND path = CAST('free.txt' AS BLOB)";
    assert_eq!(world.sql().execute(free, []).unwrap(), 1);
    let lost = "logs list --kind lock.lost --agent me --json";
    eventually("the loss is noticed", || !done(&world, lost).json()["events"][0].is_null());
    agent.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let answer: Answer = agent.wait_with_output().unwrap().into();
    let said: Vec<serde_json::Value> =
        answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdict = |verdict: &serde_json::Value| {
        let checks = verdict["checks"].as_array().unwrap();
        let failed = checks.iter().filter(|check| check["status"] == "fail");
        (verdict["verdict"].clone(), failed.map(|check| check["detail"].to_string()).collect::<Vec<_>>())
    };
    assert_eq!(verdict(&said[0]), ("pass".into(), Vec::new()), "{answer:?}");
    let (answered, failures) = verdict(&said[1]);
    assert_eq!((answered, failures.len(), answer.code), ("fail".into(), 1, 1), "{answer:?}");
    assert!(failures[0].contains("written without holding them: free.txt"), "{failures:?}");
}

#[test]
fn a_lock_that_is_taken_away_stops_the_next_write_at_once() {
    let world = world();
    let mut agent = mala(&world, ["exec", "--agent", "me", "--", "sh", "-c"])
        .arg("echo first > free.txt; read line; echo second > free.txt || echo refused")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the agent holds the file", || held(&world).contains(&pair("free.txt", "me")));
    world.sql().execute("DELETE FROM lock WHERE agent = 'me'", []).unwrap();
    done(&world, "lock acquire free.txt --agent other");
    agent.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let answer: Answer = agent.wait_with_output().unwrap().into();
    assert_eq!((answer.out.as_str(), read(&world, "free.txt").as_str()), ("refused\n", "first\n"));
    assert!(answer.err.contains("`free.txt` is held by `other`"), "{}", answer.err);
}

#[test]
fn every_grant_and_every_refusal_is_an_event_with_its_program() {
    let world = world();
    exec(&world, "me", "echo x > free.txt; cp free.txt new.txt; tee held.txt < /dev/null");
    let events = |kind: &str| {
        let log = done(&world, &format!("logs list --kind {kind} --agent me --json")).json();
        let events = log["events"].as_array().unwrap().clone();
        events
            .into_iter()
            .map(|event| (event["path"].clone(), event["detail"].to_string()))
            .collect::<Vec<_>>()
    };
    let has = |kind: &str, path: &str, program: &str| {
        let events = events(kind);
        let found = events.iter().any(|(at, detail)| at == path && detail.contains(program));
        assert!(found, "`{kind}` of {path} by {program}: {events:?}");
    };
    has("lock.acquired", "free.txt", "written by sh");
    has("lock.acquired", "new.txt", "written by cp");
    has("write.refused", "held.txt", "tee");
}

#[test]
fn a_program_that_insists_fills_no_log_and_gets_the_file_when_it_is_free() {
    let world = world();
    let script = "
import time
begin, tries = time.monotonic(), 0
while time.monotonic() < begin + 60:
    tries += 1
    try: open('held.txt', 'w').write('mine'); break
    except PermissionError: pass
    if tries == 3000: open('insisted', 'w')
print('wrote after', tries)
";
    let agent = mala(&world, ["exec", "--agent", "me", "--", "python3", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it insists", || world.root().join("insisted").exists());
    done(&world, "lock release held.txt --agent other");
    let out = agent.wait_with_output().unwrap();
    assert!(out.stdout.starts_with(b"wrote after"), "{out:?}");
    assert_eq!(read(&world, "held.txt"), "mine");
    let log = done(&world, "logs list --kind write.refused --agent me --limit 5000 --json").json();
    let recorded = log["events"].as_array().unwrap().len();
    assert!((100..1000).contains(&recorded), "{recorded}");
}

#[test]
fn json_is_one_document_when_the_command_has_ended() {
    let world = world();
    let script = "echo printed; echo x > held.txt; exit 3";
    let answer: Answer =
        mala(&world, ["exec", "--json", "--agent", "me", "--issue", "bd-1", "--", "sh", "-c", script])
            .output()
            .unwrap()
            .into();
    let expected = serde_json::json!({
        "agent": "me", "issue": "bd-1", "enforced": true, "exit_code": 3, "signal": null,
        "refused": [{"program": "sh", "what": "held.txt", "times": 1}],
    });
    assert_eq!((answer.code, answer.json()), (3, expected));
    assert!(answer.err.contains("printed\n"), "{}", answer.err);
}

#[test]
fn an_ordinary_user_is_protected_as_well_as_root() {
    const NOBODY: &str = "65534";
    let world = world();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return; // then all of these tests have shown it
    }
    // A folder of root's own may be all that leads to the program.
    let program = world.base().join("mala");
    let prepared = Command::new("sh")
        .args(["-c", "cp \"$1\" \"$2/mala\" && chown -R 65534:65534 \"$2\"", "sh", MALA])
        .arg(world.base())
        .status();
    assert!(prepared.unwrap().success());
    let script = "id -u; echo mine > free.txt; echo new > new.txt; echo mine > held.txt";
    let mut command = world.command("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&program);
    command.args(["exec", "--agent", "me", "--require-kernel", "--", "sh", "-c", script]);
    let answer: Answer = command.output().unwrap().into();
    assert!(answer.out == "65534\n" && answer.code != 0, "{answer:?}");
    assert!(answer.err.contains("`held.txt` is held by `other`"), "{}", answer.err);
    let files = ["held.txt", "free.txt", "new.txt"].map(|path| read(&world, path));
    assert_eq!(files, ["theirs\n", "mine\n", "new\n"]);
    assert_eq!(fs::metadata(world.root().join("new.txt")).unwrap().uid().to_string(), NOBODY);
}
