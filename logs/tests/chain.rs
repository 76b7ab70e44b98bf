//! A chained log: what is found when it was changed, and what survives when its writers are killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod chain {
    mod anchored;
    mod crash;
    mod forget;
    mod read;
    mod tamper;
    pub(crate) mod world;
}
