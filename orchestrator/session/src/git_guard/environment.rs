//! What the gits of a tree are told in their environment: to leave out what they would do beside what they were asked for.

use std::ffi::OsString;

/// Whether git takes locks that it can do without. `git status` writes the index only to be faster the next time, and others have
/// to wait for it or to begin again.
const OPTIONAL_LOCKS: &str = "GIT_OPTIONAL_LOCKS";

/// How many settings follow, each in a variable for its name and one for its value that end in its number.
const SETTINGS: &str = "GIT_CONFIG_COUNT";

/// Commits start a git in the background that packs the repository now and then. It would be ended half-way with its agent.
const MAINTENANCE: (&str, &str) = ("maintenance.auto", "false");

/// The variables to set, where `is_set` gives those that are there.
pub fn variables(is_set: impl Fn(&str) -> Option<OsString>) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    if is_set(OPTIONAL_LOCKS).is_none() {
        variables.push((OPTIONAL_LOCKS.to_owned(), "0".to_owned()));
    }
    // What git does not understand either is left to git.
    let settings = is_set(SETTINGS).map_or(Some(0), |count| count.to_str()?.parse::<u32>().ok());
    if let Some((number, count)) = settings.and_then(|number| Some((number, number.checked_add(1)?))) {
        let (name, value) = MAINTENANCE;
        variables.extend([
            (SETTINGS.to_owned(), count.to_string()),
            (format!("GIT_CONFIG_KEY_{number}"), name.to_owned()),
            (format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()),
        ]);
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> Vec<String> {
        let find = |name: &str| Some(set.iter().find(|(set, _)| *set == name)?.1.into());
        variables(find).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn settings_are_added_to_those_that_are_there() {
        let first = ["GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false"];
        assert_eq!(with(&[]), [&["GIT_OPTIONAL_LOCKS=0"][..], &first].concat());
        assert_eq!(with(&[("GIT_OPTIONAL_LOCKS", "1")]), first, "whoever wants it so");
        let third = ["GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_2=maintenance.auto", "GIT_CONFIG_VALUE_2=false"];
        assert_eq!(with(&[("GIT_CONFIG_COUNT", "2")]), [&["GIT_OPTIONAL_LOCKS=0"][..], &third].concat());
        for unclear in ["", "x", "-1", "4294967295"] {
            assert_eq!(with(&[("GIT_CONFIG_COUNT", unclear)]), ["GIT_OPTIONAL_LOCKS=0"], "{unclear}");
        }
    }
}
