mod people;
mod staging;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use mala_core::{AgentId, RunId, Scope};

use super::*;

/// Any process will do: nothing is killed here.
fn owner() -> Owner {
    Owner { host: "test".to_owned(), boot_id: "boot".to_owned(), pid: 1, start_time: 1, node: None }
}

pub(super) struct World {
    _dir: tempfile::TempDir,
    pub(super) repo: Repo,
}

impl World {
    /// A repository with nothing committed.
    fn unborn() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        fs::create_dir(&root).unwrap();
        let init = Command::new("git").args(["init", "-q", "-b", "main"]).arg(&root).status().unwrap();
        assert!(init.success());
        let repo = Repo::new(Scope::discover(&root).unwrap());
        Self { _dir: dir, repo }
    }

    /// A repository with `a`, `b` and `dir/c` committed.
    pub(super) fn new() -> Self {
        let world = Self::unborn();
        for (name, text) in [("a", "a\n"), ("b", "b\n"), ("dir/c", "c\n")] {
            world.write(name, text);
        }
        world.git(&["add", "."]);
        world.commit("start");
        world
    }

    pub(super) fn commit(&self, message: &str) {
        self.git(&["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "-m", message]);
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        let out = Command::new("git")
            .current_dir(self.repo.root())
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
    }

    fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    fn place(&self, name: &str) -> PathBuf {
        self.repo.root().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let place = self.place(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.place(name)).unwrap()
    }

    fn save(&self, names: &[&str]) -> SavedRef {
        save(&self.repo, "refs/mala/x/1", &paths(names), "saved\n").unwrap().unwrap()
    }

    fn restore(&self, names: &[&str]) {
        restore(&self.repo, &owner(), &paths(names), &NOTHING_BEFORE).unwrap();
    }

    fn saved(&self, reference: &SavedRef, name: &str) -> String {
        self.git(&["show", &format!("{}:{name}", reference.name)])
    }
}

const NOTHING_BEFORE: Before = Before { saved: None };

fn ann() -> AgentId {
    AgentId::new("ann").unwrap()
}

/// What is uncommitted now, kept for a run that begins.
fn keep(world: &World, run: &str) -> Before {
    Uncommitted::now(&world.repo).unwrap().keep(&world.repo, &RunId::new(run).unwrap()).unwrap()
}

fn paths(names: &[&str]) -> BTreeSet<RepoPath> {
    names.iter().map(|name| RepoPath::from_bytes(name.as_bytes())).collect()
}

#[test]
fn saved_bytes_come_back_and_the_checkout_is_clean() {
    let world = World::new();
    world.write("a", "changed\n");
    world.write("new/deep/file", "new\n");
    fs::remove_file(world.place("b")).unwrap();
    let all = ["a", "b", "new/deep/file"];
    assert_eq!(dirty(&world.repo).unwrap(), paths(&all));
    let saved = world.save(&all);
    world.restore(&all);
    assert_eq!(world.status(), "");
    assert!(!world.place("new").exists(), "empty folders go too");
    assert_eq!(world.saved(&saved, "a"), "changed");
    let applied =
        Command::new("sh").arg("-c").arg(saved.apply_command()).current_dir(world.repo.root()).status();
    assert!(applied.unwrap().success());
    assert_eq!((world.read("a").as_str(), world.read("new/deep/file").as_str()), ("changed\n", "new\n"));
    assert!(!world.place("b").exists());
}

#[test]
fn others_files_and_staged_work_are_untouched() {
    let world = World::new();
    world.write("a", "mine\n");
    world.write("mine.txt", "mine\n");
    world.git(&["add", "a", "mine.txt"]);
    world.write("b", "theirs, staged\n");
    world.git(&["add", "b"]);
    world.write("b", "theirs\n");
    world.write("theirs.txt", "theirs\n");
    let saved = world.save(&["a", "mine.txt"]);
    assert_eq!(
        world.git(&["diff", "--name-only", "HEAD", &saved.name]),
        "a\nmine.txt",
        "only the named files"
    );
    world.restore(&["a", "mine.txt"]);
    assert_eq!(world.status(), "MM b\n?? theirs.txt");
    assert_eq!(world.git(&["show", ":b"]), "theirs, staged");
    assert_eq!(world.read("b"), "theirs\n");
}

#[test]
fn modes_links_odd_names_and_swapped_folders_are_saved_and_restored() {
    let world = World::new();
    fs::set_permissions(world.place("a"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(world.place("b")).unwrap();
    symlink("a", world.place("b")).unwrap();
    fs::remove_dir_all(world.place("dir")).unwrap();
    world.write("dir", "a file where a folder was\n");
    let odd = RepoPath::from_bytes(b"odd \xff\n'\"*name".to_vec());
    fs::write(world.repo.root().join(std::ffi::OsStr::from_bytes(odd.as_bytes())), "odd\n").unwrap();
    let all = dirty(&world.repo).unwrap();
    assert!(all.contains(&odd) && all.len() == 5, "{all:?}");
    let saved = save(&world.repo, "refs/mala/x/1", &all, "saved\n").unwrap().unwrap();
    restore(&world.repo, &owner(), &all, &NOTHING_BEFORE).unwrap();
    assert_eq!(world.status(), "");
    assert_eq!(world.read("dir/c"), "c\n");
    let tree = world.git(&["ls-tree", "-r", &saved.name]);
    assert!(tree.contains("100755 blob") && tree.contains("120000 blob"), "{tree}");
    assert_eq!(world.saved(&saved, "dir"), "a file where a folder was");
}

#[test]
fn a_folder_where_a_file_was_goes_back_to_the_file() {
    let world = World::new();
    fs::remove_file(world.place("a")).unwrap();
    world.write("a/inside", "x\n");
    let all = dirty(&world.repo).unwrap();
    let saved = save(&world.repo, "refs/mala/x/1", &all, "saved\n").unwrap().unwrap();
    restore(&world.repo, &owner(), &all, &NOTHING_BEFORE).unwrap();
    assert_eq!((world.status().as_str(), world.read("a").as_str()), ("", "a\n"));
    assert_eq!(world.saved(&saved, "a/inside"), "x");
}

#[test]
fn saving_again_after_a_kill_keeps_what_was_saved_first() {
    let world = World::new();
    world.write("a", "mine\n");
    world.write("b", "mine too\n");
    let first = world.save(&["a", "b"]);
    assert_eq!(world.save(&["a", "b"]), first, "killed after saving: the same ref");
    world.restore(&["a"]);
    assert_eq!(dirty(&world.repo).unwrap(), paths(&["b"]), "killed between two files");
    assert_eq!(world.save(&["b"]), first);
    world.restore(&["b"]);
    assert_eq!(world.status(), "");
    world.write("a", "somebody wrote it meanwhile\n");
    let second = world.save(&["a"]);
    assert_eq!(second.name, "refs/mala/x/1.2", "a ref is never moved");
    assert_eq!(world.saved(&first, "a"), "mine");
    assert_eq!(world.saved(&second, "a"), "somebody wrote it meanwhile");
}

#[test]
fn what_a_person_had_not_committed_goes_back_to_the_person() {
    let world = World::new();
    let run = RunId::new("r1").unwrap();
    world.write("a", "the person's\n");
    world.write("person.txt", "the person's\n");
    fs::remove_file(world.place("b")).unwrap();
    let recorded = keep(&world, "r1");
    let before = Before::of(&world.repo, &run, &ann()).unwrap();
    assert_eq!(before, recorded, "another process finds it");
    for name in ["a", "b", "person.txt", "agent.txt"] {
        world.write(name, "the agent's\n");
    }
    let files = dirty(&world.repo).unwrap();
    save(&world.repo, "refs/mala/x/1", &files, "saved\n").unwrap();
    restore(&world.repo, &owner(), &files, &before).unwrap();
    assert_eq!(world.status(), " M a\n D b\n?? person.txt");
    assert_eq!(
        (world.read("a").as_str(), world.read("person.txt").as_str()),
        ("the person's\n", "the person's\n")
    );
    world.git(&["add", "a"]);
    world.commit("somebody commits it");
    world.write("a", "the agent's\n");
    restore(&world.repo, &owner(), &paths(&["a"]), &before).unwrap();
    assert_eq!(world.git(&["status", "--porcelain", "a"]), "", "what was committed since counts more");
    Before::forget(&world.repo, &run).unwrap();
    assert_eq!(world.git(&["for-each-ref", "refs/mala-runs"]), "");
}

#[test]
fn a_clean_checkout_leaves_no_ref() {
    let world = World::new();
    assert_eq!(save(&world.repo, "refs/mala/x/1", &BTreeSet::new(), "nothing\n").unwrap(), None);
    keep(&world, "r");
    assert_eq!(world.git(&["for-each-ref", "refs/mala", "refs/mala-runs"]), "");
}

#[test]
fn work_is_saved_before_the_first_commit_too() {
    let world = World::unborn();
    world.write("new", "new\n");
    world.git(&["add", "new"]);
    let saved = world.save(&["new"]);
    world.restore(&["new"]);
    assert_eq!((world.status().as_str(), world.saved(&saved, "new").as_str()), ("", "new"));
}

#[test]
fn ignored_files_and_repositories_inside_are_left_alone() {
    let world = World::new();
    world.write(".gitignore", "target\n");
    world.write("target/x", "built\n");
    world.git(&["init", "-q", "inner"]);
    world.write("inner/file", "x\n");
    assert_eq!(dirty(&world.repo).unwrap(), paths(&[".gitignore"]));
}

#[test]
fn a_busy_index_is_waited_for() {
    let world = World::new();
    world.write("a", "mine\n");
    let lock = world.place(".git/index.lock");
    fs::write(&lock, "").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            fs::remove_file(&lock).unwrap();
        });
        world.restore(&["a"]);
    });
    assert_eq!(world.status(), "");
}

