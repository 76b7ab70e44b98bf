//! Others commit at the same time.

use std::time::Duration;
use std::{fs, thread};

use mala_gate::commit;
use mala_gate::rules::Foreign;
use mala_git::commit::{GitHooks, Selection};

use super::{files_of, paths, refused, request, try_commit};
use crate::world::{Locks, World};

/// Lets somebody else commit `file` while this commit's hooks run.
fn overtaken_by(w: &World, file: &str) {
    let script = format!(
        "unset GIT_INDEX_FILE; test -e ../once && exit 0; touch ../once; echo theirs > {file}; \
         git add {file}; git -c core.hooksPath=/dev/null commit -q -m overtaking {file}"
    );
    w.hook("pre-commit", &script);
}

#[test]
fn a_branch_that_moved_meanwhile_is_followed() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    overtaken_by(&w, "b.txt");
    try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap();
    assert_eq!(files_of(&w, "HEAD"), ["M a.txt"]);
    assert_eq!(files_of(&w, "HEAD~1"), ["M b.txt"]);
    assert_eq!(w.git(&["show", "HEAD:b.txt"]), "theirs", "the other commit is not undone");
    assert_eq!(w.git(&["status", "--porcelain"]), "");
}

/// As mala's own hook does: whatever differs from the last commit as it is now must be `A`'s.
const ONLY_OWN: &str =
    "test \"$(git diff-index --cached --name-only HEAD)\" = a.txt || { echo not yours; exit 1; }";

#[test]
fn a_hook_that_judges_by_a_commit_that_came_meanwhile_is_asked_again() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    let overtake = "n=$(cat ../count 2>/dev/null || echo 0); test $n -ge 3 || (echo $((n+1)) > ../count; \
        unset GIT_INDEX_FILE; echo $n > b.txt; git -c core.hooksPath=/dev/null commit -q -m overtaking b.txt)";
    w.hook("pre-commit", &format!("{overtake}; {ONLY_OWN}"));
    try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap();
    assert_eq!(files_of(&w, "HEAD"), ["M a.txt"]);
    assert_eq!(w.git(&["show", "HEAD:b.txt"]), "2", "the other commits are not undone");
    assert_eq!(w.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_hook_that_refuses_is_obeyed_though_somebody_committed_meanwhile() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    let overtake = "test -e ../once || (touch ../once; unset GIT_INDEX_FILE; echo theirs > b.txt; \
        git -c core.hooksPath=/dev/null commit -q -m overtaking b.txt)";
    w.hook("pre-commit", &format!("{overtake}; echo formatted > a.txt; echo no; exit 1"));
    let error = try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap_err().to_string();
    assert!(error.starts_with("the hook `pre-commit` refused the commit"), "{error}");
    assert_eq!(w.git(&["log", "--format=%s"]), "overtaking\nfirst");
    assert_eq!(w.read("a.txt"), "mine\n");
}

#[test]
fn a_file_that_somebody_committed_while_a_hook_refused_is_not_overwritten() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    let overtake = "unset GIT_INDEX_FILE; blob=$(echo theirs | git hash-object -w --stdin); \
        git read-tree --index-output=../i HEAD; export GIT_INDEX_FILE=$(cd ..; pwd)/i; \
        git update-index --cacheinfo 100644,$blob,a.txt; \
        git update-ref HEAD $(git commit-tree -p HEAD -m overtaking $(git write-tree))";
    w.hook("pre-commit", &format!("{overtake}; exit 1"));
    let error = try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap_err().to_string();
    assert!(error.starts_with("somebody else committed `a.txt` meanwhile, in "), "{error}");
    assert_eq!(w.read("a.txt"), "mine\n");
}

#[test]
fn somebody_who_committed_the_same_file_meanwhile_is_not_overwritten() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    overtaken_by(&w, "a.txt");
    let error = try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap_err().to_string();
    assert!(error.starts_with("somebody else committed `a.txt` meanwhile, in "), "{error}");
    assert_eq!(w.git(&["log", "--format=%s"]), "overtaking\nfirst");
    assert_eq!(w.read("a.txt"), "mine\n");
}

