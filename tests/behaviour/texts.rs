//! What models read: prompts, refusals, hints, descriptions of tools. What is to be typed in them can be typed as it stands,
//! by every client: Gemini CLI runs no command with a backtick or `$(` in it.

use std::fs;
use std::path::{Path, PathBuf};

use mala_agents::git::RunAgent;
use mala_agents::shell::{self, Surroundings};
use mala_agents::start::prompt::{Template, Which};
use walkdir::WalkDir;

/// What models are told by. Its text is in string literals, and what it is made of by format strings.
const TOLD_BY: [&str; 5] =
    ["agents/src", "quality-gate/src", "orchestrator/session/src", "orchestrator/git/src/commit", "cli/src"];

/// What each place of a prompt may be filled with.
const VALUES: [(&str, &str); 16] = [
    ("id", "bd-1"),
    ("title", "Mend it"),
    ("description", "It is broken."),
    ("design", ""),
    ("acceptance", ""),
    ("files", ""),
    ("notes", ""),
    ("agent", "claude-bd-1-1"),
    ("root", "/home/ann/checkout"),
    ("mark", "bd-1"),
    ("required", " Required before a commit counts: `cargo test`."),
    ("mala", "/usr/bin/mala"),
    ("checks", "- command: `cargo test` failed"),
    ("round", "1"),
    ("rounds", "3"),
    ("why", "the run was stopped"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The string literals of a source file, up to its tests, with escapes resolved.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or(source);
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'', 'r']) {
        let here = &rest[at..];
        rest = if here.starts_with("//") {
            here.split_once('\n').map_or("", |(_, behind)| behind)
        } else if here.starts_with("'\"'") || here.starts_with("'\\'") {
            &here[3..]
        } else if let Some((text, behind)) = raw(here) {
            found.push(text.to_owned());
            behind
        } else if let Some(inside) = here.strip_prefix('"') {
            let (text, behind) = escaped(inside);
            found.push(text);
            behind
        } else {
            &here[1..]
        };
    }
    found
}

/// `r#"text"#`, and what is behind it.
fn raw(here: &str) -> Option<(&str, &str)> {
    let hashes = here.strip_prefix('r')?.len() - here[1..].trim_start_matches('#').len();
    let inside = here[1 + hashes..].strip_prefix('"')?;
    inside.split_once(&format!("\"{}", "#".repeat(hashes)))
}

fn escaped(inside: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &inside[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((at, '\n')) => {
                    // The line goes on where the next one begins.
                    let blanks = inside[at + 1..].chars().take_while(|c| c.is_whitespace()).count();
                    chars.by_ref().take(blanks).for_each(drop);
                }
                Some((_, c)) => text.push(c),
                None => {}
            },
            c => text.push(c),
        }
    }
    (text, "")
}

/// The commands that a text wants to be typed: in backticks, or behind a colon up to the end of the clause.
fn commands(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for program in ["mala ", "git "] {
        for (at, _) in text.match_indices(program) {
            let (before, line) = (&text[..at], &text[at..]);
            let end = if before.ends_with('`') {
                line.find('`')
            } else if before.ends_with(": ") {
                line.find([';', '\n', ')']).or(Some(line.len()))
            } else {
                None
            };
            found.extend(end.map(|end| &line[..end]));
        }
    }
    found
}

/// What is wrong with a text.
fn faults(text: &str) -> Vec<String> {
    let refused = |command: &&&str| command.contains('`') || command.contains("$(");
    let commands = commands(text);
    let mut faults: Vec<String> =
        commands.iter().filter(refused).map(|line| format!("no client types `{line}`")).collect();
    let is_placeholder = |word: &str| matches!(word, "MESSAGE" | "MSG" | "''" | "\"\"" | "[FILES]");
    let unfinished = commands.iter().filter(|line| line.split_whitespace().any(is_placeholder));
    faults.extend(unfinished.map(|line| format!("cannot be typed as it stands: `{line}`")));
    faults
}

/// A program that a hook or a demonstration is made of is no text.
fn is_script(text: &str) -> bool {
    text.starts_with("#!") || text.contains("\nexec ") || text.contains("; then")
}

#[test]
fn the_prompts_can_be_followed_to_the_letter() {
    for which in Which::ALL {
        let text = Template::built_in(which).fill(&VALUES);
        assert_eq!(faults(&text), Vec::<String>::new(), "{text}");
        for odd in ["{{", "}}", "``", "''", "  \n", " ."] {
            assert!(!text.contains(odd), "{odd:?} in {}: {text}", which.file());
        }
        assert_eq!(text.matches('`').count() % 2, 0, "{text}");
        let paragraphs: Vec<&str> = text.split("\n\n").filter(|part| part.len() > 20).collect();
        let is_twice = |part: &&&str| paragraphs.iter().filter(|other| other == part).count() > 1;
        assert_eq!(paragraphs.iter().filter(is_twice).count(), 0, "something is said twice: {text}");
    }
    assert!(Template::built_in(Which::Task).fill(&VALUES).contains("`mala commit -m 'bd-1: what changes'`"));
}

#[test]
fn what_is_refused_says_what_to_type_instead() {
    let corpus: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("agents/tests/corpus/harmful.toml")).unwrap())
            .unwrap();
    let run = RunAgent { branch: Some("main".to_owned()), mark: Some("bd-1".to_owned()) };
    let mut seen = 0;
    for call in corpus["call"].as_array().unwrap() {
        let Some(command) = call.get("command").and_then(toml::Value::as_str) else { continue };
        for run in [None, Some(&run)] {
            let (cwd, home) = (Path::new("/w"), Some(Path::new("/home/me")));
            let surroundings =
                Surroundings { cwd, home, exists: &|_| false, alias: &|_| None, tests: &[], run };
            for objection in shell::plan(command, surroundings).objections {
                let instead = objection.instead.to_string();
                assert_eq!(
                    faults(&format!("{}; {instead}", objection.why)),
                    Vec::<String>::new(),
                    "{objection}"
                );
                assert!(!instead.trim().is_empty() && !objection.why.is_empty(), "{objection:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "only {seen} refusals were looked at");
}

#[test]
fn every_text_that_is_told_can_be_typed_by_every_client() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for directory in TOLD_BY {
        for entry in WalkDir::new(root().join(directory)) {
            let path = entry.unwrap().into_path();
            let is_test =
                path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
            if is_test || path.extension().is_none_or(|kind| kind != "rs") {
                continue;
            }
            for text in literals(&fs::read_to_string(&path).unwrap()).iter().filter(|text| !is_script(text)) {
                seen += commands(text).len();
                wrong.extend(faults(text).into_iter().map(|fault| format!("{}: {fault}", path.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "only {seen} commands were found");
}

#[test]
fn the_reading_of_texts_finds_what_it_is_for() {
    let source = "let a = \"ask: mala lock ask `x`; b\"; // \"not: mala $(this)\"\nlet c = '\"'; r#\"use `mala \"y\"`\"#; \"m\\\n   ala z\"\n#[cfg(test)] \"late\"";
    assert_eq!(literals(source), ["ask: mala lock ask `x`; b", "use `mala \"y\"`", "mala z"]);
    assert_eq!(commands("ask: mala lock ask x; or `git add y`, or mala"), ["mala lock ask x", "git add y"]);
    for bad in [
        "type: mala lock ask `x`",
        "type: mala land $(git x)",
        "offer: mala commit -m MESSAGE",
        "`mala commit -m ''`",
    ] {
        assert_eq!(faults(bad).len(), 1, "{bad}");
    }
}
