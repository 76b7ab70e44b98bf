use proptest::prelude::*;

use super::*;
use crate::objection::When;

fn judge_with(command: &str, tests: &[CommandPattern]) -> Plan {
    let exists = |path: &Path| path.starts_with("/w/sub");
    plan(
        command,
        Surroundings {
            cwd: Path::new("/w"),
            home: None,
            exists: &exists,
            alias: &|_| None,
            tests,
            run: None,
        },
    )
}

fn judge(command: &str) -> Plan {
    judge_with(command, &[])
}

fn tests() -> Vec<CommandPattern> {
    ["pytest", "cargo test", "ruff", "python -m pytest"].map(|text| text.parse().unwrap()).to_vec()
}

fn rewritten(command: &str) -> Option<String> {
    rewrite_tests(command, &judge_with(command, &tests()), "mala test --")
}

#[test]
fn guarded_commands_get_the_prefix_where_they_stand() {
    for (before, after) in [
        ("pytest", "mala test -- pytest"),
        ("cd x && pytest -q | tail -5", "cd x && mala test -- pytest -q | tail -5"),
        ("A=1 B=\"2 3\" pytest", "A=1 B=\"2 3\" mala test -- pytest"),
        ("env A=1 timeout 60 pytest", "mala test -- env A=1 timeout 60 pytest"),
        ("uv run pytest tests", "mala test -- uv run pytest tests"),
        ("exec pytest", "exec mala test -- pytest"),
        ("time pytest", "time mala test -- pytest"),
        ("! pytest", "! mala test -- pytest"),
        ("cargo test --all; cargo  test", "mala test -- cargo test --all; mala test -- cargo  test"),
        ("out=$(pytest 2>&1)", "out=$(mala test -- pytest 2>&1)"),
        ("echo \"é $(pytest)\"", "echo \"é $(mala test -- pytest)\""),
        ("echo `pytest`", "echo `mala test -- pytest`"),
        ("for i in 1 2; do pytest $i; done", "for i in 1 2; do mala test -- pytest $i; done"),
        ("if pytest; then ruff check; fi", "if mala test -- pytest; then mala test -- ruff check; fi"),
        (">out pytest", ">out mala test -- pytest"),
        ("f() { pytest; }; f; f", "f() { mala test -- pytest; }; f; f"),
        (".venv/bin/pytest &", "mala test -- .venv/bin/pytest &"),
        ("python3 -m pytest", "mala test -- python3 -m pytest"),
        ("cat <<EOF\n$(pytest)\nEOF", "cat <<EOF\n$(mala test -- pytest)\nEOF"),
    ] {
        assert_eq!(rewritten(before).as_deref(), Some(after), "{before}");
        assert_eq!(rewritten(after), None, "{after}");
    }
}

#[test]
fn what_is_no_guarded_command_is_left_alone() {
    for command in [
        "echo pytest",
        "grep pytest x",
        "mala test -- pytest",
        "A=1 mala test --isolated -- pytest",
        "bash -c 'pytest'",
        "eval pytest",
        "pytest() { :; }; pytest",
        "git commit -m 'run pytest'",
        "cat <<'EOF'\n$(pytest)\nEOF",
        "pytest 'unclosed",
    ] {
        assert_eq!(rewritten(command), None, "{command}");
    }
}

#[test]
fn a_guarded_command_in_a_string_is_known_but_has_no_place() {
    let plan = judge_with("bash -c 'cd a && pytest -x'", &tests());
    assert_eq!(plan.tests, [TestCommand { argv: vec!["pytest".to_owned(), "-x".to_owned()], range: None }]);
}

#[test]
fn a_folder_is_recognised_in_a_real_file_system() {
    let folder = std::env::temp_dir();
    let file = std::env::current_exe().unwrap();
    let exists = |path: &Path| path.exists();
    let around = Surroundings {
        cwd: Path::new("/"),
        home: None,
        exists: &exists,
        alias: &|_| None,
        tests: &[],
        run: None,
    };
    let copy = |target: &Path| plan(&format!("cp /x/name '{}'", target.display()), around).writes;
    assert_eq!(copy(&folder), [Write::File(folder.join("name"))]);
    assert_eq!(copy(&file), [Write::File(file.clone())]);
}

#[test]
fn objections_say_in_which_folder_they_hold() {
    let folders = |command: &str| -> Vec<Option<PathBuf>> {
        judge(command).objections.into_iter().map(|objection| objection.folder).collect()
    };
    assert_eq!(folders("git -C /tmp/clone reset --hard"), [Some(PathBuf::from("/tmp/clone"))]);
    assert_eq!(folders("cd /elsewhere && git stash"), [Some(PathBuf::from("/elsewhere"))]);
    assert_eq!(folders("cd $X; git stash"), [None]);
    // Whether the folder is there is not known, so it may happen in either.
    let both = [Some(PathBuf::from("/elsewhere")), Some(PathBuf::from("/w"))];
    assert_eq!(folders("cd /elsewhere; git stash"), both);
    assert_eq!(folders("cd sub; git stash"), [Some(PathBuf::from("/w/sub"))]);
}

#[test]
fn a_commit_is_noticed() {
    assert!(judge("git add a && git commit -m x").commits);
    assert!(judge("bash -c 'git -C sub commit'").commits);
    assert!(!judge("git log; echo git commit").commits);
}

#[test]
fn a_variable_that_may_have_changed_is_not_trusted() {
    for command in [
        "F=a; [ -e x ] && F=b; rm $F",
        "F=a; if true; then F=b; fi; rm $F",
        "F=a; for F in b c; do :; done; rm $F",
        "F=a; read -r F; rm \"$F\"",
        "F=a; unset F; rm \"$F\"",
        "rm $UNSET",
        "IFS=x; F=axb; rm $F",
    ] {
        let plan = judge(command);
        assert!(!plan.unknown.is_empty(), "{command}: {plan:?}");
    }
}

