use super::*;

fn judged(line: &str) -> Vec<Objection> {
    let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    objections(&args, |path| path == Path::new("file.txt") || path == Path::new("."))
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
    assert!(variable_objection("GIT_INDEX_FILE").is_some());
    assert!(variable_objection("GIT_CONFIG_KEY_0").is_some());
    assert!(variable_objection("GIT_AUTHOR_NAME").is_none());
}
