//! Measures a checkout of mala and prints a Markdown table: `just measure`.
//!
//! It measures any checkout, so that two can be compared: `just measure`, then `just measure ../mala-before`.
//! Tests are left out of all counts: what is under `#[cfg(test)]`, files named `tests.rs`, and folders named `tests` or
//! `benches`. Blank lines and comments count as lines.

mod cargo;
mod source;
mod syntax;
mod table;

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use cargo::{Checkout, Cost};
use source::Crate;
use table::{Table, number, percent, spread};

const USAGE: &str = "\
Usage: measure [--build] [--dist] [--suite] [DIRECTORY]

  --build   also build `mala` with the release profile, from nothing
  --dist    also build it as it is shipped, for its size
  --suite   also run all tests
";

struct Arguments {
    root: PathBuf,
    build: bool,
    dist: bool,
    suite: bool,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Option<Self> {
        let mut parsed = Self { root: PathBuf::from("."), build: false, dist: false, suite: false };
        for word in words {
            match word.as_str() {
                "--build" => parsed.build = true,
                "--dist" => parsed.dist = true,
                "--suite" => parsed.suite = true,
                flag if flag.starts_with('-') => return None,
                root => parsed.root = PathBuf::from(root),
            }
        }
        Some(parsed)
    }
}

fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1)) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match measure(&arguments) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<Table, Box<dyn Error>> {
    let crates = source::crates(&arguments.root)?;
    let mut table = Table::default();
    sizes(&crates, &mut table);
    names(&crates, &mut table);
    docs(&crates, &mut table);
    let checkout = Checkout::at(&arguments.root)?;
    table.row("packages in Cargo.lock", number(checkout.locked_packages()?));
    table.row("packages that `mala` is built from", number(checkout.normal_packages()?));
    if arguments.build {
        table.row("cold `cargo build --release -p mala`", seconds(checkout.build("release")?.cost));
    }
    if arguments.dist {
        let built = checkout.build(checkout.shipped_profile()?)?;
        table.row("cold build of the program as it is shipped", seconds(built.cost));
        table.row("the program as it is shipped", format!("{:.1} MB", built.bytes as f64 / 1e6));
    }
    if arguments.suite {
        table.row("`cargo test --workspace`, when it is built", seconds(checkout.suite()?));
    }
    Ok(table)
}

fn sizes(crates: &[Crate], table: &mut Table) {
    let lines = |of: &Crate| of.files.iter().map(|file| file.lines).sum::<usize>();
    table.row("lines without tests", number(crates.iter().map(lines).sum()));
    for of in crates {
        table.row(&format!("... `{}`", of.name), number(lines(of)));
    }
    let files = crates.iter().flat_map(|of| &of.files);
    table.row(
        "lines of a file: median, 95th percentile, most",
        spread(files.map(|file| file.lines).collect()),
    );
    let functions = crates.iter().flat_map(|of| &of.files).flat_map(|file| &file.syntax.functions);
    table.row("lines of a function: median, 95th percentile, most", spread(functions.copied().collect()));
}

fn names(crates: &[Crate], table: &mut Table) {
    let mut defined: HashMap<&str, usize> = HashMap::new();
    for name in crates.iter().flat_map(|of| &of.files).flat_map(|file| &file.syntax.types) {
        *defined.entry(name).or_default() += 1;
    }
    let again = defined.values().filter(|times| **times > 1).count();
    table.row("names of types that are defined more than once", format!("{again} of {}", defined.len()));
}

fn docs(crates: &[Crate], table: &mut Table) {
    let files = || crates.iter().flat_map(|of| &of.files);
    let public = files().map(|file| file.syntax.public).sum();
    let documented = files().map(|file| file.syntax.documented).sum();
    table.row("public items with docs", percent(documented, public));
    let (comments, code) = (files().map(|file| file.comments).sum(), files().map(|file| file.code).sum());
    table.row("lines with a comment that is no doc, to lines of code", percent(comments, code));
}

fn seconds(cost: Cost) -> String {
    let cpu = cost.cpu.map(|cpu| format!(", {:.0} s of processor time", cpu.as_secs_f64()));
    format!("{:.0} s{}", cost.wall.as_secs_f64(), cpu.unwrap_or_default())
}
