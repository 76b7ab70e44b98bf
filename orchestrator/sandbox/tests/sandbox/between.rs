//! What others do to a name after it was looked at and before the call is performed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use mala_sandbox::{Attempt, EntryKind, Guard, Jail, Ruling};

use crate::world::{User, World};

type Deed = Box<dyn FnOnce() + Send>;

/// Allows everything. Somebody else does something while it thinks, once.
struct Meanwhile {
    root: PathBuf,
    deed: Mutex<Option<Deed>>,
    /// What was asked, and how it went.
    asked: Mutex<Vec<String>>,
}

impl Guard for Meanwhile {
    fn judge(&self, attempt: &Attempt<'_>) -> Ruling {
        self.asked.lock().unwrap().push(format!(
            "{:?} {}",
            attempt.paths,
            attempt.kind == EntryKind::Directory
        ));
        if let Some(deed) = self.deed.lock().unwrap().take() {
            deed();
        }
        Ruling::Allow
    }

    fn is_over(&self, _pid: u32, is_performed: bool) {
        let end = if is_performed { "performed" } else { "failed" };
        self.asked.lock().unwrap().push(format!("{end} {}", self.root.join("made").exists()));
    }

    fn is_exempt(&self, path: &Path) -> bool {
        path.starts_with("ignored")
    }
}

fn run_quietly(world: &World, script: &str) -> Vec<String> {
    supervise(world, script, None).asked.lock().unwrap().clone()
}

/// Runs a script in which the first call that is judged meets with `deed`. Returns what was asked.
fn run(world: &World, script: &str, deed: impl FnOnce(&Path) + Send + 'static) -> Vec<String> {
    let root = world.root();
    let guard = supervise(world, script, Some(Box::new(move || deed(&root))));
    assert!(guard.deed.lock().unwrap().is_none(), "{script}: nobody was asked");
    guard.asked.lock().unwrap().clone()
}

fn supervise(world: &World, script: &str, deed: Option<Deed>) -> Arc<Meanwhile> {
    let root = world.root();
    let guard = Arc::new(Meanwhile { root: root.clone(), deed: Mutex::new(deed), asked: Mutex::default() });
    let mut command = Command::new("python3");
    command.args(["-c", &format!("import os\n{script}")]).current_dir(&root).stderr(Stdio::null());
    let git_dir = root.join(".git");
    let jail =
        Jail { git_dir, root, protected: Vec::new(), closed: Vec::new(), exempt: Vec::new(), spares: None };
    mala_sandbox::run(&jail, Arc::clone(&guard) as Arc<dyn Guard>, command).unwrap();
    guard
}

fn mv(root: &Path, from: &str, to: &str) {
    fs::rename(root.join(from), root.join(to)).unwrap();
}

#[test]
fn a_file_that_gets_another_name_is_not_changed_under_its_old_one() {
    for script in [
        "os.write(os.open('temp', os.O_WRONLY), b'x')",
        "os.write(os.open('temp', os.O_WRONLY | os.O_CREAT | os.O_TRUNC), b'x')",
        "os.write(os.open('sub/../temp', os.O_WRONLY | os.O_APPEND), b'x')",
        "os.truncate('temp', 1)",
        "os.chmod('temp', 0o777)",
        "os.link('temp', 'further')",
    ] {
        let world = World::new(User::Myself);
        world.write("temp", "saved\n");
        run(&world, script, |root| mv(root, "temp", "sub/held.txt"));
        let held = fs::metadata(world.root().join("sub/held.txt")).unwrap();
        let seen = (world.read("sub/held.txt"), held.mode() & 0o7777, held.nlink());
        assert_eq!(seen, ("saved\n".to_owned(), 0o644, 1), "{script}");
    }
}

#[test]
fn a_folder_that_gets_another_name_is_not_changed_under_its_old_one() {
    for script in [
        "open('sub/../sub/new', 'x')",
        "open('sub/new', 'x')",
        "os.mkdir('sub/../sub/new')",
        "os.symlink('x', 'sub/../sub/new')",
        "os.unlink('sub/../sub/held.txt')",
        "os.rename('sub/../sub/held.txt', 'mine')",
        "os.rename('free.txt', 'sub/../sub/held.txt')",
        "os.link('free.txt', 'sub/../sub/new')",
    ] {
        let world = World::new(User::Myself);
        // A folder like the one that was there.
        let asked = run(&world, script, |root| {
            mv(root, "sub", "other");
            fs::create_dir(root.join("sub")).unwrap();
        });
        let mut there: Vec<_> = fs::read_dir(world.root().join("other"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        there.sort();
        assert_eq!(there, ["held.txt", "other.txt"], "{script}: {asked:?}");
        assert_eq!(world.read("other/held.txt"), "held by someone else\n", "{script}");
    }
}

#[test]
fn what_has_become_a_folder_is_judged_as_one() {
    let world = World::new(User::Myself);
    let asked = run(&world, "os.rename('free.txt', 'x')", |root| {
        mv(root, "free.txt", "y");
        mv(root, "sub", "free.txt");
    });
    let expected =
        [r#"["free.txt", "x"] false"#, "failed false", r#"["free.txt", "x"] true"#, "performed false"];
    assert_eq!(asked, expected);
}

#[test]
fn the_guard_hears_of_the_end_when_it_is_one() {
    let world = World::new(User::Myself);
    for (script, end) in [
        ("os.rename('free.txt', 'made')", "performed true"),
        ("os.rename('made', 'sub/no/made')", ""),
        ("os.rename('made', 'sub/other.txt/x')", ""),
        ("os.unlink('made')", "performed false"),
        ("open('made', 'x')", "performed true"),
    ] {
        let asked = run_quietly(&world, script);
        assert_eq!(asked.last().map_or("", |last| last.as_str()), end, "{script}: {asked:?}");
    }
}

#[test]
fn a_folder_with_hard_links_stays_where_it_is_whatever_its_path_leads_to() {
    let world = World::new(User::Myself);
    for folder in ["ignored", "p/a", "q/a"] {
        fs::create_dir_all(world.root().join(folder)).unwrap();
    }
    fs::hard_link(world.root().join("free.txt"), world.root().join("p/a/x")).unwrap();
    run(&world, "os.rename('q/../p/a', 'ignored/a')", |root| {
        mv(root, "p", "r");
        mv(root, "q", "p");
        mv(root, "r", "q");
    });
    assert!(!world.root().join("ignored/a/x").exists(), "a file has a name that needs no lock");
}

#[test]
fn programs_that_replace_each_others_files_do_not_fail() {
    let world = World::new(User::Myself);
    let script = "
failed = []
def save(number):
    for _ in range(100):
        try:
            open('temp%d' % number, 'w').close(); os.rename('temp%d' % number, 'free.txt')
            open('free.txt', 'a').close()
            os.unlink('gone') if number % 2 else open('gone', 'w').close()
        except FileNotFoundError: pass
        except OSError as error: failed.append(error)
    open('failed', 'a').write(repr(failed))
for number in range(8):
    if os.fork() == 0: save(number); os._exit(0)
for _ in range(8): os.wait()";
    run_quietly(&world, script);
    assert_eq!(world.read("failed"), "[]".repeat(8));
}
