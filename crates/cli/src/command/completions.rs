//! `converge completions`: scripts for shells.

use crate::args::CompletionsArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use clap_complete::Shell;

pub fn run(args: CompletionsArgs, console: &Console, mut definition: clap::Command) -> Result<u8, Failure> {
    // These ask `converge complete`, which knows the project: the dynamic engine of clap_complete is not stable (its feature `unstable-dynamic`).
    let asking = match args.shell {
        Shell::Bash => Some(include_str!("complete/converge.bash")),
        Shell::Zsh => Some(include_str!("complete/converge.zsh")),
        Shell::Fish => Some(include_str!("complete/converge.fish")),
        _ => None,
    };
    if let Some(script) = asking {
        console.write(script);
        return Ok(code::DONE);
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, "converge", &mut script);
    console.write(&String::from_utf8_lossy(&script));
    Ok(code::DONE)
}
