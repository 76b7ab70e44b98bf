//! Sequences with gaps, and whether two of them can stand for the same thing.
//!
//! Both levels of a pattern have this shape: a pattern is a sequence of names in which `**` is a
//! gap, and a name with wildcards is a sequence of tokens in which `*` is a gap. A gap stands for
//! any run of items, also none. So one walk, [`Sequence::meets`], answers for both levels.

/// The most items a sequence can hold: one bit per position between items, ends included.
const CAPACITY: usize = u64::BITS as usize - 1;

/// Items in order, with gaps between them. Neighbouring gaps are one gap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sequence<T> {
    items: Vec<T>,
    /// Bit `n` is set when there is a gap just before item `n`, or after the last item.
    gaps: u64,
}

/// One step along a sequence.
#[derive(Debug, Clone, Copy)]
pub(super) enum Element<T> {
    Gap,
    Item(T),
}

impl<T> Sequence<T> {
    pub(super) fn new() -> Self {
        Self { items: Vec::new(), gaps: 0 }
    }

    pub(super) fn reserve(&mut self, more: usize) {
        self.items.reserve(more);
    }

    pub(super) fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Opens a gap after the last item. Callers keep below the limits, so the position has a bit.
    pub(super) fn push_gap(&mut self) {
        debug_assert!(self.items.len() <= CAPACITY);
        self.gaps |= self.end();
    }

    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn has_gaps(&self) -> bool {
        self.gaps != 0
    }

    pub(super) fn ends_with_gap(&self) -> bool {
        self.has_gaps() && self.gaps & self.end() != 0
    }

    /// The items before the first gap.
    pub(super) fn before_first_gap(&self) -> &[T] {
        let first = self.gaps.trailing_zeros() as usize;
        self.items.get(..first).unwrap_or(&self.items)
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = Element<&T>> {
        (0..=self.items.len()).flat_map(|at| {
            let gap = (self.gaps >> at & 1 == 1).then_some(Element::Gap);
            gap.into_iter().chain(self.items.get(at).map(Element::Item))
        })
    }

    /// Whether some run of concrete items is described both by `other` and by this sequence, where
    /// `fit` says whether two items can stand for the same concrete item.
    ///
    /// Walks `other` once and keeps the set of places this sequence can have got to, so the cost is
    /// at most the product of both lengths whatever the input. `other` may be of any length.
    pub(super) fn meets<U: Copy>(
        &self,
        other: impl Iterator<Item = Element<U>>,
        mut fit: impl FnMut(U, &T) -> bool,
    ) -> bool {
        let end = self.end();
        let mut reached: u64 = 1;
        for element in other {
            count_step();
            // A gap at the end takes whatever is left of `other`.
            if reached & self.gaps & end != 0 {
                return true;
            }
            reached = match element {
                Element::Gap => from_lowest_to(reached, end),
                Element::Item(item) => self.advance(reached, |own| fit(item, own)),
            };
            if reached == 0 {
                return false;
            }
        }
        reached & end != 0
    }

    /// Whether this sequence goes on behind an item that describes the last of `run` and that `counts`, where `fit` says whether
    /// an item describes a concrete one.
    pub(super) fn continues_after<U: Copy>(
        &self,
        run: impl Iterator<Item = U>,
        fit: impl Fn(U, &T) -> bool,
        counts: impl Fn(&T) -> bool,
    ) -> bool {
        let mut run = run.peekable();
        let mut reached: u64 = 1;
        while let Some(item) = run.next() {
            if run.peek().is_none() {
                let inner = self.items.split_last().map_or(&[][..], |(_, inner)| inner);
                let mut inner = inner.iter().enumerate();
                return inner.any(|(at, own)| reached >> at & 1 == 1 && counts(own) && fit(item, own));
            }
            reached = self.advance(reached, |own| fit(item, own));
        }
        false
    }

    /// The places reachable from `reached` by consuming one item of the other sequence: this
    /// sequence stays where a gap takes that item, and goes on where its own next item fits.
    fn advance(&self, reached: u64, mut fits: impl FnMut(&T) -> bool) -> u64 {
        let mut next = reached & self.gaps;
        let mut left = reached;
        while left != 0 {
            count_step();
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.items.get(at).is_some_and(&mut fits) {
                next |= 2 << at;
            }
        }
        next
    }

    fn end(&self) -> u64 {
        1 << self.items.len()
    }
}

/// The other sequence's gap can take any number of our items: every place from the first reached
/// one up to the end.
fn from_lowest_to(reached: u64, end: u64) -> u64 {
    let lowest = reached & reached.wrapping_neg();
    end | (end - lowest)
}

#[cfg(test)]
thread_local! {
    /// Elementary steps taken by this thread, for the tests that bound the cost.
    pub(super) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Marks one elementary step; free outside tests.
pub(super) fn count_step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}
