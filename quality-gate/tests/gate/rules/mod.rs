//! The gate lets proven commits through, and nothing else.

mod attacks;
mod evidence;
mod outcomes;

use mala_core::{Actor, CommandPattern, EvidenceId, IssueId, Timestamp};
use mala_gate::evidence::{EvidenceLog, Launch, Place, Recording};
use mala_gate::verdict::{Check, Status};
use mala_gate::{ClaimMoment, CommitPlace, Evidence, Records, Rules, Subject, Verdict, check, commit};
use mala_git::Oid;
use mala_git::commit::{Committed, GitHooks, Request, Selection};

use crate::commit::{owner, paths};
use crate::evidence::ended;
use crate::world::{Locks, World, agent, event};

/// An agent `A` that claimed `proj-1` right now and must pass `pytest`; `B` works beside it.
pub(crate) struct Desk {
    pub(crate) w: World,
    pub(crate) locks: Locks,
    pub(crate) rules: Rules,
    pub(crate) subject: Subject,
}

pub(crate) fn claimed(at: Timestamp) -> ClaimMoment {
    ClaimMoment { event: event(at), at }
}

impl Desk {
    pub(crate) fn new() -> Self {
        let w = World::new();
        let subject = Subject {
            commit: None,
            issue: Some(IssueId::new("proj-1").unwrap()),
            agent: Some(agent("A")),
            claim: Some(claimed(Timestamp::now())),
            claimed_head: Some(w.head()),
            final_message: None,
            place: CommitPlace::Branch,
        };
        let rules = Rules { required: vec![command("pytest")], ..Rules::default() };
        Self { w, locks: Locks::default(), rules, subject }
    }

    /// The agent takes the file and writes it.
    pub(crate) fn edit(&self, name: &str, path: &str, text: &str) {
        self.locks.give(name, path);
        self.w.write(path, text);
    }

    pub(crate) fn run(&self, name: &str, line: &str, exit_code: i32) -> Evidence {
        self.run_during(name, line, exit_code, || {})
    }

    /// Records a command during which something happens.
    pub(crate) fn run_during(
        &self,
        name: &str,
        line: &str,
        exit_code: i32,
        meanwhile: impl FnOnce(),
    ) -> Evidence {
        let launch = Launch {
            argv: line.split(' ').map(Into::into).collect(),
            cwd: self.w.root.clone(),
            mutex: None,
            place: Place::Shared,
        };
        self.record(name, launch, exit_code, meanwhile)
    }

    pub(crate) fn record(
        &self,
        name: &str,
        launch: Launch,
        exit_code: i32,
        meanwhile: impl FnOnce(),
    ) -> Evidence {
        let who = Actor { agent: agent(name), issue: None, run: None };
        let recording = Recording::begin(&self.w.repo(), who, launch).unwrap();
        meanwhile();
        recording.finish(ended(exit_code), &self.locks).unwrap()
    }

    pub(crate) fn commit_as(&self, name: &str, message: &str) -> Oid {
        self.commit_selection(name, message, Selection::Owned).id
    }

    fn commit_selection(&self, name: &str, message: &str, selection: Selection) -> Committed {
        let request = Request {
            who: Actor { agent: agent(name), issue: None, run: None },
            selection,
            message: message.into(),
            owner: owner(1),
        };
        commit(&self.w.repo(), &self.locks, &GitHooks, &request, self.rules.foreign).unwrap()
    }

    /// Commits these files of `A`, and says what the commit names as its evidence.
    pub(crate) fn commit_of(&mut self, files: &[&str]) -> Vec<EvidenceId> {
        let made = self.commit_selection("A", "bd-proj-1: change", paths(files));
        self.subject.commit = Some(made.id);
        made.evidence
    }

    pub(crate) fn commit(&mut self) {
        self.subject.commit = Some(self.commit_as("A", "bd-proj-1: change"));
    }

    /// Commits with plain git.
    pub(crate) fn git_commit(&mut self, args: &[&str]) {
        self.w.git(args);
        self.subject.commit = Some(self.w.head());
    }

