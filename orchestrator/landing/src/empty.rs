//! Runs that executed no test, by what the runner said: `cargo test no_such_test` succeeds.

/// True if a test runner says that it ran nothing. Where several ran, one that ran something is enough.
pub(crate) fn ran_nothing(output: &str) -> bool {
    let counts: Vec<u64> = output.lines().filter_map(count).collect();
    !counts.is_empty() && counts.iter().all(|count| *count == 0)
}

/// How many tests a line says were run.
fn count(line: &str) -> Option<u64> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("test result: ") {
        // `ok. 3 passed; 0 failed; 1 ignored; ...`
        let part =
            |word: &str| rest.split([';', '.']).find_map(|part| number(part.trim().strip_suffix(word)?));
        return Some(part(" passed")? + part(" failed")?);
    }
    if let Some(rest) = line.strip_prefix("Ran ").filter(|rest| rest.contains(" test")) {
        return number(rest.split(' ').next()?);
    }
    if line.contains("[no test files]") || line.contains("[no tests to run]") {
        return Some(0);
    }
    if line.starts_with("ok  \t") || line.starts_with("FAIL\t") {
        return Some(1);
    }
    if line.contains("no tests ran in ") || line == "0 passing" || line.starts_with("No test files found") {
        return Some(0);
    }
    ["# tests ", "\u{2139} tests "].iter().find_map(|start| number(line.strip_prefix(start)?))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_say_when_they_ran_nothing() {
        let nothing = [
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s",
            "Ran 0 tests in 0.000s\n\nOK",
            "?   \texample.invalid/a\t[no test files]\nok  \texample.invalid/b\t0.1s [no tests to run]",
            "# tests 0\n# pass 0",
            "  0 passing (1ms)".trim_end_matches(" (1ms)"),
        ];
        for output in nothing {
            assert!(ran_nothing(output), "{output}");
        }
    }

    #[test]
    fn whoever_ran_something_or_says_nothing_is_not_empty() {
        let something = [
            "test result: ok. 0 passed; 0 failed; 0 ignored\ntest result: ok. 2 passed; 0 failed; 0 ignored",
            "Ran 3 tests in 0.1s",
            "?   \texample.invalid/a\t[no test files]\nok  \texample.invalid/b\t0.1s",
            "# tests 4",
            "all good",
            "",
        ];
        for output in something {
            assert!(!ran_nothing(output), "{output}");
        }
    }
}
