//! How many entries a round takes, and which prefix of them is green: arithmetic without git, slots or a store.

/// Of so many entries that have settled, the share that was red decides how many a round takes.
pub(super) const HISTORY: usize = 20;
/// What is believed before there is a history: one in twenty is red.
const PRIOR_RED: f64 = 1.0;
const PRIOR_ENTRIES: f64 = 20.0;

/// What is known of the prefixes of a stack, and which of them to validate next.
///
/// A prefix of so many entries, counted from the bottom, is green or red; that of none is the branch itself. It is believed that what
/// is red stays red with more on top, so only prefixes between the longest green one and the shortest red one are of
/// interest. Newcomers lie on top of the entries of the round: they are worth a validation as long as all below may be green.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    /// Entries of the round.
    count: usize,
    /// With newcomers.
    total: usize,
    /// The longest prefix that is known to be green; nothing if not even the branch is.
    green: Option<usize>,
    /// The shortest prefix that is known to be red.
    red: Option<usize>,
}

/// What a search has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing that could be acted on.
    Open,
    /// So many entries are green together.
    Green(usize),
    /// The branch is green, and red with the first entry.
    FirstRed,
    /// The branch itself is red.
    BranchRed,
}

impl Search {
    pub(super) fn new(count: usize, is_branch_green: bool) -> Self {
        Self { count, total: count, green: is_branch_green.then_some(0), red: None }
    }

    /// So many entries have come on top.
    pub(super) fn add(&mut self, newcomers: usize) {
        self.total += newcomers;
    }

    /// True as long as newcomers may be validated on top of all others.
    pub(super) fn takes_newcomers(&self) -> bool {
        self.red.is_none()
    }

    /// Of two answers that contradict each other the green one counts: something was flaky, or a later entry mends an earlier one.
    pub(super) fn learn(&mut self, prefix: usize, is_green: bool) {
        if is_green {
            self.green = self.green.max(Some(prefix));
            self.red = self.red.filter(|red| *red > prefix);
        } else if self.green.is_none_or(|green| green < prefix) {
            self.red = Some(self.red.map_or(prefix, |red| red.min(prefix)));
        }
    }

    /// What can be acted on. A green prefix does not wait for a longer one: that can still land on top of it.
    pub(super) fn known(&self) -> Known {
        match (self.green, self.red) {
            (Some(green), _) if green > 0 => Known::Green(green),
            (_, Some(0)) => Known::BranchRed,
            (Some(_), Some(1)) => Known::FirstRed,
            _ => Known::Open,
        }
    }

    /// True if the answer about this prefix would tell nothing new.
    pub(super) fn is_moot(&self, prefix: usize) -> bool {
        self.green.is_some_and(|green| prefix <= green) || self.red.is_some_and(|red| prefix >= red)
    }

    /// The prefix to validate next, beside those that are under way: all entries of the round, then all with the newcomers, then what
    /// halves the largest part that nothing is known of. The branch itself only if nothing else can be to blame.
    pub(super) fn next(&self, under_way: &[usize]) -> Option<usize> {
        let is_new = |prefix: &usize| !under_way.contains(prefix) && !self.is_moot(*prefix);
        if self.red == Some(1) {
            return Some(0).filter(is_new);
        }
        let newcomers = Some(self.total).filter(|_| self.takes_newcomers());
        if let Some(prefix) = [Some(self.count), newcomers].into_iter().flatten().find(is_new) {
            return Some(prefix);
        }
        let (low, high) = (self.green.unwrap_or(0), self.red.unwrap_or(self.count));
        let mut marks: Vec<usize> =
            under_way.iter().copied().filter(|prefix| (low..high).contains(prefix)).collect();
        marks.extend([low, high]);
        marks.sort_unstable();
        let gaps = marks.windows(2).map(|pair| (pair[1] - pair[0], pair[0].midpoint(pair[1])));
        gaps.filter(|(gap, _)| *gap > 1).max().map(|(_, middle)| middle)
    }
}

