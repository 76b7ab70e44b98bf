use std::process::Command;

use mala_core::Scope;

use super::*;

#[test]
fn a_file_that_goes_while_others_are_stored_is_gone_and_not_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("git").args(["init", "-q"]).arg(dir.path()).status().unwrap().success());
    let repo = Repo::new(Scope::discover(dir.path()).unwrap());
    let mut taken = Taken::default();
    for number in 0..9 {
        let name = number.to_string();
        if name != "4" {
            fs::write(repo.root().join(&name), &name).unwrap();
        }
        taken.permissions.insert(RepoPath::from_bytes(name.as_bytes()), 0o644);
    }
    let gone = RepoPath::from_bytes("4");
    let entries = stored_files(&repo, &mut taken).unwrap();
    assert_eq!((entries.len(), &entries[&gone]), (9, &None));
    assert!(taken.left_out.is_empty() && !taken.permissions.contains_key(&gone), "{taken:?}");
    let stored = entries[&RepoPath::from_bytes("8")].as_ref().unwrap();
    assert_eq!(stored.oid.as_str(), "301160a93062df23030a69f4b5e4d9bf71866ee9", "its own content");
}
