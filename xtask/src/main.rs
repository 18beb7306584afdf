//! What a contributor types: `cargo xtask demo|test|bench|generate`.
#![expect(clippy::print_stdout, reason = "a command-line program answers on standard output")]

mod bench;
mod check;
mod demo;
mod generate;
mod process;
mod tools;
mod workload;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// The chores of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Converge three throw-away hosts before your eyes: plan, apply, drift, rollback.
    Demo,
    /// Run every check there is; this decides about a change.
    Test,
    /// Measure beside the floor: OpenSSH and one script.
    Bench(bench::Arguments),
    /// Write the generated documents.
    Generate {
        /// Change nothing; fail when a file is not as it would be written.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Demo => demo::run(),
        Chore::Test => check::run(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Generate { check: true } => generate::check(),
        Chore::Generate { check: false } => generate::write(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done about a closed standard error.
            drop(writeln!(std::io::stderr(), "\nerror: {error}"));
            ExitCode::FAILURE
        }
    }
}
