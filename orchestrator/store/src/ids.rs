//! Short random ids for locks and waiters.

/// Length of a first try: 36^6 is two thousand million.
const SHORTEST: usize = 6;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A fresh base-36 id. `random` gives the digits, `taken` says which ids exist. Each collision makes the next try
/// one digit longer, so even a source that repeats itself ends with an id of its own.
pub(crate) fn fresh_id<E>(
    mut random: impl FnMut() -> usize,
    mut taken: impl FnMut(&str) -> Result<bool, E>,
) -> Result<String, E> {
    let mut id = String::new();
    loop {
        let length = (id.len() + 1).max(SHORTEST);
        id.clear();
        id.extend((0..length).map(|_| char::from(DIGITS[random() % DIGITS.len()])));
        if !taken(&id)? {
            return Ok(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_repeating_source_still_gives_fresh_ids() {
        let mut seen = HashSet::new();
        for _ in 0..50 {
            let id = fresh_id(|| 7, |id| Ok::<_, Infallible>(seen.contains(id))).unwrap();
            assert!(seen.insert(id));
        }
    }

    #[test]
    fn ids_are_short_base_36() {
        let id = fresh_id(|| fastrand::usize(..), |_| Ok::<_, Infallible>(false)).unwrap();
        assert_eq!(id.len(), SHORTEST);
        assert!(id.bytes().all(|b| DIGITS.contains(&b)));
    }
}
