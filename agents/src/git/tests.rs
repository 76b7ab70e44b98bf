use super::*;
use crate::objection::When;

fn judged(line: &str) -> Vec<Objection> {
    let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let exists = |path: &Path| path == Path::new("file.txt") || path == Path::new(".");
    objections(&args, &Facts { exists: &exists, alias: &|_| None, settings: &[], run: None })
}

fn is_refused(line: &str) -> bool {
    judged(line).iter().any(|objection| objection.when == When::Always)
}

#[test]
fn commands_that_move_the_tree_are_refused() {
    for line in [
        "git switch other",
        "git checkout other",
        "git checkout -b new",
        "git checkout -f",
        "git checkout other file.txt",
        "git checkout -- .",
        "git checkout .",
        "git checkout HEAD -- :/",
        "git restore .",
        "git restore --staged --worktree .",
        "git restore --source=HEAD~3 :/",
        "git -C sub -c a.b=c checkout other",
        "git --git-dir x --no-pager stash",
        "git stash pop",
        "git stash push -m checkout",
        "git stash save list",
        "git reset",
        "git reset --hard HEAD~1",
        "git reset --soft HEAD~1",
        "git reset -- .",
        "git clean -fd",
        "git merge other",
        "git rebase main",
        "git rebase --continue",
        "git pull",
        "git cherry-pick abc",
        "git revert HEAD",
        "git am x.patch",
        "git bisect start",
        "git checkout-index -a -f",
        "git commit --amend --no-edit",
        "git commit --ame -m x",
        "git sparse-checkout set src",
    ] {
        assert!(is_refused(line), "{line}");
    }
}

#[test]
fn commands_that_step_around_the_guards_are_refused() {
    for line in [
        "git commit --no-verify -m x",
        "git commit --no-verif -m x",
        "git commit -nm x",
        "git commit -anm x",
        "git -c core.hooksPath=/dev/null commit -m x",
        "git -c CORE.HOOKSPATH= commit -m x",
        "git --config-env=core.hooksPath=X commit -m x",
        "git -c alias.x=reset x",
        "git config core.hooksPath /tmp/none",
        "git config --unset core.hooksPath",
        "git config set core.hooksPath x",
        "git config --global core.hooksPath /dev/null",
        "git config alias.oops stash",
        "git update-ref refs/heads/main HEAD~1",
        "git symbolic-ref HEAD refs/heads/x",
        "git read-tree HEAD",
        "git update-index --assume-unchanged file.txt",
        "git commit-tree -m x HEAD^{tree}",
    ] {
        assert!(is_refused(line), "{line}");
    }
}

#[test]
fn commands_about_files_or_words_about_commands_are_not() {
    for line in [
        "git",
        "git --version",
        "git status",
        "git add file.txt",
        "git commit -m stash",
        "git commit -m -n",
        "git commit -m --amend",
        "git commit --allow-empty -m x",
        "git commit -mn",
        "git commit --message --no-verify",
        "git commit -F -n",
        "git log --grep reset",
        "git checkout -- file.txt",
        "git checkout HEAD -- other.txt",
        "git checkout file.txt",
        "git restore file.txt",
        "git restore --staged file.txt",
        "git reset -- file.txt",
        "git reset HEAD -- file.txt",
        "git stash list",
        "git stash show -p",
        "git clean -n",
        "git clean -fdn",
        "git rebase --abort",
        "git checkout --help",
        "git diff checkout",
        "git worktree add ../x",
        "git branch -D old",
        "git symbolic-ref HEAD",
        "git config core.hooksPath",
        "git config --get core.hooksPath",
        "git config user.name x",
        "git -c user.name=x commit -m y",
        "git fetch --all",
        "git push",
    ] {
        assert!(!is_refused(line), "{line}");
    }
}

#[test]
fn taking_everything_along_is_wrong_only_while_others_have_changes() {
    for line in [
        "git add -A",
        "git add --all .",
        "git add -u",
        "git add .",
        "git add :/",
        "git commit -a -m x",
        "git commit -am x",
        "git commit --all -m x",
        "git commit --al -m x",
        "git commit -m x .",
        "git restore --staged .",
    ] {
        let when: Vec<When> = judged(line).iter().map(|objection| objection.when).collect();
        assert_eq!(when, [When::ForeignChanges], "{line}");
    }
    for line in
        ["git add -A file.txt", "git add -n .", "git commit -m x file.txt", "git commit -m . file.txt"]
    {
        assert!(judged(line).is_empty(), "{line}");
    }
}