    pub(crate) fn check(&self) -> Verdict {
        let log = EvidenceLog::of(&self.w.scope());
        let records = Records { log: &log, transcripts: &[] };
        check(&self.w.repo(), &self.locks, &records, &self.rules, &self.subject).unwrap()
    }

    pub(crate) fn passes(&self) {
        let verdict = self.check();
        assert!(verdict.is_pass(), "{:#?}", verdict.failures().collect::<Vec<_>>());
    }

    /// Fails at this check alone, and says so.
    pub(crate) fn fails(&self, name: &str) -> String {
        let verdict = self.check();
        let failures: Vec<&Check> = verdict.failures().collect();
        assert!(!verdict.is_pass());
        assert_eq!(
            failures.iter().map(|check| check.name.as_str()).collect::<Vec<_>>(),
            [name],
            "{failures:#?}"
        );
        assert!(failures[0].detail.contains('`'), "it names a command: {}", failures[0].detail);
        failures[0].detail.clone()
    }
}

pub(crate) fn command(text: &str) -> CommandPattern {
    text.parse().unwrap()
}

pub(crate) fn find<'a>(verdict: &'a Verdict, name: &str) -> &'a Check {
    verdict.checks.iter().find(|check| check.name.as_str() == name).unwrap()
}

/// A tested and committed change of `a.txt`.
pub(crate) fn honest() -> (Desk, EvidenceId) {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    let id = d.run("A", "pytest -q", 0).id;
    d.commit();
    (d, id)
}

#[test]
fn a_tested_commit_of_ones_own_files_is_accepted() {
    let (d, id) = honest();
    let verdict = d.check();
    assert!(verdict.is_pass(), "{verdict:#?}");
    let statuses: Vec<_> = verdict.checks.iter().map(|check| (check.name.as_str(), check.status)).collect();
    assert_eq!(
        statuses,
        [
            ("issue-id", Status::Pass),
            ("newer-than-claim", Status::Pass),
            ("on-a-branch", Status::Pass),
            ("files-owned", Status::Pass),
            ("command", Status::Pass),
            ("foreign-edits", Status::Pass),
            ("clean-status", Status::Skipped),
        ]
    );
    assert_eq!(find(&verdict, "command").evidence, [id]);
}

#[test]
fn the_verdict_has_the_documented_form() {
    let (d, id) = honest();
    let json = serde_json::to_value(d.check()).unwrap();
    assert_eq!(json["verdict"], "pass");
    assert_eq!(json["issue"], "proj-1");
    assert_eq!(json["commit"], d.w.head().as_str());
    let command = &json["checks"][4];
    assert_eq!((&command["name"], &command["status"]), (&"command".into(), &"pass".into()));
    assert_eq!(command["evidence"], serde_json::json!([id.as_str()]));
    assert_eq!(command["detail"], "`pytest -q` passed on what was committed");
}

#[test]
fn the_issue_must_be_named_as_a_whole() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.subject.commit = Some(d.commit_as("A", "bd-proj-12: a longer id"));
    d.fails("issue-id");
    d.w.git(&["commit", "-q", "--amend", "-m", "sub-proj-1: an id that ends like it"]);
    d.subject.commit = Some(d.w.head());
    let detail = d.fails("issue-id");
    assert!(
        detail.contains("`bd-proj-1`") && detail.contains("mala commit --undo && mala commit -m "),
        "{detail}"
    );
    d.w.git(&["commit", "-q", "--amend", "-m", "subject\n\nMala-Issue: proj-1"]);
    d.subject.commit = Some(d.w.head());
    d.fails("issue-id");
    d.w.git(&["commit", "-q", "--amend", "-m", "subject\n\nfor bd-proj-1\n\nMala-Issue: proj-1"]);
    d.subject.commit = Some(d.w.head());
    d.passes();
    d.subject.issue = None;
    assert_eq!(find(&d.check(), "issue-id").status, Status::Skipped);
}

