//! What makes no sense is refused in words, with the right exit code, and changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use mala_tests::{World, copy_program};

use super::{Answer, MALA, Sleeper, done, held, mala, pair, run};

#[test]
fn nonsense_is_wrong_usage() {
    let world = World::new();
    done(&world, "lock acquire held --agent A");
    let mut ended = Sleeper::start();
    ended.kill();
    let before = (world.count("lock"), world.count("agent"), world.count("event"));
    for (line, words) in [
        ("lock acquire ../outside --agent A", "outside this checkout"),
        ("lock acquire /etc/passwd --agent A", "outside this checkout"),
        ("lock acquire .git/config --agent A", "belongs to git"),
        ("lock acquire [ --agent A", "invalid pattern"),
        ("lock acquire {a,b} --agent A", "invalid pattern"),
        ("lock acquire **/**/**/**/**/**/**/**/**/x --agent A", "invalid pattern"),
        ("lock acquire a --agent A --ttl 0s", "--ttl 0s"),
        ("lock acquire a --agent A --ttl=-5m", "--ttl -5m"),
        ("lock acquire a --agent A --ttl 3650d", "--ttl 3650d"),
        ("lock acquire a --agent A --ttl soon", "--ttl soon"),
        ("lock acquire a --agent A --wait 3650d", "lock.max_wait"),
        ("lock acquire a --agent A --wait 0s", "0s"),
        ("lock release a --agent ghost", "no agent called `ghost`"),
        ("lock release --all --agent ghost", "no agent called `ghost`"),
        ("lock renew a --agent ghost", "no agent called `ghost`"),
        ("lock transfer --from ghost --to A", "no agent called `ghost`"),
        ("lock transfer --from A --to ghost", "no agent called `ghost`"),
        ("lock acquire --agent A", "PATH"),
        ("lock release --agent A", "PATH"),
        ("lock overlaps a [", "invalid pattern"),
        ("lock acquire a --agent A --owner-pid 4194999", "no process with pid 4194999"),
        ("lock frobnicate", "frobnicate"),
        ("-C /nowhere/at/all status", "is not a folder"),
    ] {
        let answer = run(&world, line);
        assert_eq!(answer.code, 2, "`mala {line}`: {answer:?}");
        assert!(answer.err.contains(words), "`mala {line}` should mention `{words}`: {}", answer.err);
    }
    let dead = run(&world, &format!("lock acquire a --agent A --owner-pid {}", ended.pid()));
    assert_eq!(dead.code, 2, "{dead:?}");
    assert_eq!(
        (world.count("lock"), world.count("agent"), world.count("event")),
        before,
        "nothing was changed"
    );
}

#[test]
fn names_of_files_fit_on_a_line_and_there_is_a_way_out() {
    let world = World::new();
    for args in [&["-C", "a\nb", "status"][..], &["issue", "import", "a\nb"]] {
        let answer: Answer = mala(&world, args).output().unwrap().into();
        assert!(answer.code == 2 && answer.err.contains("a\\nb`"), "{args:?}: {answer:?}");
        assert!(answer.err.contains("hint: "), "{args:?}: {answer:?}");
    }
}

#[test]
fn names_of_agents_fit_on_a_line() {
    let world = World::new();
    for name in ["", "new\nline", "tab\t", " blank", &"x".repeat(300)] {
        let answer: Answer = mala(&world, ["lock", "acquire", "a", "--agent", name]).output().unwrap().into();
        assert_eq!(answer.code, 2, "{name:?}: {answer:?}");
        assert!(answer.err.contains("agent name"), "{}", answer.err);
    }
    let empty: Answer = mala(&world, ["lock", "acquire", "", "--agent", "A"]).output().unwrap().into();
    assert!(empty.code == 2 && empty.err.contains("the path is empty"), "{empty:?}");
}

