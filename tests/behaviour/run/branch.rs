//! In a run the branch moves only by landing, whatever an agent tries.

use std::fs;

use super::Batch;
use crate::cli::{Answer, MALA, done, mala};

/// Leaves what a command says, and how it ended, outside the checkout.
const TRY: &str = r#"
    try() { name=$1; shift; sh -c "$*" > "$OUT/$name" 2>&1; echo "exit $?" >> "$OUT/$name"; }
"#;

const LINE: &str = "offer your work: mala commit -m 'bd-1: ";

/// Runs `attempts` as an agent of a run, one after the other, and gives what each said.
fn tried(batch: &Batch, attempts: &[&str]) -> Vec<String> {
    let out = batch.outside("tried");
    fs::create_dir_all(&out).unwrap();
    let lines: Vec<String> =
        attempts.iter().enumerate().map(|(at, attempt)| format!("try {at} {}", quoted(attempt))).collect();
    let script = format!("MALA={MALA}\n{}\n{TRY}\n{}\n", super::PRELUDE, lines.join("\n"));
    fs::write(batch.world.base().join("agent.sh"), script).unwrap();
    batch.issue("bd-1", &[]);
    let run: super::Run = batch.command(&[]).env("OUT", &out).output().map(Answer::from).unwrap().into();
    let said = |at: usize| {
        fs::read_to_string(out.join(at.to_string()))
            .unwrap_or_else(|_| panic!("{} was tried: {run:?}", attempts[at]))
    };
    (0..attempts.len()).map(said).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn batch() -> Batch {
    let batch = Batch::with("", "[run]\nattempts = 1\ngate_attempts = 0");
    batch.world.git(&["branch", "other"]);
    batch
}

/// What must not change: where the branch is, what the checkout is on, and all branches and tags.
fn standing(batch: &Batch) -> [String; 2] {
    [vec!["symbolic-ref", "HEAD"], vec!["for-each-ref", "refs/heads", "refs/tags"]]
        .map(|command| batch.world.git(&command))
}

#[test]
fn git_is_refused_the_branch_before_it_starts() {
    let batch = batch();
    let before = standing(&batch);
    let attempts = [
        "echo x > x.txt; git add x.txt; git commit -q -m 'bd-1: x' -- x.txt",
        "git commit -q --allow-empty -m 'bd-1: x'",
        "git branch -m other-name",
        "git branch -M main other",
        "git update-ref refs/heads/main $(git commit-tree -p HEAD -m x HEAD^{tree})",
        "git merge -q other",
        "git reset -q --soft other",
        "git push -q . other:main",
        "git fetch -q --update-head-ok . other:main",
    ];
    for (attempt, said) in attempts.iter().zip(tried(&batch, &attempts)) {
        assert!(said.contains("is refused in a run") && said.contains(LINE), "{attempt}: {said}");
        assert!(!said.contains("exit 0"), "{attempt}: {said}");
    }
    assert_eq!(standing(&batch), before);
    assert_eq!(batch.world.git(&["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn the_files_that_say_where_the_branch_is_are_out_of_reach() {
    for is_packed in [false, true] {
        let batch = batch();
        if is_packed {
            batch.world.git(&["pack-refs", "--all"]);
        }
        let before = standing(&batch);
        let packed = fs::read(batch.world.root().join(".git/packed-refs")).ok();
        let attempts = [
            "git rev-parse other > .git/refs/heads/main",
            "rm -f .git/refs/heads/main; : > .git/refs/heads/main.lock",
            "git rev-parse other > t; mv t .git/refs/heads/main",
            "mv .git/refs/heads .git/refs/tails",
            "echo x > .git/refs/heads/main.lock",
            "echo x > .git/packed-refs",
            "echo x > .git/packed-refs.new",
            "echo x > t; mv t .git/packed-refs",
            "mkdir .git/reftable",
            "echo x > .git/HEAD.lock",
            "echo 'ref: refs/heads/other' > .git/HEAD",
            // Git by other names.
            "git -c alias.save=commit save -q --allow-empty -m x",
            "cp $(command -v git) ../vcs && ../vcs update-ref refs/heads/main other~0",
            "cp $(command -v git) ../vcs && ../vcs pack-refs --all",
            "cp $(command -v git) ../vcs && ../vcs symbolic-ref HEAD refs/heads/other",
            "cp $(command -v git) ../vcs && ../vcs branch -m renamed",
            "git worktree add -q --force ../beside main && cd ../beside && git commit -q --allow-empty -m x",
        ];
        for (attempt, said) in attempts.iter().zip(tried(&batch, &attempts)) {
            let is_told = said.contains(LINE) || said.contains("is refused in a shared checkout");
            assert!(is_told && !said.contains("exit 0"), "packed: {is_packed}, {attempt}: {said}");
        }
        assert_eq!(standing(&batch), before, "packed: {is_packed}");
        assert_eq!(fs::read(batch.world.root().join(".git/packed-refs")).ok(), packed);
        batch.world.git(&["fsck"]);
        batch.world.git(&["commit", "-q", "--allow-empty", "-m", "a person commits as ever"]);
    }
}

#[test]
fn a_branch_in_a_directory_that_is_not_there_is_not_replaced_by_a_link() {
    let batch = batch();
    batch.world.git(&["checkout", "-q", "-b", "topic/x"]);
    batch.world.git(&["pack-refs", "--all"]);
    let _ = fs::remove_dir(batch.world.root().join(".git/refs/heads/topic"));
    let before = standing(&batch);
    let attempts = [
        "mkdir ../evil; git rev-parse HEAD^{tree} > ../evil/x; ln -s $PWD/../evil .git/refs/heads/topic",
        "echo x > .git/refs/heads/topic",
        "mkdir -p ../evil; mv ../evil .git/refs/heads/topic",
    ];
    for (attempt, said) in attempts.iter().zip(tried(&batch, &attempts)) {
        assert!(said.contains(LINE) && !said.contains("exit 0"), "{attempt}: {said}");
    }
    assert_eq!(standing(&batch), before);
}

#[test]
fn refs_are_packed_and_the_branch_is_left_by_nobody_even_with_the_whole_checkout() {
    let batch = batch();
    let before = standing(&batch);
    let everything = format!("{MALA} lock acquire . &&");
    let attempts = [
        "git pack-refs --all",
        "git gc -q",
        &format!("{everything} git switch -q other"),
        "git checkout -q -B main other",
        "git symbolic-ref HEAD refs/heads/other",
        "git commit -q --allow-empty -m x",
        "git reset -q --hard other~0",
    ];
    for (attempt, said) in attempts.iter().zip(tried(&batch, &attempts)) {
        assert!(said.contains("is refused in a run") && !said.contains("exit 0"), "{attempt}: {said}");
    }
    assert_eq!(standing(&batch), before);
    assert!(!batch.world.root().join(".git/packed-refs").exists());
}

#[test]
fn what_is_malas_or_peoples_is_out_of_a_runs_reach() {
    let batch = batch();
    let attempts = [
        "mkdir .git/refs/mala",
        "mkdir -p .git/refs/mala-runs/x",
        "mkdir -p .git/logs/refs/mala",
        "cp $(command -v git) ../vcs && ../vcs update-ref refs/mala/x HEAD",
        "mkdir .mala",
        "mkdir -p .mala/prompts && echo x > .mala/prompts/task.md",
        "mkdir mine && mv mine .mala",
        "ln -s .. .mala",
    ];
    for (attempt, said) in attempts.iter().zip(tried(&batch, &attempts)) {
        assert!(said.contains("is protected") && !said.contains("exit 0"), "{attempt}: {said}");
    }
    assert_eq!(batch.world.git(&["for-each-ref", "refs/mala"]), "");
    assert!(!batch.world.root().join(".mala").exists());
}

#[test]
fn other_branches_and_tags_are_as_free_as_elsewhere() {
    let batch = batch();
    let attempts = [
        "git branch mine && git branch -d mine",
        "git branch -f other HEAD",
        "git tag v1 && git tag -d v1 && git tag v2",
        "git worktree add -q ../beside -b topic && cd ../beside && git commit -q --allow-empty -m theirs",
        "git init -q ../repo && cd ../repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && \
         git branch -m renamed && git gc -q",
        "echo x > x.txt && git add x.txt && git write-tree",
    ];
    for (attempt, said) in attempts.iter().zip(tried(&batch, &attempts)) {
        assert!(said.contains("exit 0"), "{attempt}: {said}");
    }
    let branches = batch.world.git(&["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"]);
    assert_eq!(branches, "refs/heads/main\nrefs/heads/other\nrefs/heads/topic\nrefs/tags/v2");
}

#[test]
fn agents_outside_of_a_run_commit_as_ever_but_leave_malas_refs() {
    let batch = batch();
    let script = "git commit -q --allow-empty -m one && git pack-refs --all && mkdir .mala && \
                  ! git update-ref refs/mala/x HEAD; ! mkdir .git/refs/mala; git log -1 --format=%s";
    let answer: Answer =
        mala(&batch.world, ["exec", "--agent", "me", "--", "sh", "-c", script]).output().unwrap().into();
    assert_eq!(answer.out, "one\n", "{answer:?}");
    assert!(answer.err.contains("`.git/refs/mala` is protected"), "{answer:?}");
    assert!(batch.world.root().join(".mala").is_dir());
}

#[test]
fn gits_own_hook_refuses_an_agent_of_a_run() {
    let batch = batch();
    done(&batch.world, "init");
    let hook = ["gate", "pre-commit", "--agent", "worker"];
    let join = |run: &[&str]| {
        let mut command = mala(&batch.world, ["exec", "--agent", "worker", "--issue", "bd-1"]);
        command.args(run).args(["--", "true"]);
        assert!(command.status().unwrap().success());
    };
    join(&[]);
    let ask = |index: Option<&str>| -> Answer {
        let mut command = mala(&batch.world, hook);
        command.args(index.map(|index| format!("--index={index}"))).output().unwrap().into()
    };
    assert_eq!(ask(None).code, 0, "outside of a run");
    join(&["--run", "r-1"]);
    let refused = ask(None);
    assert!(refused.code == 1 && refused.err.contains(LINE), "{refused:?}");
    assert_eq!(ask(Some(".git/index")).code, 1);
    let draft = batch.world.scope().work_dir().join("commits/1/index");
    fs::create_dir_all(draft.parent().unwrap()).unwrap();
    fs::copy(batch.world.root().join(".git/index"), &draft).unwrap();
    let offered = ask(draft.to_str());
    assert_eq!(offered.code, 0, "`mala commit` brings an index of its own: {offered:?}");
}
