//! The `mala` program. Everything is in the library, so that tests can build the very same program.

use std::process::ExitCode;

fn main() -> ExitCode {
    mala::main()
}
