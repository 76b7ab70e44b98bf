//! One home for what all four clients do with mala: `docs/clients.md` has a row for each thing and a column for each client, and
//! every cell is one of the tests that [`tests!`] makes of a scenario and a client.

mod hands;
mod keeping_off;
mod landing;
mod project;
mod refusing;
mod story;
mod table;
mod waiting;

use hands::Hands;
use story::Story;

/// A test for each scenario with one client, as `clients::matrix::CLIENT::SCENARIO`, and the list of them.
macro_rules! tests {
    ($client:ident, $kind:expr, [$($scenario:ident),+ $(,)?]) => {
        mod $client {
            pub(in crate::clients) const SCENARIOS: &[&str] = &[$(stringify!($scenario)),+];
            $(
                #[test]
                fn $scenario() {
                    super::scenarios::$scenario($kind);
                }
            )+
        }
    };
}

tests!(
    claude,
    mala_tests::clients::Kind::Claude,
    [
        keeps_off,
        lands,
        works_for_an_ordinary_user,
        asks_and_waits,
        is_answered,
        is_resumed_after_a_kill,
        is_woken_from_a_hanging_command,
        goes_on_after_a_limit,
        rests_while_overloaded,
        rests_without_quota,
        stops_without_an_account,
        goes_on_after_silence,
        goes_on_after_an_overflow,
    ]
);
tests!(
    codex,
    mala_tests::clients::Kind::Codex,
    [
        keeps_off,
        lands,
        works_for_an_ordinary_user,
        asks_and_waits,
        is_answered,
        is_resumed_after_a_kill,
        is_woken_from_a_hanging_command,
        goes_on_after_a_limit,
        rests_while_overloaded,
        rests_without_quota,
        stops_without_an_account,
        goes_on_after_silence,
        goes_on_after_an_overflow,
    ]
);
tests!(
    gemini,
    mala_tests::clients::Kind::Gemini,
    [
        keeps_off,
        lands,
        works_for_an_ordinary_user,
        asks_and_waits,
        is_answered,
        is_resumed_after_a_kill,
        is_woken_from_a_hanging_command,
        goes_on_after_a_limit,
        rests_while_overloaded,
        rests_without_quota,
        stops_without_an_account,
        goes_on_after_silence,
        goes_on_after_an_overflow,
    ]
);
tests!(
    opencode,
    mala_tests::clients::Kind::Opencode,
    [
        keeps_off,
        lands,
        works_for_an_ordinary_user,
        asks_and_waits,
        is_answered,
        is_resumed_after_a_kill,
        is_woken_from_a_hanging_command,
        goes_on_after_a_limit,
        outlasts_an_overload,
        stops_without_an_account,
        goes_on_after_silence,
        goes_on_after_an_overflow,
    ]
);

mod scenarios {
    pub(super) use super::keeping_off::keeps_off;
    pub(super) use super::landing::{lands, works_for_an_ordinary_user};
    pub(super) use super::refusing::{
        goes_on_after_a_limit, outlasts_an_overload, rests_while_overloaded, rests_without_quota,
        stops_without_an_account,
    };
    pub(super) use super::waiting::{
        asks_and_waits, goes_on_after_an_overflow, goes_on_after_silence, is_answered,
        is_resumed_after_a_kill, is_woken_from_a_hanging_command,
    };
}