#[test]
fn a_commit_from_before_the_claim_does_not_count() {
    let (mut d, _) = honest();
    d.subject.claimed_head = d.subject.commit.clone();
    let detail = d.fails("newer-than-claim");
    assert!(detail.contains("was there before the issue was claimed"), "{detail}");
}

#[test]
fn a_chosen_date_does_not_make_an_old_commit_new() {
    let mut d = Desk::new();
    d.edit("A", "a.txt", "good\n");
    d.run("A", "pytest", 0);
    // Rewritten from the first commit on, with a date in the future: it does not build on what was claimed.
    let tree = d.w.git(&["write-tree"]);
    d.w.git(&["add", "a.txt"]);
    let tree2 = d.w.git(&["write-tree"]);
    assert_ne!(tree, tree2);
    let commit =
        d.w.command("git")
            .args(["commit-tree", "-m", "bd-proj-1: x", &tree2])
            .env("GIT_COMMITTER_DATE", "2099-01-01T00:00:00Z")
            .output()
            .unwrap();
    let id = String::from_utf8(commit.stdout).unwrap();
    d.w.git(&["update-ref", "refs/heads/main", id.trim()]);
    d.subject.commit = Some(d.w.head());
    for path in ["b.txt", "src/lib.rs"] {
        d.locks.give("A", path);
    }
    let detail = d.fails("newer-than-claim");
    assert!(detail.starts_with("it does not build on"), "{detail}");
}

#[test]
fn a_file_that_was_held_only_before_the_claim_is_not_owned() {
    let mut d = Desk::new();
    let before = d.subject.claim.unwrap().at.minus(std::time::Duration::from_secs(60));
    d.locks.give_at("A", "a.txt", before);
    d.w.write("a.txt", "good\n");
    d.run("A", "pytest", 0);
    d.commit();
    assert!(d.fails("files-owned").starts_with("`A` never held `a.txt`"));
    d.locks.give("A", "a.txt");
    d.passes();
}

#[test]
fn settings_are_for_people_whoever_holds_them() {
    let mut d = Desk::new();
    for path in ["a.txt", "mala.toml"] {
        d.locks.give("A", path);
        d.w.write(path, "good\n");
    }
    d.run("A", "pytest", 0);
    d.commit();
    assert!(d.fails("files-owned").starts_with("`mala.toml` was changed: only people change it"));
    d.subject.agent = None;
    d.passes();
}

#[test]
fn where_only_the_time_of_the_claim_is_known_the_date_decides() {
    let (mut d, _) = honest();
    d.subject.claimed_head = None;
    d.passes();
    d.subject.claim = Some(claimed(Timestamp::now().plus(std::time::Duration::from_secs(3600))));
    let verdict = d.check();
    assert_eq!(find(&verdict, "newer-than-claim").status, Status::Fail);
}

#[test]
fn people_may_commit_any_file_and_use_anybodys_evidence() {
    let (mut d, _) = honest();
    d.subject.agent = None;
    d.subject.issue = None;
    d.passes();
    let verdict = d.check();
    assert_eq!(find(&verdict, "files-owned").status, Status::Skipped);
}

#[test]
fn a_clean_status_can_be_asked_for() {
    let (mut d, _) = honest();
    d.rules.clean = mala_gate::rules::Clean::Required;
    // Once its own, it was handed on.
    d.locks.give("A", "b.txt");
    d.edit("B", "b.txt", "B is not done\n");
    d.passes();
    d.edit("A", "src/lib.rs", "forgotten\n");
    let detail = d.fails("clean-status");
    assert!(detail.starts_with("`src/lib.rs` is not committed: `mala commit` it, or restore it"), "{detail}");
}

#[test]
fn without_required_commands_nothing_needs_to_be_run() {
    let mut d = Desk::new();
    d.rules.required.clear();
    d.edit("A", "a.txt", "good\n");
    d.commit();
    d.passes();
    assert_eq!(find(&d.check(), "command").status, Status::Skipped);
}