#[test]
fn a_folder_that_came_to_lie_where_the_file_is_counts_as_the_same_file() {
    let w = World::new();
    w.write("new", "a file\n");
    let script = "unset GIT_INDEX_FILE; test -e ../once && exit 0; touch ../once; \
        blob=$(echo x | git hash-object -w --stdin); git read-tree --index-output=../i HEAD; \
        export GIT_INDEX_FILE=$(cd ..; pwd)/i; git update-index --add --cacheinfo 100644,$blob,new/inner; \
        git update-ref HEAD $(git commit-tree -p HEAD -m folder $(git write-tree))";
    w.hook("pre-commit", script);
    let error = try_commit(&w, &Locks::new(&[("A", "new")]), paths(&["new"])).unwrap_err().to_string();
    assert!(error.starts_with("somebody else committed `new` meanwhile"), "{error}");
}

#[test]
fn a_switched_branch_is_not_followed() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.hook(
        "pre-commit",
        "unset GIT_INDEX_FILE; git commit-tree -p HEAD -m x HEAD^{tree} > ../c; \
        git update-ref refs/heads/other $(cat ../c); git update-ref refs/heads/main $(cat ../c); \
        git symbolic-ref HEAD refs/heads/other",
    );
    let error = try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap_err().to_string();
    assert_eq!(error, "the checkout was moved to another branch meanwhile: try again");
}

#[test]
fn many_agents_commit_at_once_and_nothing_is_lost() {
    let w = World::new();
    const AGENTS: usize = 8;
    for number in 0..AGENTS {
        w.write(format!("f{number}.txt"), format!("{number}\n"));
    }
    w.write("b.txt", "staged by somebody\n");
    w.git(&["add", "b.txt"]);
    thread::scope(|scope| {
        for number in 0..AGENTS {
            let w = &w;
            scope.spawn(move || {
                let locks = Locks::new(&[("A", format!("f{number}.txt").as_str())]);
                commit(
                    &w.repo(),
                    &locks,
                    &GitHooks,
                    &request(&format!("f{number}"), Selection::Owned),
                    Foreign::Named,
                )
                .unwrap();
            });
        }
    });
    assert_eq!(w.git(&["rev-list", "--count", "HEAD"]), (AGENTS + 1).to_string());
    for number in 0..AGENTS {
        let subject = w.git(&["log", "--format=%s", "--", &format!("f{number}.txt")]);
        assert_eq!(subject, format!("f{number}"));
    }
    assert_eq!(w.git(&["status", "--porcelain"]), "M  b.txt");
    w.git(&["fsck", "--strict"]);
}

#[test]
fn a_busy_index_is_waited_for() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.write(".git/index.lock", "");
    let lock = w.root.join(".git/index.lock");
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        fs::remove_file(lock).unwrap();
    });
    try_commit(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned).unwrap();
    other.join().unwrap();
    assert_eq!(w.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_branch_that_may_not_move_leaves_everything_as_it_was() {
    let w = World::new();
    w.write("a.txt", "mine\n");
    w.hook("reference-transaction", "test \"$1\" = prepared && { echo no way >&2; exit 1; }; exit 0");
    let error = refused(&w, &Locks::new(&[("A", "a.txt")]), Selection::Owned);
    assert!(error.contains("no way"), "{error}");
}

#[test]
fn an_edit_in_the_very_moment_the_index_was_written_is_not_missed() {
    let w = World::new();
    let locks = Locks::new(&[("A", "a.txt")]);
    for number in 10..30 {
        w.write("a.txt", number.to_string());
        try_commit(&w, &locks, Selection::Owned).unwrap();
        assert_eq!(w.git(&["show", "HEAD:a.txt"]), number.to_string());
        w.write("a.txt", (number + 1).to_string());
    }
}
