//! The real `br`, built once and kept.
//!
//! `MALA_TEST_BR` names a program to use. Otherwise one is looked for where it is kept: in the folder
//! `MALA_TEST_TOOLS`, or else in the target folder. Building it takes longer than everything else together, so that is
//! done only if `MALA_TEST_BR` is `build`, and then it has to succeed. Whoever goes without is told.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::{env, fmt};

const VERSION: &str = "0.7.6";

/// Why there is no `br` for the tests.
#[derive(Debug)]
enum Missing {
    NotBuilt,
    Failed(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => {
                f.write_str("it is not built yet: `MALA_TEST_BR=build` does so, in about 15 minutes")
            }
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// The program, or nothing where it is fine to go without.
pub(crate) fn real_br() -> Option<&'static Path> {
    static PROGRAM: LazyLock<Result<PathBuf, Missing>> = LazyLock::new(provide);
    match &*PROGRAM {
        Ok(program) => Some(program),
        Err(missing @ Missing::Failed(_)) => panic!("no real `br` to test with: {missing}"),
        Err(missing @ Missing::NotBuilt) => {
            say(&format!("SKIPPED: the tests with the real `br`: {missing}"));
            None
        }
    }
}

/// Tells it even where the output of tests is held back.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "\n{text}");
}

fn provide() -> Result<PathBuf, Missing> {
    let wish = env::var("MALA_TEST_BR").unwrap_or_default();
    if !matches!(wish.as_str(), "" | "build") {
        return Ok(wish.into());
    }
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is a folder in the target folder");
    let tools = env::var_os("MALA_TEST_TOOLS").map_or_else(|| target.join("test-tools"), PathBuf::from);
    fs::create_dir_all(&tools).map_err(|error| Missing::Failed(error.to_string()))?;
    // Several test programs may come here at once; one builds and the others wait for it.
    let turn = File::create(tools.join("br.lock")).map_err(|error| Missing::Failed(error.to_string()))?;
    turn.lock().map_err(|error| Missing::Failed(error.to_string()))?;
    let root = tools.join(format!("br-{VERSION}"));
    let program = root.join("bin/br");
    if !program.is_file() {
        if wish != "build" {
            return Err(Missing::NotBuilt);
        }
        build(&root, &tools.join("br-build"))?;
    }
    Ok(program)
}

fn build(root: &Path, scratch: &Path) -> Result<(), Missing> {
    say(&format!("building `br` {VERSION} for the tests, once: this takes many minutes"));
    let mut install = Command::new(env!("CARGO"));
    install.args([
        "install",
        "beads_rust",
        "--locked",
        "--debug",
        "--no-default-features",
        "--version",
        VERSION,
    ]);
    // Its lock file asks for a newer compiler than it needs.
    install.arg("--ignore-rust-version").arg("--root").arg(root);
    install.env("CARGO_TARGET_DIR", scratch).env("CARGO_PROFILE_DEV_DEBUG", "0");
    install.env("CARGO_INCREMENTAL", "0");
    // It wants a nightly compiler, for one intrinsic that the stable one has too.
    install.env("RUSTC_BOOTSTRAP", "1").env_remove("RUSTFLAGS").stdin(Stdio::null());
    let output = install.output().map_err(|error| Missing::Failed(error.to_string()))?;
    let _ = fs::remove_dir_all(scratch);
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().rev().take(20).collect();
    let end = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    Err(Missing::Failed(format!("`cargo install beads_rust` failed:\n{end}")))
}
