//! The program `converge`.

use std::process::ExitCode;

fn main() -> ExitCode {
    converge_cli::converge(std::env::args_os().collect())
}
