//! `converge completions`: scripts for shells.

use crate::args::Completions;
use crate::console::Console;
use crate::failure::{Failure, code};

pub fn run(args: Completions, console: &Console, mut definition: clap::Command) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, "converge", &mut script);
    console.write(&String::from_utf8_lossy(&script));
    Ok(code::DONE)
}
