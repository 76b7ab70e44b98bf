//! `mala run` on the issues of the real `br`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mala_tests::{eventually, tools};
use serde_json::Value;

use crate::run::{Batch, Run};

/// A checkout whose issues are kept by `br`, in a folder that git does not see.
struct Tracked {
    batch: Batch,
    br: PathBuf,
}

impl Tracked {
    fn new(script: &str) -> Option<Self> {
        let br = tools::br_or_skip(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        let tracked = Self { batch: Batch::with(script, "[run]\nattempts = 2\ngate_attempts = 0"), br };
        let info = tracked.batch.world.root().join(".git/info");
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("exclude"), ".beads/\n").unwrap();
        tracked.br(&["init", "--prefix", "t"]);
        Some(tracked)
    }

    /// Types a command as a person would.
    fn br(&self, args: &[&str]) -> String {
        let out = self.batch.world.command(&self.br).args(args).output().unwrap();
        assert!(out.status.success(), "br {args:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn create(&self, args: &[&str]) -> String {
        let created = self.br(&[&["create", "--json"], args].concat());
        serde_json::from_str::<Value>(&created).unwrap()["id"].as_str().unwrap().to_owned()
    }

    fn show(&self, id: &str) -> Value {
        serde_json::from_str::<Value>(&self.br(&["show", "--json", id])).unwrap()[0].clone()
    }

    /// `mala run`, with `br` on the PATH.
    fn command(&self, args: &[&str]) -> Command {
        let folder = self.br.parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path))).unwrap();
        let mut command = self.batch.command(args);
        command.env("MALA_ISSUES_SOURCE", "br").env("PATH", path);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

#[test]
fn issues_of_br_are_claimed_noted_and_closed() {
    let script = r#"
        case "$prompt" in
        *'# '"$id"': Twice'*) if [ $attempt = 1 ]; then echo half > half.txt; echo "I do not know how"; exit 3; fi
            printf '%s' "$prompt" > "$OUT/second";;
        *'# '"$id"': Slow'*) touch "$OUT/begun"; while ! [ -e "$OUT/go" ]; do sleep 0.02; done;;
        esac
        echo work > $id.txt; tested && commit done"#;
    let Some(tracked) = Tracked::new(script) else { return };
    let slow = tracked.create(&["Slow", "--priority", "0"]);
    let twice = tracked.create(&["Twice", "--priority", "1"]);
    let last = tracked.create(&["Last", "--deps", &format!("blocks:{slow}")]);
    let epic = tracked.create(&["Epic", "--type", "epic"]);
    tracked.br(&["update", &twice, "--notes", "by hand"]);
    let out = tracked.batch.world.base().to_owned();
    let child = tracked.command(&["--max-agents", "3"]).env("OUT", &out).spawn().unwrap();
    eventually("the first agent is at work", || out.join("begun").exists());
    let claimed = tracked.show(&slow);
    assert_eq!(
        (claimed["status"].as_str(), claimed["assignee"].as_str()),
        (Some("in_progress"), Some(format!("script-{slow}-1").as_str()))
    );
    assert_eq!(tracked.show(&last)["status"], "open", "it waits");
    fs::write(out.join("go"), "").unwrap();
    let run = Run::of(child);

    assert_eq!(run.code, 0, "{run:?}");
    for id in [&slow, &twice, &last] {
        let shown = tracked.show(id);
        assert_eq!(shown["status"], "closed", "{shown}");
        assert!(shown["close_reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{shown}");
    }
    assert_eq!(tracked.show(&epic)["status"], "open", "an epic is nobody's");
    let notes = tracked.show(&twice)["notes"].as_str().unwrap().to_owned();
    assert!(notes.starts_with("by hand\n"), "what was there comes first: {notes}");
    for words in [
        format!("Attempt 1 by `script-{twice}-1`"),
        "the agent ended with code 3".into(),
        format!("refs/mala/{twice}/1"),
    ] {
        assert!(notes.contains(&words), "no word of {words:?}: {notes}");
    }
    let prompt = fs::read_to_string(out.join("second")).unwrap();
    assert!(
        prompt.contains("by hand") && prompt.contains("I do not know how"),
        "it reaches the next attempt: {prompt}"
    );
    assert_eq!(tracked.batch.dirt(), "");
    tracked.batch.assert_nothing_left();
}

#[test]
fn an_issue_of_br_that_is_left_to_a_person_is_free_and_says_why() {
    let Some(tracked) = Tracked::new("echo half > $id.txt; exit 1") else { return };
    let id = tracked.create(&["Hopeless"]);
    let run = Run::of(tracked.command(&[]).spawn().unwrap());
    assert_eq!((run.code, run.issues("handed_over").len()), (1, 2), "{run:?}");
    let shown = tracked.show(&id);
    assert_ne!(shown["status"], "in_progress", "{shown}");
    assert!(shown["assignee"].as_str().is_none_or(str::is_empty), "nobody has it: {shown}");
    assert!(shown["labels"].as_array().unwrap().contains(&"needs-followup".into()), "{shown}");
    let notes = shown["notes"].as_str().unwrap();
    assert!(notes.contains("Attempt 1 by") && notes.contains("Attempt 2 by"), "{notes}");
}

#[test]
fn a_broken_br_is_a_loud_error_and_not_the_end_of_work() {
    let Some(tracked) = Tracked::new("exit 0") else { return };
    tracked.create(&["Work"]);
    for entry in fs::read_dir(tracked.batch.world.root().join(".beads")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::write(path, "damaged").unwrap();
        }
    }
    let run = Run::of(tracked.command(&[]).spawn().unwrap());
    assert_ne!(run.code, 0, "{run:?}");
    let said = format!("{} {:?}", run.err, run.events);
    assert!(said.contains("br ready") || said.contains("`br"), "the tracker is named: {said}");
}