#[test]
fn a_megabyte_of_any_shape_is_judged() {
    let shapes: [(&str, &str); 16] = [
        ("(", ""),
        ("$(", ""),
        ("`", ""),
        ("{ ", ""),
        ("\"$(", ""),
        ("${a:-", ""),
        ("$((", ""),
        ("((", ""),
        ("echo 'a b' > /tmp/x; ", ""),
        ("a|", "b"),
        ("{a,b}", ""),
        ("cat <<E\n", ""),
        ("A=1 ", "x"),
        ("f() { :; }\n", ""),
        ("if a; then ", ""),
        ("[[ ( ", ""),
    ];
    for (part, end) in shapes {
        // Anything that takes more than a few steps for each character would not come to an end here.
        let text = format!("{}{end}", part.repeat(1_000_000 / part.len()));
        let plan = judge(&text);
        let is_harmless = part.contains("<<") || part.contains("f()");
        assert_eq!(plan.unknown.is_empty(), is_harmless, "{part:?}: {plan:?}");
    }
}

#[test]
fn one_word_may_be_a_megabyte() {
    for text in ["{".repeat(1_000_000), "*".repeat(1_000_000), format!("echo {}", "a\\ ".repeat(300_000))] {
        judge(&text);
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        judge_with(&text, &tests());
    }

    #[test]
    fn no_text_of_shell_signs_makes_it_panic(text in "[a-c /;&|<>(){}$`'\"\\\\\n#=~*?\\[\\]!,.-]{0,60}") {
        let plan = judge_with(&text, &tests());
        rewrite_tests(&text, &plan, "mala test --");
    }

    #[test]
    fn pieces_of_commands_in_any_order_do_not_make_it_panic(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "if ", "then ", "fi", "do ", "done", "for x in ", "case ", "esac", "in ", "$(", ")", "`", "\"", "'", "<<E\n",
            "E\n", "rm ", "git ", "reset ", "--hard", "pytest ", "{", "}", ";", "&&", "||", "|", ">", "é", "$x", "${", "((", "))",
            "[[ ", "]] ", "\n", " ", "sed -i ", "xargs ", "env ", "bash -c ", "A=", "=(", "f()", "find -exec ", "\\",
        ]), 0..30)
    ) {
        let text = pieces.concat();
        let plan = judge_with(&text, &tests());
        rewrite_tests(&text, &plan, "mala test --");
    }

    #[test]
    fn text_in_single_quotes_is_inert(text in "[^\\x00]{0,80}") {
        let plan = judge_with(&format!("echo {}", quoted(&text)), &tests());
        prop_assert_eq!(plan, Plan::default());
    }

    #[test]
    fn commands_in_single_quotes_are_inert(
        text in prop::sample::select(vec![
            "git reset --hard", "$(rm a)", "`rm a`", "> a", "; rm a", "' ; rm a ; '", "\n rm a \n", "pytest",
        ]),
        before in "[a-z ]{0,5}",
    ) {
        let plan = judge_with(&format!("echo {}", quoted(&format!("{before}{text}"))), &tests());
        prop_assert_eq!(plan, Plan::default());
    }

    #[test]
    fn a_file_in_single_quotes_is_written_under_exactly_that_name(name in "[^\\x00/]{1,40}") {
        prop_assume!(name != "." && name != ".." && !name.eq_ignore_ascii_case(".git"));
        let plan = judge(&format!("echo x > {}", quoted(&name)));
        prop_assert_eq!(plan.writes, vec![Write::File(Path::new("/w").join(&name))]);
        prop_assert_eq!(plan.unknown.len(), 0);
    }
}

#[test]
fn in_a_run_a_shell_command_cannot_move_the_branch_either() {
    let run = RunAgent { branch: Some("main".to_owned()), mark: None };
    let exists = |_: &Path| false;
    let in_run = |command: &str, run: Option<&RunAgent>| {
        let around = Surroundings {
            cwd: Path::new("/w"),
            home: None,
            exists: &exists,
            alias: &|_| None,
            tests: &[],
            run,
        };
        plan(command, around).objections.iter().filter(|objection| objection.when == When::InRun).count()
    };
    for command in
        ["bash -c 'git commit -m x'", "for i in 1; do git branch -m x; done", "touch .mala/b", "rm .mala/a"]
    {
        assert_eq!(in_run(command, Some(&run)), 1, "{command}");
        assert_eq!(in_run(command, None), 0, "{command}");
    }
}

#[test]
fn what_a_command_stages_is_noted() {
    for command in [
        "git add a.txt",
        "git reset -- a.txt",
        "git reset -q HEAD a.txt",
        "git restore --staged a.txt",
        "git rm -q --cached a.txt",
        "git -C /w add a.txt",
    ] {
        assert_eq!(judge(command).writes, [Write::Staged("/w/a.txt".into())], "{command}");
    }
    for command in ["git add -n a.txt", "git add .", "git add sub", "git reset"] {
        assert_eq!(judge(command).writes, [], "{command}");
    }
}

#[test]
fn a_path_that_no_kernel_opens_is_not_followed() {
    let deep = "a/".repeat(400_000);
    for command in
        [format!("cd {deep}; {}", "rm x; ".repeat(5_000)), format!("rm {deep}x"), format!("ls > {deep}")]
    {
        let plan = judge(&command);
        assert!(plan.writes.is_empty() && !plan.is_known(), "{:?}", plan.unknown);
    }
}
