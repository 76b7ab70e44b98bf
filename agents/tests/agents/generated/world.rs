//! A scratch repository in which a command may run: by a user without rights, without network, for a moment, with little
//! output and few processes, and with a process tree that ends with it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use mala_agents::shell::{Plan, Write};
use mala_core::Pattern;
use tempfile::TempDir;

/// A user that owns nothing.
const NOBODY: u32 = 61_234;
const SECONDS: &str = "2";
const HELD: [&str; 2] = ["held.txt", "sub/held.txt"];
/// No core files, little output, few processes, little memory.
const LIMITS: &str = "ulimit -c 0 -f 4096 -t 2 -u 120 -v 4000000 2>/dev/null; exec \"$0\" -c \"$1\"";

/// How a held file is.
type Look = Option<(u64, i64, i64, u32, Option<Vec<u8>>)>;

pub(super) struct World {
    base: TempDir,
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

fn works(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What stands in front of each command.
static JAIL: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut jail: Vec<String> = Vec::new();
    let mut unshare = vec!["--net", "--pid", "--ipc", "--fork", "--kill-child"];
    if !is_root() {
        unshare.extend(["--user", "--map-current-user"]);
    }
    if works("unshare", &[unshare.as_slice(), &["true"]].concat()) {
        jail.push("unshare".to_owned());
        jail.extend(unshare.into_iter().map(str::to_owned));
    }
    if is_root() {
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        jail.push("setpriv".to_owned());
        jail.extend(user);
        jail.extend(["--clear-groups", "--no-new-privs"].map(str::to_owned));
    }
    jail.extend(["timeout", "-k", "1", SECONDS].map(str::to_owned));
    jail
});

/// What protects this machine and is not there.
pub(super) fn missing_tools() -> Vec<&'static str> {
    if is_root() {
        assert!(works("setpriv", &["--version"]), "as root, nothing is run without `setpriv`");
    }
    ["unshare"].into_iter().filter(|tool| !JAIL.iter().any(|word| word == tool)).collect()
}

fn git(folder: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().unwrap().success(), "git {args:?}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    give_away(to);
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            give_away(&target);
        }
    }
}

fn give_away(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

impl World {
    pub(super) fn new() -> Self {
        let world = Self { base: tempfile::Builder::new().prefix("mala-fuzz-").tempdir().unwrap() };
        fs::set_permissions(world.base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let template = world.base.path().join("template");
        fs::create_dir_all(template.join("sub")).unwrap();
        fs::create_dir(template.join("empty")).unwrap();
        fs::create_dir(template.join("zdot")).unwrap();
        for (name, text) in [
            ("held.txt", "held\n"),
            ("sub/held.txt", "held\n"),
            ("own.txt", "b\na\n"),
            ("lines.txt", "own.txt\nlines.txt\n"),
            ("names.txt", "held.txt\n"),
            ("text.c", "int main(void) { return 0; }\n"),
            ("-oheld.txt", "an odd name\n"),
            ("save.sed", "w held.txt\n"),
            ("save.awk", "BEGIN { print \"x\" > \"held.txt\" }\n"),
            ("evil.conf", "[core]\n\tfsmonitor = ./evil\n\tpager = ./evil\n[alias]\n\tst = !./evil\n"),
            ("evil.mk", "all:\n\techo x >> held.txt\n"),
            ("rg.conf", "--pre=./evil\n"),
            ("bat.conf", "--paging=always\n--pager=./evil\n"),
            ("zdot/.zshenv", "echo written >> held.txt\n"),
            ("save.sql", ".output held.txt\nselect 1;\n"),
            ("save.vim", "call writefile(['x'], 'held.txt')\n"),
            ("evil", "#!/bin/sh\necho written >> held.txt 2>/dev/null || echo written >> ../held.txt\n"),
        ] {
            fs::write(template.join(name), text).unwrap();
        }
        fs::set_permissions(template.join("evil"), fs::Permissions::from_mode(0o755)).unwrap();
        git(&template, &["init", "-q", "-b", "main", "--template="]);
        git(&template, &["add", "."]);
        git(&template, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "start"]);
        fs::write(template.join("own.txt"), "b\na\nc\n").unwrap();
        world
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.base.path().join("work/repo")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.base.path().join("work/home")
    }

    /// Everything as it was.
    pub(super) fn reset(&self) {
        let work = self.base.path().join("work");
        if work.exists() && fs::remove_dir_all(&work).is_err() {
            // A command may have taken rights away, of its own files only.
            let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(&work).stderr(Stdio::null()).status();
            fs::remove_dir_all(&work).unwrap();
        }
        fs::create_dir(&work).unwrap();
        give_away(&work);
        fs::create_dir(self.home()).unwrap();
        give_away(&self.home());
        copy(&self.base.path().join("template"), &self.repo());
    }

    fn look(&self) -> [Look; 2] {
        HELD.map(|name| {
            let path = self.repo().join(name);
            let data = fs::symlink_metadata(&path).ok()?;
            Some((data.ino(), data.mtime(), data.mtime_nsec(), data.mode(), fs::read(&path).ok()))
        })
    }

    /// Runs the command as a client would, in the shell of its user; true if a held file is not what it was.
    pub(super) fn run(&self, shell: &str, command: &str) -> bool {
        let before = self.look();
        let mut words = JAIL.iter();
        let mut run = Command::new(words.next().expect("there is always a time limit"));
        run.args(words).args(["bash", "-c", LIMITS, shell, command]);
        run.current_dir(self.repo())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home());
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        run.status().unwrap();
        self.look() != before
    }

    /// True if the hook would find a held file among what the command is known to write.
    pub(super) fn refuses(&self, plan: &Plan) -> bool {
        let held: Vec<PathBuf> =
            HELD.iter().map(|name| self.repo().join(name).canonicalize().unwrap()).collect();
        plan.writes.iter().any(|write| match write {
            // What is staged is no file of the checkout.
            Write::Staged(_) => false,
            Write::File(path) => {
                let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
                let named = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
                let real = path.canonicalize().ok();
                held.iter().any(|held| Some(held) == named.as_ref() || Some(held) == real.as_ref())
            }
            Write::Pattern { base, rest } => {
                let Ok(base) = base.canonicalize() else { return false };
                let pattern = Pattern::parse(rest.as_bytes());
                held.iter().filter_map(|held| held.strip_prefix(&base).ok()).any(|below| {
                    pattern
                        .as_ref()
                        .is_ok_and(|pattern| pattern.matches(below.as_os_str().as_encoded_bytes()))
                })
            }
        })
    }
}
