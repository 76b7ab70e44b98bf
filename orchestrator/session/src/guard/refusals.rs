//! What was refused, and how often.
//!
//! A program that is refused may try again at once, and for hours: a watcher that wants to save a file, a script that
//! loops. Each try is judged and recorded, until it has been too often to be of interest. From then on the answer is
//! repeated from memory for a moment, and for longer while nothing changes in the store.
//!
//! It may also try thousands of different things. Of those beyond [`MANY`] in an hour only the number is recorded.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// So many refusals of one kind are judged and recorded one by one.
const SOME: u64 = 100;
/// For so long an answer is repeated, whatever others do.
const MOMENT: Duration = Duration::from_millis(100);
/// For so long it is repeated while nothing changes. Somebody may die and leave a file, which changes nothing at once.
const LONGER: Duration = Duration::from_secs(1);

/// A program's next place is looked at within this time.
const NEXT_PLACE: Duration = Duration::from_millis(100);
/// So many refusals are recorded one by one in [`A_WHILE`].
const MANY: u64 = 2_000;
const A_WHILE: Duration = Duration::from_secs(3600);
/// So many different ones are remembered; further ones are only counted.
const DIFFERENT: usize = 10_000;

/// Something that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RefusedWrite {
    pub program: String,
    /// The files, or the command.
    pub what: String,
}

#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// In the order of their first times.
    all: Vec<(RefusedWrite, u64)>,
    answers: HashMap<RefusedWrite, Answer>,
    is_one_often: bool,
    /// The thread that was last refused a command, which, and when.
    tried: Option<(u32, String, Instant)>,
    /// Those that are not in `all`.
    besides: u64,
    tally: Tally,
}

/// What is recorded of the refusals.
#[derive(Debug, Default)]
struct Tally {
    since: Option<Instant>,
    recorded: u64,
    /// Those that were not recorded, and have not been summed up.
    more: u64,
}

#[derive(Debug)]
struct Answer {
    index: usize,
    said: String,
    since: Instant,
    /// Of the store, when this was the answer.
    version: i64,
}

impl Refusals {
    /// True if some program insists on something, so that it is worth asking for a [repeated](Self::repeated) answer.
    pub(super) fn is_one_often(&self) -> bool {
        self.is_one_often
    }

    /// What was said a moment ago to a program that insists.
    pub(super) fn repeated(&mut self, refused: &RefusedWrite, version: i64, now: Instant) -> Option<String> {
        let answer = self.answers.get(refused)?;
        let times = &mut self.all[answer.index].1;
        let most = if answer.version == version { LONGER } else { MOMENT };
        (*times >= SOME && now - answer.since < most).then(|| {
            *times += 1;
            answer.said.clone()
        })
    }

    /// True if the thread has just been told: a shell that is refused a program looks for it in the next folder of `PATH`.
    pub(super) fn is_next_place(&mut self, pid: u32, command: &str, now: Instant) -> bool {
        let is_told = self
            .tried
            .as_ref()
            .is_some_and(|(last, told, when)| *last == pid && told == command && now - *when < NEXT_PLACE);
        self.tried = Some((pid, command.to_owned(), now));
        is_told
    }

    pub(super) fn add(&mut self, refused: RefusedWrite, said: String, version: i64, now: Instant) {
        let index = self.answers.get(&refused).map_or(self.all.len(), |answer| answer.index);
        if index == DIFFERENT {
            self.besides += 1;
            return;
        }
        if index == self.all.len() {
            self.all.push((refused.clone(), 0));
        }
        let times = &mut self.all[index].1;
        *times += 1;
        self.is_one_often |= *times >= SOME;
        self.answers.insert(refused, Answer { index, said, since: now, version });
    }

    /// True if the next refusal is only to be counted.
    pub(super) fn are_many(&self, now: Instant) -> bool {
        self.tally.recorded >= MANY && self.tally.since.is_some_and(|since| now - since < A_WHILE)
    }

    /// Counts one more refusal. True if it is to be recorded by itself.
    pub(super) fn count(&mut self, now: Instant) -> bool {
        if self.are_many(now) {
            self.tally.more += 1;
            return false;
        }
        let since = self.tally.since.filter(|since| now - *since < A_WHILE);
        if since.is_none() {
            self.tally.recorded = 0;
        }
        self.tally.since = Some(since.unwrap_or(now));
        self.tally.recorded += 1;
        true
    }

    /// How many refusals are to be summed up now: when others are recorded one by one again, and in the end.
    pub(super) fn take_more(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.tally.more)).filter(|more| *more > 0)
    }

    /// Everything that was refused, with how often, and how many others there were.
    pub(super) fn all(&self) -> (Vec<(RefusedWrite, u64)>, u64) {
        (self.all.clone(), self.besides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(what: &str) -> RefusedWrite {
        RefusedWrite { program: "sh".to_owned(), what: what.to_owned() }
    }

    #[test]
    fn an_answer_is_repeated_to_who_insists_while_nothing_changes() {
        let (mut refusals, begin) = (Refusals::default(), Instant::now());
        for _ in 0..SOME {
            assert_eq!(refusals.repeated(&refused("a"), 1, begin), None, "judged one by one");
            assert!(!refusals.is_one_often());
            refusals.add(refused("a"), "no".to_owned(), 1, begin);
        }
        assert!(refusals.is_one_often());
        assert_eq!(refusals.repeated(&refused("a"), 2, begin), Some("no".to_owned()));
        assert_eq!(refusals.repeated(&refused("b"), 1, begin), None, "another file");
        assert_eq!(refusals.repeated(&refused("a"), 2, begin + MOMENT), None, "something has changed");
        assert_eq!(refusals.repeated(&refused("a"), 1, begin + MOMENT), Some("no".to_owned()));
        assert_eq!(refusals.repeated(&refused("a"), 1, begin + LONGER), None, "long ago");
        refusals.add(refused("b"), "no".to_owned(), 2, begin + LONGER);
        refusals.add(refused("a"), "not yet".to_owned(), 2, begin + LONGER);
        assert_eq!(refusals.repeated(&refused("a"), 2, begin + LONGER), Some("not yet".to_owned()));
        assert_eq!(refusals.all(), (vec![(refused("a"), SOME + 4), (refused("b"), 1)], 0));
    }

    #[test]
    fn many_are_summed_up_until_a_while_is_over() {
        let (mut refusals, begin) = (Refusals::default(), Instant::now());
        assert!((0..MANY).all(|_| refusals.count(begin)) && refusals.take_more().is_none());
        assert!(!refusals.count(begin) && !refusals.count(begin) && refusals.are_many(begin));
        assert!(!refusals.are_many(begin + A_WHILE) && refusals.count(begin + A_WHILE));
        assert_eq!((refusals.take_more(), refusals.take_more()), (Some(2), None));
        assert!(refusals.count(begin + A_WHILE), "it has begun anew");
    }

    #[test]
    fn memory_is_bounded_and_the_count_is_not() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for number in 0..DIFFERENT + 5 {
            refusals.add(refused(&number.to_string()), String::new(), 1, now);
        }
        refusals.add(refused("0"), String::new(), 1, now);
        let (all, besides) = refusals.all();
        assert_eq!((all.len(), all[0].1, besides), (DIFFERENT, 2, 5));
    }
}
