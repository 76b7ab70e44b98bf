//! What cargo says about a checkout, and how long it takes.

use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program, and the package that it is in.
const PROGRAM: &str = "mala";
/// In `/proc/self/stat`, times are in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a command took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// Of all processors together, which says more on a machine that is busy; none where the system does not tell.
    pub(crate) cpu: Option<Duration>,
}

pub(crate) struct Built {
    pub(crate) cost: Cost,
    /// The size of the program.
    pub(crate) bytes: u64,
}

pub(crate) struct Checkout(PathBuf);

impl Checkout {
    pub(crate) fn at(root: &Path) -> Result<Self, Box<dyn Error>> {
        Ok(Self(root.canonicalize()?))
    }

    pub(crate) fn locked_packages(&self) -> Result<usize, Box<dyn Error>> {
        let lock = fs::read_to_string(self.0.join("Cargo.lock"))?;
        Ok(lock.lines().filter(|line| *line == "[[package]]").count())
    }

    /// Those that are built for the program, without what is only for tests and build scripts.
    pub(crate) fn normal_packages(&self) -> Result<usize, Box<dyn Error>> {
        let mut tree =
            self.cargo(&["tree", "--package", PROGRAM, "--edges", "normal", "--prefix", "none", "--locked"]);
        let output = tree.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err("`cargo tree` failed".into());
        }
        let text = String::from_utf8(output.stdout)?;
        let packages: BTreeSet<&str> = text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
        Ok(packages.len())
    }

    /// The profile `dist`, or `release` in a checkout from before there was one.
    pub(crate) fn shipped_profile(&self) -> Result<&'static str, Box<dyn Error>> {
        let manifest = fs::read_to_string(self.0.join("Cargo.toml"))?;
        Ok(if manifest.contains("\n[profile.dist]\n") { "dist" } else { "release" })
    }

    /// Builds the program from nothing. What has to be downloaded for that is downloaded before.
    pub(crate) fn build(&self, profile: &str) -> Result<Built, Box<dyn Error>> {
        timed(&mut self.cargo(&["fetch", "--locked"]))?;
        let target = Temporary::new(profile)?;
        let mut build = self.cargo(&["build", "--package", PROGRAM, "--locked", "--profile", profile]);
        let cost = timed(build.env("CARGO_TARGET_DIR", &target.0))?;
        let bytes = fs::metadata(target.0.join(profile).join(PROGRAM))?.len();
        Ok(Built { cost, bytes })
    }

    /// Runs all tests, after they are built.
    pub(crate) fn suite(&self) -> Result<Cost, Box<dyn Error>> {
        timed(&mut self.cargo(&["test", "--workspace", "--locked", "--no-run"]))?;
        timed(&mut self.cargo(&["test", "--workspace", "--locked", "--quiet"]))
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).current_dir(&self.0);
        // `cargo run` has set these for this program; the checkout may want another toolchain.
        for (name, _) in env::vars_os() {
            let is_from_cargo = name.to_string_lossy().starts_with("CARGO_PKG_");
            if is_from_cargo
                || ["CARGO", "CARGO_MANIFEST_DIR", "RUSTUP_TOOLCHAIN"].iter().any(|own| *own == name)
            {
                cargo.env_remove(name);
            }
        }
        cargo
    }
}

/// A directory that is gone in the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Result<Self, Box<dyn Error>> {
        let path = env::temp_dir().join(format!("mala-measure-{}-{name}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn timed(command: &mut Command) -> Result<Cost, Box<dyn Error>> {
    let (begin, before) = (Instant::now(), children_cpu());
    let status = command.stdout(Stdio::null()).status()?;
    let (wall, after) = (begin.elapsed(), children_cpu());
    if !status.success() {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        return Err(format!("`cargo {}` failed", words.join(" ")).into());
    }
    let cpu = after.zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(Cost { wall, cpu })
}

/// What the processes that this one has waited for, and theirs, have had of processors.
fn children_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is in parentheses, and may have blanks. `cutime` and `cstime` are 16th and 17th (proc(5)).
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some(Duration::from_secs_f64((ticks(16)? + ticks(17)?) / TICKS_PER_SECOND))
}
