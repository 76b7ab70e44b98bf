//! What people had left uncommitted, and git's index, after agents.

use super::Batch;

#[test]
fn an_accepted_change_of_a_mode_or_a_kind_leaves_nothing_staged() {
    let script = r#"
        chmod +x base.txt; rm target.txt; ln -s mala.toml target.txt
        git add base.txt target.txt; tested; git commit -q -m "$id: modes""#;
    let batch = Batch::with(script, "[run]\nattempts = 1");
    batch.world.write("target.txt", "mala.toml");
    batch.world.git(&["add", "."]);
    batch.world.git(&["commit", "-q", "-m", "more"]);
    batch.issue("bd-1", &[]);
    let run = batch.run(&[]);
    assert_eq!((run.issues("done"), batch.dirt().as_str()), (vec!["bd-1"], ""), "{run:?}");
    batch.assert_nothing_left();
}
