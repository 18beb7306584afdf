//! `converge man`: manual pages.

use crate::args::{self, Man};
use crate::console::Console;
use crate::failure::Failure;
use fs_err as fs;

pub fn run(args: Man, console: &Console) -> Result<u8, Failure> {
    let failed = |e: std::io::Error| Failure::failed(e.to_string());
    fs::create_dir_all(&args.dir).map_err(failed)?;
    // One page a command; hidden commands have none.
    clap_mangen::generate_to(args::definition(), &args.dir).map_err(failed)?;
    console.write(&format!("The pages are in {0}; to read one: man {0}/converge.1\n", args.dir));
    Ok(0)
}
