//! Programs of others that the tests run, built by scripts in `tests/tools`.

use std::path::{Path, PathBuf};

const BR_VERSION: &str = include_str!("../tools/br-version");

/// The tracker `br`, built by `tests/tools/br` into the target folder that `tmp` (`CARGO_TARGET_TMPDIR`) lies in. Without it
/// this says so past the test runner, and on CI it fails the test.
pub fn br_or_skip(tmp: &Path) -> Option<PathBuf> {
    let named = std::env::var_os("MALA_TEST_BR").map(PathBuf::from);
    let built = || {
        let folder = format!("br-{}", BR_VERSION.trim());
        Some(tmp.parent()?.join("test-tools").join(folder).join("bin/br")).filter(|program| program.is_file())
    };
    let found = named.or_else(built);
    if found.is_none() {
        crate::skip("the real `br` is not built yet: run `tests/tools/br`");
    }
    found
}
