//! Issues that need each other: none of them could ever begin.
//!
//! Here a need that would close a circle is refused; another tracker may have kept one, and so may an older store.

use std::collections::{BTreeMap, BTreeSet};

use mala_core::IssueId;

use super::rows::CLOSED_WORDS;
use crate::Store;
use crate::error::{Fault, Result};
use crate::rows;
use crate::view::View;

/// What each issue needs.
type Needs = BTreeMap<IssueId, BTreeSet<IssueId>>;

impl Store {
    /// The circles among issues that are not closed; each begins with the first of its issues.
    pub fn circles_of_needs(&mut self) -> Result<Vec<Vec<IssueId>>> {
        self.read(|view| view.circles_of_needs())
    }
}

impl View<'_> {
    pub(super) fn circles_of_needs(&self) -> std::result::Result<Vec<Vec<IssueId>>, Fault> {
        let sql = format!(
            "SELECT d.issue, d.other FROM dependency d JOIN issue i ON i.id = d.issue JOIN issue o ON o.id = d.other
             WHERE i.status NOT IN {CLOSED_WORDS} AND o.status NOT IN {CLOSED_WORDS}"
        );
        let mut statement = self.sql.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        let mut needs = Needs::new();
        while let Some(row) = rows.next()? {
            let id = |column| rows::name(row, column, IssueId::new);
            needs.entry(id(0)?).or_default().insert(id(1)?);
        }
        Ok(circles(needs))
    }
}

/// Takes away what can begin, and what can begin then; where something is left, following any need leads around a circle.
fn circles(mut needs: Needs) -> Vec<Vec<IssueId>> {
    let mut circles = Vec::new();
    loop {
        drop_startable(&mut needs);
        let Some(mut at) = needs.keys().next().cloned() else { return circles };
        let mut walked: Vec<IssueId> = Vec::new();
        let begin = loop {
            if let Some(begin) = walked.iter().position(|id| *id == at) {
                break begin;
            }
            let next = needs[&at].first().cloned();
            walked.push(at);
            at = next.expect("what needs nothing was taken away");
        };
        let mut circle = walked.split_off(begin);
        for id in &circle {
            needs.remove(id);
        }
        let first = circle.iter().enumerate().min_by_key(|(_, id)| *id).map_or(0, |(at, _)| at);
        circle.rotate_left(first);
        circles.push(circle);
    }
}

fn drop_startable(needs: &mut Needs) {
    loop {
        let left: BTreeSet<IssueId> = needs.keys().cloned().collect();
        for needed in needs.values_mut() {
            needed.retain(|id| left.contains(id));
        }
        needs.retain(|_, needed| !needed.is_empty());
        if needs.len() == left.len() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(&str, &str)]) -> Vec<String> {
        let id = |text: &str| IssueId::new(text).unwrap();
        let mut needs = Needs::new();
        for (one, other) in edges {
            needs.entry(id(one)).or_default().insert(id(other));
        }
        let words =
            |circle: &Vec<IssueId>| circle.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        circles(needs).iter().map(words).collect()
    }

    #[test]
    fn circles_are_found_wherever_they_hang() {
        assert_eq!(found(&[("a", "b"), ("b", "c"), ("d", "a")]), [""; 0]);
        assert_eq!(found(&[("a", "a")]), ["a"]);
        assert_eq!(found(&[("z", "c"), ("c", "b"), ("b", "a"), ("a", "c"), ("a", "y")]), ["a c b"]);
        assert_eq!(found(&[("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"), ("d", "a")]), ["a b", "c d"]);
    }
}