#[test]
fn nothing_is_left_in_the_state_folder() {
    let world = World::new();
    world.write("a", "mine\n");
    world.save(&["a"]);
    let leftovers = || fs::read_dir(folder(&world.repo)).unwrap().count();
    assert_eq!(leftovers(), 0);
    fs::write(folder(&world.repo).join("1-dead.index"), "").unwrap();
    sweep(&world.repo);
    assert_eq!(leftovers(), 0);
}

#[test]
fn every_issue_id_makes_a_ref_of_its_own() {
    let world = World::new();
    let ids = ["bd-1", "bd 1", "a/b", "..", ".", "x.lock", "ünï", "a~^:?*[\\", "@{", "-", "a..b", "a.b"];
    let names: BTreeSet<String> = ids.iter().map(|id| attempt_ref(&IssueId::new(*id).unwrap(), 1)).collect();
    assert_eq!(names.len(), ids.len());
    assert!(names.contains("refs/mala/bd-1/1") && names.contains("refs/mala/a.b/1"));
    for name in names {
        world.git(&["check-ref-format", &name]);
    }
}

#[test]
fn a_lock_that_a_killed_git_left_on_an_own_ref_is_not_waited_for() {
    let world = World::new();
    world.write("a", "changed\n");
    let lock = world.place(".git/refs/mala/x/1.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    let saved = world.save(&["a"]);
    assert_eq!((world.saved(&saved, "a").as_str(), lock.exists()), ("changed", false));
}

#[test]
fn saved_work_comes_back_into_its_place_or_not_at_all() {
    let world = World::new();
    world.write("a", "changed\n");
    world.write("new", "new\n");
    fs::remove_file(world.place("b")).unwrap();
    let saved = world.save(&["a", "b", "new"]);
    world.restore(&["a", "b", "new"]);
    assert!(put_in_place(&world.repo, &saved).unwrap());
    assert_eq!((world.read("a").as_str(), world.read("new").as_str()), ("changed\n", "new\n"));
    assert!(!world.place("b").exists());
    assert!(!put_in_place(&world.repo, &saved).unwrap(), "somebody works on these files");
    world.restore(&["a", "b", "new"]);
    world.write("a", "another\n");
    world.git(&["add", "a"]);
    world.commit("meanwhile");
    assert!(!put_in_place(&world.repo, &saved).unwrap(), "the same line was committed since");
    assert_eq!((world.status().as_str(), world.read("b").as_str()), ("", "b\n"));
}

#[test]
fn saved_work_is_merged_with_what_was_committed_since_where_the_lines_differ() {
    let world = World::new();
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    world.write("lines", &lines("1", "9"));
    world.git(&["add", "lines"]);
    world.commit("lines");
    world.write("lines", &lines("mine", "9"));
    world.write("new", "new\n");
    let saved = world.save(&["lines", "new"]);
    world.restore(&["lines", "new"]);
    world.write("lines", &lines("1", "theirs"));
    world.git(&["add", "lines"]);
    world.commit("meanwhile");
    assert!(put_in_place(&world.repo, &saved).unwrap());
    assert_eq!(world.read("lines"), lines("mine", "theirs"));
    assert_eq!(world.read("new"), "new\n");
    forget(&world.repo, &saved).unwrap();
    assert_eq!(world.repo.resolve(&saved.name).unwrap(), None);
}

#[test]
fn runs_that_were_killed_leave_no_ref_but_those_that_are_still_needed() {
    let world = World::new();
    world.write("a", "a person's\n");
    for run in ["old", "needed", "new"] {
        keep(&world, run);
    }
    let elsewhere = "refs/mala-runs/another-checkout/r";
    world.git(&["update-ref", elsewhere, "HEAD"]);
    Before::forget_others(&world.repo, &[RunId::new("new").unwrap(), RunId::new("needed").unwrap()]).unwrap();
    let left = world.git(&["for-each-ref", "--format=%(refname)", "refs/mala-runs"]);
    let names: Vec<&str> = left.lines().map(|name| name.rsplit('/').next().unwrap()).collect();
    assert!(left.contains(elsewhere) && names.contains(&"new") && names.contains(&"needed"), "{left}");
    assert_eq!(names.len(), 3, "{left}");
}

#[test]
fn the_way_back_gives_every_byte_whatever_git_is_told_about_whitespace() {
    for setting in ["error-all", "fix"] {
        let world = World::new();
        let text = "blanks at the end  \n\t \tand in front\n\n\n";
        world.write("a", text);
        let saved = world.save(&["a"]);
        world.restore(&["a"]);
        world.git(&["config", "apply.whitespace", setting]);
        let mut apply = Command::new("sh");
        let applied =
            apply.arg("-c").arg(saved.apply_command()).current_dir(world.repo.root()).output().unwrap();
        assert!(applied.status.success() && applied.stderr.is_empty(), "{setting}: {applied:?}");
        assert_eq!(world.read("a"), text, "{setting}");
    }
}
