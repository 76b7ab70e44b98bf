//! The real `br`, as `tests/tools/br` builds it into the target folder.
//!
//! `MALA_TEST_BR` names another program to use. Whoever goes without is told, and on CI, where nothing is skipped, that is a
//! failure.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const VERSION: &str = include_str!("../../../../tests/tools/br-version");

/// The program, or nothing where it is fine to go without.
pub(crate) fn real_br() -> Option<&'static Path> {
    static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(find);
    if PROGRAM.is_none() {
        let missing = "the real `br` is not built yet: run `tests/tools/br`";
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "CI skips nothing: {missing}");
        // Past the test runner, which holds back what tests print.
        let _ = writeln!(io::stderr(), "\nSKIPPED: {missing}");
    }
    PROGRAM.as_deref()
}

fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os("MALA_TEST_BR") {
        return Some(named.into());
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let program = target.join("test-tools").join(format!("br-{}", VERSION.trim())).join("bin/br");
    program.is_file().then_some(program)
}