#[test]
fn an_objection_says_what_why_and_what_instead() {
    let found = judged("git reset --hard");
    assert_eq!(
        found[0].to_string(),
        "`git reset --hard` is refused in a shared checkout: it undoes everybody's work; \
         for your own files: git restore --staged --worktree -- FILE"
    );
}

#[test]
fn variables_that_lead_git_elsewhere_are_known() {
    assert!(variable_objection("GIT_INDEX_FILE", None).is_some());
    assert!(variable_objection("GIT_CONFIG_KEY_0", None).is_some());
    assert!(variable_objection("GIT_AUTHOR_NAME", None).is_none());
}

fn run_agent() -> RunAgent {
    RunAgent { branch: Some("main".to_owned()), mark: Some("bd-1".to_owned()) }
}

fn refused_in_run(line: &str) -> Option<Objection> {
    refused_words_in_run(line.split_whitespace())
}

fn refused_words_in_run<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Objection> {
    let args: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let exists = |path: &Path| path == Path::new("file.txt");
    let facts = Facts { exists: &exists, alias: &|_| None, settings: &[], run: Some(&run_agent()) };
    objections(&args, &facts).into_iter().find(|objection| objection.when == When::InRun)
}

#[test]
fn in_a_run_nothing_moves_the_branch() {
    for line in [
        "git commit -m x",
        "git commit -m x -- file.txt",
        "git commit --amend --no-edit",
        "git commit -nm x",
        "git commit -m --dry-run",
        "git merge other",
        "git merge --ff-only other",
        "git pull",
        "git rebase other",
        "git cherry-pick abc",
        "git revert HEAD",
        "git am x.patch",
        "git reset --soft HEAD~1",
        "git reset --hard abc",
        "git reset HEAD~1",
        "git update-ref refs/heads/main abc",
        "git update-ref -d HEAD",
        "git update-ref -m topic HEAD abc",
        "git update-ref --stdin",
        "git branch -m other",
        "git branch -M main other",
        "git branch --move other main",
        "git branch -f main HEAD~1",
        "git branch -D other main",
        "git branch -C other main",
        "git fetch origin x:main",
        "git fetch -u origin +x:refs/heads/main",
        "git fetch origin +refs/heads/*:refs/heads/*",
        "git push . HEAD:main",
        "git push . :refs/heads/main",
        "git push . +main",
        "git worktree add -f -B main ../x",
    ] {
        let found = refused_in_run(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(found.why, "the branch moves only by landing", "{line}");
        assert!(found.instead.contains("mala commit -m 'bd-1: "), "{line}: {found}");
    }
}

#[test]
fn in_a_run_the_checkout_stays_on_its_branch_and_refs_stay_as_they_are() {
    for line in [
        "git switch other",
        "git switch -C main abc",
        "git checkout other",
        "git checkout -B main abc",
        "git symbolic-ref HEAD refs/heads/x",
        "git bisect start",
        "git pack-refs --all",
        "git gc --auto",
        "git maintenance run",
        "git refs migrate --ref-format=reftable",
        "git update-ref refs/mala/x abc",
        "git fetch origin x:refs/mala-runs/y",
        "git push . HEAD:refs/mala/candidates/bd-1/1",
    ] {
        assert!(refused_in_run(line).is_some(), "{line}");
    }
}

#[test]
fn in_a_run_other_names_are_as_free_as_elsewhere() {
    for line in [
        "git status",
        "git add file.txt",
        "git commit --dry-run",
        "git commit --help",
        "git reset -- file.txt",
        "git reset HEAD -- file.txt",
        "git reset file.txt",
        "git rebase --abort",
        "git revert -n HEAD",
        "git branch topic",
        "git branch -d topic",
        "git branch -m topic other",
        "git branch -f backup main",
        "git branch -c main backup",
        "git tag v1",
        "git stash list",
        "git fetch origin",
        "git fetch origin main",
        "git fetch origin main:upstream",
        "git push origin HEAD:main",
        "git push . HEAD:topic",
        "git worktree add ../x",
        "git write-tree",
        "git commit-tree -m x HEAD^{tree}",
        "git update-ref refs/heads/topic HEAD",
        "git symbolic-ref HEAD",
        "git checkout -- file.txt",
        "git update-ref refs/malaise/x abc",
    ] {
        assert_eq!(refused_in_run(line), None, "{line}");
    }
}

#[test]
fn an_agent_of_a_run_is_told_what_to_type() {
    let found = refused_in_run("git commit -m x").unwrap();
    assert_eq!(
        found.to_string(),
        "`git commit -m x` is refused in a run: the branch moves only by landing; \
         offer your work: mala commit -m 'bd-1: x'"
    );
    for (typed, offered) in [
        (&["-am", "bd-1: mend it"][..], "'bd-1: mend it'"),
        (&["--message=mend it", "file"], "'bd-1: mend it'"),
        (&["-qmmended"], "'bd-1: mended'"),
        (&["--message", "of bd-12"], "'bd-1: of bd-12'"),
        (&["-m", "use `x`", "-m", "more"], "'bd-1: what changes'"),
        (&["--allow-empty", "-F", "file"], "'bd-1: what changes'"),
    ] {
        let told = refused_words_in_run(["git", "commit"].iter().chain(typed).copied()).unwrap().instead;
        assert_eq!(told, format!("offer your work: mala commit -m {offered}"), "{typed:?}");
    }
    let unknown = RunAgent { branch: None, mark: None };
    assert!(unknown.refusal().ends_with("mala commit -m 'ISSUE: what changes'"));
    let variable = variable_objection("GIT_INDEX_FILE", Some(&run_agent())).unwrap();
    assert!(variable.instead.ends_with("mala commit -m 'bd-1: what changes'"), "{variable}");
}

#[test]
fn git_that_only_looks_may_be_told_to_run_no_hooks() {
    for line in [
        "git -c core.hooksPath=/dev/null -c hook.x.enabled=false status --porcelain",
        "git -c core.hooksPath=/dev/null rev-parse HEAD",
        "git -c core.hooksPath= ls-files",
        "git -c core.hooksPath= remote -v",
        "git -c core.hooksPath= log -1",
        "git -c core.hooksPath= diff",
        "git -c core.hooksPath= add file.txt",
        "git -c core.worktree=/x status",
        "git -c alias.x=log x",
    ] {
        assert_eq!(judged(line), [], "{line}");
    }
    for line in [
        "git -c hook.x.enabled=false commit -m x",
        "git -c core.hooksPath= push",
        "git -c core.hooksPath= no-such-command",
        "git -c core.worktree=/x add file.txt",
        "git -c alias.x=!ls x",
    ] {
        assert!(is_refused(line), "{line}");
    }
}

#[test]
fn settings_of_the_environment_count_like_those_of_the_command_line() {
    let settings = ["core.hooksPath=".to_owned()];
    let judged = |line: &str| {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        objections(&args, &Facts { exists: &|_| false, alias: &|_| None, settings: &settings, run: None })
    };
    assert_eq!(judged("git status"), []);
    assert_eq!(judged("git commit -m x").len(), 1);
}

#[test]
fn what_writes_protected_things_beside_others_is_refused_as_a_whole() {
    let judged = |line: &str| {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let exists = |path: &Path| path == Path::new(".git");
        let facts = Facts { exists: &exists, alias: &|_| None, settings: &[], run: None };
        objections_enforced(&args, &facts)
    };
    for line in [
        "git branch -m topic other",
        "git branch -c topic other",
        "git branch -u origin/main",
        "git branch --track topic main",
        "git branch topic origin/main",
        "git push -u origin HEAD",
        "git remote rename a b",
        "git submodule add x",
        "git config user.name x",
        "git init",
        "git maintenance register",
        "git checkout -b topic origin/main",
        "git svn fetch",
    ] {
        assert!(judged(line).iter().any(|objection| objection.when == When::Protected), "{line}");
    }
    for line in [
        "git branch topic",
        "git branch -D topic",
        "git push origin HEAD",
        "git fetch",
        "git remote -v",
        "git config user.name",
        "git config --global user.name x",
        "git init elsewhere",
        "git worktree add ../x",
        "git tag v1",
    ] {
        assert_eq!(judged(line), [], "{line}");
    }
}
