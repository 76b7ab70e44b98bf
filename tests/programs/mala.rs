//! The `mala` program itself. Cargo shows a test only the programs of its own package, so it is built here once more.

use std::process::ExitCode;

fn main() -> ExitCode {
    mala::main()
}
