//! `[notify]`: telling a person who does not watch.

use serde_json::Value;

use super::Batch;

#[test]
fn questions_and_ends_of_a_run_are_told_to_a_program() {
    let batch = Batch::with("echo 'Which colour?'", "");
    let told = batch.outside("told");
    let settings = format!(
        "{}[notify]\ncommand = \"tee -a {}\"\nwebhook = \"http://127.0.0.1:1/\"\n[run]\nanswer_wait = \"1s\"\n",
        batch.read("mala.toml"),
        told.display()
    );
    batch.world.write("mala.toml", &settings);
    batch.world.git(&["commit", "-qam", "settings"]);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    let text = std::fs::read_to_string(&told).unwrap();
    let lines: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>().unwrap();
    let topics: Vec<&str> = lines.iter().map(|line| line["topic"].as_str().unwrap()).collect();
    assert_eq!(topics, ["question", "blocked", "finished"], "{lines:?}");
    assert_eq!((&lines[0]["issue"], &lines[0]["text"]), (&"bd-1".into(), &"Which colour?".into()));
    assert_eq!(lines[2]["text"], "1 blocked");
    let unnotified = run.summary()["unnotified"].as_array().unwrap();
    assert_eq!(unnotified.len(), 1, "{run:?}");
    assert!(unnotified[0].as_str().unwrap().starts_with("`notify.webhook`: "), "{unnotified:?}");
}
