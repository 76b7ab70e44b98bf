//! How many entries a round takes, and which prefix of them is green: arithmetic without git, slots or a store.

/// Of so many entries that have settled, the share that was red decides how many a round takes.
pub(super) const HISTORY: usize = 20;
/// What is believed before there is a history: one in twenty is red.
const PRIOR_RED: f64 = 1.0;
const PRIOR_ENTRIES: f64 = 20.0;

/// What is known of a stack after validating some of its prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Search {
    /// So many entries, from the bottom, are green together.
    pub(super) green: usize,
    /// The tree with the next entry on top is red.
    pub(super) is_next_red: bool,
}

/// Finds the longest prefix of `count` entries that is green: the whole of it first, then by halves. A prefix of none is the
/// branch itself and is not asked about.
pub(super) fn longest_green<E>(
    count: usize,
    mut is_green: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Search, E> {
    if count == 0 || is_green(count)? {
        return Ok(Search { green: count, is_next_red: false });
    }
    let (mut green, mut red) = (0, count);
    while red - green > 1 {
        let middle = green.midpoint(red);
        if is_green(middle)? {
            green = middle;
        } else {
            red = middle;
        }
    }
    Ok(Search { green, is_next_red: true })
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

    /// Searches a stack in which the entries at `bad` are red, and counts the validations.
    fn search(count: usize, bad: &[usize]) -> (Search, usize) {
        let mut validations = 0;
        let found = longest_green(count, |prefix| {
            validations += 1;
            Ok::<_, ()>(!bad.iter().any(|bad| *bad < prefix))
        });
        (found.unwrap(), validations)
    }

    #[test]
    fn a_green_stack_takes_one_validation() {
        assert_eq!(search(16, &[]), (Search { green: 16, is_next_red: false }, 1));
        assert_eq!(search(0, &[]), (Search { green: 0, is_next_red: false }, 0));
    }

    #[test]
    fn the_first_red_entry_is_found_by_halves() {
        for count in 1..40 {
            for bad in 0..count {
                let (found, validations) = search(count, &[bad, count - 1]);
                assert_eq!(found, Search { green: bad, is_next_red: true }, "{count} entries, {bad} is red");
                assert!(validations <= 2 + count.ilog2() as usize, "{validations} for {count}");
            }
        }
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(longest_green(3, |_| Err("no slot")), Err("no slot"));
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
