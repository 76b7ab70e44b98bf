//! Honest work under `mala exec`: real tools go on as if nobody watched, and still cannot touch what others hold.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use mala_tests::{Program, World};

use crate::cli::{Answer, MALA, done, held, mala, pair};

/// A checkout in which `other` holds `held.txt`, and git ignores what tools make.
fn world() -> World {
    let world = World::new();
    world.write("held.txt", "theirs\n");
    world.write("free.txt", "anybody's\n");
    world.write(".gitignore", "target/\nnode_modules/\n.venv/\n__pycache__/\n*.egg-info/\nbuild/\n");
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.invalid"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-q", "-m", "start"]);
    done(&world, "lock acquire held.txt --agent other --issue bd-7");
    world
}

fn read(world: &World, path: &str) -> String {
    fs::read_to_string(world.root().join(path)).unwrap_or_default()
}

/// True if all of these programs are here. Says so loudly if not.
fn have(programs: &[&str]) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_here = |program: &&&str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing: Vec<_> = programs.iter().filter(|program| !is_here(program)).collect();
    if !missing.is_empty() {
        mala_tests::skip(&format!("honest work that needs {missing:?}, which is not installed"));
    }
    missing.is_empty()
}

/// `mala exec` of a shell script as `me`, in an environment where cargo's and python's own settings do not matter.
fn exec(world: &World, script: &str) -> Command {
    let mut command = mala(world, ["exec", "--agent", "me", "--", "sh", "-ec", script]);
    for name in [
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET_DIR",
        "RUSTFLAGS",
        "RUSTC_WRAPPER",
        "VIRTUAL_ENV",
        "PYTHONPATH",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs a script that must succeed. What `other` holds stays as it is, and nothing stays locked.
fn works(world: &World, script: &str) -> Answer {
    let answer = Answer::from(exec(world, script).output().unwrap());
    assert_eq!(answer.code, 0, "{script}: {answer:?}");
    assert_eq!(read(world, "held.txt"), "theirs\n");
    answer
}

#[test]
fn cargo_builds_and_tests_a_crate() {
    let world = world();
    world.write(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    world.write(
        "src/lib.rs",
        "pub fn two() -> u8 { 2 }\n#[test]\nfn two_is_two() { assert_eq!(two(), 2); }\n",
    );
    world.write("build.rs", "fn main() { println!(\"cargo::rerun-if-changed=build.rs\"); }\n");
    world.write("src/main.rs", "fn main() { println!(\"{}\", small::two()); }\n");
    // The toolchain that runs this test, past any shim that looks for its settings in HOME.
    let toolchain = PathBuf::from(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = toolchain.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&path));
    let script =
        "cargo build -q --offline && cargo test -q --offline && cargo run -q --offline && cargo clean -q";
    let mut command = exec(&world, script);
    command.env("PATH", env::join_paths(folders).unwrap()).env("CARGO_HOME", world.home().join(".cargo"));
    let answer = Answer::from(command.output().unwrap());
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.out.contains("1 passed") && answer.out.ends_with("2\n"), "{answer:?}");
    assert!(world.root().join("Cargo.lock").exists() && !world.root().join("target/debug").exists());
}

#[test]
fn npm_installs_a_package() {
    if !have(&["node", "npm"]) {
        return;
    }
    let world = world();
    world.write("package.json", r#"{"name": "app", "private": true, "dependencies": {"dep": "file:./dep"}}"#);
    world.write("dep/package.json", r#"{"name": "dep", "version": "1.0.0", "main": "index.js"}"#);
    world.write("dep/index.js", "module.exports = 'from the package';\n");
    let answer = works(
        &world,
        "npm install --offline --install-links --no-audit --no-fund --no-update-notifier >/dev/null
         node -p 'require(\"dep\")'",
    );
    assert_eq!(answer.out, "from the package\n", "{answer:?}");
    assert!(
        world.root().join("node_modules/dep/index.js").exists()
            && !read(&world, "package-lock.json").is_empty()
    );
}

/// Builds a wheel of one module, so that pip needs nothing from elsewhere.
const BUILD_BACKEND: &str = r#"
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "small-1.0-py3-none-any.whl", "small-1.0.dist-info/"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        wheel.write("small.py")
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "small.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n")
    return name
"#;

#[test]
fn pip_installs_a_package_into_an_environment() {
    if !have(&["python3"]) {
        return;
    }
    if !Command::new("python3").args(["-c", "import ensurepip, venv"]).status().unwrap().success() {
        return mala_tests::skip("honest work that needs python3's venv, which is not installed");
    }
    let world = world();
    let project = "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n[project]\nname = \"small\"\nversion = \"1.0\"\n";
    world.write("small/pyproject.toml", project);
    world.write("small/backend.py", BUILD_BACKEND);
    world.write("small/small.py", "def two():\n    return 2\n");
    let answer = works(
        &world,
        "python3 -m venv .venv
         .venv/bin/pip install -q --no-index --disable-pip-version-check ./small 2>&1
         .venv/bin/python -c 'import small; print(small.two(), small.__file__)'",
    );
    assert!(answer.out.starts_with("2 ") && answer.out.contains("/.venv/"), "{answer:?}");
}

#[test]
fn git_adds_and_commits_own_files() {
    let world = world();
    works(
        &world,
        "echo mine >> free.txt; echo new > new.txt; mkdir -p a/b; echo deep > a/b/c.txt
         git add free.txt new.txt a; git commit -q -m mine
         git mv new.txt renamed.txt; git rm -q a/b/c.txt; git commit -q -m again",
    );
    assert_eq!(world.git(&["log", "--format=%s", "-2"]), "again\nmine");
    assert_eq!(world.git(&["status", "--short"]), "");
    assert_eq!(world.git(&["ls-files"]), ".gitignore\nfree.txt\nheld.txt\nrenamed.txt");
}

#[test]
fn who_holds_everything_may_switch_and_rebase() {
    let world = world();
    done(&world, "lock release --all --agent other");
    let answer = works(
        &world,
        &format!(
            "{MALA} lock acquire '**'
             git switch -q -c feature; echo feature > feature.txt; git add feature.txt; git commit -q -m feature
             git switch -q main; echo main > main.txt; git add main.txt; git commit -q -m main
             git switch -q feature; git rebase -q main
             git log --format=%s; cat feature.txt main.txt"
        ),
    );
    assert!(answer.out.ends_with("feature\nmain\nstart\nfeature\nmain\n"), "{answer:?}");
    assert_eq!(world.git(&["status", "--short", "--branch"]), "## feature");
}

#[test]
fn make_builds_what_is_out_of_date() {
    if !have(&["make"]) {
        return;
    }
    let world = world();
    world.write(
        "Makefile",
        "all: build/out.txt list.txt\nbuild/out.txt: free.txt\n\tmkdir -p build\n\tcp free.txt $@\nlist.txt: free.txt\n\tls > $@.tmp\n\tmv $@.tmp $@\n.PHONY: steal\nsteal:\n\tcp free.txt held.txt\n",
    );
    works(&world, "make -s -j2; make -s -q; touch -d '1 hour' free.txt; ! make -s -q; make -s");
    assert_eq!(read(&world, "build/out.txt"), "anybody's\n");
    assert!(read(&world, "list.txt").contains("list.txt.tmp"));
    let stolen = Answer::from(exec(&world, "make -s steal").output().unwrap());
    assert!(stolen.code == 2 && stolen.err.contains("`held.txt` is held by `other`"), "{stolen:?}");
    assert_eq!(read(&world, "held.txt"), "theirs\n");
}

#[test]
fn vim_saves_whichever_way_it_is_told_to() {
    if !have(&["vim"]) {
        return;
    }
    let world = world();
    let vim = |settings: &str, file: &str| {
        format!("vim -u NONE -i NONE -es -c 'set backupskip= {settings}' -c '%s/$/ +vim/' -c 'wq!' {file}")
    };
    for settings in ["backupcopy=yes", "writebackup backupcopy=no", "backup backupcopy=no", "nowritebackup"] {
        works(&world, &vim(settings, "free.txt"));
        let saved = Answer::from(exec(&world, &vim(settings, "held.txt")).output().unwrap());
        assert_ne!(saved.code, 0, "{settings}: {saved:?}");
        assert_eq!(read(&world, "held.txt"), "theirs\n", "{settings}");
    }
    assert_eq!(read(&world, "free.txt"), "anybody's +vim +vim +vim +vim\n");
    let left = world.git(&["status", "--short"]);
    assert!(left.contains("?? free.txt~") && !left.contains(".sw"), "a backup, but no swap files: {left}");
}

/// Every call is made while timer signals arrive a thousand times a second, in more processes than there are cores.
/// The handler restarts calls, as most do; one that does not may see a call interrupted that otherwise never is.
const SIGNALS: &str = r#"
import os, signal, sys, threading
ticks = 0
def tick(*_):
    global ticks
    ticks += 1
signal.signal(signal.SIGALRM, tick)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
folder = sys.argv[1]
os.mkdir(folder)
for n in range(150):
    path, moved = "%s/%d" % (folder, n), "%s/moved-%d" % (folder, n)
    with open(path, "x") as file: file.write("%d" % n)
    os.rename(path, moved)
    with open(moved, "r+") as file:
        assert file.read() == "%d" % n
        file.truncate(0)
    try: open("held.txt", "w"); sys.exit("wrote a held file")
    except PermissionError: pass
    os.unlink(moved)
os.rmdir(folder)
signal.setitimer(signal.ITIMER_REAL, 0)
# At once, or another one's could come between it and its end.
os.write(1, b"ticked\n" if ticks > 9 else b"only %d ticks\n" % ticks)
"#;

#[test]
fn programs_with_signal_handlers_go_on_under_load() {
    if !have(&["python3"]) {
        return;
    }
    let world = world();
    fs::write(world.base().join("signals.py"), SIGNALS).unwrap();
    let program = world.base().join("signals.py");
    let script = format!(
        "for n in 1 2 3 4; do python3 {} load-$n 2>/dev/null & all=\"$all $!\"; done; for one in $all; do wait $one; done",
        program.display()
    );
    assert_eq!(works(&world, &script).out, "ticked\n".repeat(4));
    assert_eq!(held(&world), [pair("held.txt", "other")]);
}

#[test]
fn a_shell_in_a_terminal_is_a_shell_in_a_terminal() {
    if !have(&["script", "bash"]) {
        return;
    }
    let world = world();
    // Whoever runs the tests may ignore signals, as `nohup` does.
    let shell = format!("env --default-signal {MALA} exec --agent me -- bash --norc --noprofile -i");
    let mut command = world.command("script");
    command
        .args(["-qefc", &shell, "/dev/null"])
        .env("PS1", "$ ")
        .env("TERM", "dumb")
        .env_remove("MALA_AGENT");
    let mut terminal = Program::start(command.stderr(Stdio::null()));
    // Echoes of what is typed look different from what is printed, because of the quotes.
    let mut answer = |typed: &str, wanted: &str| {
        terminal.tell(typed);
        loop {
            let line = terminal.hear();
            if line.trim_end().ends_with(wanted) {
                return line;
            }
        }
    };
    answer("test -t 0 && test -t 1 && echo a' 'terminal", "a terminal");
    answer("stty -echo; set -m; sleep 600 & jobs; echo lis'ted'", "listed");
    answer("kill %1; wait %1; echo ended with $?", "ended with 143");
    answer("echo mine > free.txt && cat free.txt", "mine");
    answer("echo mine > held.txt || echo not' 'mine", "not mine");
    answer("stty tostop; sh -c 'echo mine > held.txt'; stty -tostop", "mala lock acquire held.txt --wait 5m");
    answer(&format!("sh -c 'echo go on; exec {MALA} issue add typed --description -'"), "go on");
    answer("by hand\n\u{4}", ": typed");
    answer(&format!("{MALA} issue show bd-1"), "by hand");
    answer("sh -c 'kill -STOP $$; echo went on'; echo stop'ped'; fg", "went on");
    answer("trap 'echo caught' INT; kill -INT $$; trap - INT", "caught");
    answer("sh -c 'echo sleeping; exec sleep 600'", "sleeping");
    answer("\u{3}", "");
    answer("echo interrupted $?", "interrupted 130");
    terminal.tell("exit 7");
    let (status, _) = terminal.finish();
    assert_eq!(status.code(), Some(7));
    assert_eq!(
        (read(&world, "free.txt").as_str(), read(&world, "held.txt").as_str()),
        ("mine\n", "theirs\n")
    );
}