/// How many entries a round takes: so many that all of them are green about every second time.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers, never negative"
)]
pub(super) fn window(settled: usize, red: usize, largest: usize) -> usize {
    let share = (red as f64 + PRIOR_RED) / (settled as f64 + PRIOR_ENTRIES);
    let best = (std::f64::consts::LN_2 / share).round() as usize;
    best.clamp(1, largest.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a search has come to: how many land, whether the next one is to blame, and how often was waited for validations.
    #[derive(Debug, PartialEq, Eq)]
    struct Result {
        landed: usize,
        is_next_blamed: bool,
        waits: usize,
    }

    /// Searches a stack in which the entries at `bad` are red, with so many validations at a time that all take equally long, and
    /// lands what is green as soon as that is known.
    fn search(count: usize, bad: &[usize], at_once: usize) -> Result {
        let mut search = Search::new(count, true);
        let (mut landed, mut waits) = (0, 0);
        while landed < count && search.known() != Known::FirstRed {
            let mut under_way = Vec::new();
            while let Some(prefix) = search.next(&under_way).filter(|_| under_way.len() < at_once) {
                under_way.push(prefix);
            }
            assert!(!under_way.is_empty(), "{search:?} does not go on");
            waits += 1;
            let is_green = |prefix: usize| !bad.iter().any(|bad| *bad < landed + prefix);
            let answers: Vec<(usize, bool)> =
                under_way.into_iter().map(|prefix| (prefix, is_green(prefix))).collect();
            answers.into_iter().for_each(|(prefix, is_green)| search.learn(prefix, is_green));
            if let Known::Green(green) = search.known() {
                landed += green;
                let mut rest = Search::new(search.count - green, true);
                if let Some(red) = search.red {
                    rest.learn(red - green, false);
                }
                search = rest;
            }
        }
        Result { landed, is_next_blamed: search.known() == Known::FirstRed, waits }
    }

    #[test]
    fn a_green_stack_takes_one_validation() {
        for at_once in 1..4 {
            assert_eq!(
                search(16, &[], at_once),
                Result { landed: 16, is_next_blamed: false, waits: 1 },
                "{at_once} at a time"
            );
        }
    }

    #[test]
    fn the_first_red_entry_is_found_by_halves_and_all_below_it_land() {
        for count in 1..40 {
            for bad in 0..count {
                let found = search(count, &[bad, count - 1], 1);
                assert_eq!(
                    (found.landed, found.is_next_blamed),
                    (bad, true),
                    "{count} entries, {bad} is red"
                );
                let most = 2 + count.ilog2() as usize;
                assert!(found.waits <= most, "waited {} times for {count}", found.waits);
            }
        }
    }

    #[test]
    fn several_validations_at_a_time_are_waited_for_less_often() {
        let waits = |at_once| (0..16).map(|bad| search(16, &[bad], at_once).waits).sum::<usize>();
        let (one, two, three) = (waits(1), waits(2), waits(3));
        assert!(two < one && three < two, "{one}, {two}, {three}");
        for bad in 0..16 {
            let found = search(16, &[bad], 3);
            assert_eq!((found.landed, found.is_next_blamed), (bad, true));
        }
    }

    #[test]
    fn the_whole_comes_first_then_newcomers_then_halves() {
        let mut search = Search::new(8, true);
        assert_eq!(search.next(&[]), Some(8));
        assert_eq!(search.next(&[8]), Some(4));
        search.add(3);
        assert_eq!(search.next(&[8]), Some(11));
        assert_eq!(search.next(&[8, 11]), Some(4));
        let fourth = search.next(&[8, 11, 4]);
        assert_eq!(search.next(&[8, 11, 4, fourth.unwrap()]), Some(2));
        assert_eq!(fourth, Some(6));
    }

    #[test]
    fn a_longer_green_prefix_makes_shorter_ones_moot_and_a_shorter_red_one_longer_ones() {
        let mut search = Search::new(8, true);
        search.add(2);
        search.learn(4, true);
        assert_eq!([2, 4, 6, 8, 10].map(|prefix| search.is_moot(prefix)), [true, true, false, false, false]);
        assert_eq!(search.known(), Known::Green(4), "it does not wait for the longer ones");
        search.learn(8, false);
        assert_eq!([6, 8, 10].map(|prefix| search.is_moot(prefix)), [false, true, true]);
        assert!(!search.takes_newcomers());
        search.learn(10, true);
        assert_eq!(search.known(), Known::Green(10), "newcomers that mend it land as well");
    }

    #[test]
    fn newcomers_that_are_red_do_not_touch_the_round_below_them() {
        let mut search = Search::new(2, true);
        search.add(1);
        search.learn(3, false);
        assert_eq!(search.next(&[]), Some(2));
        search.learn(2, true);
        assert_eq!(search.known(), Known::Green(2));
    }

    #[test]
    fn the_branch_is_asked_about_only_if_nothing_else_can_be_to_blame() {
        let mut search = Search::new(2, false);
        assert_eq!(search.next(&[]), Some(2));
        search.learn(2, false);
        assert_eq!(search.next(&[]), Some(1));
        search.learn(1, false);
        assert_eq!((search.known(), search.next(&[]), search.next(&[0])), (Known::Open, Some(0), None));
        let mut green = search.clone();
        green.learn(0, true);
        assert_eq!(green.known(), Known::FirstRed);
        search.learn(0, false);
        assert_eq!(search.known(), Known::BranchRed);
    }

    #[test]
    fn the_window_shrinks_with_what_was_red() {
        assert_eq!(window(0, 0, 16), 14);
        assert_eq!(window(20, 0, 16), 16);
        assert_eq!(window(20, 10, 16), 3);
        assert_eq!(window(20, 20, 16), 1);
        assert_eq!(window(0, 0, 1), 1);
        assert_eq!(window(0, 0, 0), 1);
    }
}
