//! The contract of [`IssueSource`] as checks that every source has to pass.
//!
//! A source is checked against a tracker of its own that nobody else uses and that is empty at the start. [`Seed`] is how
//! issues get into it, which the port itself cannot do. A check that fails panics and says what it expected.

mod changes;
mod claims;
mod queue;

use mala_core::{AgentId, Issue, IssueId, Priority};
use mala_issues::{IssueError, IssueSource};

/// The way into the tracker under test.
pub(crate) trait Seed: Sync {
    /// Puts an issue into the tracker and gives its whole id.
    fn add(&self, issue: &NewIssue<'_>) -> IssueId;

    /// Another source for the same tracker, as another process would have it.
    fn rival(&self) -> Box<dyn IssueSource>;
}

/// An issue to be put into a tracker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewIssue<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) priority: Priority,
    /// What has to be closed first.
    pub(crate) needs: &'a [IssueId],
}

impl<'a> NewIssue<'a> {
    pub(crate) fn task(title: &'a str) -> Self {
        Self { title, description: "", kind: "task", priority: Priority::NORMAL, needs: &[] }
    }
}

/// One check, with what it shows.
pub(crate) type Check = (&'static str, fn(&dyn IssueSource, &dyn Seed));

macro_rules! checks {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), $module::$name)),*]
    };
}

/// Every check, in the order they are made.
pub(crate) const CHECKS: &[Check] = checks![
    queue::an_empty_tracker_has_no_work_and_no_error,
    queue::the_most_urgent_comes_first,
    queue::a_limit_keeps_the_most_urgent,
    queue::epics_are_not_given_out,
    queue::an_issue_waits_until_what_it_needs_is_closed,
    queue::what_is_ready_is_as_complete_as_what_is_shown,
    queue::files_named_in_the_text_are_hints,
    queue::hostile_texts_are_data,
    claims::a_claimed_issue_is_nobody_elses,
    claims::of_many_claims_at_once_one_wins,
    claims::a_closed_issue_cannot_be_claimed,
    claims::an_issue_given_back_is_ready_again,
    claims::only_the_holder_gives_an_issue_back,
    changes::notes_are_added_behind_the_others_and_once,
    changes::hostile_notes_are_kept_as_they_are,
    changes::notes_of_several_writers_are_all_kept,
    changes::notes_without_text_or_end_are_refused,
    changes::labels_come_and_go,
    changes::a_closed_issue_stays_closed,
    changes::an_id_is_known_exactly_or_not_at_all,
];

/// Makes every check.
pub(crate) fn check(source: &dyn IssueSource, seed: &dyn Seed) {
    for (_, check) in CHECKS {
        check(source, seed);
    }
}

fn actor(name: &str) -> AgentId {
    AgentId::new(name).expect("names in checks are names")
}

fn priority(number: u8) -> Priority {
    Priority::try_from(number).expect("priorities in checks are from 0 to 4")
}

/// The whole queue.
fn queue(source: &dyn IssueSource) -> Vec<Issue> {
    source.ready(usize::MAX).expect("a tracker that works has a queue")
}

fn is_ready(source: &dyn IssueSource, id: &IssueId) -> bool {
    queue(source).iter().any(|issue| issue.id == *id)
}

fn show(source: &dyn IssueSource, id: &IssueId) -> Issue {
    source.show(id).expect("an issue that exists can be shown")
}

#[track_caller]
fn assert_not_found<T: std::fmt::Debug>(result: Result<T, IssueError>, id: &IssueId) {
    match result {
        Err(IssueError::NotFound { id: named }) if named == *id => {}
        other => panic!("`{id}` is no issue, but the answer was {other:?}"),
    }
}
