//! What agents side by side have of their own besides their files.

use std::fs;

use super::{Batch, Run};
use crate::cli::{Answer, done};

/// Each agent serves at the first of its ports until both do.
const SERVES: &str = r#"
    [ -d "$DATABASE" ] || exit 3
    python3 -m http.server "$MALA_PORT_BASE" --bind 127.0.0.1 > /dev/null 2>&1 &
    up='import os, socket; socket.create_connection(("127.0.0.1", int(os.environ["MALA_PORT_BASE"])))'
    until python3 -c "$up" 2> /dev/null; do sleep 0.05; done
    echo "$MALA_ISSUE $MALA_AGENT $MALA_RUN $MALA_ATTEMPT $MALA_SLOT $MALA_PORT_BASE $DATABASE" > "$OUT/$id"
    while [ "$(ls "$OUT" | wc -l)" -lt 2 ]; do sleep 0.05; done
    kill $!
    echo work > $id.txt; commit done"#;

#[test]
fn agents_side_by_side_have_numbers_ports_and_databases_of_their_own() {
    let batch = Batch::new(SERVES);
    let (databases, out) = (batch.outside("databases"), batch.outside("out"));
    fs::create_dir(&databases).unwrap();
    fs::create_dir(&out).unwrap();
    let database = format!("{}/app_{{slot}}", databases.display());
    let settings = format!(
        "{}[env]\nDATABASE = \"{database}\"\n[run]\nbefore = [\"mkdir {database}\"]\nafter = [\"rmdir {database}\"]\n",
        batch.read("mala.toml")
    );
    batch.world.write("mala.toml", &settings);
    for issue in ["bd-1", "bd-2"] {
        batch.issue(issue, &[]);
    }
    let run = batch.command(&["--max-agents", "2"]).env("OUT", &out).output().unwrap();
    let run = Run::from(Answer::from(run));
    assert_eq!((run.code, run.issues("done").len()), (0, 2), "{run:?}");
    let told = |issue: &str| -> Vec<String> {
        let line = fs::read_to_string(out.join(issue)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let (first, second) = (told("bd-1"), told("bd-2"));
    for (told, issue) in [(&first, "bd-1"), (&second, "bd-2")] {
        let agent = format!("script-{issue}-1");
        assert_eq!(told[..2], [issue.to_owned(), agent], "{told:?}");
        assert_eq!((&told[2], &*told[3]), (&run.summary()["run"].as_str().unwrap().to_owned(), "1"));
        assert_eq!(told[6], database.replace("{slot}", &told[4]));
    }
    let mut slots = [&*first[4], &*second[4]];
    slots.sort_unstable();
    assert_eq!(slots, ["1", "2"]);
    let port = |told: &[String]| told[5].parse::<u16>().unwrap();
    assert!(port(&first).abs_diff(port(&second)) >= 50, "{first:?} {second:?}");
    assert_eq!(fs::read_dir(&databases).unwrap().count(), 0, "what ran before was undone after");
    batch.assert_nothing_left();
}

#[test]
fn what_cannot_be_prepared_stops_the_run_and_burns_no_attempt() {
    let batch = Batch::with("echo work > $id.txt; commit done", "[run]\nbefore = [\"ls /nothing/{slot}\"]\n");
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    let why = run.summary()["stopped"].as_str().unwrap_or_default();
    assert!(
        why.contains("`ls /nothing/1`, which runs before each attempt") && why.contains("exit code 2"),
        "{why}"
    );
    assert!(run.all("started").is_empty(), "{run:?}");
    assert_eq!(batch.status_of("bd-1"), "open");
    batch.world.write("mala.toml", &batch.read("mala.toml").replace("ls /nothing/{slot}", "true"));
    let run = batch.command(&[]).env("MALA_RUN_ATTEMPTS", "1").output().unwrap();
    let run = Run::from(Answer::from(run));
    assert_eq!(run.issues("done"), ["bd-1"], "{run:?}");
}

#[test]
fn a_slot_has_variables_and_ports_of_its_own() {
    let batch = Batch::with("", "[env]\nDATABASE = \"app_{slot}\"\nPORT = \"{port_base}\"\n");
    let said = done(&batch.world, "test --isolated -- printenv MALA_SLOT DATABASE PORT MALA_PORT_BASE").out;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["t1", "app_t1"], "{said}");
    assert!(lines[2] == lines[3] && lines[2].parse::<u16>().is_ok(), "{said}");
}