#[test]
fn outside_a_repository_it_says_where_to_go() {
    let world = World::new();
    for line in ["status", "lock list", "lock acquire a", "logs list", "clean"] {
        let answer: Answer =
            mala(&world, line.split_whitespace()).current_dir(world.base()).output().unwrap().into();
        assert_eq!(answer.code, 2, "{line}");
        assert!(
            answer.err.contains("is not inside a git repository") && answer.err.contains("git init"),
            "{}",
            answer.err
        );
    }
    let answer: Answer =
        mala(&world, ["lock", "list", "--json"]).current_dir(world.base()).output().unwrap().into();
    assert_eq!(answer.json()["error"]["kind"], "usage", "an error is JSON too");
}

#[test]
fn a_pipe_without_a_writer_is_not_waited_for_and_one_with_a_writer_is_read() {
    let world = World::new();
    let script = format!("mkfifo pipe; timeout 60 {MALA} issue import pipe");
    let answer: Answer = world.command("sh").args(["-c", &script]).output().unwrap().into();
    assert!(answer.code == 2 && answer.err.contains("a pipe that nobody writes to"), "{answer:?}");
    let script = format!(
        "{MALA} issue import <(sleep 0.2; echo '{{\"id\":\"bd-1\",\"title\":\"T\",\"status\":\"open\"}}')"
    );
    let answer: Answer = world.command("bash").args(["-c", &script]).output().unwrap().into();
    assert!(answer.code == 0 && answer.out.contains("1 added"), "{answer:?}");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_a_silent_end() {
    let world = World::new();
    let script = format!("ulimit -f 0; {MALA} lock acquire a --agent A");
    let answer: Answer = world.command("bash").args(["-c", &script]).output().unwrap().into();
    assert!(answer.code == 3 && answer.err.contains("limit on the size of files"), "{answer:?}");
}

#[test]
fn a_directory_that_was_deleted_is_named_with_the_way_out() {
    let world = World::new();
    let script = format!("mkdir gone; cd gone; rmdir ../gone; {MALA} status");
    let answer: Answer = world.command("sh").args(["-c", &script]).output().unwrap().into();
    assert!(answer.code == 2 && answer.err.contains("does not exist any more"), "{answer:?}");
    assert!(answer.err.contains("hint: go to one that exists"), "{answer:?}");
}

#[test]
fn what_a_terminal_acts_on_is_shown_and_not_sent_to_it() {
    let world = World::new();
    let title = "a\u{202e}b\u{1b}[31mc";
    let added: Answer = mala(&world, ["issue", "add", "--id", "bd-1", title]).output().unwrap().into();
    assert_eq!(added.code, 0, "{added:?}");
    for line in ["issue list", "issue show bd-1", "issue ready"] {
        let out = done(&world, line).out;
        assert!(out.contains("\\u{202e}") && !out.contains(['\u{202e}', '\u{1b}']), "`mala {line}`: {out:?}");
    }
}

/// Runs every kind of command against a store that cannot be used.
fn fails(world: &World, words: &str) {
    for line in ["lock acquire a --agent A", "lock list", "status", "lock check a --agent A", "clean"] {
        let answer = run(world, line);
        assert_eq!(answer.code, 3, "`mala {line}`: {answer:?}");
        assert!(answer.err.contains(words) && answer.err.contains("hint:"), "`mala {line}`: {}", answer.err);
    }
    let doctor = run(world, "doctor");
    assert!(doctor.code == 1 && doctor.out.contains(words), "{doctor:?}");
}

/// mala as a user who owns nothing here. The program is one that this user can reach.
fn as_nobody(world: &World, line: &str) -> Answer {
    const NOBODY: u32 = 65534;
    let mut command = world.command(world.base().join("mala"));
    command.args(line.split_whitespace()).env_remove("MALA_AGENT").uid(NOBODY).gid(NOBODY);
    command.output().unwrap().into()
}

#[test]
fn who_may_only_read_reads() {
    const READING: [&str; 16] = [
        "status",
        "status --json",
        "lock list",
        "lock holder a",
        "lock check a --agent A",
        "lock asks",
        "logs list",
        "logs list evidence",
        "logs list runs",
        "logs show 1",
        "logs tail",
        "logs verify",
        "issue list",
        "issue ready",
        "issue show bd-1",
        "msg overdue",
    ];
    let world = World::new();
    if !nix::unistd::geteuid().is_root() {
        return; // only root can act as somebody else
    }
    copy_program(Path::new(MALA), &world.base().join("mala"));
    fs::set_permissions(world.base(), fs::Permissions::from_mode(0o755)).unwrap();
    let early = as_nobody(&world, "status");
    let folder = world.state_dir();
    let words = format!("cannot write to the store `{}`: Permission denied", folder.display());
    assert!(early.code == 3 && early.err.contains(&words), "{early:?}");
    let git = folder.parent().unwrap().display().to_string();
    assert!(early.err.contains(&format!("hint: `{git}` is root's: use mala as root")), "{early:?}");
    done(&world, "lock acquire a --agent A");
    done(&world, "issue add --id bd-1 Work");
    done(&world, "test --agent A -- true");
    for line in READING {
        let (own, theirs) = (run(&world, line), as_nobody(&world, line));
        assert_eq!(theirs.code, own.code, "`mala {line}`: {theirs:?}");
        assert_eq!(theirs.err, own.err, "`mala {line}`");
        assert_eq!(theirs.out.lines().count(), own.out.lines().count(), "`mala {line}`: {theirs:?}");
    }
    for line in ["lock acquire b --agent B", "issue add Other", "clean --force", "lock release a --agent A"] {
        let answer = as_nobody(&world, line);
        assert_eq!(answer.code, 3, "`mala {line}`: {answer:?}");
        assert!(answer.err.contains("cannot write to the store"), "`mala {line}`: {answer:?}");
        assert!(answer.err.contains("is root's: use mala as root"), "`mala {line}`: {answer:?}");
    }
    let doctor = as_nobody(&world, "doctor").out;
    assert!(doctor.contains("you may only read it"), "{doctor}");
    assert_eq!(held(&world), [pair("a", "A")], "and nothing was changed");
    fs::set_permissions(store_file(&world), fs::Permissions::from_mode(0o600)).unwrap();
    let secret = as_nobody(&world, "status");
    let words = format!("cannot read the store `{}`", store_file(&world).display());
    assert!(secret.code == 3 && secret.err.contains(&words), "{secret:?}");
    assert!(secret.err.contains("is root's: use mala as root"), "{secret:?}");
}

fn store_file(world: &World) -> std::path::PathBuf {
    world.state_dir().join("state.db")
}

fn remove_logs(store: &Path) {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", store.display()));
    }
}

#[test]
fn a_damaged_store_grants_nothing() {
    let world = World::new();
    fs::create_dir_all(world.state_dir()).unwrap();
    fs::write(
        store_file(&world),
        "this is no database, it only looks like a file of some length".repeat(100),
    )
    .unwrap();
    fails(&world, "is damaged");
    assert!(
        fs::read_to_string(store_file(&world)).unwrap().starts_with("this is no database"),
        "it is left as it was"
    );
}

#[test]
fn a_store_of_a_newer_mala_is_refused_in_words() {
    let world = World::new();
    done(&world, "lock acquire a --agent A");
    world.sql().pragma_update(None, "user_version", 999).unwrap();
    fails(&world, "made by a newer mala (schema 999");
    world.sql().pragma_update(None, "user_version", mala_store::SCHEMA_VERSION).unwrap();
    assert_eq!(run(&world, "lock acquire a --agent B").code, 1, "and nothing in it was changed");
}

#[test]
fn another_programs_database_is_left_alone() {
    let world = World::new();
    fs::create_dir_all(world.state_dir()).unwrap();
    world.sql().execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    fails(&world, "not one of mala's");
    assert_eq!(world.count("theirs"), 1);
    assert_eq!(world.count("sqlite_schema"), 1, "no table was added");
    remove_logs(&store_file(&world));
}
